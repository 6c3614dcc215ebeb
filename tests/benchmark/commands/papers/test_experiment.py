"""`bench experiment` lists, runs and writes the papers' experiments, twice the same."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from calls import bench
from tabsweep.benchmark.papers.catalog import experiments
from toy_paper import write_paper


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """A paper's folder with the experiment `toy`."""
    return write_paper(tmp_path_factory.mktemp("papers") / "toy")


@pytest.fixture(scope="module")
def ran(paper, tmp_path_factory):
    """(what a run printed, its folder)."""
    out = tmp_path_factory.mktemp("out")
    found = bench("experiment", "toy", "--paper", paper, "--seed", 3, "--out", out)
    assert found.code == 0, found.err
    return found, out / "toy"


# ---------------------------------------------------------------------- the catalogue


def test_the_experiments_page_names_every_experiment():
    page = (Path(__file__).parents[4] / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert [name for name in experiments() if f"`{name}`" not in page] == []


def test_without_a_name_all_are_listed(paper):
    found = bench("experiment")
    assert found.code == 0 and found.out.startswith("experiment ")
    assert len(found.out.splitlines()) == 1 + len(experiments())
    listed = json.loads(bench("experiment", "--json").out)
    assert [e["name"] for e in listed] == list(experiments())
    assert all(e["reduced"] and e["full"] for e in listed)
    (own,) = json.loads(bench("experiment", "--paper", paper, "--json").out)
    assert own["name"] == "toy" and own["published"] == [
        "toy-table-2",
        "toy-table-3",
        "toy-figure-1",
    ]


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


def test_a_run_prints_and_writes_its_tables_and_says_how_to_repeat_it(ran, paper):
    found, folder = ran
    for words in ("half of it is done", "Scores of methods", "0.1235", "–", str(folder)):
        assert words in found.out
    tables = {
        f"{name}.{kind}" for name in ("scores", "toy-table-3") for kind in ("md", "csv", "tex")
    }
    names = {path.name for path in folder.iterdir()}
    assert names == {"README.md", "line.png", "facts.json", *tables}
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
    assert facts["command"].endswith(f"--paper {paper}")
    assert facts["environment"]["libraries"]["torch"] and facts["seconds"] >= 0


def test_a_second_run_writes_the_same_bytes_but_for_the_facts_and_json_holds_numbers(
    ran, paper, tmp_path
):
    _, first = ran
    args = ("experiment", "toy", "--paper", paper, "--seed", 3, "--out", tmp_path, "--json")
    found = json.loads(bench(*args).out)
    for path in first.iterdir():
        if path.name != "facts.json":
            assert path.read_bytes() == (tmp_path / "toy" / path.name).read_bytes(), path.name
    assert found["tables"]["scores"][0] == {"method": "a_b", "kind": "x", "score": 0.123456, "n": 7}
    assert found["facts"]["threads"] == 1
