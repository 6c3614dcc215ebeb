"""`bench status --watch`: the heartbeat, and what a look shows."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from calls import answer, bench, replace_sleep
from rich.console import Console
from run_records import lease, make_run, plan, result
from tabsweep.benchmark.commands import status as watch
from tabsweep.benchmark.commands.status import View, Watcher, screen_of
from tabsweep.benchmark.running.heartbeat import Heartbeat, read_live
from tabsweep.sweeps.events import Beat, Warned
from tabsweep.sweeps.store.run_lock import RunLock

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
        live = Heartbeat(tmp_path)
        live.listen(Beat(WORKERS, 3))
        yield SimpleNamespace(run=tmp_path, live=live)


def test_a_look_at_a_busy_run_shows_workers_queue_and_failures(busy):
    view = Watcher(busy.run).look()
    assert view.state == "running" and view.queue == {"queued": 3}
    assert (view.status.running, view.status.failed) == (1, {"oom": 1})
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    console.print(screen_of(view, busy.run, height=30))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    counts = "1 of 4 trials done, 1 failed (1 oom), 1 running, 2 to go"
    more = ("alpha 1/2", "beta 1/1", "3 queued", "75 s", "idle")
    for words in (counts, *more):
        assert words in text, words
    assert "\x1b[2J" not in text, "a host cannot clear the screen"


def test_the_time_left_is_the_drivers_own_estimate(busy):
    busy.live.left_s = lambda: 754.0
    busy.live.listen(Beat(WORKERS, 3))
    assert "ETA 13 min" in watch.progress_line(Watcher(busy.run).look().status)


def test_a_screen_has_no_more_lines_than_the_terminal(busy):
    many = [{**WORKERS[0], "name": f"w{n}"} for n in range(500)]
    busy.live.listen(Beat(many, 0))
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

    replace_sleep(monkeypatch, sleep)
    found = bench("status", busy.run, "--watch", "--json")
    assert found.code == 0
    seen = [json.loads(line) for line in found.out.splitlines()]
    assert [view["state"] for view in seen] == ["running", "running", "running", "stopped"]
    assert [len(view["workers"]) for view in seen] == [3, 3, 3, 0]


def test_without_a_terminal_watch_prints_a_line_a_look(busy, monkeypatch):
    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    replace_sleep(monkeypatch, sleep)
    found = bench("status", busy.run, "--watch")
    assert found.code == 0, "Ctrl-C is how one stops watching"
    (line,) = found.out.splitlines()
    assert "1 of 4 trials done, 1 failed (1 oom)" in line


def test_watch_ends_at_once_where_nobody_works_and_says_how_to_go_on(tmp_path):
    found = bench("status", make_run(tmp_path / "r", plan(), result(0)), "--watch")
    assert found.code == 0 and f"bench resume {tmp_path / 'r'}" in found.out


def test_a_heartbeat_that_stands_still_is_spoken_of(busy, monkeypatch):
    watcher = Watcher(busy.run)
    assert watch.trouble(watcher.look(), busy.run) is None
    watcher._moved -= 60.0
    view = watcher.look()
    assert "no heartbeat for 60 s" in str(watch.trouble(view, busy.run))
    assert "WARNING: no heartbeat" in watch.line_of(view, busy.run)
    busy.live.listen(Beat([], 0))
    assert watch.trouble(watcher.look(), busy.run) is None


def test_a_heartbeat_is_written_and_never_stops_a_sweep(tmp_path):
    live = Heartbeat(tmp_path)
    live.listen(Beat(WORKERS, 1))
    live.listen(Warned("no beat"))
    found = read_live(tmp_path)
    assert found is not None, "nothing was written"
    assert (found["beat"], found["pid"]) == (1, os.getpid())
    assert found["workers"] == WORKERS
    live.end("ended")
    found = read_live(tmp_path)
    assert found is not None and (found["state"], found["beat"]) == ("ended", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["live.json"]
    gone = Heartbeat(tmp_path / "gone")
    gone.listen(Beat([], 0))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"beat": "x"}', '{"beat": 1, "workers": 7}'])
def test_a_senseless_heartbeat_is_none_or_empty(text, busy):
    (busy.run / "live.json").write_text(text)
    found = read_live(busy.run)
    assert found is None or (found["workers"], found["queue"]) == ([], {})
    assert Watcher(busy.run).look().workers == []


def test_status_without_watch_says_the_same(busy):
    view: View = Watcher(busy.run).look()
    assert answer("status", busy.run).items() <= view.to_data().items()
