"""MLflow servers of several users, that refuse, or that restart while a sweep ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from calls import bench
from chaos import Sweep, kill_all
from mlflow_server import MLflowServer
from tabsweep.benchmark.tracking.sync import last_sync
from tracking_records import SECRET

pytestmark = pytest.mark.xdist_group("mlflow")

PASSWORDS = {"admin": "admin-password-1", "ann": "ann-password-1", "bob": "bob-password-1"}
SWEEP = (
    *("--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", "2"),
    *("--trials", "2", "--workers", "0"),
)


def sweep(folder: Path, uri: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`bench sweep` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tabsweep.benchmark.cli", "sweep", *SWEEP]
        + ["--runs", str(folder), "--tracking-uri", uri],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def login(name: str, password: str = "") -> dict[str, str]:
    return {
        "MLFLOW_TRACKING_USERNAME": name,
        "MLFLOW_TRACKING_PASSWORD": password or PASSWORDS[name],
    }


@pytest.mark.fault(18)
def test_tables_are_announced_before_a_sweep_waits_for_a_server_that_is_down_and_ends_with_6(
    tmp_path: Path, closed_port: int
) -> None:
    done = sweep(tmp_path, f"http://me:{SECRET}@127.0.0.1:{closed_port}")
    assert done.returncode == 6, done.stdout
    log = tmp_path / "smoke-quick" / "tracking" / "log.txt"
    assert SECRET not in done.stdout + log.read_text()
    lines = done.stdout.splitlines()
    parts = ("tables: ", "is still being", "MLflow is behind")
    at = [[part in line for line in lines].index(True) for part in parts]
    assert at == sorted(at) and "index.html" in "".join(lines[at[0] : at[1]]), done.stdout
    assert "MLflow is behind" in lines[-1] and f"bench track sync {tmp_path}" in lines[-1]
    assert "safe in the ledger" in lines[-1]
    assert (tmp_path / "smoke-quick" / "report" / "scores.md").is_file()


@pytest.fixture(scope="module", params=["READ", "NO_PERMISSIONS"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """MLflow's own server with users ann and bob, and what others may do with one's experiments."""
    import mlflow.server

    folder = tmp_path_factory.mktemp("auth")
    auth = (PASSWORDS["admin"], request.param)
    with MLflowServer(f"sqlite:///{folder}/mlflow.db", auth=auth) as running:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in login("admin").items():
                patch.setenv(name, value)
            client = mlflow.server.get_app_client("basic-auth", running.uri)
            for name in ("ann", "bob"):
                client.create_user(name, PASSWORDS[name])
        yield running


@pytest.mark.nightly
def test_two_users_of_one_server_both_find_their_sweeps_there(
    server: MLflowServer, tmp_path: Path
) -> None:
    found = {}
    for name in ("ann", "bob"):
        done = sweep(tmp_path / name, server.uri, **login(name))
        assert done.returncode == 0, done.stdout
        known = last_sync(tmp_path / name / "smoke-quick", uri=server.uri)
        assert known["runs"]
        found[name] = known["experiment"]
    assert found == {"ann": "smoke-quick", "bob": "smoke-quick (bob)"}


@pytest.mark.nightly
def test_a_wrong_password_ends_a_sweep_with_6_at_once(server: MLflowServer, tmp_path: Path) -> None:
    done = sweep(tmp_path, server.uri, **login("bob", "wrong"))
    assert done.returncode == 6, done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert "refuses 'bob'" in last and "MLFLOW_TRACKING_PASSWORD" in last


def resume(run: Path, *more: str) -> str:
    """What `bench resume` printed."""
    done = bench("resume", run, "--workers", 0, *more)
    assert done.code == 0, done.err
    return done.out + done.err


def test_a_run_that_began_without_mlflow_is_resumed_without_it_until_an_address_is_given(
    tmp_path: Path,
) -> None:
    begun = Sweep(tmp_path / "begun", *SWEEP, "--tracking-uri", "none")
    begun.start(pause_s=60)
    begun.wait(begun.running, "a running trial")
    begun.off()
    assert not begun.finished()  # nothing is done, and the run's choice is known all the same
    assert "MLflow stays off" in resume(begun.run)
    begun.check_nothing_lost(2 * 2)
    assert not (begun.run / "mlflow.db").exists() and not (begun.run / "tracking").exists()
    uri = f"sqlite:///{tmp_path}/elsewhere.db"
    assert "MLflow stays off" not in resume(begun.run, "--tracking-uri", uri)
    assert last_sync(begun.run, uri=uri)["runs"]
    assert not (begun.run / "tracking-off").exists()


def test_a_killed_sweep_is_resumed_with_mlflow_also_where_its_store_was_removed(
    tmp_path: Path,
) -> None:
    killed = Sweep(tmp_path / "killed", *SWEEP)
    driver = killed.start(pause_s=1.0)
    killed.wait(killed.finished, "a finished trial")
    killed.wait(killed.running, "a running trial")
    kill_all(driver)
    before = killed.finished()
    killed.resume()
    killed.check_nothing_lost(2 * 2)
    killed.check_nothing_twice()
    assert before <= killed.finished()
    first = last_sync(killed.run)
    assert first["runs"] == 2  # studies
    assert bench("clean", killed.run, "--tracking", "--yes").code == 0
    assert not (killed.run / "mlflow.db").exists() and not (killed.run / "tracking").exists()
    assert "MLflow stays off" not in resume(killed.run)
    again = last_sync(killed.run)
    assert again["runs"] == first["runs"]
