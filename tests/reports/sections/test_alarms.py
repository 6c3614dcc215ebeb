"""The alarm on tables of others: planted faults are named, clean tables hardly give a finding."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from calls import bench
from planted_faults import FAULTS, clean
from tabsweep.benchmark.results.csv_import import read_results
from tabsweep.benchmark.results.entrants import entrant_names
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.sections import implausible

MOST = 0.01  # findings a cell of a clean table


def alarmed(results: str | Path, out: Path) -> tuple[pd.DataFrame, str]:
    """The findings of `bench report --from`, and the page on them."""
    ran = bench("report", "--from", results, "--out", out, "--no-html")
    assert ran.code == 0, ran
    return pd.read_csv(out / "look-first.csv"), (out / "look-first.md").read_text(encoding="utf-8")


def test_planted_faults_are_named_with_their_cells_and_a_cause_that_fits(tmp_path: Path) -> None:
    silent = []
    for fault in FAULTS:
        table = clean()
        fault.plant(table)
        table.to_csv(tmp_path / "results.csv", index=False)
        evidence = read_results(tmp_path / "results.csv")
        studied = studies(evidence)
        found = implausible.findings(evidence, studied, headline_cells(evidence, studied))
        named = {(dataset, model) for f in found for dataset, model, _ in f.cells}
        if not (fault.at <= named and any(fault.cause in f.cause for f in found)):
            silent.append(fault.name)
    assert len(FAULTS) >= 28 and not silent


def test_a_clean_table_gives_no_finding_and_says_what_was_not_checked(tmp_path: Path) -> None:
    clean().to_csv(tmp_path / "results.csv", index=False)
    found, page = alarmed(tmp_path / "results.csv", tmp_path / "out")
    assert not len(found) and "No implausible cell was found." in page
    assert "Not checked: worse than its default (no default configuration" in page
    assert "Not checked: validation" not in page and "times out of proportion: the" in page
    assert "- Checks:" in page and "worse than its default: error" not in page
    scores = [c for c in clean() if c.startswith("test_") or c in ("method", "dataset", "split")]
    one = clean()[clean()["seed"] == 0][scores]
    one[one["split"] == 0].to_csv(tmp_path / "results.csv", index=False)
    page = alarmed(tmp_path / "results.csv", tmp_path / "out")[1]
    for check in ("validation far better than test", "one fold unlike", "seeds", "times out of"):
        assert f"Not checked: {check}" in page


@pytest.mark.parametrize("name", entrant_names())
def test_published_tables_give_at_most_one_finding_in_a_hundred_cells(name, tmp_path) -> None:
    found, _ = alarmed(name, tmp_path)
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert found["finding"].nunique() <= MOST * scores["headline"].sum()


def test_a_constant_of_an_entrant_is_not_accused(tmp_path: Path) -> None:
    for seed in range(5):
        table = clean(seed)
        table["method"] = table["method"].replace("dummy", "constant [others]")
        table.to_csv(tmp_path / "results.csv", index=False)
        evidence = read_results(tmp_path / "results.csv")
        studied = studies(evidence)
        assert not implausible.findings(evidence, studied, headline_cells(evidence, studied))
