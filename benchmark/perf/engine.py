"""Cost of the engine: what a trial costs beside the time that it takes.

    python benchmark/perf/engine.py [--slots 2] [--quick]

Trials sleep, so that nothing but the engine's own cost shows. Efficiency is (sum of trial seconds)
/ (slots x wall) over the trials after the first six. It is what a machine without other work
shows: on a busy one a worker also waits for a processor.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabsweep.benchmark.perf.measuring import folder_of, verdict
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Study
from tabsweep.sweeps.trial import DONE, Result, Trial
from tabsweep.sweeps.workers.ray_cluster import start_ray
from tabsweep.sweeps.workers.ray_pool import RayWorkerPool

SPACE = Space.parse(
    {
        "params": {
            "x": {"kind": "uniform", "low": -1.0, "high": 1.0},
            "y": {"kind": "log-uniform", "low": 1e-4, "high": 1.0},
            "k": {"kind": "int", "low": 1, "high": 10},
        }
    }
)
WARM_UP = 6
SHORT = "60 studies x 20 x 0.05 s"


def sleeping_trial(trial: Trial, data: Any) -> Result:
    """A trial that costs wall time and nothing else."""
    seconds = trial.identity["seconds"]
    start = time.perf_counter()
    if seconds:
        time.sleep(seconds)
    loss = trial.config["x"] ** 2 + trial.config["y"]
    took = time.perf_counter() - start
    return Result(status=DONE, val={"loss": loss}, costs={"fit_s": took, "cpu_s": 0.0})


def studies(n: int, n_trials: int, seconds: float, sampler: str) -> list[Study]:
    """`n` studies of trials that sleep."""

    def one(number: int) -> Study:
        def make_trial(config: dict[str, Any], seed: int) -> Trial:
            identity = {"study": number, "seconds": seconds}
            return Trial(f"d{number}", 0, "sleep", config, seed, identity)

        return Study(
            name=f"s{number:03d}",
            sampler=make_sampler(sampler, SPACE, seed=number),
            n_trials=n_trials,
            make_trial=make_trial,
            loss_of=lambda result: result.val["loss"],
            meta={"model": "sleep"},
        )

    return [one(number) for number in range(n)]


@dataclass
class Timing:
    """When results came, and what they cost."""

    seconds: list[float] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    begin: float = 0.0
    cpu_ms: float = 0.0

    def add(self, seconds: float) -> None:
        """Note the end of a trial that took so many seconds."""
        self.at.append(time.perf_counter())
        self.seconds.append(seconds)

    def row(self, slots: int) -> dict[str, float]:
        """The figures of one line of the output."""
        wall = self.at[-1] - self.at[WARM_UP - 1]
        work = sum(self.seconds[WARM_UP:])
        n = len(self.at) - WARM_UP
        return {
            "trials": len(self.at),
            "first_s": self.at[0] - self.begin,
            "efficiency": work / (slots * wall),
            "overhead_ms": 1000 * (slots * wall - work) / n,
            "per_s": n / wall,
            "driver_cpu_ms": self.cpu_ms,
        }


def ours(
    n: int, n_trials: int, seconds: float, *, slots: int, sampler: str, folder: Path
) -> Timing:
    """The studies on this engine, with Ray workers."""
    timing = Timing()
    run = folder / f"run-{time.time_ns()}"
    ledger = Ledger(run, write=True)
    pool = RayWorkerPool(sleeping_trial, lambda key: None, slots=slots)
    cpu = time.process_time()
    timing.begin = time.perf_counter()

    def listen(event: str, details: Any) -> None:
        if event == "result":
            timing.add(details["result"].costs["fit_s"])

    Engine(
        studies(n, n_trials, seconds, sampler), ledger=ledger, pool=lambda: pool, listener=listen
    ).run()
    timing.cpu_ms = 1000 * (time.process_time() - cpu) / (n * n_trials)
    ledger.close()
    return timing


def show(name: str, row: dict[str, float]) -> None:
    """Print one line."""
    print(
        f"{name:44} {row['trials']:6.0f} {row['first_s']:8.2f} {row['efficiency']:8.3f} "
        f"{row['overhead_ms']:9.1f} {row['per_s']:9.1f} {row['driver_cpu_ms']:9.1f}",
        flush=True,
    )


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a third of the trials")
    options = parser.parse_args()
    start = time.perf_counter()
    start_ray(slots=options.slots)
    print(
        f"{options.slots} slots, load {os.getloadavg()[0]:.1f}, "
        f"Ray up in {time.perf_counter() - start:.1f} s"
    )
    print(
        f"{'':44} {'trials':>6} {'first s':>8} {'eff.':>8} {'ovh ms':>9} {'per s':>9} {'CPU ms':>9}"
    )
    with folder_of() as folder:
        return measure(options.slots, 3 if options.quick else 1, folder)


def measure(slots: int, part: int, folder: Path) -> int:
    """Measure every variant and compare with the targets; returns the exit code."""
    rows: dict[str, dict[str, float]] = {}

    def run(name: str, n: int, n_trials: int, seconds: float, sampler: str) -> None:
        timing = ours(n, n_trials, seconds, sampler=sampler, slots=slots, folder=folder)
        rows[name] = timing.row(slots)
        show(name, rows[name])

    run("no-op, random", 20, 150 // part, 0.0, "random")
    run("no-op, tpe", 20, 60 // part, 0.0, "tpe")
    run("0.1 s", 20, 30 // part, 0.1, "random")
    run("1 s", 20, 6 // part, 1.0, "random")
    run(SHORT, 60, 20 // part, 0.05, "tpe")
    no_op = rows["no-op, random"]
    met = [
        verdict("efficiency, 1 s", rows["1 s"]["efficiency"], 0.97, at_least=True),
        verdict("efficiency, 0.1 s", rows["0.1 s"]["efficiency"], 0.93, at_least=True),
        verdict(f"efficiency, {SHORT}", rows[SHORT]["efficiency"], 0.95, at_least=True),
        verdict("driver CPU ms a trial without a sampler", no_op["driver_cpu_ms"], 15.0),
        verdict("first result s after Ray is up", no_op["first_s"], 3.0),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
