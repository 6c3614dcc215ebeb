"""Parts of the training rows, for predictions of rows that a model did not see; no model."""

from __future__ import annotations

import numpy as np


def parts(y: np.ndarray, n_parts: int, seed: int) -> np.ndarray:  # (N,) -> (N,)
    """A part 0..n_parts-1 for each row; each class is spread evenly, classes of one row too."""
    out = np.empty(len(y), dtype=np.int64)
    rng = np.random.default_rng(seed)
    start = 0
    for code in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == code))
        out[rows] = (start + np.arange(len(rows))) % n_parts
        start += len(rows)
    return out
