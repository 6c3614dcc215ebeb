"""The logs of a run: what they hold, how `bench logs` finds it, and their bounds."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from calls import answer, bench
from run_records import NAME, make_run, plan
from tabsweep.benchmark.console import printable
from tabsweep.benchmark.running import event_log
from tabsweep.benchmark.running.event_log import EventLog
from tabsweep.sweeps.events import TrialEnded, TrialLost, Warned, WorkerJoined, WorkerLost
from tabsweep.sweeps.study import Slot
from tabsweep.sweeps.trial import DONE, Result, Trial, failure

TRIAL = Trial(dataset="iris", fold=0, model="knn", config={"k": 3}, seed=0, identity={})


def tell(log: EventLog, found: Result, *, index: int = 0, **more: Any) -> None:
    slot = Slot(NAME, "tune", index)
    log.listen(TrialEnded(None, slot, TRIAL, found, **more))


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A run with a log: a quiet trial, one that printed, one that failed, one whose worker died."""
    run = make_run(tmp_path / "r", plan())
    log = EventLog(run)
    log.write("start", run=str(run))
    log.listen(WorkerJoined("w1", "alpha", 7))
    where = {"worker": "w1", "attempt": 1}
    tell(log, Result(status=DONE), **where)
    tell(log, Result(status=DONE, output="epoch 1\nepoch 2\n"), index=1, **where)
    bad = failure("error", "ValueError: no", log="Traceback\n", output="\x1b[2Jbefore\x07 it\n")
    tell(log, bad, index=2, **where)
    log.listen(TrialLost(TRIAL, "killed", 1, "w1", "Segmentation fault"))
    log.listen(WorkerLost("w1", "alpha", "killed"))
    log.listen(Warned("beta is left out"))
    log.write("end", done=2)
    log.close()
    return run


def lines_of(run: Path, *args: object, code: int = 0) -> list[dict[str, Any]]:
    return answer("logs", run, *args, code=code)["lines"]


def test_a_trial_that_printed_or_failed_has_a_line_and_a_quiet_one_has_none(logged):
    printed, failed, died = lines_of(logged)
    about = {"study": NAME, "trial": TRIAL.id, "worker": "w1", "host": "alpha", "attempt": 1}
    for line in (printed, failed, died):
        assert line.items() >= about.items() and line["time"].endswith("Z")
    assert (printed["status"], printed["output"]) == ("done", "epoch 1\nepoch 2\n")
    assert (printed["stage"], printed["index"]) == ("tune", 1)
    assert (failed["cause"], failed["message"]) == ("error", "ValueError: no")
    assert failed["output"].endswith("it\n\nTraceback\n")
    assert (died["status"], died["cause"]) == ("died", "killed")
    assert died["output"] == "Segmentation fault"


def test_every_event_has_a_time_a_process_a_level_and_a_name(logged):
    events = lines_of(logged, "--events")
    assert [(event["event"], event["level"]) for event in events] == [
        ("start", "info"),
        ("worker", "info"),
        ("no score", "error"),
        ("retry", "warning"),
        ("lost worker", "warning"),
        ("warning", "warning"),
        ("end", "info"),
    ]
    assert all({"time", "pid", "host"} <= set(event) for event in events)
    assert len(lines_of(logged, "--events", "--failed")) == 4


def test_the_documents_name_every_field_and_event(logged):
    text = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    fields = {field for line in lines_of(logged) for field in line}
    events = {event["event"] for event in lines_of(logged, "--events")}
    assert {name for name in fields | events if f"`{name}`" not in text} == set()


@pytest.mark.parametrize(
    ("args", "n"),
    [
        (["--failed"], 2),
        (["--study", NAME], 3),
        (["--study", "iris/*"], 3),
        (["--study", "wine/*"], 0),
        (["--trial", TRIAL.id[:8]], 3),
        (["--trial", "zz"], 0),
        (["--worker", "w1"], 3),
        (["--worker", "alpha"], 3),
        (["--worker", "w2"], 0),
        (["--last", 1], 1),
        (["--failed", "--last", 0], 2),
    ],
    ids=str,
)
def test_logs_are_found_by_what_one_knows(logged, args, n):
    assert len(lines_of(logged, *args, code=0 if n else 5)) == n


def test_what_a_trial_printed_cannot_command_the_terminal(logged):
    found = bench("logs", logged, "--failed")
    assert found.code == 0 and "\x1b" not in found.out and "\x07" not in found.out
    assert f"{NAME} tune 2, failed (error: ValueError: no)" in found.out
    assert "    before it\n" in found.out and f"trial {TRIAL.id}" in found.out
    assert "(1 before these" in bench("logs", logged, "--last", 2).out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("\x1b]0;unended\nnext", "\nnext"),
        ("\x1bPq\x1b\\x\x9b31m", "x31m"),
        ("10 %\r20 %\r\nnext\r", "20 %\nnext"),
        ("a\u202eb\u2066c\ufeff", "abc"),
        ("\x00\x08\x7f", ""),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
    ],
)
def test_only_what_can_be_read_reaches_a_terminal(text, shown):
    assert printable(text) == shown


def test_nothing_to_show_is_said(tmp_path, logged):
    found = bench("logs", make_run(tmp_path / "quiet", plan()))
    assert found.code == 5 and "nothing was written" in found.out
    found = bench("logs", logged, "--worker", "w9")
    assert found.code == 5 and "no output of a trial that matches" in found.out
    assert bench("logs", tmp_path / "nowhere").code == 2


def test_torn_and_foreign_lines_are_passed_over(logged):
    path = logged / "logs" / "trials.jsonl"
    path.write_bytes(b'\xff{"\n[1]\n7\n' + path.read_bytes() + b'{"torn": ')
    assert len(lines_of(logged)) == 3
    path.write_bytes(b'{"study": "a/0/b", "warnings": ["none"]}\n{"warnings": {"Slow": 2}}\n')
    found = bench("logs", logged)
    assert found.code == 0 and "Slow 2" in found.out, found


def test_a_log_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(event_log, "MAX_BYTES", 10_000)
    log = EventLog(make_run(tmp_path, plan()))
    for index in range(100):
        tell(log, Result(status=DONE, output="x" * 1000), index=index)
    log.close()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "logs").glob("trials*")}
    assert set(sizes) >= {"trials.jsonl.1"} and max(sizes.values()) < 12_000
    assert lines_of(tmp_path, "--last", 1)[0]["index"] == 99


def test_workers_that_come_and_go_cost_no_sync_each_and_a_warning_one(tmp_path, monkeypatch):
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file))[1])
    run = make_run(tmp_path, plan())
    synced.clear()
    log = EventLog(run)
    for number in range(50):
        log.listen(WorkerJoined(f"w{number}", "alpha", number))
        log.listen(WorkerLost(f"w{number}", "alpha", "killed"))
    assert not synced
    log.listen(Warned("beta is left out"))
    assert len(synced) == 1
    log.close()
    events = [line["event"] for line in lines_of(tmp_path, "--events", "--last", 0)]
    assert events.count("worker") == events.count("lost worker") == 50


@pytest.mark.fault(5)
def test_a_full_disk_costs_log_lines_and_one_warning_and_tears_none(tmp_path, monkeypatch):
    warnings: list[str] = []
    log = EventLog(make_run(tmp_path, plan()), warn=warnings.append)
    tell(log, Result(status=DONE, output="before"))
    real, full = os.write, []

    def write(file: int, data: bytes) -> int:
        if b"lost" not in data:
            return real(file, data)
        if not full:  # room for a part of it
            full.append(1)
            return real(file, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        for _ in range(3):
            tell(log, Result(status=DONE, output="lost"))
    assert full, "the disk was full"
    tell(log, Result(status=DONE, output="after"))
    log.close()
    assert [line["output"] for line in lines_of(tmp_path)] == ["before", "after"]
    assert len(warnings) == 1 and "trials.jsonl is not complete" in warnings[0]
