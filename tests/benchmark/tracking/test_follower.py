"""The process that follows a sweep, the MLflow page, and servers that fail."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tabsweep.benchmark.tracking import follower as tracking
from tabsweep.benchmark.tracking import store as tracking_store
from tracking_records import (
    SECRET,
    STUDIES,
    add,
    make_run,
    records,
    result,
    rows_in,
    shown,
)

pytestmark = pytest.mark.xdist_group("mlflow")  # one store is made for all


@pytest.mark.fault(18)
def test_a_follower_of_a_dead_server_ends_with_one_warning_and_never_loads_mlflow(
    tmp_path: Path, closed_port: int
) -> None:
    run = make_run(tmp_path / "a", records())
    uri = f"http://me:{SECRET}@127.0.0.1:{closed_port}"
    syncer = tracking.Syncer(run, uri=uri, interval_s=0.1).start()
    assert syncer._process is not None
    command = Path(f"/proc/{syncer._process.pid}/cmdline").read_bytes()
    warning = syncer.stop(timeout=120)
    assert warning is not None and "\n" not in warning
    assert f"bench track sync {run}" in warning and "safe in the ledger" in warning
    log = (run / "tracking" / "log.txt").read_text()
    for text in (command.decode(), warning, log):
        assert SECRET not in text
    assert syncer.stop() is None  # twice is once


@pytest.mark.fault(18)
def test_tables_and_page_are_announced_before_the_command_waits_for_mlflow(
    tmp_path: Path, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", "1")
    words += ("--trials", "1", "--workers", "0", "--name", "r")
    words += ("--tracking-uri", f"http://127.0.0.1:{closed_port}")
    command = [sys.executable, "-m", "tabsweep.benchmark.cli", "sweep", *words]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ran.returncode == 6, ran.stdout
    lines = ran.stdout.splitlines()
    parts = ("tables: ", "waiting for MLflow", "MLflow is behind")
    at = [[part in line for line in lines].index(True) for part in parts]
    assert at == sorted(at) and "index.html" in "".join(lines[at[0] : at[1]]), ran.stdout


def test_a_follower_shows_the_sweep_and_says_nothing_when_all_is_well(fresh: Any) -> None:
    rows = records()
    run = fresh("a", rows[:5])
    syncer = tracking.Syncer(run, interval_s=0.2).start()
    add(run, rows[5:])
    assert syncer.stop(timeout=240) is None
    assert {item["status"] for item in shown(run).values()} == {"FINISHED"}
    known = tracking.last_sync(run)
    assert known is not None and known["complete"] and known["records"] == 13


def test_a_follower_gives_way_to_trials_and_no_longer_once_the_sweep_waits_for_it(
    fresh: Any,
) -> None:
    group = Path("/proc/self/autogroup")
    if not group.exists() or not group.read_text().strip():
        pytest.skip("this kernel does not share time between sessions: /proc/self/autogroup")
    syncer = tracking.Syncer(fresh("a", records()), interval_s=600).start()
    assert syncer._process is not None
    pid = syncer._process.pid
    group = Path(f"/proc/{pid}/autogroup")
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(own + tracking.NICENESS, tracking.LOWEST)
    assert group.read_text().split()[-1] == str(tracking.NICENESS)
    seen: set[str] = set()
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(syncer.stop, 240)
        while not ended.done():
            with suppress(OSError):  # it ends meanwhile
                seen.add(group.read_text().split()[-1])
            time.sleep(0.02)
    assert ended.result() is None and "0" in seen


def test_a_follower_whose_driver_was_killed_makes_one_last_pass_and_ends(fresh: Any) -> None:
    run = fresh("a", [result(STUDIES[0], 0)])
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tabsweep.benchmark.tracking.follower import Syncer\n"
        "s = Syncer(Path(sys.argv[1]), interval_s=600).start()\n"
        "print(s._process.pid, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    follower = int(driver.stdout.readline())
    assert Path(f"/proc/{follower}").exists()  # it lives, and its driver is about to die
    add(run, [result(STUDIES[0], i) for i in range(1, 4)])
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not (tracking.last_sync(run) or {}).get("complete"):
        time.sleep(0.2)
    (item,) = shown(run).values()
    assert item["status"] == "FINISHED"
    while time.monotonic() < deadline and _alive(follower):
        time.sleep(0.1)
    assert not _alive(follower)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_interface_is_served_on_this_machine_only_and_secrets_stay_off_its_command(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "a", records())
    with pytest.raises(tracking.TrackingError, match="bench track sync"):
        tracking.ui_command(run)
    (run / "mlflow.db").touch()
    command = tracking.ui_command(run, port=5001)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--backend-store-uri") + 1] == tracking.default_uri(run)
    uri = f"postgresql://me:{SECRET}@host/db"
    assert SECRET not in " ".join(tracking.ui_command(run, uri))
    assert tracking.ui_environment(run, uri)["MLFLOW_BACKEND_STORE_URI"] == uri
    with pytest.raises(tracking.TrackingError, match="own page"):
        tracking.ui_command(run, "https://host")


def test_the_driver_can_start_a_follower_without_loading_mlflow_or_pandas() -> None:
    code = (
        "import sys, tabsweep.benchmark.tracking.follower\n"
        "print([m for m in ('mlflow', 'pandas', 'torch', 'ray', 'sqlalchemy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.fault(18)
@pytest.mark.nightly
def test_a_server_that_was_down_for_a_while_ends_up_with_every_run_once(
    fresh: Any, closed_port: int
) -> None:
    store, run = fresh("server", []), fresh("a", records()[:6])
    uri = f"http://127.0.0.1:{closed_port}"

    def serve() -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            tracking.ui_command(store, port=closed_port),
            env=tracking.ui_environment(store),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                tracking_store.probe(uri)
                return server
            except tracking.Unreachable:
                time.sleep(0.5)
        server.kill()
        raise AssertionError("the server did not start")

    server = serve()
    try:
        assert tracking.sync(run, uri=uri).created == 3
    finally:
        server.terminate()
        server.wait()
    add(run, records()[6:])
    with pytest.raises(tracking.TrackingError):
        tracking.sync(run, uri=uri)
    server = serve()
    try:
        report = tracking.sync(run, uri=uri)
        assert (report.created, report.updated) == (0, 3)
        again = tracking.sync(run, uri=uri)
        assert (again.created, again.updated) == (0, 0)
    finally:
        server.terminate()
        server.wait()
    tracking.sync(run)  # beside it, the store of its own
    (store / "ledger").rename(store / "ledger.old")
    shutil.copytree(run / "ledger", store / "ledger")
    own, served = shown(run), shown(store)
    assert own.keys() == served.keys()
    for key, item in own.items():
        assert item == served[key]


@pytest.mark.fault(18)
@pytest.mark.nightly
def test_a_database_that_freezes_or_dies_in_mid_sync_costs_one_warning_and_no_run(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil
    from mlflow.tracking import MlflowClient
    from mlflow_server import MLflowServer
    from postgres import Postgres, missing

    if reason := missing():
        pytest.skip(reason)
    run = fresh("a", records())
    real_create, real_batch = MlflowClient.create_run, MlflowClient.log_batch
    struck: list[str] = []
    with Postgres() as database, MLflowServer(database.uri()) as server:
        assert database._process is not None
        master = psutil.Process(database._process.pid)

        def all_of_it() -> list[psutil.Process]:
            return [master, *master.children(recursive=True)]

        def freeze(self: Any, *args: Any, **given: Any) -> Any:
            for process in all_of_it():
                process.suspend()
            struck.append("frozen")
            return real_create(self, *args, **given)

        def die(self: Any, *args: Any, **given: Any) -> Any:
            made = real_batch(self, *args, **given)
            database.stop(signal.SIGQUIT)
            struck.append("dead")
            return made

        def fails() -> str:
            began = time.monotonic()
            with pytest.raises(tracking.TrackingError) as caught:
                tracking.sync(run, uri=server.uri, retries=0)
            assert time.monotonic() - began < 4 * tracking_store.ANSWER_S
            assert "\n" not in str(caught.value) and database.password not in str(caught.value)
            return str(caught.value)

        monkeypatch.setattr(MlflowClient, "create_run", freeze)
        fails()
        monkeypatch.undo()
        for process in all_of_it():
            process.resume()  # and what was asked of it is done, with nobody waiting for it
        monkeypatch.setattr(MlflowClient, "log_batch", die)
        fails()
        monkeypatch.undo()
        assert struck[0] == "frozen" and struck[-1] == "dead"
        fails()  # it is still down
        database.start()
        for _ in range(5):  # the server's own connections are dead, and it learns that one by one
            with suppress(tracking.TrackingError):
                tracking.sync(run, uri=server.uri)
                break
        again = tracking.sync(run, uri=server.uri)
        assert (again.created, again.updated, again.doubles) == (0, 0, 0)
        keys = database.query(
            "SELECT value, count(*) FROM tags JOIN runs USING (run_uuid) "
            "WHERE key = 'tabsweep.key' AND lifecycle_stage = 'active' GROUP BY value"
        )
        assert sorted(line.split("|")[1] for line in keys.splitlines()) == ["1", "1", "1"]
        points = int(database.query("SELECT count(*) FROM metrics"))
    tracking.sync(run)
    assert points == len(rows_in(run)["metrics"]) - other_metrics(run)


def other_metrics(run: Path) -> int:
    """Points in the run's own store that belong to the runs of the store it was copied from."""
    with sqlite3.connect(run / "mlflow.db") as database:
        return database.execute(
            "select count(*) from metrics where run_uuid not in "
            "(select run_uuid from tags where key = 'run' and value = 'a')"
        ).fetchone()[0]
