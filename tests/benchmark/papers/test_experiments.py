"""Laws of all experiments of the built-in papers, each run at its smallest through `bench`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, get_args

import pytest
from calls import bench
from tabsweep.benchmark.papers.available import on_available
from tabsweep.benchmark.papers.catalog import entries, experiments, find_experiment
from tabsweep.benchmark.papers.experiment_result import Size
from tabsweep.datasets.errors import ChecksumMismatch, DatasetUnavailable

SLOW = ("cheatt-smoothing", "cheatt-time", "npt-corruption")
NAMES = [
    pytest.param(name, marks=pytest.mark.nightly) if name in SLOW else name
    for name in experiments()
]
# What stands in the tables of a tiny run: (table, columns that name a row, values of that row). The
# published values are in all of them; others only where they do not depend on the fit.
KNOWN: dict[str, list[tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "cheatt-smoothing": [
        ("cheatt-smoothing", {"attention": "base", "layer": 0}, {"frequency 0": None}),
        # rows of A sum to one
        ("cheatt-smoothing", {"attention": "base", "layer": 3}, {"frequency 0": 1.0}),
        ("cheatt-convergence", {"layer": 3}, {}),
    ],
    "cheatt-time": [
        ("cheatt-table-10", {"host": "met", "dataset": "contraceptive"}, {"published, s": 0.32}),
        ("cheatt-table-5", {"host": "met", "part": "training, s"}, {"published +CheAtt": 3.34}),
    ],
    "npt-lookup": [
        ("npt-lookup", {"task": "original", "method": "1-NN"}, {"RMSE": 0.0}),
        ("npt-lookup", {"task": "add one", "method": "1-NN"}, {"RMSE": 1.0}),
        ("npt-lookup", {"task": "add one", "method": "NPT"}, {"as printed": 0.46}),
        ("npt-lookup", {"task": "both", "method": "deep kernel learning"}, {"as printed": 6.36}),
        ("npt-interventions", {"range": "±8"}, {}),
        ("npt-lookup-maps", {"layer": 1, "head": 1}, {}),
        ("npt-figure-3b", {"row": "original 3"}, {}),
    ],
    "npt-corruption": [
        ("npt-corruption", {"dataset": "higgs"}, {"after": None, "change, paper": -0.5}),
        ("npt-corruption", {"dataset": "yacht"}, {"rows": 4, "change, paper": -52.0}),
        ("npt-corruption", {"dataset": "mnist"}, {"after": None, "change, paper": -0.4}),
        ("npt-corruption", {"dataset": "poker-hand"}, {"measured on": "poker-hand-25k"}),
    ],
    "npt-imputation": [
        ("npt-imputation", {"dataset": "concrete", "imputer": "NPTImputer"}, {"wrong, %": None}),
        ("npt-imputation", {"dataset": "contraceptive", "imputer": "KNNImputer"}, {}),
    ],
    "npt-images": [
        ("npt-images", {"dataset": "digits", "network": "cnn"}, {"accuracy, paper": None}),
        ("npt-images", {"dataset": "digits", "network": "patches"}, {}),
    ],
    "hopular-costs": [
        (
            "hopular-table-a7",
            {"method": "npt", "input": "full-batch"},
            {"published, smallest, GiB": 35.95, "published, largest, GiB": None},
        ),
        ("hopular-table-a8", {"method": "hopular"}, {"published, ms": 52.71}),
        ("hopular-figure-a5", {"rows": 16}, {"attributes": 4}),
    ],
    "npt-deletion": [
        ("npt-deletion", {"asked rows": 3}, {}),
        ("npt-deletion", {"run": "paper: strict"}, {"kept at most a tenth": 0.995}),
    ],
    "npt-maps": [
        ("npt-maps", {"kind": "ABD"}, {"ln keys": math.log(30)}),
        ("npt-maps", {"kind": "ABA"}, {"ln keys": math.log(11), "reach": None}),
    ],
    "rtdl-synthetic": [
        ("rtdl-synthetic", {"model": "catboost", "weight of the trees": 0.0}, {"published": 0.468})
    ],
    "rtdl-importance": [
        ("rtdl-importance", {"importances": "attention-maps"}, {"published": 0.81})
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_runs_and_writes_its_tables_with_the_published_values(name, mirror, tmp_path):
    options = ("--size", "tiny", "--mirror", mirror, "--cache", tmp_path / "cache")
    found = bench("experiment", name, *options, "--out", tmp_path, "--json")
    assert found.code == 0, found.err
    said = json.loads(found.out)
    files = {Path(file).name: Path(file) for file in said["files"]}
    assert {"README.md", "facts.json"} < files.keys()
    for table, rows in said["tables"].items():
        assert rows and {f"{table}.{kind}" for kind in ("md", "csv", "tex")} < files.keys()
        for row in rows:
            numbers = [value for value in row.values() if isinstance(value, float)]
            assert all(map(math.isfinite, numbers)), (table, row)
    shown = [entry.entry.shows for entry in entries() if entry.entry.experiment == name]
    assert {stem for stems in shown for stem in stems} <= {path.stem for path in files.values()}
    for figure in (path for path in files.values() if path.suffix == ".png"):
        assert figure.stat().st_size > 1000, figure
        assert f"({figure.name})" in files["README.md"].read_text(encoding="utf-8")
    for table, key, values in KNOWN[name]:
        rows = [r for r in said["tables"][table] if all(r[k] == v for k, v in key.items())]
        assert rows, (table, key)
        for column, value in values.items():
            wanted = value if value is None or isinstance(value, str) else pytest.approx(value)
            assert rows[0][column] == wanted, (table, key, column)


@pytest.mark.parametrize("name", experiments())
def test_an_experiment_has_all_sizes(name):
    experiment = find_experiment(name)
    for size in get_args(Size):
        assert callable(experiment.function(size)) and experiment.in_words(size)


def test_datasets_that_cannot_be_had_are_left_out_and_named_once():
    def one(key: tuple[str, str]) -> str:
        if key[1] == "boston":
            raise DatasetUnavailable("boston", "no network")
        if key[1] == "higgs":
            raise ChecksumMismatch("higgs", "HIGGS.csv.gz", "a", "b", "a mirror")
        return key[1].upper()

    keys = [(host, name) for host in "ab" for name in ("boston", "yacht", "higgs")]
    found, remarks = on_available(keys, one)
    assert found == {("a", "yacht"): "YACHT", ("b", "yacht"): "YACHT"}
    assert remarks[0] == "Left out: dataset 'boston' is not available: no network"
    assert len(remarks) == 2 and "HIGGS.csv.gz" in remarks[1]
    with pytest.raises(DatasetUnavailable, match="'boston'"):
        on_available([("a", "boston"), ("a", "higgs")], one)
    assert on_available([("a", "boston")], one, at_least=0) == ({}, remarks[:1])
