"""The reference study that comes with the package: its page, its rows, its cells fitted again."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from calls import bench
from small_sweeps import answer
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.results.entrants import entrant_names, folder_of, read_card, results_file

ROOT = Path(__file__).resolve().parents[3]
NAME = "uci-small-reference"


@pytest.mark.parametrize(
    "script",
    [
        "make_reference.py",
        "make_by_size.py",
        pytest.param("make_pictures.py", marks=pytest.mark.locked),
    ],
)
def test_the_page_and_the_pictures_show_what_the_study_says(script):
    made = [sys.executable, str(ROOT / "docs" / script), "--check"]
    assert subprocess.run(made, check=False).returncode == 0, f"run docs/{script}"
    pictures = [*(ROOT / "docs" / "pictures").iterdir()]
    assert [p.name for p in pictures if p.stat().st_size > 150_000] == [] != pictures


def test_every_planned_cell_of_its_datasets_has_a_row():
    folder = folder_of(Path(NAME))
    assert (folder / "results.csv.gz").stat().st_size < 2e6
    rows = pd.read_csv(folder / "results.csv.gz", keep_default_na=False)
    models = suites.load("uci-small").budget("reference")[1].models
    for dataset in read_card(folder).datasets:
        mine = rows[rows["dataset"] == dataset].groupby("method")["split"].nunique()
        assert set(mine.index) <= {*models} and set(mine) == {3}
        assert {*models} - {*mine.index} <= {"grownet", "gaussian-process"}  # planned absences


def test_its_folds_are_those_of_its_suite_and_a_model_without_random_numbers_lacks_no_seed():
    evidence = results_file(Path(NAME)).evidence()
    facts = read_card(folder_of(Path(NAME))).datasets
    assert evidence.overlapping == {name for name in facts if facts[name].drawn[0] == "official"}
    assert evidence.facts.test_over_train["boston"] == 1 / 9 and not evidence.fewer_seeds
    assert not any("not recorded here" in note for note in evidence.facts.notes)


def test_one_model_stands_among_all_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = sorted(read_card(folder_of(Path(NAME))).datasets)[0]
    swept = bench(
        "sweep", "--suite", "uci-small", "--budget", "reference", "--model", "linear",
        "--dataset", dataset, "--beside", NAME, "--workers", 0, "--tracking-uri", "none",
        "--name", "mine",
    )  # fmt: skip
    if swept.code == 3:
        pytest.skip(f"{dataset} cannot be had here: {swept.err.splitlines()[-1]}")
    ranks = pd.read_csv("runs/mine/report/leaderboard.csv", keep_default_na=False)
    both = ranks[ranks["model"].isin(["linear", "linear [reference]"])]
    assert both.groupby("model")["mean_rank"].first().nunique() == 1  # the same trials, so tied
    assert ranks["model"].nunique() > 30


def test_fewer_folds_of_a_model_that_were_so_planned_are_no_gap(tmp_path):
    """NPT has one fold of six; it is marked and not ranked, and no study is missing."""
    rows = pd.read_csv(folder_of(Path("by-size-reference")) / "results.csv.gz")
    n_folds = rows.groupby("method")["split"].nunique()
    only = ("--only", "catboost,npt,xgboost", "--out", tmp_path)
    found = bench("report", "--beside", "by-size-reference", *only)
    assert found.code == 0, found.err
    frame = pd.read_csv(tmp_path / "coverage.csv")
    assert frame["folds"].equals(frame["folds_complete"]) and set(frame["folds"]) == {1, 6}
    ranks = pd.read_csv(tmp_path / "leaderboard.csv", keep_default_na=False)
    assert set(ranks.loc[ranks["note"] == "", "model"]) == {"catboost", "xgboost"}
    page = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "(16 on fewer folds than others, as planned)" in page and "opens alarm" not in page
    all_of_them = (n_folds == 6).sum()
    usual = "6 folds" if 2 * all_of_them >= len(n_folds) else "1 fold"
    assert f"{usual} ({min(all_of_them, len(n_folds) - all_of_them)} of {len(n_folds)}" in page
    assert "4 configurations a study (constant: 1)" in page
    # its draws of several sizes are no folds to test over: a sentence, no section, no .tex
    assert 'id="folds"' not in page and "No test within 16 datasets" in page
    assert not (tmp_path / "folds.tex").exists() and "missing cells imputed" not in page


OURS = [
    name
    for name in entrant_names()
    if any(facts.rows for facts in read_card(folder_of(Path(name))).datasets.values())
]


@pytest.mark.nightly
@pytest.mark.parametrize("name", OURS)
def test_ten_random_cells_have_the_stored_scores(name):
    seed = random.SystemRandom().randrange(10**6)
    found = answer("beside", "check", name, "--rows", 10, "--seed", seed)
    print(f"seed {seed}: {sum(row['same'] for row in found)} of {len(found)} to the last digit")
    assert all(row["near"] for row in found)
