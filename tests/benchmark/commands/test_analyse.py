"""`bench analyse`: what analyses of stored trials and predictions compute and write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from tabsweep.benchmark.results import stored_predictions
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.reports.analyses.ensemble_selection import greedy
from tabsweep.reports.analyses.rescored import with_metric
from tabsweep.reports.evidence import EvidenceError
from tabsweep.reports.metrics import METRICS

# ---------------------------------------------------------------------- ensembles


def problem(seed: int, n: int = 12, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Targets of three classes, and the probabilities of n weak candidates."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    logits = rng.normal(size=(n, rows, 3)) + 0.7 * np.eye(3)[y]
    return y, np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)


@pytest.mark.parametrize("name", ["accuracy", "log_loss", "roc_auc"])
@pytest.mark.parametrize("seed", range(4))
def test_an_ensemble_is_never_worse_on_validation_rows_than_its_best_candidate(name, seed):
    y, proba = problem(seed)
    metric = METRICS[name]

    def loss(prediction):
        return metric.loss(metric.fn(y, prediction))

    found = greedy(proba, loss)
    alone = [loss(p) for p in proba]
    assert found.losses[-1] == min(found.losses) <= min(alone) == found.losses[0]
    assert found.losses[-1] == pytest.approx(loss(found.predict(proba)), abs=1e-12)
    assert found.members[0] == int(np.argmin(alone))


def test_one_candidate_is_the_ensemble_and_copies_of_it_add_nothing():
    y, proba = problem(0, n=1)

    def loss(p):
        return METRICS["log_loss"].fn(y, p)

    assert greedy(proba, loss).members == (0,)
    copies = np.repeat(proba, 3, axis=0)
    assert np.allclose(greedy(copies, loss).predict(copies), proba[0])
    assert greedy(copies[:0], loss) is None
    assert greedy(proba, lambda p: None) is None


def test_two_opposite_errors_cancel_and_a_member_may_count_twice():
    y = np.zeros(2)
    stored_predictions = np.array([[1.0, -1.0], [-2.0, 2.0], [5.0, 5.0]])
    found = greedy(stored_predictions, lambda p: METRICS["mse"].fn(y, p))
    assert found.members == (0, 1, 0) and found.losses == (1.0, 0.25, 0.0)  # (1 - 2 + 1) / 3
    assert np.array_equal(found.predict(stored_predictions), [0.0, 0.0])


# ---------------------------------------------------------------------- the command

FAST = ("--workers", 0, "--tracking-uri", "none", "-q")
PICKS = ("--model", "knn", "--model", "linear", "--dataset", "iris", "--dataset", "wine")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Studies of two datasets and two models, searched at random."""
    with working_in(tmp_path_factory.mktemp("analyse")) as folder:
        how = ("--sampler", "random", "--name", "random", "--trials", 3, "--folds", 2)
        found = bench("sweep", "--suite", "smoke", *PICKS, *how, *FAST)
        assert found.code == 0, found.err
        yield folder


def analyse(*words: object) -> dict:
    found = bench("analyse", *words, "--json")
    assert found.code == 0, found.err
    return json.loads(found.out)


def test_an_analysis_writes_its_files_and_the_same_bytes_again(work):
    texts = []
    for out in ("one", "two"):
        found = analyse("runs/random", "--metric", "ece", "--out", out)
        assert found["rows"] and not found["notes"]
        names = {Path(name).suffix for name in found["files"]}
        assert {".tex", ".md", ".csv"} <= names
        texts.append({Path(f).name: Path(f).read_bytes() for f in found["files"]})
    assert texts[0] == texts[1]


def test_a_metric_from_predictions_is_the_recorded_one(work):
    analyse("runs/random", "--metric", "accuracy", "--out", "m")
    again = pd.read_csv("m/metric-accuracy.csv").set_index(["dataset", "model"])
    report = pd.read_csv("runs/random/report/scores.csv").query("metric == 'accuracy'")
    report = report.set_index(["dataset", "model"])
    assert len(again) == 4
    pd.testing.assert_series_equal(again["mean"], report["mean"])


def test_a_metric_of_another_task_or_without_a_name_is_refused(work):
    with pytest.raises(EvidenceError, match="regression"):
        with_metric(evidence_of(["runs/random"]), "rmse", {})
    assert bench("analyse", "runs/random").code == 2
    assert "did you mean" in bench("analyse", "runs/random", "--metric", "acuracy").err


@pytest.mark.parametrize("how", ["another table", "another split"])
def test_data_that_is_not_the_runs_is_left_out_with_a_note(work, monkeypatch, how):
    real = stored_predictions.planned_data

    def other(plan, dataset, **where):
        table, folds = real(plan, dataset, **where)
        if dataset == "wine" and how == "another table":
            raise ValueError("the data is not what the run was made with")
        if dataset == "wine":
            folds = {k: replace(f, val=f.val[:-1]) for k, f in folds.items()}
        return table, folds

    monkeypatch.setattr(stored_predictions, "planned_data", other)
    found = analyse("runs/random", "--metric", "ece", "--out", "c")
    (note,) = found["notes"]
    assert note.startswith("Without wine: ") and "the run" in note
    scored = pd.DataFrame(found["rows"]).dropna(subset=["mean"])
    assert set(scored["dataset"]) == {"iris"}
