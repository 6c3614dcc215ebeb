"""What can be wrong with data, as exceptions that say the law, the value and the way out."""

from __future__ import annotations


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
