"""Every published table is listed with what stands behind it, and is set beside a run."""

from __future__ import annotations

import json

import pandas as pd
from calls import bench
from tabsweep.benchmark.papers import catalog
from tabsweep.benchmark.papers.published_values import key_columns, load
from tabsweep.benchmark.papers.table_sources import table_sources
from tabsweep.benchmark.planning import suite as suites
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.reproduction.comparison import write_comparison


def test_every_stored_table_loads_with_unique_rows_and_stands_in_its_papers_file():
    for paper in catalog.papers():
        stored = {path.name for path in (paper.folder / "published").iterdir()}
        assert stored == {table.published for table in paper.file.table.values()}
        for name in paper.file.table:
            rows = load(paper.folder, paper.published_file(name).stem)
            assert len(rows) and not rows.duplicated(key_columns(rows)).any(), name
            if "value" in rows:
                assert rows["value"].dtype == float


def test_the_list_has_every_table_once_with_a_command_or_a_reason():
    found = json.loads(bench("reproduce", "--list", "--json").out)
    names = [source["table"] for source in found]
    wanted = [name for paper in catalog.papers() for name in paper.file.table]
    assert sorted(names) == sorted(wanted)
    for source in found:
        assert bool(source.get("command")) != bool(source.get("why")) and source["cells"] > 0


def test_the_name_of_a_table_begins_with_its_papers_and_every_suite_of_a_paper_is_known():
    for paper in catalog.papers():
        names = [*paper.file.table, *paper.file.experiment]
        assert all(name.startswith(f"{paper.name}-") for name in names)
        assert set(suites.files_in(paper.folder)) <= set(suites.names())
        for name, table in paper.file.table.items():
            if table.suite:
                suite = catalog.suite_of(catalog.find_table(name))
                assert table.budget in suite.budgets, name


def test_a_table_of_an_experiment_names_its_command():
    sources = {source.table: source for source in table_sources()}
    assert sources["npt-table-3"].command == "bench experiment npt-lookup"
    assert sources["npt-table-3"].experiment in catalog.experiments()
    found = bench("reproduce", "npt-table-3")
    assert found.code == 2 and "BENCH-E005" in found.err
    assert "bench experiment npt-lookup" in found.err


def test_a_table_that_nothing_makes_says_why():
    found = bench("reproduce", "npt-table-14")
    assert found.code == 2 and "the datasets' own figures" in found.err


def test_an_unknown_table_gets_a_suggestion():
    found = bench("reproduce", "npt-table-111")
    assert found.code == 2 and "BENCH-E017" in found.err and "'npt-table-11'" in found.err


def test_every_comparison_says_its_coverage_and_budget_even_without_a_shared_cell(tmp_path):
    row = {"dataset": "elsewhere", "task": "regression", "fold": 0, "model": "resnet", "index": 0}
    row |= {"stage": "tune", "seed": 0, "status": "done", "selected": True, "test_rmse": 1.0}
    evidence = Evidence.of(pd.DataFrame([row]), meta={"metric": {"regression": "rmse"}})
    for name, table in catalog.published_tables().items():
        paths = write_comparison(evidence, table, tmp_path)
        assert [p.name for p in paths] == [f"reproduce-{name}.{e}" for e in ("csv", "md", "tex")]
        text = (tmp_path / f"reproduce-{name}.md").read_text()
        head = text.partition("\n## ")[0]
        assert " of " in head and "Budget used: not recorded." in head, name
        assert "n/a: no published cell" in text, name
        assert all("nan" not in path.read_text().lower() for path in paths), name
