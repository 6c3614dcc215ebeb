"""Comparison of planned and fitted cells with a baseline."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from calls import bench
from tabsweep.benchmark.nightly.ab_test import not_planned
from tabsweep.benchmark.nightly.baseline import BaselineError, content, read
from tabsweep.benchmark.nightly.screen import compared, failures, missing, result_of, unstable
from tabsweep.sweeps.store.run_lock import RunLock

OWN = """
name = "own"
title = "A file of its own"
datasets = ["houses"]
[file.houses]
path = "houses.csv"
target = "price"
[budgets.quick]
models = ["knn"]
folds = 1
trials = 1
"""


def planned() -> dict:
    keys = [f"{model}/{dataset}/0/0" for model in ("knn", "mlp") for dataset in ("iris", "wine")]
    return {
        "cells": {key: {"id": f"id of {key}", "config": "c"} for key in keys},
        "models": {m: {"source": "s", "libraries": {"numpy": "2.0"}} for m in ("knn", "mlp")},
        "data": {"iris": "1", "wine": "2"},
        **{"left_out": {}, "absent": {}, "unknown": []},
    }


def rows() -> list[dict]:
    found = []
    for key, cell in planned()["cells"].items():
        model, dataset, fold, seed = key.split("/")
        found.append(
            {
                **{"model": model, "dataset": dataset, "fold": int(fold), "seed": int(seed)},
                **{"id": cell["id"], "status": "done", "cause": None, "message": ""},
                **{"error": 0.1, "sha256": "bytes", "cpu_s": 0.1, "peak_ram_mb": 100.0},
            }
        )
    return found


def accepted() -> dict:
    return content(planned(), rows(), "c0ffee", "why", "lock")


def test_an_unchanged_plan_has_no_findings() -> None:
    baseline = accepted()
    assert compared(baseline["cells"], planned(), baseline) == []
    assert failures(rows(), baseline["cells"]) == []
    assert unstable(rows(), baseline["cells"], "it") == []


def test_a_changed_model_says_on_which_datasets_and_why() -> None:
    baseline, now = accepted(), planned()
    now["cells"]["mlp/iris/0/0"]["id"] = "another"
    now["models"]["mlp"] = {"source": "other", "libraries": {"numpy": "2.1", "torch": "2"}}
    (row,) = compared(baseline["cells"], now, baseline)
    assert (row["kind"], row["model"], row["datasets"]) == ("changed", "mlp", ["iris"])
    assert row["why"] == ["source", "numpy 2.0 -> 2.1", "torch absent -> 2"]


def test_new_models_lost_cells_and_missing_datasets_are_told_apart() -> None:
    baseline, now = accepted(), planned()
    now["cells"]["new/iris/0/0"] = {"id": "x", "config": "c"}
    now["models"]["new"] = {"source": "s", "libraries": {}}
    del now["cells"]["knn/iris/0/0"]
    for key in ("knn/wine/0/0", "mlp/wine/0/0"):
        del now["cells"][key]
    now["left_out"] = {"wine": "no network"}
    found = {(row["kind"], row["model"]) for row in compared(baseline["cells"], now, baseline)}
    assert found == {("new", "new"), ("lost", "knn")}


def test_other_bytes_under_the_same_id_are_found_and_a_new_failure_too() -> None:
    baseline, now = accepted(), rows()
    now[0]["sha256"] = "other bytes"
    now[1] |= {"id": "another trial", "sha256": "other bytes"}
    now[2] |= {"status": "failed", "cause": "error", "message": "no"}
    (row,) = unstable(now, baseline["cells"], "the baseline")
    assert (row["model"], row["dataset"]) == ("knn", "iris")
    (row,) = failures(now, baseline["cells"])
    assert (row["model"], row["dataset"], row["verdict"]) == ("mlp", "iris", "regression")
    known = copy.deepcopy(baseline)
    known["cells"]["mlp/iris/0/0"]["status"] = "failed"
    assert failures(now, known["cells"]) == []


def test_a_planned_fit_that_returned_no_row_makes_the_night_red() -> None:
    keys = [*planned()["cells"]]
    assert missing(keys, rows()) == []
    found = missing(keys, rows()[1:])
    assert [(row["model"], row["dataset"], row["verdict"]) for row in found] == [
        ("knn", "iris", "no-data")
    ]
    step = result_of(found, n_same=4, head_added={})
    assert step.verdict == "no-data" and "no result of: knn" in step.headline
    assert "knn/iris/0/0" in step.reason


def test_a_model_that_is_not_planned_makes_the_night_red() -> None:
    accepted_plan = {"cells": accepted()["cells"], "left_out": {}}
    assert not_planned(("knn", "mlp"), accepted_plan, planned()) == []
    found = not_planned(("knn", "knnn"), accepted_plan, {**planned(), "unknown": ["gone"]})
    step = result_of(found, n_same=4, head_added={})
    assert step.verdict == "no-data" and "no such model: gone, knnn" in step.headline


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', "{"])
def test_a_baseline_is_read_back_and_what_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.json"
    assert read(path) is None
    path.write_text(json.dumps(accepted()))
    assert read(path) == accepted()
    path.write_text(text)
    with pytest.raises(BaselineError, match="bench baseline accept"):
        read(path)


def test_a_night_without_a_baseline_is_red_and_says_what_writes_one(work: Path) -> None:
    nothing = work / "none.json"
    ran = bench("nightly", "--baseline", nothing)
    assert ran.code == 4 and "bench baseline accept" in ran.out
    (night,) = (work / "nights").glob("20*")
    data = json.loads((night / "night.json").read_text())
    assert data["verdict"] == data["steps"][0]["verdict"] == "no-data"
    assert (night / "summary.md").read_text().startswith("## Red: 1 step could not judge.")


def test_a_baseline_of_single_models_is_refused(work: Path) -> None:
    assert bench("baseline", "accept", "--reason", "x", "--model", "knn").code == 2


def test_runs_that_share_a_store_are_one_at_a_time(work: Path) -> None:
    night = ("nightly", "--baseline", work / "none.json")
    calls = (night, ("baseline", "accept", "--reason", "x"))
    with RunLock(work / "nights" / "store"):
        for words in calls:
            ran = bench(*words)
            assert ran.code == 3 and "BENCH-E010" in ran.err and "store" in ran.err, ran
    assert bench(*night).code == 4


def test_a_night_without_the_tables_of_its_suite_is_refused(work: Path) -> None:
    (work / "own.toml").write_text(OWN)
    ran = bench("nightly", "--suite", work / "own.toml")
    assert ran.code == 2 and "no files of a suite (houses): add them by bench data add" in ran.err
    assert not list((work / "nights").rglob("night.json"))


def test_against_an_unknown_commit_nothing_is_judged(work: Path) -> None:
    ran = bench("nightly", "--against", "no-such-tag", "--json")
    (step,) = json.loads(ran.out)["steps"]
    assert ran.code == 4 and (step["name"], step["verdict"]) == ("ab-test", "no-data")
