"""Does a sweep go on where it stopped, grow when it is asked to, and take what others finished?"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from calls import bench, working_in
from tabsweep.benchmark.commands import sweep as commands
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running import ray_session
from tabsweep.datasets import download, source
from tabsweep.sweeps.store.ledger import Ledger

FAST = ("--workers", 0, "--tracking-uri", "none", "--runs", "runs")
SMALL = ("sweep", "--suite", "smoke", "--dataset", "iris", *FAST)
AGAIN = ("--workers", 0, "--tracking-uri", "none")
TABLES = ("scores", "ranks", "tests", "coverage", "costs")
QUICK = suites.load("uci-small").budgets["quick"].models


def answer(*args: object, code: int = 0) -> dict:
    found = bench(*args, "--json")
    assert found.code == code, found
    return json.loads(found.out)


def sweeps(*args: object, code: int = 0) -> dict:
    """A small sweep on iris: what it says as JSON."""
    return answer(*SMALL, *args, code=code)


def executions(run: str) -> Counter[str]:
    """{trial id: how often it has a result of its own} in a run's ledger."""
    return Counter(record["id"] for record in Ledger(Path(run)).records("result"))


@pytest.fixture(autouse=True)
def work(tmp_path: Path) -> Iterator[Path]:
    """An empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    with working_in(folder):
        yield folder


# ---------------------------------------------------------------------- growing


def test_a_run_grows_by_folds_trials_models_and_datasets_and_repeats_nothing():
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


def test_asking_for_less_than_a_run_holds_takes_nothing_away():
    sweeps("--model", "knn", "--model", "linear", "--folds", 2, "--trials", 2, "--name", "g")
    again = sweeps("--model", "knn", "--folds", 1, "--trials", 1, "--name", "g")
    assert (again["ran"], again["planned"], again["done"]) == (0, 8, 8)


def test_a_grown_run_equals_one_that_was_large_from_the_start():
    args = ("--model", "knn", "--model", "lightgbm", "--sampler", "tpe", "--name", "r")
    bench(*SMALL, *args, "--folds", 1, "--trials", 2)
    bench(*SMALL, *args, "--folds", 2, "--trials", 4)
    large = ["runs-large" if arg == "runs" else arg for arg in SMALL]
    bench(*large, *args, "--folds", 2, "--trials", 4)
    for table in ("scores", "ranks", "tests"):
        for kind in ("tex", "csv", "md"):
            parts = [Path(r) / "r" / "report" / f"{table}.{kind}" for r in ("runs", "runs-large")]
            assert parts[0].read_bytes() == parts[1].read_bytes(), table


@pytest.mark.fault(25)
def test_an_edited_suite_file_extends_the_run(work):
    text = (
        'name = "mine"\ntitle = "Mine"\ndatasets = ["iris"]\n[budgets.quick]\n'
        'models = ["knn"]\nfolds = 1\ntrials = 1\nsampler = "random"\n'
    )
    suite = Path("mine.toml")
    suite.write_text(text)
    call = ("sweep", "--suite", suite, *FAST)
    assert answer(*call)["ran"] == 1
    edits = {'["iris"]': '["iris", "wine"]', '["knn"]': '["knn", "linear"]'}
    edits |= {"folds = 1": "folds = 2", "trials = 1": "trials = 2"}
    for old, new in edits.items():
        text = text.replace(old, new)
    suite.write_text(text)
    grown = answer(*call)
    assert (grown["planned"], grown["ran"] + grown["reused"]) == (16, 15)
    assert set(executions("runs/mine-quick").values()) == {1}


# ---------------------------------------------------------------------- resuming


def test_resuming_a_finished_run_runs_nothing_and_starts_no_ray(monkeypatch):
    def refuse(**options):
        raise AssertionError("Ray was started")

    sweeps("--model", "knn", "--name", "r")
    monkeypatch.setattr(ray_session, "start_ray", refuse)
    before = executions("runs/r")
    for call in (("resume", "runs/r"), ("sweep", "--suite", "smoke", "--name", "r", *FAST[4:])):
        extra = ("--dataset", "iris", "--model", "knn") if call[0] == "sweep" else ()
        again = answer(*call, *extra, "--tracking-uri", "none")
        assert (again["ran"], again["reused"]) == (0, 0)
        assert again["done"] == again["planned"] == 6
    assert executions("runs/r") == before


def test_the_report_can_be_deleted_and_comes_back_the_same():
    sweeps("--model", "knn", "--model", "constant", "--name", "r")
    folder = Path("runs/r/report")

    def held() -> dict[str, bytes]:
        paths = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    before = held()
    assert {f"{t}.{kind}" for t in TABLES for kind in ("tex", "md", "csv")} < set(before)
    shutil.rmtree(folder)
    assert bench("report", "runs/r").code == 0
    assert held() == before


def test_status_has_the_promised_keys():
    sweeps("--model", "knn", "--trials", 1, "--name", "r")
    status = answer("status", "runs/r")
    assert status.items() >= {"planned": 2, "done": 2, "failed": {}, "running": 0}.items()
    assert status["eta_s"] == 0 and status["left"] == 0


# ---------------------------------------------------------------------- other runs as caches


def test_a_sweep_that_shares_cells_with_a_sibling_runs_none_of_them_and_says_whence():
    sweeps("--model", "knn", "--folds", 2, "--name", "first")
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
    third = bench(*SMALL, "--model", "knn", "--folds", 2, "--name", "third")
    assert "0 run now" in third.out
    assert "6 trials of this run copied from run first" in third.out


def test_a_dry_run_counts_finished_cached_and_new_cells_and_writes_nothing(work):
    sweeps("--model", "knn", "--folds", 2, "--name", "first")
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    new = sweeps("--model", "knn", "--folds", 3, "--name", "second", "--dry-run")
    assert [new[k] for k in ("cells", "finished", "cached", "to_run")] == [9, 0, 6, 3]
    grown = sweeps("--model", "knn", "--folds", 3, "--name", "first", "--dry-run")
    assert [grown[k] for k in ("cells", "finished", "cached", "to_run")] == [9, 6, 0, 3]
    assert grown["cpu_hours"] is not None and "1 (dataset, model) pairs" in grown["basis"]
    unknown = sweeps("--model", "linear", "--name", "third", "--dry-run")
    assert unknown["cpu_hours"] is None and "no history" in unknown["basis"]
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


def test_a_run_elsewhere_is_used_only_when_it_is_named():
    sweeps("--model", "knn", "--name", "first")
    elsewhere = ["other" if arg == "runs" else arg for arg in SMALL]
    call = (*elsewhere, "--model", "knn")
    assert answer(*call, "--name", "cold")["ran"] == 6
    os.rename("other", "aside")
    warm = answer(*call, "--name", "warm", "--reuse", "runs/first")
    assert (warm["ran"], warm["origins"]) == (0, {"first": 6})


def test_several_runs_make_one_table_in_a_folder_of_their_own():
    sweeps("--model", "knn", "--name", "a")
    sweeps("--model", "linear", "--name", "b")
    before = Path("runs/a/report/scores.md").read_bytes()
    files = answer("report", "runs/a", "runs/b", "--out", "both")["files"]
    assert all(Path("both") in Path(file).parents for file in files)
    header = Path("both/scores.csv").read_text().splitlines()
    assert any("knn" in line for line in header) and any("linear" in line for line in header)
    assert Path("runs/a/report/scores.md").read_bytes() == before


@pytest.mark.fault(16)
def test_runs_that_hold_the_same_cells_or_disagree_make_no_table():
    sweeps("--model", "knn", "--trials", 1, "--name", "a")
    sweeps("--model", "knn", "--trials", 1, "--name", "b")
    sweeps("--model", "linear", "--trials", 1, "--seed", 1, "--name", "c")
    for other in ("runs/b", "runs/c"):
        found = bench("report", "runs/a", other, "--out", "both")
        assert found.code == 2 and found.err.startswith("error BENCH-E0"), found
        assert not Path("both").exists()


def test_a_published_table_is_reproduced_and_then_compared_without_running():
    args = ("reproduce", "npt-table-8", "--budget", "quick", "--dataset", "breast-cancer-wdbc")
    args = (*args, "--model", "knn", "--folds", 2, "--trials", 1, *FAST)
    files = answer(*args)["files"]
    assert files and all(Path(file).exists() for file in files)
    before = executions("runs/npt-small-quick")
    assert answer(*args, "--no-run")["files"] == files
    assert executions("runs/npt-small-quick") == before and len(before) == 2
    assert "breast-cancer-wdbc" in bench(*args, "--no-run").out


# ---------------------------------------------------------------------- failures run again

OWN = """
import os
from pathlib import Path

import numpy as np

from {module}_helper import frequencies


class Plain:
    '''Has no spaces().'''

    def __init__(self, weight=1.0, seed=0):
        self.weight, self.seed = weight, seed

    def fit(self, X, y):
        self.classes_, self.p_ = frequencies(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[self.p_.argmax()])

    def predict_proba(self, X):
        return np.tile(self.p_, (len(X), 1))


class Tuned(Plain):
    name = "tuned"

    @staticmethod
    def spaces():
        weight = {{"kind": "uniform", "low": 0.5, "high": 2.0}}
        return {{"default": {{"params": {{"weight": weight}}}}}}


class Moody(Plain):
    name = "moody"

    def fit(self, X, y):
        with open("fits.log", "a") as log:
            log.write("fit\\n")
        if Path("broken").exists():
            raise MemoryError("as the file says")
        return super().fit(X, y)


class Classes(Tuned):
    '''For classification alone; its space says so, too.'''

    name = "classes"
    tasks = ("binary", "multiclass")

    @staticmethod
    def spaces():
        params = Tuned.spaces()["default"]["params"]
        return {{"default": {{"classification": {{"params": params}}}}}}


class Slow(Tuned):
    name = "slow"

    def fit(self, X, y):
        import time

        with open(os.environ["SLOW_LOG"], "a") as log:
            log.write(f"start {{self.weight!r}} {{len(X)}}\\n")
        time.sleep(0.4)
        with open(os.environ["SLOW_LOG"], "a") as log:
            log.write(f"end {{self.weight!r}} {{len(X)}}\\n")
        return super().fit(X, y)
"""
HELPER = """
import numpy as np


def frequencies(y):
    classes, n = np.unique(y, return_counts=True)
    return classes, n / n.sum()
"""


@pytest.fixture
def own(work: Path) -> str:
    """The name of a module with models of one's own and a sibling, in the working directory."""
    module = f"own_{random.Random(str(work)).randrange(10**9)}"
    (work / f"{module}.py").write_text(OWN.format(module=module))
    (work / f"{module}_helper.py").write_text(HELPER)
    return module


def fits() -> int:
    return len(Path("fits.log").read_text().splitlines())


def test_a_failure_runs_again_only_when_asked_or_under_a_larger_limit(own):
    Path("broken").touch()
    call = ("--model", f"{own}:Moody", "--folds", 1, "--name", "m")
    failed = sweeps(*call, code=1)
    assert failed["failed"] == {"oom": 1}
    assert fits() == 2, "out of memory may be a neighbour's doing: it is tried twice"
    assert sweeps(*call, code=1)["ran"] == 0
    assert answer("resume", "runs/m", *AGAIN, code=1)["ran"] == 0
    assert answer("retry", "runs/m", *AGAIN, "--cause", "timeout", code=5) == {"retried": 0}
    assert fits() == 2
    assert answer("retry", "runs/m", *AGAIN, code=1)["ran"] == 1
    assert fits() == 4
    assert sweeps(*call, "--memory-mb", 9000, code=1)["ran"] == 1, "the limit is larger now"
    assert fits() == 6
    Path("broken").unlink()
    healed = answer("retry", "runs/m", *AGAIN, "--cause", "oom", "--memory-mb", 16000)
    assert (healed["ran"], healed["done"], healed["failed"]) == (1, 1, {})
    assert fits() == 7
    found = bench("retry", "runs/m", *AGAIN)
    assert found.code == 5 and "no failed trial to run again" in found.out
    results = load_results("runs/m")
    assert list(results["status"]) == ["done"]


def test_resume_says_how_much_is_done_failed_and_left(own):
    Path("broken").touch()
    sweeps("--model", f"{own}:Moody", "--model", "constant", "--folds", 1, "--name", "m", code=1)
    found = bench("resume", "runs/m", *AGAIN)
    assert "1 of 2 cells done, 1 failed (retry with --retry-failed), 0 to run" in found.out
    assert "bench retry runs/m" in found.out and found.code == 1
    Path("broken").unlink()
    assert answer("resume", "runs/m", *AGAIN, "--retry-failed")["done"] == 2


# ---------------------------------------------------------------------- models of one's own


@pytest.mark.fault(20)
def test_models_from_a_file_in_the_working_directory_take_part(own):
    picks = ("--model", f"{own}:Plain", "--model", f"{own}:Tuned", "--model", "knn")
    found = bench(*SMALL, *picks, "--folds", 1, "--trials", 3, "--name", "own")
    assert found.code == 0
    assert f"{own}:Plain declares no search space: its default configuration is its only" in (
        found.out
    )
    results = load_results("runs/own")
    configs = results.groupby("model")["config"].apply(list)
    assert configs[f"{own}:Plain"] == ["{}"]
    assert len(set(configs["tuned"])) == 3 and configs["tuned"][0] == '{"weight":1.0}'
    assert f"{own}:Plain" in Path("runs/own/report/scores.csv").read_text()
    shown = bench("models", f"{own}:Tuned")
    assert shown.code == 0 and "uniform [0.5, 2]" in shown.out
    # A sibling module that changes makes other trials, and finished ones are not mixed with them.
    helper = Path(f"{own}_helper.py")
    helper.write_text(helper.read_text() + "\n# a comment changes nothing\n")
    assert sweeps(*picks, "--folds", 1, "--trials", 3, "--name", "own")["ran"] == 0
    helper.write_text(helper.read_text().replace("n / n.sum()", "n / (n.sum() + 0)"))
    refused = bench(*SMALL, *picks, "--folds", 1, "--trials", 3, "--name", "own")
    assert refused.code == 2 and "error BENCH-E006: 4 finished cells" in refused.err
    again = (*picks, "--folds", 1, "--trials", 3, "--name", "own", "--allow-code-change")
    stale = bench(*SMALL, *again)  # this process has the old modules, and must not run them as new
    assert stale.code == 1 and "not the one that the sweep began with" in stale.err
    for name in [name for name in sys.modules if name.startswith(own)]:
        del sys.modules[name]
    assert bench("retry", "runs/own", "--workers", 0).code == 0
    assert status_of(Path("runs/own")).done == 7


def test_a_model_for_classification_alone_is_absent_from_regression_by_plan(own):
    args = ("--dataset", "diabetes", "--model", f"{own}:Classes", "--folds", 1, "--trials", 2)
    found = sweeps(*args, "--name", "part")
    assert (found["planned"], found["done"], found["unsupported_studies"]) == (2, 2, 1)
    assert "has no regression form" in Path("runs/part/report/coverage.md").read_text()


# ---------------------------------------------------------------------- a table of one's own

COLUMNS = ["a<b[0]|c", "größe (cm)", "col or,comma", 'quo"te', "=SUM(A1)", "{json: x}", "y[1]<z>"]


def hostile_csv(path: Path, kind: str, n: int = 90) -> None:
    """Numbers, categories, missing cells and a constant, under names that break parsers."""
    import csv

    draw = random.Random(0)
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for _ in range(n):
            size = draw.gauss(0, 1)
            color = draw.choice(["rot", "blau", "grün", "<x>", '"', "a,b"])
            amount = draw.gauss(0, 1) if draw.random() > 0.1 else ""
            answer = draw.choice(["ja", "nein", ""])
            value = size + (color == "rot") * 1.5 + draw.gauss(0, 0.3)
            label = "good" if value > 0.2 else "<b>bad</b>"
            row = [size, color, amount, answer, draw.randint(0, 9), 1]
            writer.writerow([*row, label if kind == "classes" else value])


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_all_quick_models_run_on_a_table_with_hostile_names(kind):
    path = Path(f"{kind}.csv")
    hostile_csv(path, kind)
    call = ("sweep", "--csv", path, "--target", COLUMNS[-1], *FAST, "--folds", 1, "--trials", 2)
    found = bench(*call)
    assert found.code == 0, found.err
    run = f"runs/csv-{kind}-quick"
    results = load_results(run)
    assert set(results["model"]) == set(QUICK)
    assert set(results["status"]) == {"done"}
    assert len(results) == 2 * len(QUICK) - 5  # each of the five networks has one preset
    assert set(results["task"]) == {"binary" if kind == "classes" else "regression"}
    for model in QUICK:  # people see every model's score and cost
        assert len(re.findall(rf"\b{model}\b", found.out)) >= 2
    if kind == "classes":
        return
    again = answer("resume", run, *AGAIN)
    assert (again["ran"], again["done"]) == (0, len(results))
    path.write_text(path.read_text(encoding="utf-8") + "1,rot,1,ja,1,1,9\n", encoding="utf-8")
    changed = bench("resume", run, *AGAIN)
    assert changed.code == 2 and "has changed since this run was started" in changed.err
    path.unlink()
    gone = bench("resume", run, *AGAIN)
    assert gone.code == 2 and "is gone" in gone.err


# ---------------------------------------------------------------------- without a network


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network, no mirror and an empty cache."""
    monkeypatch.setenv("TABSWEEP_CACHE", str(tmp_path / "cache"))
    net = download.Network()
    monkeypatch.setattr(source, "shared_network", lambda: net)
    monkeypatch.setattr(
        download, "connects", lambda host, port, timeout_s: f"{host} cannot be reached (offline)"
    )


def test_offline_the_left_out_datasets_are_named_and_the_offline_list_joins(offline):
    start = time.monotonic()
    found = bench("sweep", "--suite", "uci-small", "--dry-run", *FAST)
    assert time.monotonic() - start < 20
    assert found.code == 0 and not Path("runs").exists()
    suite = suites.load("uci-small")
    (line,) = (line for line in found.out.splitlines() if line.startswith("left out: "))
    missing = [name for name in suite.datasets if name != "breast-cancer-wdbc"]
    assert line.startswith(f"left out: {', '.join(missing)}: ") and "cannot be reached" in line
    assert f"its offline list joined: {', '.join(suite.offline)}." in found.out
    document = answer("sweep", "--suite", "uci-small", "--dry-run", *FAST)
    assert set(document["left_out"]) == set(missing)
    assert document["cells"] == 5 * 2 * (7 * 4 + 5)


def test_offline_a_suite_of_files_alone_is_refused_with_every_reason(offline):
    found = bench("sweep", "--suite", "npt-small", "--dataset", "yacht", *FAST)
    assert found.code == 3 and "BENCH-E012" in found.err and "yacht: " in found.err
    assert not Path("runs").exists()


def test_offline_the_smoke_suite_runs_whole(offline):
    args = ("--model", "constant", "--model", "knn", "--folds", 1, "--trials", 1)
    found = answer("sweep", "--suite", "smoke", *FAST, *args)
    assert (found["planned"], found["done"], found["left_out"]) == (8, 8, {})
    about = Path("runs/smoke-quick/report/about.md").read_text()
    assert "smoke" in about


def test_a_sweep_whose_offline_list_joined_says_so_in_its_report(offline):
    args = ("--model", "constant", "--folds", 1, "--trials", 1)
    found = bench("sweep", "--suite", "hopular-small", *FAST, *args)
    assert found.code == 0
    assert "warning: left out: blood-transfusion, " in found.err
    assert "its offline list joined: digits, iris, wine" in found.out
    folder = Path("runs/hopular-small-quick/report")
    assert "its offline list joined" in (folder / "about.md").read_text()
    assert "cannot be reached" in (folder / "coverage.md").read_text()


# ---------------------------------------------------------------------- interrupted

BENCH = [sys.executable, "-c", "from tabsweep.benchmark.cli import main; main()"]


def start(*args: object, log: str = "slow.log", **options) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [*BENCH, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SLOW_LOG": str(Path(log).resolve())},
        **options,
    )


def lines(log: str = "slow.log") -> list[str]:
    return Path(log).read_text().splitlines() if Path(log).exists() else []


def wait_for(condition, what: str, timeout_s: float = 120) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        time.sleep(0.02)


@pytest.mark.fault(30)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_an_interrupted_sweep_keeps_what_ended_says_how_to_go_on_and_does(own, number):
    call = (*SMALL, "--model", f"{own}:Slow", "--folds", 1, "--trials", 6, "--name", "cut")
    process = start(*call)
    wait_for(lambda: len(lines()) >= 3, "the second trial to begin")  # start, end, start
    assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert "stopping: running trials may end" in err
    assert "Go on with: bench resume runs/cut" in err
    assert "Traceback" not in err
    log = lines()
    assert len(log) % 2 == 0, "the running trial was cut in the middle"
    status = status_of(Path("runs/cut"))
    assert 2 <= status.done == len(log) // 2 < 6 and not status.failed and not status.owner
    process = start("resume", "runs/cut", *AGAIN, "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["ran"] == 6 - status.done
    counts = Counter(lines())
    assert len(counts) == 12 and set(counts.values()) == {1}, "a trial was lost or ran twice"
    assert set(executions("runs/cut").values()) == {1}


def test_a_second_interrupt_does_not_wait(own):
    call = (*SMALL, "--model", f"{own}:Slow", "--folds", 1, "--trials", 20, "--name", "cut")
    process = start(*call, "--json")
    wait_for(lambda: len(lines()) >= 3, "the second trial to begin")
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert json.loads(out)["interrupted"] is True
    assert "bench resume runs/cut" in err and "Traceback" not in err
    assert status_of(Path("runs/cut")).left > 10


@pytest.mark.xdist_group("ray")
def test_on_ray_standard_output_is_one_document_and_ctrl_c_of_the_terminal_loses_nothing(
    own, monkeypatch
):
    """A terminal sends Ctrl-C to every process of the command; trials must not die of it."""
    args = ("sweep", "--suite", "smoke", "--dataset", "iris", "--runs", "runs", "--name", "ray")
    call = (*args, "--tracking-uri", "none", "--workers", 2, "--json")
    call = (*call, "--model", f"{own}:Slow", "--folds", 1, "--trials", 20)
    process = start(*call, start_new_session=True)
    wait_for(lambda: len(lines()) >= 4, "trials to begin")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["interrupted"] is True and not document["failed"]
    assert 2 <= document["done"] < 20
    kinds = Counter(record["kind"] for record in Ledger(Path("runs/ray")).records())
    assert not kinds["death"], "a worker died of Ctrl-C"
    monkeypatch.setenv("SLOW_LOG", str(Path("slow.log").resolve()))
    found = answer("resume", "runs/ray", *AGAIN)
    assert (found["done"], found["ran"]) == (20, 20 - document["done"])
    counts = Counter(lines())
    assert len(counts) == 40 and set(counts.values()) == {1}, "a trial was lost or ran twice"


def test_a_handler_for_signals_is_put_back():
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    sweeps("--model", "constant", "--folds", 1, "--name", "r")
    assert {n: signal.getsignal(n) for n in before} == before
    assert commands.Stop().soon is False
