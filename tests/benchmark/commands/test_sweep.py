"""Sweeps that resume, grow when they are asked to, and copy what other runs finished."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from calls import bench, contents
from small_sweeps import FAST, SMALL, answer, executions, sweeps
from tabsweep.benchmark.planning import environment
from tabsweep.benchmark.results.evidence_builder import evidence_of, load_results
from tabsweep.benchmark.running import ray_session
from tabsweep.reports.evidence import EvidenceError

pytestmark = pytest.mark.usefixtures("work")


TABLES = ("scores", "leaderboard", "tests", "coverage", "costs")


def test_a_run_grows_by_folds_trials_models_and_datasets_and_repeats_nothing(unreported):
    first = sweeps("--model", "knn", "--folds", 1, "--trials", 2, "--name", "g")
    assert (first["planned"], first["ran"], first["reused"]) == (2, 2, 0)
    steps = [
        (("--model", "knn", "--folds", 2, "--trials", 2), 4),
        (("--model", "knn", "--folds", 2, "--trials", 3), 6),
        (("--model", "linear", "--folds", 2, "--trials", 3), 12),
        (("--model", "knn", "--dataset", "wine", "--folds", 2, "--trials", 3), 24),
    ]
    known = 2
    for args, planned in steps:
        grown = sweeps(*args, "--name", "g")
        assert (grown["planned"], grown["done"]) == (planned, planned), args
        assert grown["ran"] + grown["reused"] == planned - known, args
        known = planned
    assert set(executions("runs/g").values()) == {1}
    results = load_results("runs/g")
    assert len(results) == 24
    assert set(results["dataset"]) == {"iris", "wine"} and set(results["fold"]) == {0, 1}
    assert (results["origin"] == "").all()
    again = sweeps("--model", "knn", "--folds", 1, "--trials", 1, "--name", "g")
    assert (again["ran"], again["planned"], again["done"]) == (0, 24, 24), "nothing is taken away"


def test_a_grown_run_equals_one_that_was_large_from_the_start():
    args = ("--model", "knn", "--model", "lightgbm", "--sampler", "tpe", "--name", "r")
    bench(*SMALL, *args, "--folds", 1, "--trials", 2)
    bench(*SMALL, *args, "--folds", 2, "--trials", 4)
    large = ["runs-large" if arg == "runs" else arg for arg in SMALL]
    bench(*large, *args, "--folds", 2, "--trials", 4)
    for table in ("scores", "leaderboard", "tests"):
        for kind in ("tex", "csv", "md"):
            parts = [Path(r) / "r" / "report" / f"{table}.{kind}" for r in ("runs", "runs-large")]
            assert parts[0].read_bytes() == parts[1].read_bytes(), table


LAYERED = """
name = "mine"
title = "Mine"
datasets = ["iris", "wine"]
[budgets.quick]
models = ["knn", "linear"]
folds = 1
trials = 2
sampler = "random"
model.knn.trials = 4
[budgets.small]
models = ["knn"]
folds = 1
trials = 1
"""


@pytest.mark.fault(25)
def test_what_would_take_trials_away_or_mix_spaces_is_refused_and_more_extends_the_run(
    tmp_path, unreported
):
    suite = tmp_path / "mine.toml"
    suite.write_text(LAYERED)
    call = ("sweep", "--suite", suite, "--name", "m", *FAST)
    assert answer(*call)["done"] == 12
    for options, words in (
        (("--trials", 3), "trials of knn were 4, are 3"),  # more for linear, fewer for knn
        (("--budget", "small"), "budget was 'quick', is 'small'"),
    ):
        found = bench(*call, *options)
        assert found.code == 2 and words in found.err, found
    own = "[budgets.quick.dataset.iris.model.knn]\nchoices.n_neighbors = [1, 2]\n"
    suite.write_text(LAYERED + own)
    found = bench(*call)
    assert found.code == 2 and "space of knn on iris has changed" in found.err
    suite.write_text(LAYERED)
    grown = answer(*call, "--trials", 5)
    assert (grown["done"], grown["ran"] + grown["reused"]) == (20, 8)
    more = LAYERED.replace('"wine"', '"wine", "diabetes"').replace("folds = 1", "folds = 2")
    more = more.replace('"linear"]', '"linear", "constant"]')
    suite.write_text(more + own.replace("iris", "diabetes"))
    grown = answer(*call, "--trials", 5)
    assert grown["done"] == grown["planned"] == 2 * 3 * (5 + 5 + 1)
    assert set(executions("runs/m").values()) == {1}


def test_a_sweep_goes_on_in_a_folder_that_holds_nothing_but_its_lock(unreported):
    """What a full disk leaves behind, where the ledger's folder could not be made."""
    Path("runs/r").mkdir(parents=True)
    Path("runs/r/owner.lock").write_text("")
    found = sweeps("--model", "knn", "--folds", 1, "--trials", 1, "--name", "r")
    assert found["done"] == found["planned"] == 1
    Path("runs/s").mkdir()
    Path("runs/s/mine.txt").write_text("mine")
    refused = bench(*SMALL, "--model", "knn", "--name", "s")
    assert refused.code == 2 and "holds no run" in refused.err


def test_resuming_a_finished_run_runs_nothing_starts_no_ray_and_removes_torn_checkpoints(
    copy_run, monkeypatch, unreported
):
    def refuse(**options):
        raise AssertionError("Ray was started")

    copy_run("r")
    monkeypatch.setattr(ray_session, "start_ray", refuse)
    before = executions("runs/r")
    folder, key = Path("runs/r/checkpoints"), "0123456789abcdef"
    folder.mkdir(exist_ok=True)
    torn, whole = folder / f".{key}.checkpoint.99999-0a0b0c0d.tmp", folder / f"{key}.checkpoint"
    for file in (torn, whole):  # as a killed writer leaves the first
        file.write_bytes(b"half")
    for call in (("resume", "runs/r"), ("sweep", "--suite", "smoke", "--name", "r", *FAST[4:])):
        extra = ("--dataset", "iris", "--model", "knn") if call[0] == "sweep" else ()
        again = answer(*call, *extra, "--tracking-uri", "none")
        assert (again["ran"], again["reused"]) == (0, 0)
        assert again["done"] == again["planned"] == 6
    assert executions("runs/r") == before and whole.exists() and not torn.exists()


def test_a_resume_that_runs_nothing_leaves_a_report_that_is_up_to_date(copy_run, monkeypatch):
    monkeypatch.setattr(environment, "code_version", lambda: "a commit")
    copy_run("r")
    resume = ("resume", "runs/r", "--tracking-uri", "none")
    made = answer(*resume)["report"]  # of a copy: nothing is known of its report

    def times():
        return [Path(file).stat().st_mtime_ns for file in made]

    before = times()
    assert answer(*resume)["report"] == made and times() == before
    Path(made[0]).unlink()
    assert answer(*resume)["report"] == made and times() != before
    before = times()
    monkeypatch.setattr(environment, "code_version", lambda: "another commit")
    assert answer(*resume)["report"] == made and times() != before


def test_the_report_can_be_deleted_and_comes_back_the_same(copy_run):
    copy_run("r")
    assert bench("report", "runs/r").code == 0  # of a copy: it names another folder
    folder = Path("runs/r/report")

    before = contents(folder)
    assert {f"{t}.{kind}" for t in TABLES for kind in ("tex", "md", "csv")} < set(before)
    shutil.rmtree(folder)
    assert bench("report", "runs/r").code == 0
    assert contents(folder) == before


def test_a_sweep_that_shares_cells_with_a_sibling_runs_none_of_them_and_says_whence(
    copy_run, unreported
):
    copy_run("first")
    second = sweeps("--model", "knn", "--model", "constant", "--folds", 3, "--name", "second")
    assert second["origins"] == {"first": 6}
    assert (second["planned"], second["ran"]) == (12, 6)
    results = load_results("runs/second")
    shared = results[(results["model"] == "knn") & (results["fold"] < 2)]
    assert set(shared["origin"]) == {"first"}
    assert set(results.drop(shared.index)["origin"]) == {""}
    columns = ["dataset", "fold", "model", "index", "id", "config", "test_accuracy"]
    merged = shared.merge(load_results("runs/first")[columns], on=columns)
    assert len(merged) == 6, "a copied result differs from its origin"
    # A copy of a copy names the first owner, and people are told.
    third = sweeps("--model", "knn", "--folds", 2, "--name", "third")
    assert (third["ran"], third["origins"]) == (0, {"first": 6})


def test_a_dry_run_counts_finished_cached_and_new_cells_and_writes_nothing(work, copy_run):
    copy_run("first")
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    new = sweeps("--model", "knn", "--folds", 3, "--name", "second", "--dry-run")
    assert [new[k] for k in ("cells", "finished", "cached", "to_run")] == [9, 0, 6, 3]
    grown = sweeps("--model", "knn", "--folds", 3, "--name", "first", "--dry-run")
    assert [grown[k] for k in ("cells", "finished", "cached", "to_run")] == [9, 6, 0, 3]
    assert 0 < grown["cpu_hours"] <= grown["cpu_hours_high"] and grown["guessed"] == {}
    assert "1 earlier run here" in grown["basis"]
    assert set(sweeps("--model", "linear", "--name", "third", "--dry-run")["models"]) == {"linear"}
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


def test_a_run_elsewhere_is_used_only_when_it_is_named(copy_run, unreported):
    copy_run("first")
    elsewhere = ["other" if arg == "runs" else arg for arg in SMALL]
    call = (*elsewhere, "--model", "knn")
    assert answer(*call, "--name", "cold")["ran"] == 6
    os.rename("other", "aside")
    warm = answer(*call, "--name", "warm", "--reuse", "runs/first")
    assert (warm["ran"], warm["origins"]) == (0, {"first": 6})


def test_several_runs_make_one_table_in_a_folder_of_their_own(copy_run):
    copy_run("a")
    sweeps("--model", "linear", "--name", "b")
    before = Path("runs/a/report/scores.md").read_bytes()
    files = answer("report", "runs/a", "runs/b", "--out", "both")["files"]
    assert all(Path("both") in Path(file).parents for file in files)
    header = Path("both/scores.csv").read_text().splitlines()
    assert any("knn" in line for line in header) and any("linear" in line for line in header)
    assert Path("runs/a/report/scores.md").read_bytes() == before


@pytest.mark.fault(16)
def test_the_same_cells_count_once_and_runs_that_disagree_make_no_table():
    sweeps("--model", "knn", "--trials", 1, "--name", "a")
    sweeps("--model", "knn", "--trials", 1, "--name", "b")
    sweeps("--model", "linear", "--trials", 1, "--seed", 1, "--name", "c")
    found = bench("report", "runs/a", "runs/c", "--out", "both")
    assert found.code == 2 and found.err.startswith("error BENCH-E0"), found
    assert not Path("both").exists()
    assert bench("report", "runs/a", "runs/b", "--out", "both").code == 0
    for name in ("scores.csv", "leaderboard.csv"):
        assert (Path("both") / name).read_bytes() == (Path("runs/a/report") / name).read_bytes()
    sweeps("--model", "knn", "--trials", 3, "--name", "longer")
    for runs in (["runs/a", "runs/longer"], ["runs/longer", "runs/a"]):
        assert len(evidence_of(runs).trials) == 6, "the run with the most trials of a study counts"
    other = ("--sampler", "tpe", "--space", "default")
    sweeps("--model", "knn", "--trials", 2, *other, "--name", "other")
    with pytest.raises(EvidenceError, match="iris/0/knn"):  # two searches under one name
        evidence_of(["runs/longer", "runs/other"])


def test_a_dry_run_counts_every_rung_of_successive_halving():
    call = ("sweep", "--suite", "uci-small", "--budget", "halving", "--dataset", "diabetes")
    found = answer(*call, "--model", "xgboost", "--folds", 1, "--dry-run", *FAST)
    assert (found["cells"], found["to_run"], found["studies"]) == (39, 39, 1)  # 27 + 9 + 3


OWN_STEPS = """
class Own:
    resource = "n_estimators"

    def __init__(self, task="", n_estimators=10):
        self.n_estimators = n_estimators

    @staticmethod
    def spaces():
        return {"default": {"params": {"n_estimators": {"kind": "int", "low": 1, "high": 100}}}}

    def fit(self, X, y):
        return self

    def fit_to(self, X, y, *more, **named):
        return self

    def predict(self, X):
        return X

    predict_proba = predict
"""


@pytest.mark.parametrize("model", ["gradient-boosting", "own_steps:Own"])
@pytest.mark.parametrize("pieces", ["halving = {eta = 3, rungs = 2}", "save_every = 5"])
@pytest.mark.parametrize(
    "cut", ["fixed.n_estimators = 0", "choices.n_estimators = [50, 0]", "fixed.n_estimators = 'x'"]
)
def test_a_fit_in_pieces_of_no_step_is_refused_before_anything_runs(tmp_path, pieces, cut, model):
    """A model's own rules say so first; a class of the user has none."""
    Path("own_steps.py").write_text(OWN_STEPS)
    suite = tmp_path / "none.toml"
    suite.write_text(
        f"""
name = "none"
title = "A schedule of no step"
datasets = ["iris"]
[budgets.quick]
models = ["{model}"]
folds = 1
trials = 3
{pieces}
[budgets.quick.model."{model}"]
{cut}
"""
    )
    found = bench("sweep", "--suite", suite, *FAST)
    rule = "n_estimators = ", "one step at least"
    if model == "gradient-boosting":
        rule = "'n_estimators' of 'gradient-boosting'", "must be a whole number in [1, 100000]"
    assert found.code == 2 and all(part in found.err for part in rule), found.err
    assert "Traceback" not in found.err and not Path("runs/none-quick").exists()


def test_a_range_of_steps_that_begins_below_one_is_refused_too():
    steps = OWN_STEPS.replace('"kind": "int", "low": 1,', '"kind": "uniform", "low": 0.5,')
    Path("real_steps.py").write_text(steps)
    call = ("sweep", "--suite", "smoke", "--model", "real_steps:Own", "--async", "asha")
    found = bench(*call, *FAST)
    assert found.code == 2 and "n_estimators = 0.5" in found.err, found.err
