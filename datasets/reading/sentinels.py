"""Numbers such as -999 that may stand for a missing value."""

from __future__ import annotations

import numpy as np

from .columns import Notes

SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
LOWEST_USUAL = -99.0  # from which down one that alone is negative stands out beside any numbers
MANY = 20  # different numbers; beside more of them -1 or -9 does where it is there twice as often


def note_sentinel(what: str, values: np.ndarray, notes: Notes) -> None:
    """Note of values (N,), which the note calls `what`, that one of them stands out."""
    if mark := sentinel(values[~np.isnan(values)]):
        notes.sentences.append(
            f"{what}: {mark} stands out; if it marks a missing value (in all columns): --missing "
            f"{mark}"
        )


def sentinel(numbers: np.ndarray) -> str:
    """A number (of N without gaps) like -999 that occurs several times at an end of the values, far
    from all others or alone below zero; "" for none.

    >>> sentinel(np.array([-999.0, -999.0, *range(20)])), sentinel(np.array([-1.0, 1.0] * 30))
    ('-999', '')
    >>> sentinel(np.array([-1.0] * 3 + [*range(30)])), sentinel(np.arange(-1.0, 30))
    ('-1', '')
    """
    if len(numbers) < 10:
        return ""
    for end in (float(numbers.min()), float(numbers.max())):
        if end not in SENTINELS:
            continue
        others = numbers[numbers != end]
        times, different = len(numbers) - len(others), len(np.unique(others))
        if times < 2 or len(others) < 2:
            continue
        far = float(np.abs(others - end).min()) > 2 * float(np.ptp(others)) and end != -1
        often = different > MANY and times > 2 * len(others) / different
        if far or (end < 0 <= others.min() and (end <= LOWEST_USUAL or often)):
            return f"{end:g}"
    return ""
