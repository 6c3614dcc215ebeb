"""Errors by training rows: a known crossing is recovered, and what more rows would help."""

from __future__ import annotations

import json
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports.aggregation import by_size
from tabsweep.reports.aggregation.sides import chosen_of, side
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts
from tabsweep.reports.report import parts_of, write
from tabsweep.reports.sections.by_size import crossing_words, sentence
from tabsweep.reports.statistics.crossing import crossing

SIZES = {300: 3, 1000: 2, 3000: 1}
FOLDS = {100 * size + draw: size for size, n in SIZES.items() for draw in range(1, n + 1)}
FAMILIES = {
    **{f"net-{i}": ["feature network", "", ""] for i in range(4)},
    **{f"boost-{i}": ["gbdt", "", ""] for i in range(2)},
    "constant": ["baseline", "", ""],
}


def simulated(n_datasets: int, crosses_at: float, *, noise: float = 0.0) -> Evidence:
    """RMSE as power laws of the rows: of networks steeper than of boosting, equal at `crosses_at`
    on every dataset; equal members of a side but for noise."""
    rng = np.random.default_rng(0)
    rows = []
    for d in range(n_datasets):
        level = rng.uniform(1, 10)
        for fold, size in FOLDS.items():
            for model, (family, _, _) in FAMILIES.items():
                slope = {"feature network": -0.4, "gbdt": -0.2, "baseline": 0.0}[family]
                error = level * (size / crosses_at) ** slope * np.exp(noise * rng.normal())
                error = 4 * level if family == "baseline" else error
                rows.append(
                    {"dataset": f"d{d:02}", "task": "regression", "fold": fold, "model": model,
                     "index": 0, "stage": "tune", "seed": 0, "status": "done", "selected": True,
                     "val_rmse": error * np.exp(0.1 * rng.normal()), "test_rmse": error}
                )  # fmt: skip
    names = sorted({row["dataset"] for row in rows})
    facts = Facts(
        metric={"regression": "rmse"},
        families=FAMILIES,
        sizes=dict.fromkeys(names, FOLDS),
        overlapping=names,
    )
    return Evidence.of(pd.DataFrame(rows), facts=facts)


@pytest.mark.parametrize("rows", [500.0, 1000.0, 2000.0])
def test_a_known_crossing_of_networks_and_boosting_is_recovered(rows):
    exact = simulated(12, rows)
    sides = by_size.networks_and_boosting(exact, by_size.sized(exact))
    assert (sides.k, sides.n) == (2, 12)  # as many of the four networks as there is boosting
    assert sides.where.rows == pytest.approx(rows, rel=0.1)  # straight between sizes
    noisy = simulated(16, rows, noise=0.15)
    where = by_size.networks_and_boosting(noisy, by_size.sized(noisy)).where
    assert where.low < rows < where.high and where.low < where.rows < where.high


def test_a_crossing_outside_of_the_sizes_is_none_of_them():
    for rows, said in ((50.0, "leads boosting at all sizes"), (9e4, "does not lead boosting at")):
        found = simulated(12, rows)
        sides = by_size.networks_and_boosting(found, by_size.sized(found))
        assert sides.where.rows == (0.0 if rows < 300 else np.inf)
        assert said in crossing_words(sides)
        unsure = replace(sides, where=sides.where._replace(low=0.0, high=np.inf))
        assert "do not tell from how many rows" in crossing_words(unsure)


def test_intervals_of_a_crossing_hold_it_as_often_as_they_say():
    rng, sizes, held = np.random.default_rng(1), np.array([300.0, 1000.0, 3000.0]), 0
    slope = np.log(sizes / 1000.0)
    for _ in range(60):
        gains = 0.1 * slope + 0.1 * rng.normal(size=(16, 1)) + 0.05 * rng.normal(size=(16, 3))
        found = crossing(sizes, gains)
        held += found.low <= 1000.0 <= found.high
    assert held >= 52  # 95 % of 60 are 57; a bootstrap of 16 is a little narrow


def test_a_side_of_many_models_has_the_chances_of_a_side_of_few():
    rng = np.random.default_rng(2)
    val, test = rng.normal(size=7), rng.normal(size=7)
    drawn = []
    for _ in range(20_000):  # independently: by drawing
        of = rng.choice(7, size=3, replace=False)
        drawn.append(test[of[np.argmin(val[of])]])
    assert chosen_of(val, test, 3) == pytest.approx(np.mean(drawn), abs=0.03)
    assert chosen_of(val, test, 7) == test[np.argmin(val)]
    assert comb(7, 3) == 35 and chosen_of(val, test, 1) == pytest.approx(test.mean())
    folds = by_size.sized(simulated(2, 1000.0))
    assert len(side(folds, ["net-0", "net-9"], 1)) == 2 * len(FOLDS)
    assert not len(side(folds, ["net-0", "net-9"], 2))


def test_the_report_has_a_table_a_size_figures_with_bands_and_a_sentence(tmp_path: Path):
    found = simulated(8, 1000.0, noise=0.05)
    parts = parts_of(found)
    (part,) = (one for one in parts.sections if one.name == "by-size")
    names = [f"by-size-{size}" for size in SIZES]
    assert [table.name for table in part.tables] == [*names, "by-size-networks"]
    ranks = part.frame[part.frame["size"] == 3000].groupby("model")["mean_rank"].first()
    assert ranks.idxmax() == "constant" and ranks.idxmin().startswith("net-")
    write(found, tmp_path, parts)
    tex = (tmp_path / "paper" / "by-size.tex").read_text()
    assert "fill opacity=0.12" in tex and "feature network" in tex
    assert (tmp_path / "paper" / "by-size.pdf").read_bytes().startswith(b"%PDF")
    page = (tmp_path / "html" / "index.html").read_text()
    assert "Error against training rows" in page and "leads boosting from" in page
    of_one = (tmp_path / "html" / "dataset-d00.html").read_text()
    assert (
        "Would more rows help?" in of_one and "More rows would help: from 1,000 to 3,000" in of_one
    )


def test_models_that_lack_draws_are_ranked_with_all_on_the_draws_that_all_have():
    whole = simulated(8, 1000.0, noise=0.05)
    trials = whole.trials
    first = sorted(FOLDS)[0]
    lacking = trials["model"].isin(["net-0", "boost-1"]) & (trials["fold"] != first)
    (part,) = (
        one
        for one in parts_of(Evidence.of(trials[~lacking], facts=whole.facts)).sections
        if one.name == "by-size"
    )
    tables = {table.name: table for table in part.tables}
    assert list(tables)[:4] == ["by-size-300", "by-size-300-1-of-3", "by-size-1000", "by-size-3000"]
    assert "300 training rows, 1 of 3 draws, which all have" in tables["by-size-300-1-of-3"].title
    said = "Not ranked, as they lack a draw: boost-1, net-0."
    assert said in tables["by-size-300"].notes and said not in tables["by-size-300-1-of-3"].notes
    ranks = part.frame[part.frame["draws"] == 1].query("size == 300")
    on_it = trials[trials["fold"] == first].pivot(
        index="dataset", columns="model", values="test_rmse"
    )
    expected = on_it.rank(axis=1).mean()
    assert ranks.groupby("model")["mean_rank"].first().to_dict() == pytest.approx(
        expected.to_dict()
    )


def test_more_rows_help_where_the_error_falls_by_more_than_draws_differ():
    falling = simulated(1, 1000.0, noise=0.01)
    more = by_size.more_rows(by_size.sized(falling), "d00")
    assert more.sizes == [300, 1000, 3000] and more.helps
    assert more.doubled == pytest.approx(more.errors[-1] * 2**-0.4, rel=0.05)
    assert "More rows would help" in sentence(falling, by_size.sized(falling), "d00")
    trials = falling.trials.assign(test_rmse=lambda t: 2.0 + 0.1 * (t["fold"] % 3))
    flat = Evidence.of(trials, facts=falling.facts)
    said = sentence(flat, by_size.sized(flat), "d00")
    assert "More rows would hardly help" in said and json.dumps(said)
