"""Cost of the engine: what a trial costs beside its own time, and what a large sweep costs.

    python benchmark/perf/engine.py [--slots 2] [--quick]

First trials that sleep, so that nothing but the engine's own cost shows. Efficiency is (sum of
trial seconds) / (slots x wall) over the trials after the first six. It is what a machine without
other work shows: on a busy one a worker also waits for a processor.

Then 50,000 trials over 200 studies with the real plan, spaces, workers and ledger; only the fit is
missing: a trial returns made-up scores and 32 predictions, so that its record has a usual size. CPU
is that of the driver's process; the machine may be busy, so compare CPU rather than walls.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet  # noqa: F401  (the command line has it through pandas: no growth of a sweep)
from tabsweep.benchmark.perf.measuring import folder_of, verdict
from tabsweep.benchmark.planning import environment
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options, Plan
from tabsweep.benchmark.running import request, sweep
from tabsweep.benchmark.running.event_log import EventLog
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.events import Event, Listener, TrialEnded
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import utc_now
from tabsweep.sweeps.study import Study
from tabsweep.sweeps.trial import DONE, Result, Trial
from tabsweep.sweeps.workers.actor_pool import ActorPool
from tabsweep.sweeps.workers.pool import WorkerPool
from tabsweep.sweeps.workers.ray_cluster import start_ray

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
LARGE = {
    "name": "scale",
    "title": "trials that compute nothing",
    "datasets": ["breast-cancer-wdbc", "diabetes", "iris", "wine"],
    "metric": {"binary": "accuracy", "multiclass": "accuracy"},
}
MODELS = ["hist-gradient-boosting", "lightgbm", "random-forest", "svm", "xgboost"]
METRICS = {
    "regression": ("rmse", "mae", "mse", "r2"),
    "classification": ("accuracy", "balanced_accuracy", "log_loss", "roc_auc"),
}
MARKS = (1_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000)


@dataclass
class Course:
    """How a sweep went: at each result the clock, the driver's CPU seconds so far, and the seconds
    of the trial; before them those of the start."""

    clock: array[float] = field(default_factory=lambda: array("d"))
    cpu: array[float] = field(default_factory=lambda: array("d"))
    fits: array[float] = field(default_factory=lambda: array("d"))
    growth_mb: float = 0.0

    def add(self, seconds: float) -> None:
        """Note the start (of 0 seconds), or the end of a trial that took so many seconds."""
        self.clock.append(time.perf_counter())
        self.cpu.append(time.process_time())
        self.fits.append(seconds)

    @property
    def n(self) -> int:
        """The number of trials."""
        return len(self.fits) - 1

    def cpu_ms(self, low: int, high: int) -> float:
        """Milliseconds of the driver's CPU for each trial from one to another."""
        return 1000 * (self.cpu[high] - self.cpu[low]) / (high - low)

    def per_s(self, low: int, high: int) -> float:
        """Trials per second of the clock from one to another."""
        return (high - low) / (self.clock[high] - self.clock[low])

    def row(self, slots: int) -> dict[str, float]:
        """The figures of one line on trials that sleep."""
        wall, work = self.clock[self.n] - self.clock[WARM_UP], sum(self.fits[WARM_UP + 1 :])
        return {
            "trials": self.n,
            "first_s": self.clock[1] - self.clock[0],
            "efficiency": work / (slots * wall),
            "overhead_ms": 1000 * (slots * wall - work) / (self.n - WARM_UP),
            "per_s": self.per_s(WARM_UP, self.n),
            "driver_cpu_ms": self.cpu_ms(0, self.n),
        }


def swept(
    studies: list[Study],
    ledger: Ledger,
    trial: Callable[[Trial, Any], Result],
    slots: int,
    listener: Listener = lambda event: None,
) -> Course:
    """Run studies on Ray workers, which run `trial`; closes the ledger."""
    course, process = Course(), psutil.Process()
    pool = ActorPool(trial, lambda key: None, slots=slots)
    gc.collect()
    rss = process.memory_info().rss
    course.add(0.0)

    def listen(event: Event) -> None:
        listener(event)
        if isinstance(event, TrialEnded):
            course.add(event.result.costs["fit_s"])

    Engine(studies, ledger=ledger, pool=lambda: pool, listener=listen).run()
    course.growth_mb = (process.memory_info().rss - rss) / 2**20
    assert course.n == sum(study.n_trials for study in studies), course.n
    ledger.close()
    return course


# -- trials that sleep ----------------------------------------------------------------------------


def sleeping_trial(trial: Trial, data: Any) -> Result:
    """A trial that costs wall time and nothing else."""
    seconds = trial.identity["seconds"]
    start = time.perf_counter()
    if seconds:
        time.sleep(seconds)
    loss = trial.config["x"] ** 2 + trial.config["y"]
    took = time.perf_counter() - start
    return Result(status=DONE, val={"loss": loss}, costs={"fit_s": took, "cpu_s": 0.0})


def sleeping(n: int, n_trials: int, seconds: float, sampler: str) -> list[Study]:
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
            model="sleep",
        )

    return [one(number) for number in range(n)]


def measure_overhead(slots: int, part: int, folder: Path) -> list[bool]:
    """Measure every variant; returns whether each target is met."""
    print(
        f"{'':44} {'trials':>6} {'first s':>8} {'eff.':>8} {'ovh ms':>9} {'per s':>9} {'CPU ms':>9}"
    )
    rows: dict[str, dict[str, float]] = {}

    def run(name: str, n: int, n_trials: int, seconds: float, sampler: str) -> None:
        studies = sleeping(n, n_trials, seconds, sampler)
        ledger = Ledger(folder / f"run-{len(rows)}", write=True)
        rows[name] = row = swept(studies, ledger, sleeping_trial, slots).row(slots)
        print(
            f"{name:44} {row['trials']:6.0f} {row['first_s']:8.2f} {row['efficiency']:8.3f} "
            f"{row['overhead_ms']:9.1f} {row['per_s']:9.1f} {row['driver_cpu_ms']:9.1f}",
            flush=True,
        )

    run("no-op, random", 20, 150 // part, 0.0, "random")
    run("no-op, tpe", 20, 60 // part, 0.0, "tpe")
    run("0.1 s", 20, 30 // part, 0.1, "random")
    run("1 s", 20, 6 // part, 1.0, "random")
    run(SHORT, 60, 20 // part, 0.05, "tpe")
    no_op = rows["no-op, random"]
    return [
        verdict("efficiency, 1 s", rows["1 s"]["efficiency"], 0.97, at_least=True),
        verdict("efficiency, 0.1 s", rows["0.1 s"]["efficiency"], 0.93, at_least=True),
        verdict(f"efficiency, {SHORT}", rows[SHORT]["efficiency"], 0.95, at_least=True),
        verdict("driver CPU ms a trial without a sampler", no_op["driver_cpu_ms"], 15.0),
        verdict("first result s after Ray is up", no_op["first_s"], 3.0),
    ]


# -- a large sweep --------------------------------------------------------------------------------


def no_op(trial: Trial, data: Any) -> Result:
    """Scores and predictions out of the trial's id."""
    value = int(trial.id[:8], 16) / 2**32
    kind = "regression" if trial.dataset == "diabetes" else "classification"
    scores = {name: value + number for number, name in enumerate(METRICS[kind])}
    return Result(
        status=DONE,
        val=scores,
        test=scores,
        costs={"fit_s": value / 1e3, "predict_s": value / 1e4, "cpu_s": 0.0, "peak_ram_mb": 300.0},
        info={"n_iter": 300, "best_iteration": 263},
        predictions={"val": np.full(16, value), "test": np.full(16, value)},
    )


def plan_of(n_trials: int, folder: Path) -> Plan:
    """A real plan of five models on four datasets in ten folds."""
    budget = {"models": MODELS, "folds": 10, "trials": n_trials, "sampler": "random"}
    made = suites.parse({**LARGE, "budgets": {"quick": budget}}, "scale")
    return sweep.prepare(request.Request(made, Options(runs=folder, name="scale")), None)


def no_pool() -> WorkerPool:
    """Where no trial runs."""
    raise RuntimeError("a replay asked for workers")


def resume(folder: Path, plan: Plan) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds, cells left to run) from opening the ledger to the first decision
    of what runs next."""
    studies = plan.build()
    start, cpu = time.perf_counter(), time.process_time()
    ledger = Ledger(folder, write=True)
    engine = Engine(studies, ledger=ledger, pool=no_pool)
    engine.replay()
    left = sum(not study.finished for study in engine.studies.values())
    took = time.perf_counter() - start, time.process_time() - cpu
    ledger.close()
    return *took, left


def measure_scale(slots: int, n_trials: int, folder: Path) -> list[bool]:
    """Run the large sweep of so many trials a study; returns whether each target is met."""
    plan, run = plan_of(n_trials, folder), folder / "scale"
    ledger, log = Ledger(run, write=True), EventLog(run)
    ledger.append([{**plan.of_run(environment.capture()).to_record(), "time": utc_now()}])
    course = swept(plan.build(), ledger, no_op, slots, log.listen)
    log.close()
    n = course.n
    print(f"\n{n} trials of {len(plan.studies)} studies, load {os.getloadavg()[0]:.1f}")
    marks = sorted({0, *(mark for mark in MARKS if mark < n), n})
    for low, high in zip(marks, marks[1:], strict=False):
        print(
            f"  trials {low:6} to {high:6}: {course.cpu_ms(low, high):6.2f} ms CPU a trial, "
            f"{course.per_s(low, high):6.0f} trials/s"
        )
    print(f"  all: {course.per_s(0, n):.0f} trials/s, {course.cpu_ms(0, n):.2f} ms CPU a trial")
    files = [path for path in run.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    print(f"  {len(files)} files, {size:.1f} MB; the driver grew by {course.growth_mb:.0f} MB")
    wall, cpu, left = resume(run, plan)
    print(f"resume to the first decision: {wall:.2f} s wall, {cpu:.2f} s CPU, {left} studies left")
    met = [
        not left,
        verdict("resume to the first decision, s", wall, 5.0),
        verdict("memory growth of the driver, MB", course.growth_mb, 300.0),
    ]
    if n >= MARKS[-1]:  # a trend, not the machine's moods: what is far apart is compared
        ratio = course.cpu_ms(30_000, 50_000) / course.cpu_ms(1_000, 20_000)
        met.append(verdict("CPU a trial, 30k to 50k over 1k to 20k", ratio, 1.2))
    return met


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a third and a tenth of the trials")
    options = parser.parse_args()
    start = time.perf_counter()
    start_ray(slots=options.slots)
    print(
        f"{options.slots} slots, load {os.getloadavg()[0]:.1f}, "
        f"Ray up in {time.perf_counter() - start:.1f} s"
    )
    with folder_of() as folder:
        met = measure_overhead(options.slots, 3 if options.quick else 1, folder)
        met += measure_scale(options.slots, 25 if options.quick else 250, folder)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
