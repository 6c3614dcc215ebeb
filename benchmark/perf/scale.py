"""Cost of a large sweep in the driver: 50,000 trials that compute nothing, over 200 studies.

    python benchmark/perf/scale.py [--quick] [--slots 2]

Real plan, search spaces, engine, Ray workers and ledger; only the fit is missing: a trial returns
made-up scores and 32 predictions, so that its record has a usual size. CPU is that of the driver's
process; the machine may be busy, so compare CPU rather than walls.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
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
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import utc_now
from tabsweep.sweeps.trial import DONE, Result, Trial
from tabsweep.sweeps.workers.pool import WorkerPool
from tabsweep.sweeps.workers.ray_cluster import start_ray
from tabsweep.sweeps.workers.ray_pool import RayWorkerPool

DATASETS = ["breast-cancer-wdbc", "diabetes", "iris", "wine"]
MODELS = ["hist-gradient-boosting", "lightgbm", "random-forest", "svm", "xgboost"]
METRICS = {
    "regression": ("rmse", "mae", "mse", "r2"),
    "classification": ("accuracy", "balanced_accuracy", "log_loss", "roc_auc"),
}
MARKS = (1_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000)


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


def plan_of(datasets: list[str], folds: int, n_trials: int, sampler: str, folder: Path) -> Plan:
    """A real plan of five models."""
    made = suites.parse(
        {
            "name": "scale",
            "title": "trials that compute nothing",
            "datasets": datasets,
            "metric": {"binary": "accuracy", "multiclass": "accuracy"},
            "budgets": {
                "quick": {
                    "models": MODELS,
                    "folds": folds,
                    "trials": n_trials,
                    "sampler": sampler,
                }
            },
        },
        "scale",
    )
    return sweep.prepare(request.Request(made, Options(runs=folder, name="scale")), None)


@dataclass
class Course:
    """How a sweep went: what had been used at each mark (number of trials)."""

    at: list[tuple[int, float, float]] = field(default_factory=list)  # trials, CPU s, wall s
    growth_mb: float = 0.0
    n: int = 0

    def show(self) -> None:
        """Print the figures between marks."""
        for (n0, cpu0, wall0), (n1, cpu1, wall1) in zip(self.at, self.at[1:], strict=False):
            k = n1 - n0
            print(
                f"  trials {n0:6} to {n1:6}: {1000 * (cpu1 - cpu0) / k:6.2f} ms CPU a trial, "
                f"{k / (wall1 - wall0):6.0f} trials/s"
            )

    def between(self, low: int, high: int) -> float:
        """CPU seconds a trial from one mark to another."""
        cpu = {n: used for n, used, _ in self.at}
        return (cpu[high] - cpu[low]) / (high - low)

    @property
    def per_s(self) -> float:
        """Trials per second of wall time."""
        return (self.at[-1][0] - self.at[0][0]) / (self.at[-1][2] - self.at[0][2])

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU per trial."""
        return 1000 * (self.at[-1][1] - self.at[0][1]) / (self.at[-1][0] - self.at[0][0])


def run(
    plan: Plan,
    folder: Path,
    pool: Callable[[], WorkerPool],
    marks: tuple[int, ...],
) -> Course:
    """Run a plan into a fresh folder."""
    course = Course()
    process = psutil.Process()
    ledger = Ledger(folder, write=True)
    ledger.append([{**plan.record(environment.capture()), "time": utc_now()}])
    log = EventLog(folder)
    gc.collect()
    rss = process.memory_info().rss
    studies = plan.build()
    course.at.append((0, time.process_time(), time.perf_counter()))

    def listen(event: str, details: Any) -> None:
        log.listen(event, details)
        if event in ("result", "reused"):
            course.n += 1
            if course.n in marks:
                course.at.append((course.n, time.process_time(), time.perf_counter()))

    tally = Engine(studies, ledger=ledger, pool=pool, listener=listen).run()
    if course.at[-1][0] != course.n:
        course.at.append((course.n, time.process_time(), time.perf_counter()))
    course.growth_mb = (process.memory_info().rss - rss) / 2**20
    assert tally.done == course.n == sum(study.n_trials for study in plan.studies), tally
    ledger.close()
    log.close()
    return course


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


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of it, a rehearsal")
    options = parser.parse_args()
    with folder_of() as folder:
        return measure(options, folder)


def measure(options: argparse.Namespace, folder: Path) -> int:
    """Run the sweep and compare with the targets; returns the exit code."""
    plan = plan_of(DATASETS, 10, 25 if options.quick else 250, "random", folder)
    n = sum(study.n_trials for study in plan.studies)

    def pool() -> WorkerPool:
        return RayWorkerPool(no_op, lambda key: None, slots=options.slots)

    start_ray(slots=options.slots)
    print(
        f"{n} trials of {len(plan.studies)} studies on {options.slots} Ray workers, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    course = run(plan, folder / "scale", pool, MARKS)
    course.show()
    print(f"  all: {course.per_s:.0f} trials/s, {course.cpu_ms:.2f} ms CPU a trial")
    files = [path for path in (folder / "scale").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    print(f"  {len(files)} files, {size:.1f} MB; the driver grew by {course.growth_mb:.0f} MB")
    wall, cpu, left = resume(folder / "scale", plan)
    print(f"resume to the first decision: {wall:.2f} s wall, {cpu:.2f} s CPU, {left} studies left")
    good = [
        verdict("resume to the first decision, s", wall, 5.0),
        verdict("memory growth of the driver, MB", course.growth_mb, 300.0),
    ]
    if course.n >= 50_000:  # a trend, not the machine's moods: what is far apart is compared
        ratio = course.between(30_000, 50_000) / course.between(1_000, 20_000)
        good.append(verdict("CPU a trial, 30k to 50k over 1k to 20k", ratio, 1.2))
    return 0 if all(good) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
