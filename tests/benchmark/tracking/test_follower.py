"""The process that follows a sweep, and servers that fail."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chaos import alive, wait_for
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
    wait_for(lambda: last_sync(run).get("runs"), "the last pass", timeout_s=240)
    (item,) = shown(run).values()
    assert item["status"] == "FINISHED"
    wait_for(lambda: not alive(follower), "the end of the follower")


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
