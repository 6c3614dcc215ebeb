"""Optional parts of a report: one that cannot be made is left out and named, and ends no report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..common.text import one_line

Part = TypeVar("Part")
Other = TypeVar("Other")


def made(what: str, make: Callable[[], Part], otherwise: Other, missed: list[str]) -> Part | Other:
    """Return the result of `make`. If it raises, return `otherwise` and add a sentence to `missed`
    that names the part and the error.

    >>> missed = []
    >>> made("The figure", lambda: 1 / 0, None, missed), missed
    (None, ['The figure could not be made (ZeroDivisionError: division by zero).'])
    """
    try:
        return make()
    except Exception as error:
        said = f"{type(error).__name__}: {one_line(error, 200)}".removesuffix(": ")
        missed.append(f"{what} could not be made ({said}).")
        return otherwise
