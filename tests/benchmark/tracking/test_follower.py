"""The process that follows a sweep, and servers that fail."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mlflow_server import MLflowServer
from tabsweep.benchmark.tracking.follower import Syncer
from tabsweep.benchmark.tracking.store import TrackingError, default_uri
from tabsweep.benchmark.tracking.sync import last_sync, sync
from tracking_records import STUDIES, add, records, result, shown, trials_shown

pytestmark = pytest.mark.xdist_group("mlflow")  # one store is made for all


def test_a_follower_shows_the_sweep_and_says_nothing_when_all_is_well(fresh: Any) -> None:
    rows = records()
    run = fresh("a", rows[:5])
    syncer = Syncer(run)
    add(run, rows[5:])
    assert syncer.stop(timeout=240) is None
    assert {item["status"] for item in shown(run).values()} == {"FINISHED"}
    assert last_sync(run)["runs"] == 3


def test_a_follower_whose_driver_was_killed_makes_one_last_pass_and_ends(fresh: Any) -> None:
    run = fresh("a", [result(STUDIES[0], 0)])
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tabsweep.benchmark.tracking.follower import Syncer\n"
        "s = Syncer(Path(sys.argv[1]))\n"
        "print(s.process.pid, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    follower = int(driver.stdout.readline())
    assert Path(f"/proc/{follower}").exists()  # it lives, and its driver is about to die
    add(run, [result(STUDIES[0], i) for i in range(1, 4)])
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not last_sync(run).get("runs"):
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


@pytest.mark.fault(18)
@pytest.mark.nightly
def test_a_server_that_was_down_for_a_while_ends_up_with_every_run_once(
    fresh: Any, tmp_path: Path
) -> None:
    store, run = fresh("server", []), fresh("a", records()[:6])
    with MLflowServer(default_uri(store)) as server:
        assert sync(run, uri=server.uri).created == 3
        server.stop(signal.SIGKILL)
        add(run, records()[6:])
        with pytest.raises(TrackingError):
            sync(run, uri=server.uri)
        server.start()
        assert sync(run, uri=server.uri).replaced == 3
        assert sync(run, uri=server.uri).created == 0
    sync(run)  # beside it, the store of its own
    shutil.rmtree(store / "ledger")
    shutil.copytree(run / "ledger", store / "ledger")
    own, served = shown(run), shown(store)
    assert own == served
    assert trials_shown(run).keys() == trials_shown(store).keys()
