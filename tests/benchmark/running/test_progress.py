"""A sweep as it runs: the progress on the terminal, and a wall clock that jumps."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from calls import bench
from run_records import NAME
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running.events import Waiting
from tabsweep.benchmark.running.progress import Progress
from tabsweep.sweeps.events import Beat, NodeLost, StudyEnded, TrialEnded, Warned
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Slot
from tabsweep.sweeps.study_state import Shape
from tabsweep.sweeps.trial import failure

DONE = SimpleNamespace(status="done", cause="", costs={}, info={})


@pytest.fixture
def shown():
    """Makes progresses and ends them: the thread of one that a failed test left would speak on."""
    made: list[Progress] = []

    def make(**options: object) -> Progress:
        made.append(Progress(**{"quiet": False, "color": False, **options}))
        return made[-1]

    yield make
    for progress in made:
        progress.end()


def study(state, metric="rmse"):
    return SimpleNamespace(name=NAME, data_key="d", metric=metric, state=state, judged_loss=None)


def test_progress_counts_what_a_study_really_had_and_prints_no_escapes(capsys, shown):
    progress = shown()
    progress.begin(7, "r")
    state = SimpleNamespace(shape=Shape(7), n_slots=4, best_loss=None)
    ended = study(state)
    for index in range(4):
        slot = Slot(NAME, "tune", index)
        progress.listen(TrialEnded(None, slot, None, failure("error", "\x1b[2Jbad")))
    progress.listen(StudyEnded(ended))
    assert progress.total == 4
    progress.listen(Warned("beta is left out"))
    progress.listen(NodeLost("beta"))
    progress.listen(Beat([], 0))
    progress.end()
    text = capsys.readouterr().err
    assert "\x1b" not in text and "error: bad" in text
    assert "warning: beta is left out" in text and "beta; its trials" in text


def test_in_a_notebook_a_bar_is_written_over_and_messages_stand_below_it(
    capsys, monkeypatch, shown
):
    """The thread, which speaks every two seconds, leaves a bar that moves alone."""
    monkeypatch.setitem(sys.modules, "ipykernel", sys)  # what a notebook's process has imported
    progress = shown(every_s=2.0)
    progress.begin(30, "r")
    for index in range(30):
        time.sleep(0.1)
        progress.listen(TrialEnded(None, Slot(NAME, "tune", index), None, DONE, reused=True))
    progress.listen(Warned("beta is left out"))
    progress.end()
    first, bars, *rest = capsys.readouterr().err.split("\n")
    assert first == "r: 30 trials planned" and rest == ["warning: beta is left out", ""]
    assert bars.count("\r") == 30
    assert re.findall(r"(\d+)/30", bars) == [str(n) for n in range(1, 31)]


def test_whatever_is_waited_for_no_silence_is_longer_than_the_limit(capsys, shown):
    """The thread speaks: nothing calls the progress meanwhile, as while Ray starts, while a trial
    runs and while the report is made."""
    progress = shown(every_s=0.2)

    def said() -> list[str]:
        time.sleep(1.0)
        return capsys.readouterr().err.splitlines()

    assert {*said()} == {"waiting for the data"}
    progress.listen(Waiting("Ray's process raylet"))
    progress.begin(4, "r")
    lines = said()
    lines = lines[lines.index("r: 4 trials planned") + 1 :]  # the thread may have spoken before
    assert len(lines) > 2
    assert all(line.endswith("; waiting for Ray's process raylet") for line in lines)
    progress.listen(TrialEnded(None, Slot(NAME, "tune", 0), None, DONE, reused=True))
    capsys.readouterr()
    lines = said()
    assert len(lines) > 2 and all(line.startswith("1 of 4 trials, ETA ") for line in lines)
    progress.end("the report")
    capsys.readouterr()
    assert all(line.endswith("; waiting for the report") for line in said())
    progress.end()
    capsys.readouterr()
    assert said() == []
    shown(quiet=True, every_s=0.2)
    assert said() == []


def test_what_was_waited_for_is_forgotten_when_a_worker_has_a_trial(capsys, shown):
    progress = shown(every_s=0.2)
    progress.begin(1, "r")

    def last() -> str:
        time.sleep(1.0)
        return capsys.readouterr().err.splitlines()[-1]

    def beat(**worker: object) -> None:
        progress.listen(Beat([worker], 1))

    progress.listen(Waiting("the first worker"))
    beat(trial=None, starting=False)
    beat(trial="iris/0/knn", starting=True)
    assert re.fullmatch(r"0 of 1 trial, ETA \d+ s; waiting for the first worker", last())
    beat(trial="iris/0/knn", starting=False)
    assert re.fullmatch(r"0 of 1 trial, ETA \d+ s", last())
    progress.listen(Waiting("the first worker"))
    progress.listen(Waiting(""))
    assert re.fullmatch(r"0 of 1 trial, ETA \d+ s", last())
    progress.listen(TrialEnded(None, Slot(NAME, "tune", 0), None, DONE, reused=True))
    progress.end("the report")
    assert last() == "1 of 1 trial; waiting for the report"
    progress.end()


def test_on_a_terminal_the_thread_speaks_where_no_bar_is(monkeypatch, shown):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = shown(every_s=0.2)
    progress.begin(4, "r")
    before = terminal.getvalue()  # beside other work it may speak before the bar is there
    time.sleep(1.0)
    assert "of 4 trials" not in terminal.getvalue().removeprefix(before)
    progress.end("the report")
    until = time.monotonic() + 30.0  # two lines
    while "\n0 of 4 trials" not in terminal.getvalue() and time.monotonic() < until:
        time.sleep(0.05)
    progress.end()
    assert "\n0 of 4 trials, ETA " in terminal.getvalue()
    assert "; waiting for the report\n" in terminal.getvalue()


def test_the_best_score_keeps_its_sign(capsys, shown):
    progress = shown(verbose=True)
    for metric, loss in (("r2", 6.204), ("r2", 0.0), ("roc_auc", -0.9), ("rmse", 2.5)):
        state = SimpleNamespace(shape=Shape(4), n_slots=4, best_loss=loss)
        progress.listen(StudyEnded(study(state, metric)))
    progress.end()
    said = [line.split("best val ")[1] for line in capsys.readouterr().err.splitlines()]
    assert said == ["r2 -6.204", "r2 0", "roc_auc 0.9", "rmse 2.5"]


# The command line in a process whose wall clock jumps at every look by -1 h or +1 day.
JUMPING = """
import itertools, sys, time
from datetime import UTC, datetime
# Five, and five of their own for records: a trial makes two, so that results meet every jump.
jumps, own = (itertools.cycle([0.0, -3600.0, 86400.0, -7200.0, 60.0]) for _ in range(2))
real = time.time
time.time = lambda: real() + next(jumps)
time.time_ns = lambda: int(1e9 * time.time())
from tabsweep.sweeps.store import records
def utc_now():
    now = datetime.fromtimestamp(real() + next(own), UTC)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
records.utc_now = utc_now  # before anybody else imports it
from tabsweep.benchmark.cli import main
main(sys.argv[1:])
"""


@pytest.mark.fault(8)
@pytest.mark.parametrize(
    "workers", [0, pytest.param(1, marks=[pytest.mark.nightly, pytest.mark.xdist_group("ray")])]
)
def test_a_wall_clock_that_jumps_changes_no_result_no_cost_and_ends_no_trial(workers, tmp_path):
    args = ["sweep", "--suite", "smoke", "--dataset", "iris", "--model", "knn", "--model", "linear",
            "--folds", 1, "--trials", 6, "--timeout", 600, "--workers", workers,
            "--tracking-uri", "none", "--json", "--runs"]  # fmt: skip

    command = [sys.executable, "-c", JUMPING, *map(str, [*args, tmp_path / "jumped"])]
    jumped = subprocess.run(command, capture_output=True, text=True)
    assert jumped.returncode == 0, jumped.stderr
    assert bench(*args, tmp_path / "steady", "--workers", 0).code == 0
    found, wanted = (
        list(Ledger(tmp_path / folder / "smoke-quick").records("result"))
        for folder in ("jumped", "steady")
    )
    times = [record["time"] for record in found]
    assert times != sorted(times), "the clock went backwards"
    assert max(times)[:10] > wanted[0]["time"][:10], "and a day ahead"
    parts = ("id", "study", "stage", "index", "status", "val", "test")
    assert [[r[part] for part in parts] for r in sorted(found, key=lambda r: r["id"])] == [
        [r[part] for part in parts] for r in sorted(wanted, key=lambda r: r["id"])
    ]
    costs = [cost for record in found for cost in record["costs"].values()]
    assert costs and 0.0 <= min(costs) and max(r["costs"]["fit_s"] for r in found) < 600
    assert 0.0 <= json.loads(jumped.stdout)["wall_s"] < 600
    assert json.loads(jumped.stdout)["failed"] == {}
    assert status_of(tmp_path / "jumped" / "smoke-quick").left == 0
