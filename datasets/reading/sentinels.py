"""Numbers such as -999 that may stand for a missing value."""

from __future__ import annotations

import numpy as np

from .columns import Notes

SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
MANY = 20  # a single negative number of -1 or -9 needs more different numbers beside it,
OFTEN = 2  # and more than so many times their mean frequency


def note_sentinel(what: str, values: np.ndarray, notes: Notes) -> None:
    """Add a note if one of the values (N,) of a column or target (`what`) stands out."""
    if mark := sentinel(values[~np.isnan(values)]):
        notes.sentences.append(
            f"{what}: {mark} stands out; if it marks a missing value (in all columns): --missing "
            f"{mark}"
        )


def sentinel(numbers: np.ndarray) -> str:
    """The least or largest of N numbers without gaps, where it is one such as -999, occurs several
    times, and is far from all others or the only negative one; else "".

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
        often = different > MANY and times > OFTEN * len(others) / different
        if far or (end < 0 <= others.min() and (end <= -99 or often)):
            return f"{end:g}"
    return ""
