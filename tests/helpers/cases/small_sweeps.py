"""Small sweeps of `bench` in this process, and models of the user for them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calls import answer
from tabsweep.sweeps.store.ledger import Ledger

FAST = ("--workers", 0, "--tracking-uri", "none", "--runs", "runs")
SMALL = ("sweep", "--suite", "smoke", "--dataset", "iris", *FAST)
AGAIN = ("--workers", 0, "--tracking-uri", "none")


def sweeps(*args: object, code: int = 0) -> dict:
    """A small sweep on iris: what it says as JSON."""
    return answer(*SMALL, *args, code=code)


def executions(run: str) -> Counter[str]:
    """{trial id: how often it has a result of its own} in a run's ledger."""
    return Counter(record["id"] for record in Ledger(Path(run)).records("result"))


def suite_of(
    name: str, datasets: Sequence[str], models: Sequence[str], *, top: Any = (), **quick: Any
) -> dict[str, Any]:
    """The data of a suite with one budget, `quick`: one trial on one fold of each dataset, unless
    its keys say otherwise. top: more keys of the suite itself."""
    budget = {"models": [*models], "folds": 1, "trials": 1, **quick}
    head = {"name": name, "title": "A suite of a test", "datasets": [*datasets], **dict(top)}
    return {**head, "budgets": {"quick": budget}}


def write_suite(path: str | Path, *args: Any, **given: Any) -> Path:
    """That suite as a JSON file."""
    Path(path).write_text(json.dumps(suite_of(*args, **given)), encoding="utf-8")
    return Path(path)


OWN = """
import os
from pathlib import Path

import numpy as np

from {module}_helper import frequencies


class Plain:
    '''Has no spaces().'''

    def __init__(self, weight=1.0, seed=0):
        self.weight, self.seed = weight, seed

    def fit(self, X, y):
        self.classes_, self.p_ = frequencies(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[self.p_.argmax()])

    def predict_proba(self, X):
        return np.tile(self.p_, (len(X), 1))


class Tuned(Plain):
    name = "tuned"

    @staticmethod
    def spaces():
        weight = {{"kind": "uniform", "low": 0.5, "high": 2.0}}
        return {{"default": {{"params": {{"weight": weight}}}}}}


class Moody(Plain):
    name = "moody"

    def fit(self, X, y):
        with open("fits.log", "a") as log:
            log.write("fit\\n")
        if Path("broken").exists():
            raise MemoryError("as the file says")
        return super().fit(X, y)


class Logged(Tuned):
    '''Leaves a line of every fit.'''

    name = "logged"

    def fit(self, X, y):
        with open("fits.log", "a") as log:
            log.write(f"{{self.weight!r}}\\n")
        return super().fit(X, y)


class Classes(Tuned):
    '''For classification alone; its space says so, too.'''

    name = "classes"
    tasks = ("binary", "multiclass")

    @staticmethod
    def spaces():
        params = Tuned.spaces()["default"]["params"]
        return {{"default": {{"classification": {{"params": params}}}}}}


class Slow(Tuned):
    name = "slow"

    def fit(self, X, y):
        import time

        with open(os.environ["SLOW_LOG"], "a") as log:
            log.write(f"start {{self.weight!r}} {{len(X)}}\\n")
        time.sleep(0.4)
        with open(os.environ["SLOW_LOG"], "a") as log:
            log.write(f"end {{self.weight!r}} {{len(X)}}\\n")
        return super().fit(X, y)
"""
HELPER = """
import numpy as np


def frequencies(y):
    classes, n = np.unique(y, return_counts=True)
    return classes, n / n.sum()
"""


def write_own_models(folder: Path) -> str:
    """Write a module with models of the user, and a sibling that it imports; returns its name."""
    module = f"own_{random.Random(str(folder)).randrange(10**9)}"
    (folder / f"{module}.py").write_text(OWN.format(module=module))
    (folder / f"{module}_helper.py").write_text(HELPER)
    return module
