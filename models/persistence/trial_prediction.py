"""A loaded model's first predictions: on made-up rows of its schema, and in another process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from typing import IO, Any

import numpy as np
import pandas as pd

from ...common.text import one_line
from .archive import ModelFileError
from .schema import Column, Schema

SOUND = "sound"
# The checking process forks a child for each file: no library that it imports may start a thread.
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
FEW, MOST = 8, 512  # rows: every category of a column, as far as these go
SCALES = np.array([1.0, -1.0, 1e-3, 1e3, -1e6, 30.0])
WALL_S = 1200  # a file that keeps its reader busy for longer is refused
SPARE_S = 60  # more until the process that started the reader is given up
# of which process, the process that checks, and what it said before it could read
_checking: tuple[int, subprocess.Popen[bytes], IO[bytes]] | None = None
_one_file = threading.Lock()


def made_up_rows(schema: Schema, n: int | None = None) -> pd.DataFrame:
    """Rows of a schema: numbers of several scales, every category, unknown ones, gaps.

    n: how many; None for so many that each category of a column is there, at most `MOST`.
    """
    if n is None:
        levels = max(len(column.categories) for column in schema.columns)
        n = min(max(FEW, levels + 2), MOST)
    rng = np.random.default_rng(0)
    return pd.DataFrame({c.name: _column(c, n, rng) for c in schema.columns})


def _column(column: Column, n: int, rng: np.random.Generator) -> Any:
    if column.kind == "numeric":
        values = rng.normal(size=n) * SCALES[rng.integers(len(SCALES), size=n)]
        values[:: FEW - 1] = np.nan
        return values
    if column.kind == "date":
        return pd.Timestamp("2024-01-31") + pd.to_timedelta(rng.integers(0, 10**9, n), unit="s")
    known = [*column.categories, "a category that training did not know", None]
    values = np.empty(n, dtype=object)
    values[:] = [known[i % len(known)] for i in range(n)]
    return values


def predict_made_up(model: Any, n: int | None = None) -> None:
    """Raises ModelFileError where a loaded model (`model_file.Fitted`) does not predict rows of its
    own schema."""
    schema: Schema = model.schema
    rows = made_up_rows(schema, n)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answers = model.predict(rows, warn=lambda text: None)
            fits = np.shape(answers) == (len(rows),)
            if schema.task != "regression":
                shares = model.predict_proba(rows, warn=lambda text: None)
                fits = fits and np.shape(shares) == (len(rows), len(model.estimator.classes_))
                if schema.classes:
                    fits = np.shape(shares) == (len(rows), len(schema.classes))
    except Exception as error:  # of any library below the model
        line = (str(error).splitlines() or [""])[0][:200]
        raise ModelFileError(
            f"its parts do not fit together: a row of its schema ends in {type(error).__name__}: "
            f"{line}; refused"
        ) from None
    if not fits:
        raise ModelFileError("its predictions have another shape than its schema says; refused")


def check_apart(data: bytes) -> None:
    """Load the bytes of a model file and predict with it in another process: a library that reads
    crafted trees may crash. Raises ModelFileError where that process finds a fault, or dies."""
    with _one_file:
        answer = _answer(data)
    if answer != SOUND:
        raise ModelFileError(answer or "the process that reads it first has ended without a word")


def _answer(data: bytes) -> str:
    """What the checking process says of a file. Its start takes as long as the imports; so it lives
    on for other files, and ends with this process, or when nobody has asked for a while."""
    global _checking
    for _ in range(2):  # it may have ended since the last file
        if _checking is None or _checking[0] != os.getpid() or _checking[1].poll() is not None:
            command = [sys.executable, "-P", "-m", f"{__package__}.checking_process"]
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            errors = tempfile.TemporaryFile()
            env = {**os.environ, **ALONE}
            made = subprocess.Popen(command, stderr=errors, env=env, **pipes)
            _checking = os.getpid(), made, errors
        process: Any = _checking[1]
        said = _checking[2]
        limit_s, began = WALL_S + SPARE_S, time.monotonic()
        timer = threading.Timer(limit_s, process.kill)
        timer.daemon = True
        timer.start()
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(b"%d\n" % len(data) + data)
                process.stdin.flush()
            if answer := process.stdout.readline().decode().strip():
                return answer
            process.wait()
        except BaseException:  # what it says later is no answer to the next file
            process.kill()
            process.wait()
            raise
        finally:
            timer.cancel()
        if time.monotonic() - began >= limit_s:
            return f"the process that reads it first gave no answer in {limit_s} s; refused"
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return f"the process that reads it first has ended: {one_line(lines[-1])}" if lines else ""
