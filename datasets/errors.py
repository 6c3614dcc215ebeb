"""What can be wrong with data, as exceptions that say the law, the value and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class DataError(ValueError):
    """Something about a table, a card or a file that the caller can mend; one line."""


class UnknownDataset(DataError):
    """A dataset id that no card has."""


class DatasetUnavailable(DataError):
    """No source has the files of `name` at the moment; `reason` says what was tried."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"dataset {self.name!r} is not available: {self.reason}"


class ChecksumMismatch(DataError):
    """A source answered with other bytes than the card pins. Nothing of it was kept."""

    def __init__(self, name: str, file: str, expected: str, actual: str, where: str) -> None:
        super().__init__(name, file, expected, actual, where)
        self.name = name
        self.file = file
        self.expected = expected
        self.actual = actual
        self.where = where

    def __str__(self) -> str:
        return (
            f"dataset {self.name!r}: {self.file} from {self.where} has sha256 {self.actual}, its"
            f" card says {self.expected}; refused, and no cached file was touched"
        )


def one_line(value: object, limit: int = 300) -> str:
    """`value` as text without line breaks or control characters, cut at `limit` characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, or all of them.

    >>> suggest("glas", ["glass", "wine"])
    "did you mean 'glass'?"
    """
    options = sorted(known)
    near = get_close_matches(name, options, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(options)}"
