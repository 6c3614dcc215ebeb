"""A driver whose own Ray dies ends with BENCH-E021; its run goes on later."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from chaos import Sweep, alive, wait_for
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.xdist_group("ray-faults")

OPTIONS = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--model", "linear"]
OPTIONS += ["--folds", 2, "--trials", 4, "--workers", 2, "--tracking-uri", "none"]


@pytest.mark.fault(35)
@pytest.mark.parametrize("victim", ["raylet", "gcs_server"])
def test_a_driver_whose_ray_dies_says_how_to_go_on_and_blames_no_trial(
    tmp_path: Path, victim: str
) -> None:
    sweep = Sweep(tmp_path / "sweep", *OPTIONS)
    driver = sweep.start(pause_s=2.0)
    try:
        line = sweep.wait(sweep.running, "a running trial")[0]
        family = psutil.Process(driver.pid).children(recursive=True)
        (daemon,) = [process for process in family if process.name() == victim]
        daemon.kill()
        # Without its state server Ray itself ends a driver after 60 s, with exit code 1.
        assert driver.wait(60) == 3, sweep.output()
    finally:
        sweep.off()
    assert not alive(line.pid) and line in sweep.running()  # a trial was hit
    assert "error BENCH-E021: " in sweep.output()
    assert f"bench resume {sweep.run}" in sweep.output()  # the way out
    wait_for(lambda: not any(alive(process.pid) for process in family), "the end of all of Ray")
    assert not list(Ledger(sweep.run).records("death"))  # it was nobody's attempt
    sweep.finish("--workers", 0)
    sweep.check_nothing_lost(2 * 2 * 4)
    sweep.check_nothing_twice()
