"""NPT's Table 1 follows from its Tables 8, 10 and 11 by one ranking rule."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from paper_runs import planned, scored
from tabsweep.benchmark.papers.catalog import published_tables
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts
from tabsweep.reports.reproduction.comparison import compare


def test_the_ranks_beside_ours_are_the_printed_ones_where_a_run_has_every_cell():
    """A run whose scores are the published ones has the published average ranks, on both sides."""
    table = published_tables()["npt-table-1"]
    tasks = {"accuracy": "multiclass", "auroc": "binary", "rmse": "regression"}
    cells = list(table.rows.itertuples())
    values = {
        (r.dataset, table.model_of(r.method)): [r.value / (100 if r.value > 50 else 1)]
        for r in cells
    }
    found = compare(scored(values, {r.dataset: tasks[r.metric] for r in cells}), table)
    frame = found.frame.set_index(["group", "method"])
    assert len(frame) == 27 and (frame["n_methods"] == 9).all()
    assert frame["n_datasets"].groupby("group").first().tolist() == [4, 2, 4]
    np.testing.assert_array_equal(frame["published"], frame["ours"])
    differs = frame[(frame["ours"] - frame["printed"]).abs() > 0.005]
    # both print 3.44 on Boston
    assert {m for _, m in differs.index} == {"catboost", "gradient-boosting"}
    same = frame.drop(differs.index)
    assert ((same["ours_se"] - same["printed_se"]).abs() <= 0.005 + 1e-9).all()


def test_ranks_are_among_the_methods_and_datasets_of_the_run():
    table = published_tables()["npt-table-1"]
    scores = {("higgs", "npt"): 0.8, ("higgs", "xgboost"): 0.9, ("kick", "npt"): 0.7}
    scores |= {("kick", "knn"): 0.6, ("kick", "xgboost"): 0.6, ("poker-hand", "npt"): 0.5}
    found = compare(scored({k: [v] for k, v in scores.items()}, "binary"), table).frame
    assert set(found["group"]) == {"binary classification, by AUROC"}
    ranks = found.set_index("method")[["published", "ours", "n_datasets", "n_methods"]]
    # no k-NN on Higgs on either side: it ranks last there; equal scores in the table's order
    assert ranks.loc["npt"].tolist() == [1.5, 1.5, 2, 3]
    assert ranks.loc["xgboost"].tolist() == [1.5, 1.5, 2, 3]
    assert ranks.loc["knn"].tolist() == [3.0, 3.0, 2, 3]


def test_the_variants_of_a_search_are_ranked_on_each_fold_from_zero():
    table = published_tables()["npt-table-13"]
    losses = {0: [3.0, 1.0, 1.0, 4.0, 0.5, 5.0, 6.0, 7.0], 1: [*range(1, 8), 0.5], 2: [1.0, 2.0]}
    space = planned("npt-uci-transductive", "paper", "npt", "boston")[1]
    configs = [space.grid_point(i) for i in range(8)]
    rows = [
        {"dataset": "boston", "task": "regression", "fold": fold, "model": "npt", "index": 7 - i,
         "stage": "tune", "seed": 0, "status": "done", "selected": i == 0, "test_rmse": loss,
         "config": json.dumps(configs[i])}
        for fold, values in losses.items()
        for i, loss in enumerate(values)
    ]  # fmt: skip
    facts = Facts(metric={"regression": "rmse"})
    found = compare(Evidence.of(pd.DataFrame(rows), facts=facts), table)
    frame = found.frame.set_index("method")
    assert frame["ours"].sum() == 28 and set(frame["n_folds"]) == {2}  # the third fold has no all
    assert frame["published"].sum() == pytest.approx(28, abs=0.1)
    assert frame.loc[["base", "layers-16", "cosine-cyclic"], "ours"].tolist() == [2.0, 1.75, 3.5]
    assert frame.loc["layers-16", "ours_se"] == pytest.approx(0.25)
    assert frame["ours"].is_monotonic_increasing
    assert found.tables[0].panels[0].title == "boston"
    others = [{**row, "config": json.dumps({**configs[0], "steps": 250})} for row in rows]
    assert compare(Evidence.of(pd.DataFrame(others), facts=facts), table).frame.empty
