"""Published values beside ours: differences, standard errors, notes, remarks and ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports.aggregation.ranking_rules import in_brackets, rank_figures, ranked
from tabsweep.reports.evidence import Evidence, EvidenceError
from tabsweep.reports.facts import Facts
from tabsweep.reports.reproduction.comparison import compare, whole_comparison, write_comparison
from tabsweep.reports.reproduction.names import fitted
from tabsweep.reports.reproduction.published_table import Measure, PublishedTable

COLUMNS = "dataset method metric value spread spread_kind n_repeats".split()


def table(*rows, **more):
    """A published table of rows (dataset, method, metric, value, spread, kind of spread, n)."""
    frame = pd.DataFrame(rows, columns=COLUMNS).assign(remark="")
    frame["direction"] = np.where(frame["metric"] == "rmse", "min", "max")
    frame["decimals"] = [len(str(value).partition(".")[2]) for value in frame["value"]]
    given = {"measures": {"rmse": Measure("rmse")}, **more}
    return PublishedTable("toy-table-1", "Toy, Table 1", "toy", "1", frame, **given)


YACHT = table(
    ("yacht", "random-forest", "rmse", 0.91, 0.13, "sem", 10.0),
    ("yacht", "mlp", "rmse", 1.5, 0.6, "std", 9.0),
    ("protein", "npt", "rmse", 3.0, float("nan"), "none", 1.0),
    models={"mlp": "mlp-sklearn"},
    configurations={("yacht", "random-forest"): 24},
)


def ours(scores, *, task="regression", metric="rmse", dataset="yacht", **facts):
    """Evidence of one dataset. scores: {model: a score a fold}; two trials a study."""
    rows = [
        {
            **{"dataset": dataset, "task": task, "fold": fold, "model": model, "index": index},
            **{"stage": "tune", "seed": 0, "status": "done", "selected": index == 0},
            **{f"test_{metric}": score, "cpu_s": 1800.0},
        }
        for model, values in scores.items()
        for fold, score in enumerate(values)
        for index in range(2)
    ]
    return Evidence.of(pd.DataFrame(rows), facts=Facts(metric={task: metric}, **facts))


def cell(section, dataset, method):
    frame = section.frame
    return frame[(frame["dataset"] == dataset) & (frame["method"] == method)].iloc[0]


def test_the_difference_is_in_joint_standard_errors():
    scores = np.linspace(0.8, 1.2, 10)
    row = cell(compare(ours({"random-forest": scores}), YACHT), "yacht", "random-forest")
    error = scores.std(ddof=1) / np.sqrt(10)
    assert (row["published"], row["published_se"], row["published_n"]) == (0.91, 0.13, 10)
    assert row["published_configs"] == 24
    assert row["ours"] == pytest.approx(1.0) and row["ours_se"] == pytest.approx(error)
    assert row["difference_in_joint_se"] == pytest.approx(0.09 / np.hypot(0.13, error))
    assert row["within_two"] and row["note"] == "" and row["trials"] == "2"


def test_a_value_is_compared_in_the_published_unit():
    published = table(
        ("wdbc", "mlp", "accuracy", 94.0, 1.0, "sem", 10.0),
        measures={"accuracy": Measure("accuracy", 100.0)},
        models={"mlp": "mlp-sklearn"},
    )
    evidence = ours({"mlp-sklearn": [0.9, 1.0]}, task="binary", metric="accuracy", dataset="wdbc")
    row = cell(compare(evidence, published), "wdbc", "mlp")
    assert row["ours"] == pytest.approx(95.0) and row["ours_se"] == pytest.approx(5.0)
    assert published.label == "accuracy, %" and published.unit_of("accuracy") == 100.0


def test_a_standard_deviation_becomes_a_standard_error_and_one_fold_has_none():
    row = cell(compare(ours({"mlp-sklearn": [9.0]}), YACHT), "yacht", "mlp")
    assert row["published_se"] == pytest.approx(0.6 / 3)
    assert row["note"] == "n/a: ours rests on 1 fold" and pd.isna(row["within_two"])


def test_cells_that_the_run_lacks_say_so_and_stay_in_the_frame():
    section = compare(ours({"random-forest": [1.0, 1.1]}), YACHT)
    assert len(section.frame) == 3
    assert cell(section, "protein", "npt")["note"] == "not in this run"
    assert "Covered: 1 of 3 published cells." in section.tables[0].notes


def test_a_table_of_several_metrics_names_that_of_each_dataset():
    published = table(
        ("yacht", "mlp", "rmse", 0.9, 0.1, "sem", 10.0),
        ("wdbc", "mlp", "accuracy", 94.0, 1.0, "sem", 10.0),
        measures={"rmse": Measure("rmse"), "accuracy": Measure("accuracy", 100.0)},
    )
    classes = ours({"mlp": [0.9, 1.0]}, task="binary", metric="accuracy", dataset="wdbc")
    found = pd.concat([ours({"mlp": [1.0, 1.2]}).trials, classes.trials])
    evidence = Evidence.of(found, facts=Facts(metric={"regression": "rmse", "binary": "accuracy"}))
    titles = {p.rows[0][0].text: p.title for p in compare(evidence, published).tables[0].panels}
    assert titles == {"wdbc": "accuracy, % ↑", "yacht": "RMSE ↓"}
    assert all(p.title == "" for p in compare(ours({"npt": [1.0]}), YACHT).tables[0].panels)


def test_a_row_has_the_decimals_of_its_own_published_value():
    published = table(
        ("yacht", "random-forest", "rmse", 0.986, 0.9, "std", 9.0),
        ("yacht", "mlp", "rmse", 190.0, 65.1, "std", 9.0),
        ("yacht", "knn", "rmse", float("nan"), float("nan"), "none", 9.0),
    )
    found = ours({name: [1.23456] for name in ("random-forest", "mlp", "knn")})
    rows = compare(found, published).tables[0].panels[0].rows
    shown = [(row[2].text, row[2].sub, row[3].text) for row in rows]
    assert shown[:2] == [("0.986", "0.300", "1.235"), ("190.0", "21.7", "1.2")]
    assert shown[2][2] == "1.235"  # no value of its own: the most of its dataset


def test_rows_of_another_source_and_values_that_cannot_be_read_have_a_note_each():
    rows = YACHT.rows.copy()
    rows.loc[1, "remark"] = "from elsewhere"
    rows.loc[2, ["value", "remark"]] = [np.nan, "not legible"]
    rows.loc[3] = rows.loc[2]
    rows.loc[3, "dataset"] = "yacht"
    published = replace(YACHT, rows=rows, extra=("from elsewhere",))
    section = compare(ours({"random-forest": [1.0, 1.1], "mlp-sklearn": [1.0, 1.2]}), published)
    notes = section.tables[0].notes
    assert "mlp: from elsewhere." in notes and "yacht, npt: not legible." in notes
    assert "protein, npt: not legible." not in notes  # this run has no protein
    assert "Covered: 1 of 1 published cells." in notes  # the other two have no value here
    assert cell(section, "yacht", "mlp")["ours"] == pytest.approx(1.1)  # shown all the same
    assert cell(section, "protein", "npt")["note"] == "not legible; not in this run"


SHAPES = {
    "cells": YACHT,
    "cut": replace(YACHT, replicates=True, deviations="cut"),
    "decimals": replace(YACHT, replicates=True, deviations="decimals"),
    "ensembles": replace(YACHT, replicates=True, shape="ensembles"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_written_with_coverage_and_budget_even_without_a_shared_cell(
    shape, tmp_path
):
    evidence = ours({"other": [1.0, 1.1]}, dataset="elsewhere")
    paths = write_comparison(whole_comparison(evidence, SHAPES[shape]), tmp_path)
    assert [p.name for p in paths] == [f"reproduce-toy-table-1.{e}" for e in ("csv", "md", "tex")]
    text = (tmp_path / "reproduce-toy-table-1.md").read_text()
    assert "n/a: no published cell" in text
    head = text.partition("\n## ")[0]
    assert " of " in head and "Budget used: not recorded." in head
    for path in paths:
        assert "nan" not in path.read_text().lower()


def head(published, found, folder):
    write_comparison(whole_comparison(found, published), folder)
    return (folder / "reproduce-toy-table-1.md").read_text().partition("\n## ")[0]


def test_the_head_says_coverage_budget_and_configurations(tmp_path):
    scores = {"random-forest": [0.8, 1.0], "mlp-sklearn": [3.0, 3.2]}
    text = head(YACHT, ours(scores, budget="quick: 2 folds, 2 configurations"), tmp_path)
    assert "2 of 3 published cells have a value of ours; of 2 with standard errors" in text
    assert "Budget used: quick: 2 folds, 2 configurations." in text
    assert "Ours: 2 configurations tried per study, 4.00 CPU-hours." in text
    assert "Published: 24 configurations per cell." in text


def test_an_unknown_ranking_rule_names_those_that_there_are():
    with pytest.raises(
        ValueError,
        match="unknown ranking 'nobody'; known: average, ordinal, missing-last, available",
    ):
        ranked(np.ones((2, 2)), "nobody")
    with pytest.raises(ValueError, match="missing cell"):
        ranked(np.array([[1.0, np.nan]]), "average")
    found = ranked(-np.array([[1.0, np.nan, 3.0, 3.0], [2.0, 1.0, 3.0, np.nan]]), "available")
    np.testing.assert_equal(found, [[3.0, np.nan, 1.5, 1.5], [2.0, 3.0, 1.0, np.nan]])


# --- published rounding, names, absences ----------------------------------------------------------


@pytest.mark.parametrize(
    ("ours_mean", "within"), [(0.854, True), (0.8544, True), (0.85455, False), (0.8535, True)]
)
def test_a_published_value_stands_for_every_number_that_rounds_to_it(ours_mean, within):
    published = table(
        ("adult", "mlp", "accuracy", 0.854, 1e-5, "sem", 15.0),
        measures={"accuracy": Measure("accuracy")},
    )
    scores = ours_mean + np.array([-1e-5, 1e-5])
    evidence = ours({"mlp": scores}, task="binary", metric="accuracy", dataset="adult")
    row = cell(compare(evidence, published), "adult", "mlp")
    assert row["within_two"] == within
    assert row["difference_in_joint_se"] == pytest.approx((ours_mean - 0.854) / row["joint_se"])


def test_names_are_fitted_by_separators_and_aliases_and_told_apart_by_case():
    published = replace(YACHT, models={"mlp": "mlp-sklearn"})
    scores = {"random_forest": [1.0], "mlp": [1.1], "NPT": [1.2], "other": [1.3]}
    evidence, hints = fitted(ours(scores), published, {"rf": "random-forest"})
    assert set(evidence.models) == {"random-forest", "mlp-sklearn", "NPT", "other"}
    assert any("if it is, write 'npt'" in hint for hint in hints)
    assert any(hint.startswith("Not in this table: methods other") for hint in hints)
    evidence, _ = fitted(ours({"rf": [1.0]}), published, {"rf": "random-forest"})
    assert evidence.models == ["random-forest"]
    with pytest.raises(EvidenceError, match="are both the table's 'mlp-sklearn'"):
        fitted(ours({"mlp": [1.0], "mlp_sklearn": [1.0]}), published, {})


# ---------------------------------------------------------------------- ranks of a paper


NAN = float("nan")
LOSSES = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [2.0, NAN, 1.0], "c": [3.0, 1.0, NAN]})


def test_each_dataset_ranks_its_own_models_and_a_mean_is_over_a_models_own_datasets():
    found = rank_figures(LOSSES, "available")
    assert found["mean_rank"].to_dict() == pytest.approx({"a": 5 / 3, "b": 1.5, "c": 2.0})
    assert found["std"].to_dict() == pytest.approx({"a": 3**-0.5, "b": 0.5**0.5, "c": 2**0.5})
    assert found["n_datasets"].to_dict() == {"a": 3, "b": 2, "c": 2}


def test_ranks_ignore_any_monotone_rescaling_and_a_model_without_scores_has_none():
    pd.testing.assert_frame_equal(
        rank_figures(np.exp(LOSSES), "available"), rank_figures(LOSSES, "available")
    )
    assert "d" not in rank_figures(LOSSES.assign(d=NAN), "available").index
    assert rank_figures(LOSSES.iloc[:0], "available").empty


def test_it_is_printed_as_the_paper_prints_it():
    assert in_brackets(20 / 11, 1.168) == "1.8 (1.2)" and in_brackets(2.0, NAN) == "2.0"
