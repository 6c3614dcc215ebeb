"""NPT's Table 1 follows from its Tables 8, 10 and 11 by one ranking rule."""

from __future__ import annotations

import numpy as np
import pytest
from tabsweep.benchmark.papers.catalog import FOLDER
from tabsweep.benchmark.papers.published_values import load
from tabsweep.reports.aggregation.ranking_rules import RANKING_RULES, ranked
from tabsweep.reports.statistics.ranking import standard_error

PAPER = FOLDER / "npt"


def matrix(table, datasets):
    """(datasets, methods) in the table's own order of methods; NaN for a missing cell."""
    rows = table.set_index(["dataset", "method"])["value"]
    methods = list(dict.fromkeys(table["method"]))
    return methods, np.array([[rows.get((d, m), np.nan) for m in methods] for d in datasets])


@pytest.mark.parametrize(
    "table, direction, group, datasets",
    [
        ("table10", "max", "binary", ["higgs", "income-kdd", "kick", "breast-cancer-wdbc"]),
        ("table8", "max", "multiclass", ["poker-hand", "forest-cover"]),
        ("table11", "min", "regression", ["protein", "concrete", "boston", "yacht"]),
    ],
)
def test_table_1_follows_from_the_other_tables(table, direction, group, datasets):
    """Strict ranks; ties in row order, except CatBoost before gradient boosting on boston."""
    methods, scores = matrix(load(PAPER, table), datasets)
    rank = ranked(scores, direction, "npt")
    if table == "table11":
        a, b = methods.index("gradient-boosting"), methods.index("catboost")
        i = datasets.index("boston")
        assert scores[i, a] == scores[i, b]
        rank[i, [a, b]] = rank[i, [b, a]]
    printed = load(PAPER, "table1")
    printed = printed[printed["dataset"].str.contains(group)].set_index("method")
    assert set(printed.index) == set(methods) and len(printed) == 9
    for j, method in enumerate(methods):
        want = printed.loc[method]
        assert _agrees(rank[:, j].mean(), want["value"])
        assert _agrees(standard_error(rank[:, j]), want["spread"])


def _agrees(ours, theirs):
    return abs(float(ours) - theirs) <= 0.005 + 1e-9


def test_no_other_ranking_rule_gives_table_1():
    """Shared ranks and average ties miss it, which is why there is a choice."""
    methods, scores = matrix(load(PAPER, "table8"), ["poker-hand", "forest-cover"])
    printed = load(PAPER, "table1")
    printed = printed[printed["dataset"].str.contains("multiclass")].set_index("method")["value"]
    fits = {
        name: all(
            _agrees(mean, printed[m])
            for m, mean in zip(methods, ranked(scores, "max", name).mean(axis=0), strict=True)
        )
        for name in RANKING_RULES
    }
    assert fits == {"npt": True, "average": False, "hopular": False}
