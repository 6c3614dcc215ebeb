"""`bench doctor`: its checks of this machine and of a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from calls import bench
from local_server import LocalServer
from tabsweep.benchmark.commands import doctor
from tabsweep.benchmark.running import cluster_checks


@contextmanager
def server(answers: Any) -> Iterator[str]:
    """host:port of a server; `answers(headers)` gives the status of every request."""
    found = LocalServer()
    found.answer = lambda path, headers: (answers(headers), {}, b"")  # type: ignore[method-assign]
    yield found.host
    found.close()


def test_a_dashboard_without_a_token_is_a_problem_unless_only_this_machine_reaches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with server(lambda headers: 200) as where:
        assert cluster_checks.judge_dashboard(where)[0] == doctor.OKAY
        monkeypatch.setattr(cluster_checks, "is_loopback", lambda host: False)  # another's machine
        state, detail = cluster_checks.judge_dashboard(where)
        assert state == doctor.PROBLEM and "RAY_AUTH_MODE=token" in detail
    with server(lambda headers: 401) as where:
        assert cluster_checks.judge_dashboard(where)[0] == doctor.OKAY


def cluster_of(own: dict[str, str], **others: dict[str, Any]) -> cluster_checks.Cluster:
    """A cluster whose nodes have answered; each is what differs from a healthy one."""
    found = cluster_checks.Cluster("auto")
    for name, odd in others.items():
        found.nodes[name] = cluster_checks.Node(name, name, 1, 0, 1000.0)
        usual = {"versions": own, "disk_gb": 50.0, "shm_mb": 2000.0, "memory_mb": 6000.0}
        found._answers[name] = {**usual, **odd}
    found.ask = lambda question, of: found._answers  # type: ignore[method-assign]
    return found


def test_a_node_with_other_versions_or_code_or_without_an_answer_is_named() -> None:
    own = cluster_checks.versions()
    assert cluster_of(own, a={}).same()[0] == doctor.OKAY
    odd = {**own, "ray": "2.0.0", "tabsweep's source": "0123"}
    state, detail = cluster_of(own, a={}, b={"versions": odd}).same()
    assert state == doctor.PROBLEM and "b: ray 2.0.0 instead of" in detail
    assert "tabsweep's source 0123 instead of" in detail and "a:" not in detail.split("b:")[0]
    found = cluster_of(own, a={})
    found.nodes["b"] = cluster_checks.Node("b", "far", 1, 0, 1000.0)
    found._silent["b"] = "No module named 'tabsweep'"
    state, detail = found.same()
    assert state == doctor.PROBLEM and "far: no answer (No module named 'tabsweep')" in detail


def test_a_node_that_is_short_of_disk_or_shared_memory_is_named() -> None:
    state, detail = cluster_of({}, a={}, b={"disk_gb": 0.5}, c={"shm_mb": 64.0}).room()
    assert state == doctor.WARNING and "b: 0.5 GB" in detail and "64 MB" in detail
    assert "a:" not in detail


def test_a_folder_where_two_could_take_the_same_run_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor._run_lock(tmp_path / "runs")[0] == doctor.OKAY
    from tabsweep.sweeps.store import run_lock

    monkeypatch.setattr(run_lock, "_lock", lambda file: None)  # a file system that only pretends
    assert doctor._run_lock(tmp_path / "runs")[0] == doctor.PROBLEM
    assert not list(tmp_path.iterdir())


@pytest.fixture
def fast_doctor(monkeypatch):
    """Without the check that starts Ray."""
    monkeypatch.setattr(doctor, "_ray", lambda: (doctor.OKAY, "not started in this test"))


def test_doctor_passes_here_and_leaves_nothing_behind(fast_doctor, tmp_path):
    found = bench("doctor", "--runs", tmp_path / "not" / "yet", "--json")
    checks = {check["name"]: check for check in json.loads(found.out)}
    assert found.code == 0, checks
    assert {"libraries", "runs folder", "disk", "mlflow"} <= set(checks)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("anonymous", "far", "code"), [(401, True, 0), (200, True, 3), (200, False, 0), (500, False, 3)]
)
def test_an_mlflow_server_must_not_let_everybody_in(
    fast_doctor, monkeypatch: pytest.MonkeyPatch, anonymous: int, far: bool, code: int
) -> None:
    monkeypatch.setattr(doctor, "is_loopback", lambda host: not far)
    with server(lambda headers: anonymous) as where:
        monkeypatch.setenv("TABSWEEP_TRACKING_URI", f"http://me:p%3Aw@{where}")
        found = bench("doctor")
    assert found.code == code and "p%3Aw" not in found.out + found.err
    state = "problem" if code else "ok"
    assert re.search(rf"^{state} +mlflow: ", found.out, re.MULTILINE), found.out
    monkeypatch.setenv("TABSWEEP_TRACKING_URI", "http://0.0.0.0:5000")  # open to every network
    found = bench("doctor")
    assert found.code == 3 and re.search(r"^problem +mlflow: ", found.out, re.MULTILINE)


def test_doctor_turns_an_exception_into_a_problem(fast_doctor, monkeypatch):
    def broken():
        raise OSError("no such disk")

    monkeypatch.setattr(doctor, "_ray", broken)
    found = bench("doctor")
    assert found.code == 3 and "problem ray: OSError: no such disk" in found.out
