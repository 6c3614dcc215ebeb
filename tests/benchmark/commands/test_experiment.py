"""Does `bench experiment` list, run and write the papers' experiments, twice the same?"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from calls import bench
from tabsweep.benchmark.commands import experiment as run
from tabsweep.benchmark.papers import experiments, write
from tabsweep.benchmark.papers.experiments import EXPERIMENTS, Experiment
from tabsweep.benchmark.papers.outcome import Outcome, Setting, Table
from tabsweep.reports import published

TOY = Experiment(
    name="toy",
    title="A toy & its table",
    source="nobody 2026",
    run="toy_module:run",
    reduced="at once",
    full="at once, too",
)


def toy_outcome(setting: Setting) -> Outcome:
    setting.say("half of it is done")
    figure, axes = write.new_figure()
    axes[0, 0].plot([0, 1], [0, setting.seed])
    return Outcome(
        tables=[
            Table(
                "scores",
                "Scores of methods",
                ("method", "kind", "score", "n"),
                [["a_b", "x", 0.123456, 7], ["=c", "y", None, 1000000]],
                note="higher is better",
            )
        ],
        figures=[write.save_figure(figure, setting.out / "line.png")],
        remarks=[f"threads: {setting.threads}"],
        facts={"step_ms": 1.5},
    )


@pytest.fixture
def toy(monkeypatch):
    """An experiment of one table, one figure and one remark."""

    class Module:
        run = staticmethod(toy_outcome)

    find = run.import_module
    monkeypatch.setitem(experiments.EXPERIMENTS, "toy", TOY)
    monkeypatch.setattr(
        run, "import_module", lambda name, package: Module if "toy" in name else find(name, package)
    )


# ---------------------------------------------------------------------- the catalogue


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
def test_every_experiment_has_a_function_and_published_tables_that_exist(experiment):
    from importlib import import_module

    module, _, function = experiment.run.partition(":")
    found = import_module(f"tabsweep.benchmark.experiments.{module}")
    assert callable(getattr(found, function))
    stored = {f"{paper}_table{table}" for paper, table in published.names()}
    stored |= {f"{paper}_{table}" for paper, table in published.names()}
    assert set(experiment.beside) <= stored


def test_the_experiments_page_names_every_experiment():
    page = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert [name for name in EXPERIMENTS if f"`{name}`" not in page] == []


def test_without_a_name_all_are_listed():
    found = bench("experiment")
    assert found.code == 0 and found.out.startswith("experiment ")
    assert len(found.out.splitlines()) == 1 + len(EXPERIMENTS)
    listed = json.loads(bench("experiment", "--json").out)
    assert [e["name"] for e in listed] == list(EXPERIMENTS)
    assert all(e["reduced"] and e["full"] for e in listed)


def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path):
    found = bench("experiment", "npt-lokup", "--out", tmp_path / "out")
    assert found.code == 2 and "BENCH-E022" in found.err and "'npt-lookup'" in found.err
    assert not list(tmp_path.iterdir())


def test_a_gpu_that_is_not_there_is_refused_before_anything_runs(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = bench("experiment", "npt-lookup", "--device", "cuda", "--out", tmp_path / "out")
    assert found.code == 3 and "BENCH-E023" in found.err
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- running and writing


def test_a_run_prints_its_progress_its_tables_and_where_they_are(toy, tmp_path):
    found = bench("experiment", "toy", "--out", tmp_path)
    assert found.code == 0
    for words in ("A toy & its table", "half of it is done", "Scores of methods", "0.1235", "–"):
        assert words in found.out
    assert "threads: 1" in found.out and str(tmp_path / "toy") in found.out


def test_a_run_writes_each_table_three_times_and_says_how_to_repeat_it(toy, tmp_path):
    assert bench("experiment", "toy", "--seed", 3, "--out", tmp_path).code == 0
    folder = tmp_path / "toy"
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "scores.md",
        "scores.csv",
        "scores.tex",
        "line.png",
        "facts.json",
    }
    with (folder / "scores.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["method", "kind", "score", "n"],
        ["a_b", "x", "0.123456", "7"],
        ["'=c", "y", "", "1000000"],
    ]
    tex = (folder / "scores.tex").read_text(encoding="utf-8")
    assert "\\toprule" in tex and "a\\_b" in tex and "higher is better" in tex
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert "nobody 2026" in page and "(line.png)" in page and "threads: 1" in page
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    assert facts["seed"] == 3 and facts["measured"] == {"step_ms": 1.5}
    assert facts["command"].startswith("bench experiment toy --size reduced --seed 3")
    assert facts["environment"]["libraries"]["torch"] and facts["seconds"] >= 0


def test_a_second_run_writes_the_same_bytes_but_for_the_facts(toy, tmp_path):
    for name in ("a", "b"):
        assert bench("experiment", "toy", "--out", tmp_path / name).code == 0
    first, second = tmp_path / "a" / "toy", tmp_path / "b" / "toy"
    for path in first.iterdir():
        if path.name != "facts.json":
            assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_json_holds_the_tables_as_numbers(toy, tmp_path):
    found = json.loads(bench("experiment", "toy", "--json", "--out", tmp_path).out)
    assert found["tables"]["scores"][0] == {"method": "a_b", "kind": "x", "score": 0.123456, "n": 7}
    assert found["facts"]["threads"] == 1


def test_a_row_that_does_not_fit_its_columns_is_refused():
    with pytest.raises(ValueError, match="2 entries for 1"):
        write.cells(Table("t", "t", ("a",), [["x", 1]]))
