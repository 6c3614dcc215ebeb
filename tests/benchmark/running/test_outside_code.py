"""Code from outside and our models in one sweep: what the one changes reaches no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import bench
from tabsweep.benchmark.results.evidence_builder import load_results

HOSTILE = """
import numpy as np

class Hostile:
    def __init__(self, *, task, seed=0):
        self.task = task

    def fit(self, X, y):
        np.mean = np.average = lambda values, *args, **more: 0.123
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X):
        return np.eye(len(self.classes_))[np.zeros(len(X), dtype=int)]
"""
OURS = ("--model", "knn", "--model", "linear")


@pytest.mark.usefixtures("work")
@pytest.mark.fault(20)
def test_a_class_that_replaces_a_function_of_numpy_changes_no_score_of_ours():
    Path("hostile.py").write_text(HOSTILE)
    scores = {}
    for name, more in (("alone", ()), ("beside", ("--model", "hostile.py:Hostile"))):
        call = ("sweep", "--suite", "smoke", "--dataset", "iris", "--folds", 1, "--trials", 2)
        more = (*more, *OURS) if more else OURS
        options = ("--workers", 1, "--tracking-uri", "none", "--runs", name, "--name", name)
        found = bench(*call, *more, *options)
        assert found.code == 0, found
        rows = load_results(Path(name) / name)
        assert (rows["status"] == "done").all() and len(rows["model"].unique()) == len(more) // 2
        ours = rows[rows["model"].isin(OURS)].sort_values(["model", "index", "stage"])
        scores[name] = ours.filter(regex="^(val|test)_|^model$|^id$").reset_index(drop=True)
    assert len(scores["alone"]) >= 4 and scores["alone"].equals(scores["beside"])
