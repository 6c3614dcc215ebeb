"""Can somebody watch a run, find out what went wrong in it, try again, and clean up after it?"""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from calls import Ran, bench
from rich.console import Console
from tabsweep.benchmark.commands import clean, logs
from tabsweep.benchmark.commands import status as watch
from tabsweep.benchmark.commands import sweep as runs
from tabsweep.benchmark.commands.logs import inert
from tabsweep.benchmark.commands.status import Follower, View, Watcher, screen_of
from tabsweep.benchmark.results import run_status
from tabsweep.benchmark.results.run_status import Count, pace_of, planned_slots, slots_of, status_of
from tabsweep.benchmark.running import event_log
from tabsweep.benchmark.running.event_log import EventLog
from tabsweep.benchmark.running.heartbeat import Live, read_live
from tabsweep.benchmark.running.progress import Progress
from tabsweep.sweeps.store import ledger as ledgers
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.run_lock import RunLock
from tabsweep.sweeps.study import Slot
from tabsweep.sweeps.trial import DONE, Result, Trial, failure

NAME = "iris/0/knn"

# ---------------------------------------------------------------------- a run without a sweep


def plan(*, n_trials: int = 4, seeds: int = 1, second: int = 0, **more: Any) -> dict[str, Any]:
    study = {"dataset": "iris", "task": "multiclass", "fold": 0, "model": "knn"}
    return {
        "kind": "plan",
        "suite": {"name": "tiny"},
        "options": {"budget": "quick"},
        "metric": {"multiclass": "accuracy"},
        "datasets": {"iris": {"task": "multiclass"}},
        "studies": [{**study, "n_trials": n_trials, "n_seeds": seeds, "reason": "", **more}],
        "left_out": {},
        "time": f"2030-01-01T00:00:{second:02d}.000Z",
    }


def result(index: int, *, stage: str = "tune", cause: str | None = None, **more: Any) -> dict:
    return {
        "kind": "result",
        "id": f"{stage}-{index}",
        "study": NAME,
        "stage": stage,
        "index": index,
        "dataset": "iris",
        "status": "failed" if cause else "done",
        "cause": cause,
        "val": {} if cause else {"accuracy": 0.5 + index / 100},
        "time": f"2030-01-01T00:01:{index % 60:02d}.000Z",
        **more,
    }


def lease(index: int, *, stage: str = "tune") -> dict[str, Any]:
    place = {"study": NAME, "stage": stage, "index": index}
    return {"kind": "lease", "id": f"{stage}-{index}", **place}


def end(n_slots: int, *, n_trials: int = 4) -> dict[str, Any]:
    return {"kind": "study", "study": NAME, "n_trials": n_trials, "n_slots": n_slots}


def make_run(folder: Path, *records: dict[str, Any]) -> Path:
    ledger = Ledger(folder, write=True)
    ledger.append(records)
    ledger.close()
    return folder


def count_of(*records: dict[str, Any]) -> run_status.Status:
    found = Count()
    for record in records:
        found.add(ledgers.head_of(record), lambda record=record: record)  # type: ignore[misc]
    return found.status(Path("run"), None)


def answer(*args: object, code: int = 0) -> Any:
    found = bench(*args, "--json")
    assert found.code == code, found
    return json.loads(found.out)


# ---------------------------------------------------------------------- how far is it


def test_a_study_on_rungs_stands_for_the_sum_of_its_rungs():
    (study,) = plan(n_trials=9, seeds=3, rungs=[9, 3, 1])["studies"]
    assert planned_slots(study) == 9 + 3 + 1 + 3
    bounds = slots_of({"studies": [study]})
    stages = {"rung0": 9, "rung1": 9, "tune": 9, "eval": 3}
    assert bounds == {(NAME, stage): n for stage, n in stages.items()}
    (study,) = plan(n_trials=9, rungs=[9, 3, 1], reason="too large")["studies"]
    assert planned_slots(study) == 0 and set(slots_of({"studies": [study]}).values()) == {0}


def test_indices_on_higher_rungs_are_those_of_the_search():
    done = [result(i, stage="rung0") for i in range(4)] + [result(3)]
    found = count_of(plan(rungs=[4, 1]), *done)
    assert (found.planned, found.done, found.left) == (5, 5, 0)


def test_an_asynchronous_search_has_one_slot_a_configuration_wherever_it_ends():
    records = [
        plan(rungs=[4, 2, 1], **{"async": "asha"}),
        result(0, stage="rung0"),
        result(1, stage="rung1"),
        result(2),
        result(3, stage="rung0", cause="error"),
    ]
    found = count_of(*records)
    assert (found.planned, found.done, found.failed, found.left) == (4, 3, {"error": 1}, 0)
    again = result(3, id="rung0-3")  # on another rung than before, which its old place points at
    link = {"kind": "slot", "id": "rung0-3", "study": NAME, "stage": "rung0", "index": 3}
    found = count_of(*records, again, link)
    assert (found.planned, found.done, found.failed, found.left) == (4, 4, {}, 0)


def test_a_study_that_ended_with_fewer_slots_than_planned_has_none_left():
    failed = [result(i, cause="error") for i in range(4)]
    found = count_of(plan(seeds=3), *failed)
    assert (found.planned, found.left) == (7, 3), "nobody knows yet that nothing is evaluated"
    found = count_of(plan(seeds=3), *failed, end(4))
    assert (found.planned, found.left, found.finished) == (4, 0, True)
    old = {key: value for key, value in end(4).items() if key != "n_slots"}
    assert count_of(plan(seeds=3), *failed, old).left == 3, "of a version that did not say it"


def test_what_a_study_ended_with_counts_until_it_goes_on():
    ended = [plan(seeds=3), *(result(i, cause="error") for i in range(4)), end(4)]
    assert count_of(*ended, plan(seeds=3)).left == 0, "the same plan once more"
    assert count_of(*ended, plan(seeds=5)).left == 5, "extended by evaluation seeds"
    assert count_of(*ended, plan(n_trials=6, seeds=3)).left == 5, "extended by trials"
    healed = [*ended, lease(0), result(0)]
    assert count_of(*healed[:-1]).left == 3 and count_of(*healed).left == 3, "a retry"
    seeds = [result(i, stage="eval") for i in range(3)]
    found = count_of(*healed, *seeds, end(7))
    assert (found.planned, found.done, found.left) == (7, 4, 0)


def test_records_that_are_counted_twice_change_nothing():
    records = [
        plan(seeds=3),
        lease(0),
        result(0),
        lease(1),
        *(result(i, cause="oom") for i in range(1, 4)),
        *(result(i, stage="eval") for i in range(3)),
        end(7),
        lease(1),
    ]
    for start in range(1, len(records)):
        assert count_of(*records, *records[start:]) == count_of(*records)


@pytest.mark.fault(8)
def test_neither_a_night_s_pause_nor_a_jump_of_the_clock_makes_the_pace():
    steady = [f"2030-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:00Z" for second in
              range(0, 3600, 60)]  # fmt: skip
    assert pace_of(steady) == pytest.approx(1 / 60)
    later = [text.replace("01-01", "01-09") for text in steady]
    earlier = [text.replace("2030-01-01", "2029-12-31") for text in steady]
    assert pace_of(steady + later) == pytest.approx(1 / 60)
    assert pace_of(steady + earlier + later) == pytest.approx(1 / 60)
    assert pace_of(steady[:1]) is None and pace_of([steady[0]] * 20) is None


# ---------------------------------------------------------------------- watching


def test_a_follower_says_at_every_moment_what_the_whole_ledger_says(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, "SEAL_AT", 10)
    opened = []

    class Counted(Ledger):
        def __init__(self, *args: Any) -> None:
            opened.append(args)
            super().__init__(*args)

    monkeypatch.setattr(watch, "Ledger", Counted)
    ledger = Ledger(tmp_path, write=True)
    ledger.append([plan(n_trials=40)])
    follower = Follower(tmp_path)
    for index in range(40):
        ledger.append([lease(index), result(index, cause="oom" if index % 7 == 3 else None)])
        found = follower.refresh().status(tmp_path, None)
        assert found == status_of(tmp_path)
        assert sum(found.failed.values()) + found.done == index + 1
    assert len(list((tmp_path / "ledger").glob("segment-*"))) == 8, "it was sealed on the way"
    assert len(opened) <= 9, "between seals the new records alone are read"
    leaders = follower.refresh().leaders()
    assert leaders == {"iris": ("knn", "accuracy", pytest.approx(0.89), 1)}
    ledger.close()


def test_a_follower_waits_for_the_rest_of_a_record_and_survives_a_tail_that_was_cut(tmp_path):
    ledger = Ledger(make_run(tmp_path, plan()), write=True)
    follower = Follower(tmp_path)
    assert follower.refresh().status(tmp_path, None).done == 0
    line = ledgers.encode(result(0))
    (tail,) = (tmp_path / "ledger").glob("tail-*")
    with open(tail, "ab") as file:
        file.write(line[:30])
        file.flush()
        assert follower.refresh().status(tmp_path, None).done == 0
        file.write(line[30:] + line[:30])
    assert follower.refresh().status(tmp_path, None).done == 1
    ledger.close()
    size = tail.stat().st_size - 30
    os.truncate(tail, size)  # what opening it for writing does with a torn record
    assert follower.refresh().status(tmp_path, None).done == 1
    os.truncate(tail, size - len(line))
    assert follower.refresh().status(tmp_path, None).done == 0


WORKERS = [
    {"name": "w1", "host": "alpha", "trial": "iris/0/knn", "since_s": 75.0, "threads": 1},
    {"name": "w2", "host": "alpha", "trial": None, "since_s": 0.0, "threads": 1},
    {"name": "w3", "host": "beta\x1b[2J", "trial": "iris/0/svm", "since_s": 5, "threads": 1},
]


@pytest.fixture
def busy(tmp_path: Path) -> Any:
    """A run whose driver is this process, at work."""
    make_run(tmp_path, plan(), lease(0), result(0), lease(1), result(1, cause="oom"), lease(2))
    with RunLock(tmp_path):
        live = Live(tmp_path, every_s=0.0)
        live.listen("beat", {"workers": WORKERS, "queued": 3})
        yield SimpleNamespace(run=tmp_path, live=live)


def test_a_look_at_a_busy_run_shows_workers_queue_failures_and_the_best(busy):
    view = Watcher(busy.run).look()
    assert view.state == "running" and view.queue == {"queued": 3}
    assert (view.status.running, view.status.failed) == (1, {"oom": 1})
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    console.print(screen_of(view, busy.run, height=30))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("1 of 4 done, 1 failed (1 oom), 1 running, 2 to go", "alpha 1/2", "beta 1/1",
                  "3 queued", "1 min 15 s", "idle", "knn, accuracy 0.5 on validation"):  # fmt: skip
        assert words in text, words
    assert "\x1b[2J" not in text, "a host cannot clear the screen"


def test_a_screen_has_no_more_lines_than_the_terminal(busy):
    many = [{**WORKERS[0], "name": f"w{n}"} for n in range(500)]
    busy.live.beat(workers=lambda: many)
    console = Console(file=io.StringIO(), width=80)
    console.print(screen_of(Watcher(busy.run).look(), busy.run, height=24))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(text.splitlines()) <= 24 and "workers more" in text


def test_watch_prints_a_json_object_a_look_until_the_run_ends(busy, monkeypatch):
    looks = iter([None, None, busy.live.end, None])

    def sleep(seconds: float) -> None:
        step = next(looks)
        if step is not None:
            step("ended")
            (busy.run / "owner.lock").unlink()  # its owner is gone

    monkeypatch.setattr(time, "sleep", sleep)
    found = bench("status", busy.run, "--watch", "--json")
    assert found.code == 0
    seen = [json.loads(line) for line in found.out.splitlines()]
    assert [view["state"] for view in seen] == ["running", "running", "running", "stopped"]
    assert [len(view["workers"]) for view in seen] == [3, 3, 3, 0]
    assert seen[0]["best"]["iris"]["model"] == "knn"


def test_without_a_terminal_watch_prints_a_line_a_look(busy, monkeypatch):
    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    found = bench("status", busy.run, "--watch")
    assert found.code == 0, "Ctrl-C is how one stops watching"
    (line,) = found.out.splitlines()
    assert "1 of 4 done, 1 failed (1 oom)" in line and "best so far iris: knn" in line


def test_watch_ends_at_once_where_nobody_works_and_says_how_to_go_on(tmp_path):
    found = bench("status", make_run(tmp_path / "r", plan(), result(0)), "--watch")
    assert found.code == 0 and f"bench resume {tmp_path / 'r'}" in found.out


def test_a_heartbeat_that_stands_still_is_spoken_of(busy, monkeypatch):
    watcher = Watcher(busy.run)
    assert watch.trouble(watcher.look(), busy.run) is None
    watcher._moved -= 60.0
    view = watcher.look()
    assert "no heartbeat for 1 min" in str(watch.trouble(view, busy.run))
    assert "WARNING: no heartbeat" in watch.line_of(view, busy.run)
    busy.live.beat()
    assert watch.trouble(watcher.look(), busy.run) is None


def test_a_large_run_is_looked_at_less_often():
    assert watch.pause(2.0, 0.01) == pytest.approx(1.99)
    assert watch.pause(2.0, 3.0) == pytest.approx(27.0), "a tenth of the time at most"


def test_a_heartbeat_is_written_now_and_then_and_never_stops_a_sweep(tmp_path):
    live = Live(tmp_path, every_s=1000.0)
    calls = []

    def workers() -> list[dict[str, Any]]:
        calls.append(1)
        return WORKERS

    for _ in range(100):
        live.beat(workers=workers, queue={"queued": 1})
    assert len(calls) == 1, "the others came too early"
    found = read_live(tmp_path)
    assert found is not None and (found["beat"], found["pid"]) == (1, os.getpid())
    assert found["workers"] == WORKERS
    live.end("ended")
    found = read_live(tmp_path)
    assert found is not None and (found["state"], found["beat"]) == ("ended", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["live.json"]
    Live(tmp_path / "gone", every_s=0.0).beat()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"beat": "x"}', '{"beat": 1, "workers": 7}'])
def test_a_senseless_heartbeat_is_none_or_empty(text, busy):
    (busy.run / "live.json").write_text(text)
    found = read_live(busy.run)
    assert found is None or (found["workers"], found["queue"]) == ([], {})
    assert Watcher(busy.run).look().workers == []


def test_status_without_watch_says_the_same(busy):
    view: View = Watcher(busy.run).look()
    assert answer("status", busy.run).items() <= view.to_data().items()


# ---------------------------------------------------------------------- logs


TRIAL = Trial(dataset="iris", fold=0, model="knn", config={"k": 3}, seed=0, identity={})


def tell(log: EventLog, found: Result, *, index: int = 0, **more: Any) -> None:
    slot = Slot(NAME, "tune", index)
    log.listen("result", {"slot": slot, "trial": TRIAL, "result": found, **more})


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A run with a log: a quiet trial, one that printed, one that failed, one whose worker died."""
    run = make_run(tmp_path / "r", plan())
    log = EventLog(run)
    log.write("start", run=str(run))
    log.listen("worker", {"worker": "w1", "host": "alpha", "pid": 7})
    where = {"worker": "w1", "attempt": 1}
    tell(log, Result(status=DONE), **where)
    tell(log, Result(status=DONE, output="epoch 1\nepoch 2\n"), index=1, **where)
    bad = failure("error", "ValueError: no", log="Traceback\n", output="\x1b[2Jbefore\x07 it\n")
    tell(log, bad, index=2, **where)
    died = {"cause": "killed", "output": "Segmentation fault"}
    log.listen("retry", {"trial": TRIAL, **died, "attempt": 1, "worker": "w1"})
    log.listen("lost worker", {"worker": "w1", "host": "alpha", "cause": "killed"})
    log.listen("warning", {"message": "beta is left out"})
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
    assert inert(text) == shown


def test_nothing_to_show_is_said(tmp_path, logged):
    found = bench("logs", make_run(tmp_path / "quiet", plan()))
    assert found.code == 5 and "nothing yet" in found.out
    found = bench("logs", logged, "--worker", "w9")
    assert found.code == 5 and "no output of a trial that matches" in found.out
    assert bench("logs", tmp_path / "nowhere").code == 2


def test_torn_and_foreign_lines_are_passed_over(logged):
    path = logged / "logs" / "trials.jsonl"
    path.write_bytes(b'\xff{"\n[1]\n7\n' + path.read_bytes() + b'{"torn": ')
    assert len(lines_of(logged)) == 3


def test_following_shows_what_comes_also_after_the_log_was_put_aside(logged, monkeypatch):
    monkeypatch.setattr(event_log, "ROOM", 1500)
    log = EventLog(logged)
    turns = iter(range(6))

    def sleep(seconds: float) -> None:
        turn = next(turns, None)
        if turn is None:
            raise KeyboardInterrupt
        tell(log, Result(status=DONE, output=f"turn {turn} {'x' * 400}"))

    monkeypatch.setattr(time, "sleep", sleep)
    found = bench("logs", logged, "--follow", "--json")
    log.close()
    assert found.code == 0 and (logged / "logs" / "trials.jsonl.1").exists(), "it was put aside"
    seen = [json.loads(line)["output"].split(" x")[0] for line in found.out.splitlines()]
    assert seen[3:] == [f"turn {turn}" for turn in range(6)]


def test_a_log_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(event_log, "ROOM", 10_000)
    log = EventLog(make_run(tmp_path, plan()))
    for index in range(100):
        tell(log, Result(status=DONE, output="x" * 1000), index=index)
    log.close()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "logs").glob("trials*")}
    assert set(sizes) >= {"trials.jsonl.1"} and max(sizes.values()) < 12_000
    assert lines_of(tmp_path, "--last", 1)[0]["index"] == 99


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


# ---------------------------------------------------------------------- trying again


def test_retry_takes_causes_as_a_list_or_one_by_one(tmp_path, monkeypatch):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"), result(1, cause="killed"))
    asked: list[Any] = []

    def resume(face: Any, run: Path, *, causes: Any, **given: Any) -> int:
        asked.append(causes)
        return 0

    monkeypatch.setattr(runs, "resume_command", resume)
    assert bench("retry", run, "--cause", "oom,killed").code == 0
    assert bench("retry", run, "--cause", "oom", "--cause", "killed, error").code == 0
    assert bench("retry", run).code == 0
    assert asked == [("oom", "killed"), ("oom", "killed", "error"), None]


@pytest.mark.parametrize("cause", ["omm", "oom,omm", "oom,", ""])
def test_retry_of_an_unknown_cause_is_refused_with_a_suggestion(cause, tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"))
    found = bench("retry", run, "--cause", cause)
    assert found.code == 2 and "unknown cause" in found.err and "known: error, gpu_oom" in found.err
    assert ("did you mean 'oom'?" in found.err) == ("omm" in cause)


def test_retry_with_nothing_to_do_exits_with_5_and_says_what_failed(tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"), result(1))
    found = bench("retry", run, "--cause", "timeout,killed")
    assert found.code == 5
    assert "no failed trial of that cause to run again; failed here: 1 oom" in found.out
    assert bench("retry", make_run(tmp_path / "fine", plan(), result(0))).code == 5


# ---------------------------------------------------------------------- cleaning up


def full_run(folder: Path, n_done: int = 4) -> Path:
    """A run with one of everything."""
    run = make_run(folder, plan(), *(result(index) for index in range(n_done)))
    for name in ("report/scores.md", "mlflow.db", "mlflow.db-wal", "tracking/log.txt",
                 "mlartifacts/a/b", "checkpoints/ab12", "tune/iris/state", "logs/events.jsonl",
                 "quarantine/tail.1", "live.json", ".live.json.7.tmp", "predictions/000000.bin",
                 "ledger/.MANIFEST.json.7.tmp", "notes.txt"):  # fmt: skip
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 1000)
    return run


def contents(run: Path) -> set[str]:
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}


def cleaned(run: Path, *args: object, code: int = 0) -> set[str]:
    """What went."""
    before = contents(run)
    found = bench("clean", run, "--yes", *args)
    assert found.code == code, found
    return before - contents(run)


@pytest.mark.parametrize(
    ("args", "gone"),
    [
        ([], {"checkpoints/ab12", "tune/iris/state", "live.json"}),
        (["--report"], {"report/scores.md"}),
        (["--tracking"], {"mlflow.db", "mlflow.db-wal", "tracking/log.txt", "mlartifacts/a/b"}),
        (["--checkpoints"], {"checkpoints/ab12", "tune/iris/state"}),
        (["--logs", "--quarantine"], {"logs/events.jsonl", "quarantine/tail.1"}),
    ],
    ids=["default", "report", "tracking", "checkpoints", "logs"],
)
def test_clean_removes_what_is_named_or_left_over(args, gone, tmp_path):
    run = full_run(tmp_path / "r")
    assert cleaned(run, *args) == gone | {".live.json.7.tmp"}


def test_clean_of_everything_leaves_the_run_itself(tmp_path):
    run = full_run(tmp_path / "r")
    cleaned(run, "--all")
    kept = {"predictions/000000.bin", "notes.txt", "ledger/.MANIFEST.json.7.tmp", "owner.lock"}
    left = contents(run)
    assert {name for name in left if not name.startswith("ledger/")} == kept - {
        "ledger/.MANIFEST.json.7.tmp"
    } | ({"live.json"} & left)
    assert "ledger/.MANIFEST.json.7.tmp" in left and status_of(run).done == 4
    assert cleaned(run, "--all", code=5) == set()


def test_an_unfinished_run_keeps_its_checkpoints_unless_they_are_named(tmp_path):
    run = full_run(tmp_path / "r", n_done=3)
    assert cleaned(run) == {".live.json.7.tmp"}
    assert cleaned(run, "--checkpoints") == {"checkpoints/ab12", "tune/iris/state"}


def test_clean_asks_first_and_a_dry_run_removes_nothing(tmp_path):
    run = full_run(tmp_path / "r")
    before = contents(run)
    found = bench("clean", run, "--dry-run", "--all")
    assert found.code == 0 and "1.0 kB" in found.out and "nothing was removed" in found.out
    assert bench("clean", run).code == 2, "nobody is there to be asked"
    assert contents(run) == before
    document = answer("clean", run, "--dry-run")
    assert document["bytes"] == 4000 and not document["removed"]


def test_clean_refuses_a_run_in_use_and_passes_it_over_among_others(tmp_path):
    mine, other = full_run(tmp_path / "mine"), full_run(tmp_path / "other")
    with RunLock(mine):
        before = contents(mine)
        found = bench("clean", mine, "--all", "--yes")
        assert found.code == 3 and f"process {os.getpid()}" in found.err
        found = bench("clean", "--runs", tmp_path, "--report", "--yes")
        assert found.code == 0 and "in use" in found.err
        assert contents(mine) == before
    assert not (other / "report").exists()


def test_clean_refuses_what_is_no_run(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "mine.md").write_text("precious")
    assert bench("clean", tmp_path, "--all", "--yes").code == 2
    assert bench("clean", "--runs", tmp_path, "--all", "--yes").code == 2
    assert bench("clean").code == 2 and bench("clean", "a", "--runs", "b").code == 2
    run = full_run(tmp_path / "r")
    (tmp_path / "link").symlink_to(run)
    found = bench("clean", tmp_path / "link", "--all", "--yes")
    assert found.code == 2 and "is a link" in found.err and (run / "report").exists()
    assert (tmp_path / "report" / "mine.md").exists()


def test_clean_goes_through_no_link(tmp_path):
    run, away = full_run(tmp_path / "r"), tmp_path / "away"
    away.mkdir()
    (away / "precious").write_text("x")
    (run / "report" / "scores.md").unlink()
    (run / "report").rmdir()
    (run / "report").symlink_to(away)
    (run / "checkpoints" / "link").symlink_to(away)
    found = bench("clean", run, "--all", "--yes")
    assert found.code == 0 and "report is a link: left alone" in found.err
    assert (away / "precious").exists() and not (run / "checkpoints").exists()


# ---------------------------------------------------------------------- the terminal of a sweep


def test_progress_counts_what_a_study_really_had_and_prints_no_escapes(capsys):
    progress = Progress(quiet=False, color=False)
    progress.begin(7, "r")
    (study,) = plan(seeds=3)["studies"]
    ended = SimpleNamespace(name=NAME, n_slots=4, meta=study, best_loss=lambda: None)
    for index in range(4):
        slot = Slot(NAME, "tune", index)
        progress.listen("result", {"slot": slot, "result": failure("error", "\x1b[2Jbad")})
    progress.listen("study", {"study": ended})
    assert progress.total == 4
    progress.listen("warning", {"message": "beta is left out"})
    progress.listen("lost node", {"host": "beta"})
    progress.listen("beat", {"workers": [], "queued": 0})
    text = capsys.readouterr().err
    assert "\x1b" not in text and "error: bad" in text
    assert "warning: beta is left out" in text and "lost beta" in text


# ---------------------------------------------------------------------- clocks that jump

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

    def sweep(code: list[str], folder: str) -> Ran:
        command = [sys.executable, *code, *map(str, [*args, tmp_path / folder])]
        ran = subprocess.run(command, capture_output=True, text=True)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    jumped = sweep(["-c", JUMPING], "jumped")
    steady = sweep(["-m", "tabsweep.benchmark.cli"], "steady")
    assert (jumped.code, steady.code) == (0, 0), jumped.err
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
    assert 0.0 <= json.loads(jumped.out)["wall_s"] < 600
    assert json.loads(jumped.out)["failed"] == {}
    assert status_of(tmp_path / "jumped" / "smoke-quick").left == 0


def test_sizes_are_words():
    assert [clean.size(n) for n in (0, 999, 1500, 2e12)] == ["0 B", "999 B", "1.5 kB", "2000.0 GB"]
    assert logs.aside(Path("a/b.jsonl")) == Path("a/b.jsonl.1")
