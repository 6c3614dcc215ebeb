"""Does tracking slow a sweep? Walls with MLflow off, on SQLite and down, and sync's own cost.

    python benchmark/perf/tracking.py [--studies 60] [--trials 10] [--seconds 0.1]

The trials sleep on real data, so that whatever tracking takes from the sweep shows as wall time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tabsweep.benchmark import suite as suites
from tabsweep.benchmark import sweep
from tabsweep.benchmark.plan import Options
from tabsweep.benchmark.tracking import Syncer, sync
from tabsweep.sweeps.trial import DONE, Result, Trial

PAUSE = "TABSWEEP_PERF_PAUSE"
DEAD = "http://127.0.0.1:9"  # nobody listens on the discard port


def sleeping_trial(trial: Trial, data: Any) -> Result:
    """A trial that costs wall time and nothing else."""
    seconds = float(os.environ[PAUSE])
    time.sleep(seconds)
    scores = {"accuracy": 0.5 + 0.4 * (int(trial.id[:6], 16) / 0xFFFFFF)}
    return Result(status=DONE, val=scores, test=scores, costs={"fit_s": seconds}, info={})


def one(folder: Path, name: str, options: argparse.Namespace, uri: str | None) -> float:
    """Wall seconds of a sweep; `uri` "none" tracks nothing, None goes to SQLite in the run."""
    made = suites.parse(
        {
            "name": "perf",
            "title": "sleeping trials",
            "datasets": ["breast-cancer-wdbc", "iris", "wine"],
            "metric": {"binary": "accuracy", "multiclass": "accuracy"},
            "budgets": {
                "quick": {
                    "models": ["knn", "svm", "decision-tree", "random-forest"],
                    "folds": max(1, options.studies // 12),
                    "trials": options.trials,
                    "sampler": "random",
                }
            },
        },
        "perf",
    )
    syncer: list[Syncer] = []

    def listen(event: str, details: Any) -> None:
        if event == "started" and uri != "none":
            syncer.append(Syncer(folder / name, uri=uri).start())

    request = sweep.Request(
        suite=made,
        options=Options(),
        runs=folder / f"runs-{name}",
        name=name,
        workers=2,
        run_trial=sleeping_trial,
    )
    request.runs = folder
    start = time.perf_counter()
    outcome = sweep.run(request, listener=listen)
    wall = time.perf_counter() - start
    assert not outcome.tally.failed, outcome.tally
    for one_syncer in syncer:
        problem = one_syncer.stop(timeout=120.0)
        if problem:
            print(f"      {problem}")
    return wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=60)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    os.environ[PAUSE] = str(options.seconds)
    folder = Path(tempfile.mkdtemp(prefix="tabsweep-perf-"))
    try:
        return measure(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path, options: argparse.Namespace) -> int:
    walls: dict[str, list[float]] = {"off": [], "sqlite": [], "server down": []}
    n = max(1, options.studies // 12) * 12 * options.trials
    print(f"{n} trials of {options.seconds} s, load {os.getloadavg()[0]:.1f}")
    for repeat in range(options.repeats):
        for kind, uri in (("off", "none"), ("sqlite", None), ("server down", DEAD)):
            name = f"{kind.replace(' ', '-')}-{repeat}"
            # Every run is a sweep of its own: nothing is taken from the one before.
            own = folder / f"{name}-runs"
            own.mkdir()
            walls[kind].append(one(own, name, options, uri))
            print(f"  {kind:12} {walls[kind][-1]:7.2f} s", flush=True)
    medians = {kind: statistics.median(values) for kind, values in walls.items()}
    for kind in ("sqlite", "server down"):
        print(f"sweep wall, {kind} / off: {medians[kind] / medians['off']:.3f}")
    run = folder / "server-down-0-runs" / "server-down-0"
    import mlflow  # noqa: F401  (its 4 s of imports are the process's cost, not the trials')

    cpu, start = time.process_time(), time.perf_counter()
    first = sync(run)
    took, used = time.perf_counter() - start, time.process_time() - cpu
    again = sync(run)
    print(
        f"later sync: {first.created} runs for {first.runs} studies, {first.trials} trials, "
        f"{1000 * took / n:.1f} ms wall and {1000 * used / n:.1f} ms CPU a trial, the creation of "
        "the store included"
    )
    print(f"syncing twice adds {again.created} runs and updates {again.updated}")
    good = [
        medians["server down"] <= 1.02 * medians["off"],
        first.created == first.runs,
        again.created == again.updated == 0,
        1000 * took / n <= 15.0,
    ]
    names = ["server down within 2 %", "one run a study", "twice adds none", "15 ms a trial"]
    for name, met in zip(names, good, strict=True):
        print(f"{'met ' if met else 'MISS'}  {name}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
