"""Published seconds, memory and scores in time beside a run's, and tables as they are printed."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from calls import bench
from tabsweep.benchmark.papers.catalog import find_entry
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.hopular.costs import MODES, measure
from tabsweep.benchmark.papers.published_values import published_table
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts
from tabsweep.reports.reproduction.comparison import whole_comparison


def of(table):
    return published_table(find_entry(table).paper, table)


def run_of(seconds, *, dataset="california-housing", n=4):
    """Evidence of one fold: n tuning trials a model, each longer and better, and two seeds."""
    rows = []
    for model, cost in seconds.items():
        for i in range(n + 2):
            tune = i < n
            rows.append(
                {
                    **{"dataset": dataset, "task": "regression", "fold": 0, "model": model},
                    **{"index": i if tune else i - n, "stage": "tune" if tune else "eval"},
                    **{"seed": 0 if tune else i - n, "status": "done", "selected": i == n - 1},
                    **{"val_rmse": 1.0 - 0.1 * i, "test_rmse": 0.9 - 0.1 * i},
                    **{"fit_s": cost, "predict_s": 1.0, "cpu_s": cost, "peak_ram_mb": 100.0 + i},
                }
            )
    return Evidence.of(pd.DataFrame(rows), facts=Facts(metric={"regression": "rmse"}))


def test_training_times_and_their_ratio_stand_beside_those_of_the_paper():
    section = whole_comparison(run_of({"resnet": 10.0, "ft-transformer": 25.0}), of("rtdl-table-4"))
    found = section.frame.dropna(subset="ours").set_index(["method", "metric"])["ours"]
    assert found.to_dict() == {
        ("resnet", "training-time"): 10.0,
        ("ft-transformer", "training-time"): 25.0,
        ("ft-transformer", "training-time-overhead"): 2.5,
    }
    assert "3 of 33 published values have one of ours." in section.remarks


def test_a_search_is_the_sum_of_its_trials_and_a_chosen_configuration_one_fit():
    runs = run_of({"xgboost": 10.0, "npt": 7.0}, dataset="protein")
    found = whole_comparison(runs, of("npt-table-6"), ["npt"]).frame
    ours = found.dropna(subset="ours").set_index(["method", "metric"])["ours"]
    assert ours["xgboost", "execution-time"] == 4 * 11.0 and ours["npt", "execution-time"] == 7.0
    assert ours["xgboost", "peak-main-memory"] == pytest.approx(105 * 2**20 / 1e9)


def test_scores_stand_at_the_same_share_of_the_longest_search():
    section = whole_comparison(run_of({"mlp": 6.0, "xgboost": 3.0}), of("rtdl-table-5"))
    frame = section.frame[section.frame["dataset"] == "california-housing"]
    frame = frame.set_index(["method", "hours"])
    assert frame.loc[("mlp", 6.0), "seconds"] == 24.0 and frame.loc[("mlp", 6.0), "n"] == 4
    assert frame.loc[("mlp", 3.0), "n"] == 2 and np.isnan(frame.loc[("mlp", 1.0), "test"])
    assert frame.loc[("xgboost", 3.0), "test"] == pytest.approx(0.6)
    assert frame.loc[("xgboost", 0.25), "trials"] == 31


def test_a_model_that_the_paper_lacks_has_a_row_for_every_time():
    section = whole_comparison(
        run_of({"mlp": 6.0, "lightgbm": 6.0}), of("rtdl-table-5"), ["lightgbm"]
    )
    frame = section.frame[section.frame["dataset"] == "california-housing"]
    mine = frame[frame["method"] == "lightgbm"].set_index("hours")
    theirs = frame[frame["method"] == "mlp"].set_index("hours")
    assert mine["n"].equals(theirs["n"]) and len(mine) > 4
    assert mine[["value", "trials"]].isna().all(axis=None)
    assert "5 of 96 published scores have one of ours." in section.remarks


def test_a_table_without_a_counterpart_is_shown_as_published_with_the_reason():
    found = bench("reproduce", "npt-table-14")
    assert found.code == 0 and "the datasets' own figures" in found.out and "1025010" in found.out
    shown = json.loads(bench("reproduce", "cheatt-table-6", "--json").out)
    assert len(shown["published"]) == 10 and "own figures" in shown["why"]


def test_a_step_on_all_rows_takes_more_memory_than_one_on_a_single_row(tmp_path):
    setting = Setting("tiny", 0, "cpu", 1, tmp_path, print)
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 4))).add_prefix("x")
    small = {"hopular": {"n_blocks": 1, "n_nets": 2}, "npt": {"n_layers": 2, "n_heads": 2}}
    for name, config in small.items():
        one, every = (
            measure(
                setting, name, {**config, "width": 8}, X, X["x0"].to_numpy(), "regression", m, 1
            )
            for m in MODES
        )
        assert 0 < one["gib"] < every["gib"] and one["ms"] > 0, name
