"""A cluster that is lost: what had come before is kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from engine_cases import make_study, run_trial
from simulated_ray import SimulatedRay, homogeneous
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import Result, Trial
from tabsweep.sweeps.workers.pool import ClusterLost
from tabsweep.sweeps.workers.ray_pool import RayWorkerPool
from tabsweep.sweeps.workers.ray_thread import RAY

pytestmark = pytest.mark.usefixtures("unsynced")


class Daemon(SimulatedRay):
    """Simulated workers under a daemon that is a real process and dies with the fifth trial."""

    def __init__(self) -> None:
        super().__init__(homogeneous(8), self.trial, trial_s=0.0)
        self.process_of_ray = subprocess.Popen(["sleep", "600"])
        self.computed: list[str] = []

    def trial(self, trial: Trial, data: None) -> Result:
        self.computed.append(trial.id)
        if len(self.computed) == 5:
            self.process_of_ray.kill()
            self.process_of_ray.wait()
        return run_trial(trial, data)


@pytest.mark.fault(35)
def test_results_that_came_before_ray_died_are_in_the_ledger(tmp_path: Path) -> None:
    calls = Daemon()
    pool = RayWorkerPool(run_trial, lambda key: None, calls=calls)
    RAY.watch([calls.process_of_ray.pid])
    ledger = Ledger(tmp_path, write=True)
    study = make_study(sampler="random", n_trials=12)
    try:
        with pytest.raises(ClusterLost):
            Engine([study], ledger=ledger, pool=lambda: pool).run()
    finally:
        calls.process_of_ray.kill()
        RAY.begin_anew()
        ledger.close()
    found = Ledger(tmp_path)
    assert {record["id"] for record in found.records("result")} == set(calls.computed)
    assert len(calls.computed) >= 5
    assert not list(found.records("death"))
