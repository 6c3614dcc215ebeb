"""Is every published table listed with what makes ours, and is it said how much of it we have?"""

from __future__ import annotations

import json

import pandas as pd
import pytest
from calls import bench
from tabsweep.benchmark.papers import tables
from tabsweep.benchmark.papers.experiments import EXPERIMENTS
from tabsweep.reports import published
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.reproduction import comparison


def test_the_list_has_every_stored_table_with_a_command_or_a_reason():
    found = json.loads(bench("reproduce", "--list", "--json").out)
    names = [way["table"] for way in found]
    stored = {tables.name_of(*key) for key in published.names()}
    assert len(names) == len(set(names)) and stored <= set(names)
    assert set(names) - stored <= set(comparison.REPRODUCTIONS)  # a table of part of another
    for way in found:
        assert bool(way.get("command")) != bool(way.get("why")) and way["cells"] > 0


def test_the_reasons_are_of_stored_tables_that_nothing_makes():
    ways = {way.table: way for way in tables.ways()}
    assert [name for name in tables.WHY if name not in ways or ways[name].command] == []


def test_a_table_of_an_experiment_names_its_command():
    ways = {way.table: way for way in tables.ways()}
    assert ways["npt-table-3"].command == "bench experiment npt-lookup"
    assert ways["npt-table-3"].experiment in EXPERIMENTS
    found = bench("reproduce", "npt-table-3")
    assert found.code == 2 and "BENCH-E005" in found.err
    assert "bench experiment npt-lookup" in found.err


def test_a_table_that_nothing_makes_says_why():
    found = bench("reproduce", "npt-table-14")
    assert found.code == 2 and "the datasets' own figures" in found.err


# ---------------------------------------------------------------------- at the head of a comparison


def evidence(task, metric, scores, **meta) -> Evidence:
    """scores: {(dataset, model): a value a fold}."""
    rows = [
        {
            **{"dataset": dataset, "task": task, "fold": fold, "model": model, "index": index},
            **{"stage": "tune", "seed": 0, "status": "done", "selected": index == 0},
            **{f"test_{metric}": value, "cpu_s": 1800.0},
        }
        for (dataset, model), values in scores.items()
        for fold, value in enumerate(values)
        for index in range(2)
    ]
    return Evidence.of(pd.DataFrame(rows), meta={"metric": {task: metric}, **meta})


def head(name, found, folder):
    comparison.write_comparison(found, name, folder)
    text = (folder / f"reproduce-{name}.md").read_text()
    return text.partition("\n## ")[0]


def test_cells_say_coverage_budget_and_configurations(tmp_path):
    scores = {("yacht", "random-forest"): [0.8, 1.0], ("boston", "catboost"): [3.0, 3.2]}
    found = evidence("regression", "rmse", scores, budget="quick: 2 folds, 2 configurations")
    text = head("npt-table-11", found, tmp_path)
    assert "2 of 36 published cells have a value of ours; of 2 with standard errors" in text
    assert "Budget used: quick: 2 folds, 2 configurations." in text
    assert "Ours: 2 configurations a study ended, 4.00 CPU-hours." in text
    assert "Published: 24 to 48 configurations a cell." in text


def test_medians_say_how_many_methods_and_why_no_joint_standard_error(tmp_path):
    scores = {(f"d{i}", model): [0.5 + 0.1 * i] for i in range(3) for model in ("npt", "svm")}
    text = head("hopular-table-1", evidence("binary", "accuracy", scores), tmp_path)
    assert "2 of 29 published methods have a median rank of ours." in text
    assert "no difference in joint standard errors" in text and "Budget used" in text


def test_ensembles_say_how_many_there_are(tmp_path):
    found = evidence("regression", "rmse", {("california-housing", "resnet"): [0.5]})
    keys = {"dataset": "california-housing", "task": "regression", "fold": 0, "model": "resnet"}
    rows = [{**keys, "index": i, "seeds": "", "test_rmse": 0.48 + 0.01 * i} for i in range(3)]
    found = Evidence(found.trials, found.planned, found.meta, pd.DataFrame(rows))
    text = head("rtdl-table-3", found, tmp_path)
    assert "Ours: 3 ensembles of seeds a cell" in text
    assert "1 of " in text and "published cells have a value of ours" in text


@pytest.mark.parametrize("name", list(comparison.REPRODUCTIONS))
def test_every_comparison_says_its_coverage_and_budget_even_without_a_cell(name, tmp_path):
    text = head(name, evidence("regression", "rmse", {("elsewhere", "resnet"): [1.0]}), tmp_path)
    assert " of " in text and "Budget used: not recorded." in text
