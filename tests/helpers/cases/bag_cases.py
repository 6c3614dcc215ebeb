"""Fits in pieces: stores of checkpoints in memory, and a model that leaves a line of every fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COUNTING = """
import os
import time
from pathlib import Path

import numpy as np


class Counting:
    '''Leaves a line of every fit, then takes FIT_S; breaks where the file `broken` has the seed.'''

    name = "counting"
    tasks = ("binary", "multiclass")

    def __init__(self, seed=0):
        self.seed = seed

    def fit(self, X, y):
        with open(os.environ.get("FITS", "fits.log"), "a") as log:
            log.write(f"{self.seed} {os.getpid()}\\n")
        time.sleep(float(os.environ.get("FIT_S", 0)))
        if Path("broken").exists() and str(self.seed) in Path("broken").read_text().split():
            raise ZeroDivisionError(f"the fit with seed {self.seed} breaks")
        self.classes_, n = np.unique(y, return_counts=True)
        self.p_ = n / n.sum()
        return self

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X):
        noise = np.random.default_rng(self.seed).uniform(0.5, 1, (len(X), len(self.p_)))
        return self.p_ * noise / (self.p_ * noise).sum(axis=1, keepdims=True)
"""


def write_counting(folder: Path) -> str:
    """How to ask for a class that counts its fits, written into the folder."""
    (folder / "counting.py").write_text(COUNTING)
    return "counting.py:Counting"


def fits_in(log: Path) -> list[tuple[int, int]]:
    """(seed, process) of every fit that has begun."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(seed), int(pid)) for seed, pid in map(str.split, lines)]


class Ended(BaseException):
    """The worker goes away in the middle of a trial."""


class Store:
    """Checkpoints in memory; `calls` says what was asked of them. The worker goes away instead of
    saving more than `most` times."""

    def __init__(self, most: int = 99) -> None:
        self.kept: dict[str, tuple[int, bytes]] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.most = most

    def get(self, key: str) -> tuple[int, bytes] | None:
        self.calls.append(("get", key))
        return self.kept.get(key)

    def put(self, key: str, step: int, state: bytes) -> None:
        if len(self.put_at) == self.most:
            raise Ended
        self.calls.append(("put", key, step))
        self.kept[key] = (step, state)

    def drop(self, key: str) -> None:
        self.kept.pop(key, None)

    @property
    def put_at(self) -> list[int]:
        return [call[2] for call in self.calls if call[0] == "put"]
