"""Tables of one feature, for tests of how rows are cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from tabsweep.datasets.table import Table


def toy(counts: list[int] | None = None, n_rows: int = 0) -> Table:
    """A table of one feature: classes with these counts, shuffled, or `n_rows` of regression."""
    rng = np.random.default_rng(0)
    if counts is None:
        frame = pd.DataFrame({"x": np.arange(n_rows, dtype=float)})
        return Table("toy", frame, rng.normal(size=n_rows), "regression", (), "0" * 64)
    target = rng.permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.int64)
    frame = pd.DataFrame({"x": np.arange(len(target), dtype=float)})
    classes = tuple(str(i) for i in range(len(counts)))
    task = "binary" if len(counts) == 2 else "multiclass"
    return Table("toy", frame, target, task, classes, "0" * 64)


def with_columns(task: str, **columns: np.ndarray) -> Table:
    """A table of 200 rows with groups or times."""
    table = toy([120, 80]) if task == "binary" else toy(n_rows=200)
    return replace(table, **columns)  # type: ignore[arg-type]
