"""The categories of a column that training knew, and which of them a new value is."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd

from ..text import first_few, one_line
from .notations import INVISIBLE, WORDS

_NUMBER = re.compile(r"[-+]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")  # 007 is none
_ENDS = " .,;:!"
_LEVELS = {"unknown", "not applicable"}  # marks among numbers that are levels as often


def spelling_key(text: str) -> str:
    """What texts have in common that differ in letter case, blanks, or a mark at their end alone.

    >>> spelling_key(" <=50K."), spelling_key("YES"), spelling_key("red\\u200b")
    ('<=50k', 'yes', 'red')
    """
    bare = text.translate(dict.fromkeys(map(ord, INVISIBLE)))
    plain = " ".join(unicodedata.normalize("NFKC", bare).casefold().split())
    return plain.rstrip(_ENDS) or plain


def spelt_alike(texts: Iterable[str]) -> list[list[str]]:
    """The groups of different texts with one `spelling_key`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        groups[spelling_key(text)].append(text)
    return [group for group in groups.values() if len(group) > 1]


def level_notes(name: str, texts: Collection[str], called: str) -> list[str]:
    """What is said of the levels of a column (`called` "categories" or "classes"): those that only
    spelling tells apart, and those that look like marks of a missing value."""
    notes = []
    if groups := spelt_alike(texts):
        shown = [" and ".join(repr(one_line(t, 20)) for t in group[:3]) for group in groups]
        notes.append(
            f"{name}: {first_few(shown, 3, '; ')} are {called} of their own; --join takes those as "
            "one that differ in case, blanks or a mark at their end"
        )
    marks = [text for text in texts if text.lower() in WORDS - _LEVELS]
    if marks and len(texts) > 1:
        notes.append(
            f"{name}: {marks[0]!r} is one of the {called}; if it marks a missing value: "
            f"--missing {marks[0]!r}"
        )
    return notes


class Levels:
    """Categories that are known. A value is one of them by itself, as a number or the text of one
    ("1", 1.0), or by the one spelling that differs in case, blanks or a mark at the end alone."""

    def __init__(self, known: Collection[Any]) -> None:
        self.known = list(known)
        texts = {c: c for c in self.known if isinstance(c, str)}
        self._numbers = {c: c for c in self.known if not isinstance(c, str | bool)}
        for text in texts:  # "1.0", which is 1
            if _NUMBER.fullmatch(text):
                self._numbers.setdefault(float(text), text)
        self._by_text = {str(c): c for c in self.known} | texts
        keys: dict[str, list[str]] = defaultdict(list)
        for text in texts:
            keys[spelling_key(text)].append(text)
        self._by_spelling = {key: group[0] for key, group in keys.items() if len(group) == 1}

    def of(self, value: Any) -> Any:
        """The known category of a value; a value without one is returned as it is."""
        if value is None:
            return None
        if isinstance(value, str) and value not in self._by_text:
            if not _NUMBER.fullmatch(value.strip()):
                return self._by_spelling.get(spelling_key(value), value)
            value = value.strip()
        if isinstance(value, str) and value in self._by_text:
            return self._by_text[value]
        if isinstance(value, bool | np.bool_) or not isinstance(
            value, str | int | float | np.number
        ):
            return self._by_text.get(str(value), value)
        if value in self._numbers:
            return self._numbers[value]
        try:
            number = float(value)
            if number in self._numbers:
                return self._numbers[number]
            return self._by_text.get(np.format_float_positional(number, trim="-"), value)
        except (OverflowError, ValueError):  # a whole number beyond float64
            return value

    def matched(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the values (N,) as known categories, where they are; which are present and unknown)."""
        codes, different = pd.factorize(values)
        found = np.empty(len(different) + 1, dtype=object)
        found[:-1] = [self.of(value) for value in different.tolist()]
        found[-1] = None
        index = pd.Index(self.known, dtype=object)
        unknown = np.append(index.get_indexer(pd.Index(found[:-1], dtype=object)) < 0, False)
        return found[codes], unknown[codes]
