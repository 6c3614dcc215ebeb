"""Do the papers' own tables follow from each other, and does ours stand beside them rightly?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports import published
from tabsweep.reports.aggregation.ranking_rules import RANKING_RULES, ranked
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.reproduction import comparison
from tabsweep.reports.statistics.ranking import standard_error


def matrix(table, datasets):
    """(datasets, methods) in the table's own order of methods; NaN for a missing cell."""
    rows = table.set_index(["dataset", "method"])["value"]
    methods = list(dict.fromkeys(table["method"]))
    return methods, np.array([[rows.get((d, m), np.nan) for m in methods] for d in datasets])


@pytest.mark.parametrize(
    "table, direction, group, datasets",
    [
        (10, "max", "binary", ["higgs", "income-kdd", "kick", "breast-cancer-wdbc"]),
        (8, "max", "multiclass", ["poker-hand", "forest-cover"]),
        (11, "min", "regression", ["protein", "concrete", "boston", "yacht"]),
    ],
)
def test_npt_table_1_follows_from_its_tables(table, direction, group, datasets):
    """Strict ranks; ties in row order, except CatBoost before gradient boosting on boston."""
    methods, scores = matrix(published.load("npt", table), datasets)
    rank = ranked(scores, direction, "npt")
    if table == 11:
        a, b = methods.index("gradient-boosting"), methods.index("catboost")
        i = datasets.index("boston")
        assert scores[i, a] == scores[i, b]
        rank[i, [a, b]] = rank[i, [b, a]]
    printed = published.load("npt", 1)
    printed = printed[printed["dataset"].str.contains(group)].set_index("method")
    assert set(printed.index) == set(methods) and len(printed) == 9
    for j, method in enumerate(methods):
        want = printed.loc[method]
        assert _agrees(rank[:, j].mean(), want["value"])
        assert _agrees(standard_error(rank[:, j]), want["spread"])


def _agrees(ours, theirs):
    return abs(float(ours) - theirs) <= 0.005 + 1e-9


def test_no_other_convention_gives_npts_table_1():
    """Shared ranks and average ties miss it, which is why there is a choice."""
    methods, scores = matrix(published.load("npt", 8), ["poker-hand", "forest-cover"])
    printed = published.load("npt", 1)
    printed = printed[printed["dataset"].str.contains("multiclass")].set_index("method")["value"]
    fits = {
        name: all(
            _agrees(mean, printed[m])
            for m, mean in zip(methods, ranked(scores, "max", name).mean(axis=0), strict=True)
        )
        for name in RANKING_RULES
    }
    assert fits == {"npt": True, "average": False, "hopular": False}


def test_an_unknown_convention_names_those_that_there_are():
    with pytest.raises(ValueError, match="unknown ranking 'nobody'; known: average, npt, hopular"):
        ranked(np.ones((2, 2)), "max", "nobody")
    with pytest.raises(ValueError, match="missing cell"):
        ranked(np.array([[1.0, np.nan]]), "max", "average")


def test_hopular_table_2_medians_follow_with_the_missing_cell_last():
    table = published.load("hopular", 2)
    table = table[table["metric"].isin(["mse-x1000", "accuracy"])]
    table = table[~table["dataset"].str.startswith(("median", "uci"))]
    signed = table["value"] * np.where(table["direction"] == "max", -1.0, 1.0)
    pivot = table.assign(loss=signed).pivot(index="dataset", columns="method", values="loss")
    median = np.median(ranked(pivot.to_numpy(), "min", "hopular"), axis=0)
    got = dict(zip(pivot.columns, median.tolist(), strict=True))
    want = {"hopular": 1.5, "lightgbm": 2.0, "catboost": 2.5, "npt": 4.5, "xgboost": 4.5}
    assert got == want


def test_cheatt_table_1_is_the_mean_of_table_4():
    means = published.load("cheatt", 4).groupby("method")["value"].mean()
    printed = published.load("cheatt", 1)
    printed = printed[printed["metric"] == "mean-score"].set_index("method")["value"]
    shared = sorted(set(printed.index) & set(means.index))
    assert len(shared) >= 4
    for method in shared:
        assert abs(means[method] - printed[method]) <= 0.0501, method


def test_every_published_table_loads_with_unique_rows():
    assert len(published.names()) >= 35
    for name in published.names():
        table = published.load(*name)
        assert len(table) and not table.duplicated(published.key_columns(table)).any(), name
        if "value" in table:
            assert table["value"].dtype == float


def test_an_unknown_table_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"did you mean 'npt-8'\?"):
        published.load("npt", "88")
    with pytest.raises(ValueError, match="did you mean 'npt-table-11'"):
        comparison.reproduction("npt-table-111")


# --- published beside ours ------------------------------------------------------------------------


def ours(scores, *, task="regression", metric="rmse", model="random-forest", dataset="yacht"):
    trials = pd.DataFrame(
        [
            {
                "dataset": dataset,
                "task": task,
                "fold": fold,
                "model": model,
                "index": 0,
                "stage": "tune",
                "seed": 0,
                "status": "done",
                "selected": True,
                f"test_{metric}": score,
            }
            for fold, score in enumerate(scores)
        ]
    )
    return Evidence.of(trials, meta={"metric": {task: metric}})


def cell(section, dataset, method):
    frame = section.frame
    return frame[(frame["dataset"] == dataset) & (frame["method"] == method)].iloc[0]


def test_the_difference_is_in_joint_standard_errors():
    scores = np.linspace(0.8, 1.2, 10)
    row = cell(comparison.compare(ours(scores), "npt-table-11"), "yacht", "random-forest")
    error = scores.std(ddof=1) / np.sqrt(10)
    assert (row["published"], row["published_se"], row["published_n"]) == (0.91, 0.13, 10)
    assert row["published_configs"] == 24
    assert row["ours"] == pytest.approx(1.0) and row["ours_se"] == pytest.approx(error)
    assert row["difference_in_joint_se"] == pytest.approx(0.09 / np.hypot(0.13, error))
    assert row["within_two"] and row["note"] == "" and row["trials"] == "1"


def test_accuracy_is_compared_in_percent_and_a_standard_deviation_as_standard_error():
    evidence = ours(
        [0.9, 1.0],
        task="binary",
        metric="accuracy",
        model="mlp-sklearn",
        dataset="breast-cancer-wdbc",
    )
    row = cell(comparison.compare(evidence, "npt-table-8"), "breast-cancer-wdbc", "mlp")
    assert row["ours"] == pytest.approx(95.0) and row["ours_se"] == pytest.approx(5.0)
    row = cell(
        comparison.compare(ours([9.0], metric="mse"), "npt-table-12"), "yacht", "random-forest"
    )
    assert row["published_se"] == pytest.approx(0.818 / np.sqrt(10))
    assert row["note"] == "n/a: ours rests on 1 fold" and pd.isna(row["within_two"])


def test_cells_that_the_run_lacks_say_so_and_stay_in_the_frame():
    section = comparison.compare(ours([1.0, 1.1]), "npt-table-11")
    assert len(section.frame) == 36
    assert cell(section, "protein", "npt")["note"] == "not in this run"
    assert "Covered: 1 of 36 published cells." in section.tables[0].notes


@pytest.mark.parametrize("name", list(comparison.REPRODUCTIONS))
def test_every_comparison_is_written_even_without_a_shared_cell(name, tmp_path):
    paths = comparison.write_comparison(ours([1.0, 1.1], dataset="elsewhere"), name, tmp_path)
    assert [p.name for p in paths] == [f"reproduce-{name}.{e}" for e in ("csv", "md", "tex")]
    assert "n/a: no published cell" in (tmp_path / f"reproduce-{name}.md").read_text()
    for path in paths:
        assert "nan" not in path.read_text().lower()
