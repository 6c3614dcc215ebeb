"""A loaded model's first predictions: on made-up rows of its schema, and in another process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from typing import Any

import numpy as np
import pandas as pd

from ...common.text import one_line
from .archive import ModelFileError
from .schema import Column, Schema
from .serialization import objects

SOUND = "sound"
FEW, MOST = 64, 512  # rows: every category of a column, as far as these go
GAPS = 7  # every so many numbers one is missing
SCALES = np.array([1.0, -1.0, 1e-3, 1e3, -1e6, 30.0])
LAST_BYTES = 10_000  # of what the other process says: the line that it ends with
CPU_S, WALL_S = 120, 1200  # a file that keeps its reader busy for longer is refused


def made_up_rows(schema: Schema) -> pd.DataFrame:
    """Rows of a schema: numbers of several scales, every category, unknown ones, gaps."""
    levels = max(len(column.categories) for column in schema.columns)
    n = min(max(FEW, levels + 2), MOST)
    rng = np.random.default_rng(0)
    return pd.DataFrame({c.name: _column(c, n, rng) for c in schema.columns})


def _column(column: Column, n: int, rng: np.random.Generator) -> Any:
    if column.kind == "numeric":
        values = rng.normal(size=n) * SCALES[rng.integers(len(SCALES), size=n)]
        values[::GAPS] = np.nan
        return values
    if column.kind == "date":
        return pd.Timestamp("2024-01-31") + pd.to_timedelta(rng.integers(0, 10**9, n), unit="s")
    known = [*column.categories, "a category that training did not know", None]
    return objects([known[i % len(known)] for i in range(n)])


def predict_made_up(model: Any) -> None:
    """Raises ModelFileError where a loaded model (`model_file.Fitted`) does not predict rows of its
    own schema."""
    schema: Schema = model.schema
    rows = made_up_rows(schema)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answers = model.predict(rows, warn=lambda text: None)
            fits = np.shape(answers) == (len(rows),)
            if schema.task != "regression":
                shares = model.predict_proba(rows, warn=lambda text: None)
                fits = fits and np.shape(shares) == (len(rows), len(model.labels))
    except Exception as error:  # of any library below the model
        raise ModelFileError(
            f"its parts do not fit together: a row of its schema ends in {type(error).__name__}: "
            f"{one_line(error, 200)}; refused"
        ) from None
    if not fits:
        raise ModelFileError("its predictions have another shape than its schema says; refused")


def check_apart(data: bytes) -> None:
    """Load the bytes of a model file and predict with it in another process: a library that reads
    crafted trees may crash. Raises ModelFileError where that process finds a fault, or dies."""
    command = [sys.executable, "-P", "-m", f"{__package__}.checking_process"]
    with tempfile.TemporaryFile() as said:
        try:
            done = subprocess.run(
                command, input=data, stdout=subprocess.PIPE, stderr=said, timeout=WALL_S
            )
        except subprocess.TimeoutExpired:
            raise ModelFileError(f"it was not read within {WALL_S} s; refused") from None
        said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_BYTES))
        last = said.read().decode(errors="replace")
    if done.returncode < 0:
        raise ModelFileError(
            "its trees crashed the library that reads them, or kept it busy without end (signal "
            f"{-done.returncode}); refused"
        )
    answer = done.stdout.decode(errors="replace")
    if answer != SOUND:
        (*_, line) = ["", *last.strip().splitlines()]
        raise ModelFileError(
            answer or f"the process that reads it first has ended: {one_line(line)}"
        )
