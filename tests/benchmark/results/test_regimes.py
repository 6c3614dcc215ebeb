"""Default, tuned and ensembled rows of reports, through `bench report` and `bench explain`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.stored_predictions import blocks_of
from tabsweep.reports.metrics import METRICS

FAST = ("--workers", 0, "--tracking-uri", "none", "--runs", "runs")
SUITE = """
name = "five"
title = "Three models, small"
datasets = ["iris", "wine"]
[budgets.quick]
models = ["knn", "decision-tree", "constant"]
folds = 2
trials = 4
sampler = "random"
[budgets.quick.model.constant]
trials = 1
[budgets.undefaulted]
models = ["knn"]
folds = 1
trials = 3
sampler = "random"
start_with_default = false
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working directory with a run and its report."""
    with working_in(tmp_path_factory.mktemp("regimes")) as folder:
        Path("five.toml").write_text(SUITE)
        found = bench("sweep", "--suite", "./five.toml", "--name", "five", *FAST)
        assert found.code == 0, found
        yield folder


def table(name: str, folder: str = "runs/five/report") -> pd.DataFrame:
    return pd.read_csv(Path(folder) / f"{name}.csv", keep_default_na=False, na_values=[""])


def of(frame: pd.DataFrame, dataset: str, model: str, regime: str) -> pd.Series:
    rows = frame[
        (frame["dataset"] == dataset) & (frame["model"] == model) & (frame["regime"] == regime)
    ]
    assert len(rows) == 1
    return rows.iloc[0]


def test_the_default_is_the_first_trial_and_the_tuned_the_score_of_the_other_tables(work):
    rows, scores = table("default-and-tuned"), table("scores")
    trials = load_results("runs/five")
    for dataset in ("iris", "wine"):
        for model in ("knn", "decision-tree"):
            mine = trials[(trials["dataset"] == dataset) & (trials["model"] == model)]
            first = mine[(mine["stage"] == "tune") & (mine["index"] == 0)]["test_accuracy"].mean()
            tuned = scores[
                (scores["dataset"] == dataset) & (scores["model"] == model) & scores["headline"]
            ]["mean"].item()
            assert of(rows, dataset, model, "default")["mean"] == pytest.approx(first, abs=1e-11)
            assert of(rows, dataset, model, "tuned")["mean"] == pytest.approx(tuned, abs=1e-11)


def test_the_csv_has_the_ranks_of_the_table(work):
    ranks = table("default-and-tuned").query("part == 'ranks'")
    text = Path("runs/five/report/default-and-tuned.md").read_text()
    assert len(ranks) == 9 and ranks["metric"].isna().all()
    for row in ranks.itertuples():
        line = rf"\| {row.model} +\| {re.escape(row.regime)} +\| \D*{row.mean_rank:.2f}"
        assert re.search(line, text), line


def by_hand(block, model):
    """Forward selection with replacement, plainly: the test accuracy of what validation chose."""
    trials = [t for t in block.trials if t.model == model and t.stage == "tune"]
    trials = sorted(trials, key=lambda t: (t.loss, t.model, t.index))
    trials = list({t.id: t for t in reversed(trials)}.values())[::-1]
    arrays = [t.arrays() for t in trials]
    accuracy = METRICS["accuracy"].fn
    path, scores = [], []
    for _ in range(50):
        tried = [
            accuracy(block.y["val"], np.sum([arrays[j]["val"] for j in [*path, i]], axis=0))
            for i in range(len(arrays))
        ]
        path.append(int(np.argmax(tried)))
        scores.append(max(tried))
    members = path[: int(np.argmax(scores)) + 1]
    return accuracy(block.y["test"], np.mean([arrays[j]["test"] for j in members], axis=0))


def test_the_ensemble_is_chosen_on_validation_rows_and_scored_on_test_rows(work):
    rows = table("default-and-tuned")
    blocks, notes = blocks_of(["runs/five"])
    assert notes == {}
    for model in ("knn", "decision-tree"):
        for dataset in ("iris", "wine"):
            found = of(rows, dataset, model, "tuned + ensembled")["mean"]
            expected = [by_hand(b, model) for b in blocks if b.dataset == dataset]
            assert found == pytest.approx(np.mean(expected), abs=1e-11)


def test_explain_computes_each_of_these_numbers_again(work):
    rows = table("default-and-tuned")
    said = bench("explain", "default-and-tuned", "wine", "knn", "--run", "runs/five", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert [v["regime"] for v in found["regimes"]] == ["default", "tuned", "tuned + ensembled"]
    for regime in found["regimes"]:
        expected = of(rows, "wine", "knn", regime["regime"])["mean"]
        assert regime["value"] == pytest.approx(expected, abs=1e-11)
    assert shlex.split(found["command"])[:2] == ["bench", "sweep"]
    assert all(row["members"] for row in found["folds"] if row["regime"] != "tuned")
    wrong = bench("explain", "default-and-tuned", "wine", "kn", "--run", "runs/five")
    assert wrong.code == 2 and "knn" in wrong.err


def test_no_other_table_changes_and_the_rows_stand_in_their_own_on_the_page(work):
    assert bench("report", "runs/five", "--no-regimes", "--out", "plain").code == 0
    for name in ("scores", "leaderboard", "tests", "coverage"):
        both = [Path(folder) / f"{name}.csv" for folder in ("plain", "runs/five/report")]
        assert both[0].read_bytes() == both[1].read_bytes()
    assert not Path("plain/default-and-tuned.csv").exists()
    page = Path("runs/five/report/html/index.html").read_text()
    assert 'href="#default-and-tuned">Default and tuned<' in page
    assert {"default", "tuned", "tuned + ensembled"} <= set(table("default-and-tuned")["regime"])
    assert "ranked together" in Path("runs/five/report/default-and-tuned.tex").read_text()


def test_what_was_not_measured_is_named_and_not_guessed(work):
    words = ("--suite", "./five.toml", "--budget", "undefaulted", "--name", "bare")
    assert bench("sweep", *words, *FAST).code == 0
    row = of(table("default-and-tuned", "runs/bare/report"), "iris", "knn", "default")
    assert np.isnan(row["mean"]) and "does not begin with the default" in row["reason"]
    assert "not measured" in Path("runs/bare/report/default-and-tuned.md").read_text()


def test_predictions_that_are_gone_are_named_and_the_other_rows_stay(work):
    shutil.copytree("runs/five", "runs/gone")
    for path in Path("runs/gone/predictions").rglob("*"):
        if path.is_file():
            path.unlink()
    found = bench("report", "runs/gone", "--out", "gone")
    assert found.code == 3 and found.err.count("damaged: iris: cannot read predictions") == 1
    rows = table("default-and-tuned", "gone")
    assert np.isfinite(of(rows, "iris", "knn", "tuned")["mean"])
    lost = of(rows, "iris", "knn", "tuned + ensembled")
    assert np.isnan(lost["mean"]) and "predictions" in lost["reason"]
