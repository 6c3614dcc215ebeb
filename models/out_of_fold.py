"""Parts of the training rows: a model predicts one part after a fit on the others."""

from __future__ import annotations

import numpy as np


def parts(y: np.ndarray, n_parts: int, seed: int) -> np.ndarray:  # (N,) -> (N,)
    """A part 0..n_parts-1 for each row. The rows of a class are spread evenly over the parts."""
    out = np.empty(len(y), dtype=np.int64)
    rng = np.random.default_rng(seed)
    start = 0
    for code in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == code))
        out[rows] = (start + np.arange(len(rows))) % n_parts
        start += len(rows)
    return out
