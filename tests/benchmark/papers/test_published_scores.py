"""Published scores beside a run: their errors are standard errors."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from tabsweep.benchmark.papers import published_scores as made
from tabsweep.benchmark.papers.catalog import papers
from tabsweep.reports.reproduction.published_table import published_error


def test_a_published_deviation_becomes_a_standard_error():
    found = made.published_scores({"suite": "rtdl", "budget": "paper: as published"})
    cells = found.set_index(["table", "dataset", "model"]).sort_index()
    row = cells.loc[("RTDL, Table 2", "california-housing", "tabnet")]
    assert row["value"] == 0.51 and row["se"] == pytest.approx(0.0076 / math.sqrt(15))


def test_every_published_error_follows_from_its_kind():
    checked = set()
    for paper in papers():
        for name, entry in paper.file.table.items():
            if entry.shape != "cells" or not entry.suite:
                continue
            meta = {"suite": entry.suite, "budget": entry.budget}
            table = made.published_table(paper, name)
            rows = table.rows[table.rows["value"].notna()]
            scores = made.published_scores(meta)
            mine = scores.loc[scores["table"] == table.title, "se"].tolist()
            keys = ["spread", "spread_kind", "n_repeats", "metric"]
            for se, row in zip(mine, rows[keys].itertuples(index=False), strict=True):
                factor = {"sem": 1.0, "std": 1.0 / math.sqrt(row.n_repeats)}.get(row.spread_kind)
                wanted = math.nan if factor is None else row.spread * factor
                unit = table.measures[row.metric].unit
                assert se == pytest.approx(wanted / unit, nan_ok=True)
                checked.add(row.spread_kind)
    assert checked >= {"std", "sem", "none"}


@pytest.mark.parametrize(
    ("spread", "kind", "n", "wanted"),
    [
        (0.3, "sem", 3.0, 0.3),
        (0.3, "std", 9.0, 0.1),
        (0.3, "std", math.nan, None),
        (0.3, "unstated", 9.0, None),
        (math.nan, "none", 9.0, None),
    ],
)
def test_a_spread_of_no_known_kind_is_no_error(spread, kind, n, wanted):
    row = pd.Series({"spread": spread, "spread_kind": kind, "n_repeats": n})
    found = published_error(row["spread"], row["spread_kind"], row["n_repeats"])
    assert found == (wanted if wanted is None else pytest.approx(wanted))
