"""Errors about data: what is required, what was found, and what to do."""

from __future__ import annotations

from ..common.errors import ENVIRONMENT, Error


class DataError(Error, ValueError):
    """A table, card or file is not as required; the message, one line, says how to mend it."""

    id = "BENCH-E007"


class UnknownDataset(DataError):
    """There is no dataset of this name."""

    id = "BENCH-E003"


class DatasetUnavailable(DataError):
    """No source has the files of dataset `name` at the moment; `reason` is what was tried."""

    id = "BENCH-E013"
    exit_code = ENVIRONMENT

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"dataset {self.name!r} is not available: {self.reason}"


class ChecksumMismatch(DataError):
    """A source delivered bytes whose sha256 is not that of the card; they were not kept."""

    id = "BENCH-E014"
    exit_code = ENVIRONMENT

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


class Md5Mismatch(ChecksumMismatch):
    """As ChecksumMismatch, for a source that states the MD5 of its files."""

    def __str__(self) -> str:
        return (
            f"dataset {self.name!r}: {self.file} from {self.where} has MD5 {self.actual}, its"
            f" description says {self.expected}: damaged on the way, or changed there; nothing was"
            " kept, try again later"
        )
