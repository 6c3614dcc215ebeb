"""Numbers that are written as text: "1,234", "1 234.5", "3,14", "$12", "40 %"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...common import number_forms
from ...common.number_forms import APOSTROPHES, SPACES, space_thousands, without_sign

MISSING_WORDS = frozenset(
    ("", "?", "-", "--", "na", "n/a", "nan", "null", "none", "nil", "missing", "#n/a")
)
"""Texts, in lower case, that mean a missing value in a column of numbers or dates."""

LEADING_ZERO = re.compile(r"[-+]?0\d+")


@dataclass(frozen=True)
class Notation:
    """A way to write numbers: which texts it covers, its separators, and how a notice calls it."""

    name: str
    pattern: str
    thousands: str = ""
    decimal: str = "."

    def covers(self, text: str) -> bool:
        """Whether the text, without signs of currency and percent, is a number so written."""
        return re.fullmatch(self.pattern, text) is not None

    def number(self, text: str) -> float:
        """The number that a covered text means."""
        for separator in self.thousands:
            text = text.replace(separator, "")
        return float(text.replace(self.decimal, "."))


PLAIN = Notation("plain numbers", number_forms.PLAIN)
NOTATIONS = (  # the first that covers every text of a column is taken
    PLAIN,
    Notation("commas between thousands", number_forms.COMMA_THOUSANDS, ","),
    Notation("numbers with a decimal comma", number_forms.DECIMAL_COMMA, "", ","),
    Notation("points between thousands", number_forms.POINTS_AND_COMMA, ".", ","),
    Notation("spaces between thousands", space_thousands(SPACES, "."), SPACES),
    Notation("spaces and a comma", space_thousands(SPACES, ","), SPACES, ","),
    Notation("apostrophes between thousands", space_thousands(APOSTROPHES, "."), APOSTROPHES),
    Notation("underscores between thousands", space_thousands("_", "."), "_"),
)


def is_missing_word(text: str) -> bool:
    """Whether a text stands for a missing value among numbers.

    >>> is_missing_word(" N/A "), is_missing_word("0")
    (True, False)
    """
    return text.strip().lower() in MISSING_WORDS


def notation_of(texts: Sequence[str]) -> Notation | None:
    """The notation in which all texts are numbers; missing words do not count.

    None where there is none, for no text at all, and for numbers with leading zeros (postal codes).

    >>> notation_of(["1,234", "12", "?"]).name
    'commas between thousands'
    >>> notation_of(["1,5", "12"]).name
    'numbers with a decimal comma'
    >>> notation_of(["01234", "81549"]) is notation_of(["red"]) is None
    True
    """
    numbers = {without_sign(text.strip())[0] for text in set(texts) if not is_missing_word(text)}
    if not numbers or any(LEADING_ZERO.fullmatch(text) for text in numbers):
        return None
    for notation in NOTATIONS:
        if all(notation.covers(text) for text in numbers):
            return notation
    return None


def numbers_in(texts: Sequence[str | None], notation: Notation) -> np.ndarray:  # (N,)
    """The numbers, NaN for None and for missing words; ValueError for the first other text.

    >>> numbers_in(["1,234", None, "n/a", "$5"], NOTATIONS[1])
    array([1234.,   nan,   nan,    5.])
    """
    known: dict[str | None, float] = {None: np.nan}
    for text in dict.fromkeys(texts):
        if text is None or is_missing_word(text):
            known[text] = np.nan
            continue
        plain = without_sign(text.strip())[0]
        found = next((n for n in (notation, PLAIN) if n.covers(plain)), None)
        if found is None:
            raise ValueError(f"{text!r} is no number in the notation {notation.name!r}")
        known[text] = found.number(plain)
    return np.array([known[text] for text in texts], dtype=np.float64)
