"""The base of the errors that tabsweep raises on purpose, with their stable ids."""

from __future__ import annotations

from typing import ClassVar

USAGE, ENVIRONMENT = 2, 3  # exit codes: what was asked for is wrong, or what surrounds it is


class Error(Exception):
    """Something cannot be done as asked; the message says why, and what to do.

    `id` never changes and stands in docs/errors.md; `exit_code` is the one of `bench`. A class
    without an id of its own has that of the class above it.
    """

    id: ClassVar[str] = "BENCH-E017"
    exit_code: ClassVar[int] = USAGE
