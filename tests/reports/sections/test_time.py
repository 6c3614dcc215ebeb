"""Score against time, on a real run: equal to a slow recomputation from its results."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest
from calls import bench
from page_cases import evidence_of, results
from tabsweep.benchmark.results.evidence_builder import evidence_of as evidence_of_run
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.reports import report
from tabsweep.reports.aggregation import anytime, at_times
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.metrics import METRICS

HEAD = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three models on two datasets, two folds, twelve trials, of which no more than .2 s count."""
    folder = tmp_path_factory.mktemp("time")
    words = "sweep --suite smoke --dataset iris --dataset diabetes --model knn --model linear"
    words += " --model decision-tree --folds 2 --trials 12 --sampler random --study-s 0.2"
    done = bench(*words.split(), "--workers", 0, "--runs", folder, "--name", "t")
    assert done.code == 0, done.err
    return folder / "t"


def spent(evidence):
    return at_times.spent(evidence, anytime.running(evidence))


def score_at(frame, dataset, model, fold, seconds):
    """The test score of the best trial by validation of those that ended by then, or None."""
    mine = frame[(frame["dataset"] == dataset) & (frame["model"] == model)]
    mine = mine[(mine["fold"] == fold) & (mine["stage"] == "tune")].sort_values("index")
    metric = METRICS[HEAD[mine["task"].iloc[0]]]
    clock, best, chosen = 0.0, np.inf, None
    for row in mine.to_dict("records"):
        clock += row["cpu_s"]
        if round(clock, 6) > seconds:
            break
        loss = metric.sign * row[f"val_{metric.name}"]
        if row["status"] == "done" and loss < best:
            best, chosen = loss, row[f"test_{metric.name}"]
    return chosen


def test_every_score_and_rank_of_a_real_run_is_that_of_a_slow_recomputation(run):
    frame, evidence = load_results(run), evidence_of_run([run])
    headline = headline_cells(evidence, studies(evidence))
    steps = spent(evidence)
    if not len(steps):
        pytest.skip("no trial took a tick of CPU time")
    ts = [*at_times.times(steps), 0.0, 0.015, 0.123]
    cells = at_times.cells_at(steps, headline, sorted(ts))
    found = {(r.time, r.dataset, r.model): r.mean for r in cells.itertuples()}
    assert len(found) == len(set(ts)) * 2 * 3
    slow = {}
    for t, dataset, model in found:
        folds = [score_at(frame, dataset, model, fold, t) for fold in (0, 1)]
        slow[t, dataset, model] = np.nan if None in folds else np.mean(folds)
    np.testing.assert_allclose(list(found.values()), [slow[k] for k in found], rtol=1e-12)

    ranked = at_times.ranks_at(evidence, cells)
    for row in ranked.itertuples():
        places = []
        for dataset, task in (("iris", "multiclass"), ("diabetes", "regression")):
            sign = METRICS[HEAD[task]].sign
            losses = {
                m: sign * slow[row.time, dataset, m] for m in ("decision-tree", "knn", "linear")
            }
            losses = pd.Series({m: np.inf if np.isnan(v) else v for m, v in losses.items()})
            places.append(losses.rank()[row.model])
        assert row.mean_rank == pytest.approx(np.mean(places)) and row.n_datasets == 2


def test_the_csv_answers_any_time(run):
    frame, evidence = load_results(run), evidence_of_run([run])
    steps = at_times.choices(spent(evidence))
    for (dataset, model, fold), mine in steps.groupby(["dataset", "model", "fold"]):
        assert mine["cpu_s"].is_monotonic_increasing and mine["val_loss"].is_monotonic_decreasing
        for t in (0.0, 0.03, 0.1, 1e9):
            row = mine[mine["cpu_s"] <= t].tail(1)
            want = score_at(frame, dataset, model, fold, t)
            assert (None if not len(row) else row["test"].iloc[0]) == want


def test_a_run_with_study_seconds_ends_within_one_trial_and_says_what_it_depends_on(run):
    frame = load_results(run)
    for _, mine in frame[frame["stage"] == "tune"].groupby(["dataset", "model", "fold"]):
        spent = mine.sort_values("index")["cpu_s"].cumsum().round(6).tolist()
        assert all(s < 0.2 for s in spent[:-1]) and (spent[-1] >= 0.2 or len(spent) == 12)
    for name in ("scores.md", "about.md"):
        assert "depend on the machine" in (run / "report" / name).read_text()


def test_the_report_has_section_figure_and_page_and_none_without_cpu_seconds(tmp_path):
    frame = results()
    report.write(evidence_of(frame), tmp_path)
    assert {"time.md", "time.csv", "time.tex"} <= {p.name for p in tmp_path.iterdir()}
    assert (tmp_path / "paper" / "time.pdf").exists()
    assert "Mean rank at equal time" in (tmp_path / "html" / "index.html").read_text()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "time.csv").read_text())))
    assert rows and set(rows[0]) >= {"cpu_s", "n_trials", "val_loss", "test"}
    report.write(evidence_of(frame.drop(columns="cpu_s")), tmp_path)
    assert not list(tmp_path.rglob("time.*"))


def test_lower_rungs_count_before_the_first_full_trial():
    frame = results(n=1, n_folds=1, n_trials=3)
    rung = frame.assign(stage="rung0", selected=False, cpu_s=5.0, id=frame["id"] + "r")
    plain = spent(evidence_of(frame))
    halved = spent(evidence_of(pd.concat([frame, rung], ignore_index=True)))
    assert np.allclose(halved["cpu"] - plain["cpu"], 15.0)


def test_the_grid_of_times_is_short_and_covers_first_scores_and_ends():
    for low, high in ((0.01, 0.01), (0.02, 3e5), (7.0, 8.0), (1e-2, 1e9), (0.3, 40.0)):
        steps = pd.DataFrame({"cpu": [low, high], "best": [0.5, 0.4]})
        ts = at_times.times(steps)
        assert 1 <= len(ts) <= at_times.MOST_TIMES and ts == sorted(set(ts))
        assert low <= ts[0] and high <= ts[-1] <= 10 * high
    assert at_times.times(pd.DataFrame({"cpu": [0.0], "best": [0.1]})) == []
