"""How far the fit that runs in this process has come, for the record of one that a limit ends."""

from __future__ import annotations

_reached: tuple[int, int, str] | None = None


def reached(step: int, length: int, unit: str) -> None:
    """A fit has done so many of its steps, "epoch" or "round" by name; 0 where it begins."""
    global _reached
    _reached = step, length, unit


def forget() -> None:
    """Another fit begins, of which nothing is known."""
    global _reached
    _reached = None


def in_words() -> str:
    """ "at epoch 12 of 100"; "" where the fit does not say.

    >>> reached(12, 100, "epoch"); in_words()
    'at epoch 12 of 100'
    """
    return "at {2} {0} of {1}".format(*_reached) if _reached is not None else ""
