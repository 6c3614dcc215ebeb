"""Calls to a Ray that is deaf, stopped or dead come to an end."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from tabsweep.sweeps.workers import ray_thread
from tabsweep.sweeps.workers.pool import ClusterLost
from tabsweep.sweeps.workers.ray_thread import RayThread


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> RayThread:
    """With the limits of this test, in seconds."""
    monkeypatch.setattr(ray_thread, "ANSWER_S", 1.0)
    return RayThread()


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def refuse(question: int) -> None:
    raise ValueError(question)


def test_calls_are_made_one_after_the_other_in_one_thread(ray: RayThread) -> None:
    names = {ray.ask(threading.current_thread) for _ in range(3)}
    assert len(names) == 1 and threading.current_thread() not in names
    assert ray.ask(lambda: ray.ask(lambda: 7)) == 7  # a call in a call
    with pytest.raises(ValueError, match="3"):
        ray.ask(lambda: refuse(3))
    assert ray.lost == ""


@pytest.mark.fault(35)
def test_a_call_without_an_answer_loses_ray_and_the_next_one_does_not_wait(ray: RayThread) -> None:
    told: list[str] = []
    ray.tell = told.append
    over = threading.Event()
    with pytest.raises(ClusterLost, match="not answered"):
        ray.ask(over.wait)
    assert told == [ray.lost] and ray.lost
    began = time.monotonic()
    with pytest.raises(ClusterLost):
        ray.ask(lambda: 1)
    assert time.monotonic() - began < 0.5
    ray.begin_anew()  # another Ray, though a thread hangs in the first
    assert ray.ask(lambda: 1) == 1
    over.set()


@pytest.mark.fault(35)
def test_a_call_ends_with_the_daemon_that_it_waits_for(ray: RayThread, daemon) -> None:
    ray.watch([daemon.pid])
    assert ray.ask(lambda: 1) == 1
    threading.Timer(0.5, daemon.kill).start()
    with pytest.raises(ClusterLost, match="has died"):
        ray.ask(threading.Event().wait, 60.0)


@pytest.mark.fault(35)
def test_a_daemon_may_be_stopped_for_a_moment_and_no_longer(ray: RayThread, daemon) -> None:
    ray.watch([daemon.pid])
    daemon.send_signal(19)
    ray.check()
    time.sleep(0.5)
    daemon.send_signal(18)
    time.sleep(0.1)
    ray.check()
    time.sleep(1.0)
    ray.check()
    daemon.send_signal(19)
    with pytest.raises(ClusterLost, match="was stopped"):
        ray.ask(threading.Event().wait, 60.0)


def test_a_long_act_is_given_up_where_whoever_looks_on_says_so(ray: RayThread) -> None:
    assert ray.look_on(lambda: 3, lambda: None) == 3
    with pytest.raises(ClusterLost):
        ray.look_on(threading.Event().wait, lambda: ray._lose("gone"))


@pytest.mark.fault(35)
def test_an_error_that_says_that_ray_failed_loses_it(ray: RayThread) -> None:
    class RpcError(Exception):
        pass

    def call() -> None:
        raise RpcError("no such server")

    with pytest.raises(ClusterLost, match="no such server"):
        ray.ask(call)
    assert ray.lost
