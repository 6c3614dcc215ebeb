"""`bench data add`: archives of arrays are swept on their own split, through the real commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from array_folders import PARTS, tarred, values, write_parts, write_whole
from calls import bench
from small_sweeps import AGAIN, FAST, answer
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.rtdl import importance
from tabsweep.benchmark.planning.plan_record import RunPlan, plan_in
from tabsweep.datasets import catalog
from tabsweep.datasets.added import store
from tabsweep.datasets.errors import DatasetUnavailable
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.usefixtures("work", "own_store")

SUITE = """
name = "mine"
title = "Added datasets"
datasets = ["rtdl-form", "talent-form", "tabred-form"]
[metric]
binary = "accuracy"
[budgets.quick]
models = ["knn", "linear"]
folds = 1
trials = 1
seeds = 5
"""
TRANSFORMER = """
name = "mine"
title = "One transformer"
datasets = ["california-housing"]
official = "rtdl"
[metric]
regression = "rmse"
[budgets.quick]
models = ["ft-transformer"]
folds = 1
trials = 1
[budgets.quick.model.ft-transformer]
fixed = {{ {fixed} }}
"""


def archive_of_three(place: Path) -> Path:
    """A tar with a dataset in the form of RTDL, of TALENT (pickled text) and of TabReD."""
    folder = place / "data"
    write_parts(folder / "rtdl_form")
    write_parts(folder / "talent_form", task="multiclass", texts=object)
    write_whole(folder / "tabred_form")
    return tarred(folder, place / "data.tar.gz")


def test_an_archive_is_added_swept_on_its_own_split_and_reported(tmp_path):
    found = answer("data", "add", archive_of_three(tmp_path))
    names = ["rtdl-form", "tabred-form", "talent-form"]
    assert [one["name"] for one in found["added"]] == names and found["refused"] == {}
    assert all(one["sizes"] == [60, 20, 24] for one in found["added"])
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data.tar.gz").unlink()

    Path("mine.toml").write_text(SUITE)
    swept = answer("sweep", "--suite", "./mine.toml", *FAST)
    assert swept["done"] == swept["planned"] == 3 * 2 * (1 + 5)
    ledger = Ledger(Path("runs/mine-quick"))
    seen = set()
    made = {name: values(task=task) for name, task in TASKS.items()}
    for record in ledger.records("result"):
        stored = ledger.predictions.get(record["predictions"])
        for part in ("val", "test"):
            y = made[record["dataset"]][part]["y"]  # in the rows' own order
            if record["dataset"] == "tabred-form":
                score = float(np.sqrt(np.mean((stored[part] - y) ** 2)))
                assert record[part]["rmse"] == pytest.approx(score)
            else:
                score = float((stored[part].argmax(axis=1) == y).mean())
                assert record[part]["accuracy"] == pytest.approx(score)
        seen.add(record["dataset"])
    assert seen == set(TASKS)
    report = Path("runs/mine-quick/report")
    assert "official" in (report / "about.md").read_text()
    scores = (report / "scores.md").read_text()
    assert all(f"| {name} " in scores for name in names) and "‡" not in scores, "one split"
    plan = plan_in(ledger)
    protocol = plan.identity["protocol"]["rtdl-form"]
    assert protocol == "official, of the added dataset rtdl-form"
    assert "No ensembles on" not in (report / "about.md").read_text()  # they read the data again
    fit = ("fit", "runs/mine-quick", "--dataset", "rtdl-form", "--model", "knn")
    assert bench(*fit, "--out", "m.tabsweep").code == 0


TASKS = {"rtdl-form": "binclass", "talent-form": "multiclass", "tabred-form": "regression"}


def test_of_many_datasets_a_malformed_one_is_named_and_the_others_are_added(tmp_path):
    for name in ("a", "b", "c"):
        write_parts(tmp_path / "many" / name)
    (tmp_path / "many" / "b" / "N_test.npy").unlink()
    write_parts(tmp_path / "many" / "z" / "C", task="regression")
    ran = bench("data", "add", tmp_path / "many", "--name", "x")
    assert ran.code == 2 and store.names() == ["x-a", "x-c"]
    assert "many/b/N_test.npy is missing" in ran.err and len(ran.err.splitlines()) == 2
    assert "refused: many/z/C: another folder here has the name 'x-c'" in ran.err
    again = bench("data", "add", tmp_path / "many" / "a", "--name", "x-a")
    assert again.code == 0 and "there already" in again.out
    listed = {one["name"]: one for one in answer("data", "list")}
    assert listed["x-a"]["origin"] == "arrays, many/a" and listed["adult"]["origin"] == ""
    assert "added: arrays, many/a" in bench("data", "list").out
    assert "x-c" in bench("data", "verify", "x-a", "x-c").out
    (store.folder() / "x-c" / "card.toml").write_text("damaged")
    damaged = bench("data", "list")
    assert damaged.code == 0 and "x-a" in damaged.out and "bench data remove x-c" in damaged.err
    assert bench("data", "passport", "x-a").code == 0
    assert bench("data", "remove", "x-a", "adult").code == 2 and "x-a" in store.names()
    assert bench("data", "remove", "x-a", "x-c").code == 0 and store.names() == []
    assert bench("data", "remove", "x-a").code == 2


def test_a_suite_may_ask_for_another_protocol_than_the_stored_split(tmp_path):
    write_parts(tmp_path / "toy")
    assert bench("data", "add", tmp_path / "toy").code == 0
    text = SUITE.replace('"rtdl-form", "talent-form", "tabred-form"', '"toy"')
    Path("mine.toml").write_text(text + '[protocol]\ntoy = "kfold"\n')
    call = ("sweep", "--suite", "./mine.toml", "--model", "knn", "--folds", 2, *FAST)
    assert answer(*call)["planned"] == 2 * (1 + 5)
    plan = plan_in(Ledger(Path("runs/mine-quick")))
    assert plan.identity["protocol"] == {"toy": "kfold, of the added dataset toy"}


# ---------------------------------------------------------------------- the authors' own split


def california(place: Path) -> Path:
    """A folder as RTDL's archive has it: its name, form and sizes, with values of this test."""
    folder = write_parts(
        place / "california_housing", task="regression", sizes=(13209, 3303, 4128), n_num=8, n_cat=0
    )
    for part in PARTS:
        (folder / f"C_{part}.npy").unlink()
    return folder


RTDL = ("sweep", "--suite", "rtdl", "--dataset", "california-housing", "--model", "constant", *FAST)


def last_scores(run: str) -> tuple[RunPlan, float]:
    """(the run's plan, the test RMSE of its first trial on California Housing)."""
    ledger = Ledger(Path("runs") / run)
    scores = [r["test"] for r in ledger.records("result") if r["dataset"] != "adult"]
    return plan_in(ledger), scores[0]["rmse"]


def test_the_suite_uses_the_authors_split_once_it_was_added_and_says_so(tmp_path, mirror):
    drawn = answer(*RTDL, "--name", "drawn", "--mirror", mirror)
    assert not any("authors' own" in note for note in drawn["notes"])
    added = answer("data", "add", california(tmp_path))
    (one,) = added["added"]
    assert (one["name"], one["stands_for"]) == ("rtdl-california-housing", "california-housing")

    run = bench(*RTDL, "--name", "own", "--dataset", "adult", "--mirror", mirror)
    assert run.code == 0
    said = "california-housing: the authors' own rows and split"
    assert said in run.out and "The split of adult is drawn here." in run.out
    plan, score = last_scores("own")
    assert plan.datasets["california-housing"].added == "rtdl-california-housing"
    assert plan.datasets["california-housing"].protocol == "official"
    assert plan.datasets["adult"].protocol == "rtdl"
    target = {p: np.load(tmp_path / "california_housing" / f"y_{p}.npy") for p in PARTS}
    expected = np.sqrt(np.mean((target["test"] - target["train"].mean()) ** 2))
    assert score == pytest.approx(expected)
    for file in ("scores.md", "about.md"):
        assert said in Path("runs/own/report", file).read_text().replace("\\", ""), file

    # a run stays what it was begun as, whatever is added or removed later
    again = answer("resume", "runs/drawn", "--workers", 0, "--tracking-uri", "none", code=0)
    assert any("began with the split drawn here" in note for note in again["notes"])
    assert last_scores("drawn")[0].datasets["california-housing"].protocol == "rtdl"
    assert answer(*RTDL, "--name", "drawn", "--mirror", mirror)["ran"] == 0
    assert answer("resume", "runs/own", "--workers", 0, "--tracking-uri", "none")["ran"] == 0
    assert bench("data", "remove", "rtdl-california-housing").code == 0
    gone = bench(*RTDL, "--name", "own", "--mirror", mirror)
    assert "rtdl-california-housing, which this run began with, was removed" in gone.err
    kept = bench("resume", "runs/own", "--workers", 0, "--tracking-uri", "none", "--mirror", mirror)
    assert kept.code != 0 and "bench data add it again" in kept.err
    assert set(last_scores("own")[0].datasets) == {"california-housing", "adult"}


def test_a_suites_datasets_that_were_added_need_no_fetching(tmp_path):
    text = SUITE.replace('"rtdl-form", "talent-form", "tabred-form"', '"helena", "iris"')
    Path("mine.toml").write_text(text.replace("[metric]", 'official = "rtdl"\n[metric]', 1))
    call = ("data", "fetch", "--suite", "./mine.toml")
    before = bench(*call)
    assert before.code != 0 and "authors' archive" in before.out
    name = ("--name", "rtdl-helena")
    folder = write_parts(tmp_path / "helena", task="multiclass")
    assert bench("data", "add", folder, *name).code == 0
    assert answer(*call) == {"rtdl-helena": "5 files", "iris": "ships with scikit-learn"}


def test_an_experiment_explains_on_the_authors_split_that_its_run_had(tmp_path, monkeypatch):
    monkeypatch.setenv("TABSWEEP_RUNS", str(tmp_path / "kept"))
    folder = california(tmp_path)
    assert bench("data", "add", folder).code == 0
    fixed = ", ".join(f"{key} = {value}" for key, value in importance.TINY.items())
    Path("mine.toml").write_text(TRANSFORMER.format(fixed=fixed))
    answer("sweep", "--suite", "./mine.toml", "--name", "rtdl-paper", *AGAIN)
    setting = Setting("full", 0, "cpu", 1, tmp_path, lambda text: None)
    table, fold, config = importance.tuned("california-housing", setting)
    assert config.items() >= importance.TINY.items()
    for part in PARTS:
        expected = np.load(folder / f"y_{part}.npy")
        np.testing.assert_array_equal(table.target[getattr(fold, part)], expected)
    assert bench("data", "remove", "rtdl-california-housing").code == 0
    np.save(folder / "y_train.npy", np.load(folder / "y_train.npy") + 1)
    assert bench("data", "add", folder).code == 0
    with pytest.raises(DatasetUnavailable, match="sha256"):
        importance.tuned("california-housing", setting)


def test_an_added_dataset_that_changed_or_is_another_one_is_refused(tmp_path):
    folder = california(tmp_path)
    assert bench("data", "add", folder).code == 0
    assert bench(*RTDL, "--name", "a").code == 0
    assert bench("data", "remove", "rtdl-california-housing").code == 0
    y = np.load(folder / "y_train.npy")
    np.save(folder / "y_train.npy", y + 1)
    assert bench("data", "add", folder).code == 0
    changed = bench(*RTDL, "--name", "a")
    assert changed.code == 2 and "is not the one that this run was started on" in changed.err

    other = write_parts(tmp_path / "california_housing_2", task="regression")
    assert bench("data", "remove", "rtdl-california-housing").code == 0
    name = ("--name", "rtdl-california-housing")
    assert bench("data", "add", other, *name).code == 0
    odd = bench(*RTDL, "--name", "b")
    assert odd.code == 2 and "n_rows 104, california-housing has 20640" in odd.err


def test_a_folder_of_another_split_is_not_taken_for_the_authors(tmp_path):
    folder = california(tmp_path)
    for part in PARTS:  # TabR's files have other names
        (folder / f"N_{part}.npy").rename(folder / f"X_num_{part}.npy")
        (folder / f"y_{part}.npy").rename(folder / f"Y_{part}.npy")
    ran = bench("data", "add", folder)
    assert ran.code == 2 and "built-in" in ran.err and "--name" in ran.err
    assert bench("data", "add", folder, "--name", "tabr-ca").code == 0
    assert catalog.card("tabr-ca").origin == "arrays, california_housing"
