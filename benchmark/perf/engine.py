"""Cost of the engine: overhead and efficiency against in-process Optuna and Ray Tune.

    python benchmark/perf/engine.py [--slots 2] [--quick | --short]

Trials sleep, so that nothing but the engine's own cost shows. Everything is measured in one run;
efficiency is (sum of trial seconds) / (slots x wall) over the trials after the first six. It is
what a machine without other work shows: on a busy one a worker also waits for a processor.
`--short` measures the 60 studies of trials of 0.05 s alone, beside bare calls of Ray actors.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
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
SHORT = "ours: 60 studies x 20 x 0.05 s"


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
    rss_mb: float = 0.0

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
            "rss_growth_mb": self.rss_mb,
        }


def own_cpu() -> float:
    """CPU seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def ours(
    n: int, n_trials: int, seconds: float, *, slots: int, sampler: str, folder: Path
) -> Timing:
    """The studies on this engine, with Ray workers."""
    timing = Timing()
    run = folder / f"run-{time.time_ns()}"
    ledger = Ledger(run, write=True)
    pool = RayWorkerPool(sleeping_trial, lambda key: None, slots=slots)
    pool.warm(slots)
    process = psutil.Process()
    rss = process.memory_info().rss
    cpu = own_cpu()
    timing.begin = time.perf_counter()

    def listen(event: str, details: Any) -> None:
        if event == "result":
            timing.add(details["result"].costs["fit_s"])

    Engine(
        studies(n, n_trials, seconds, sampler), ledger=ledger, pool=lambda: pool, listener=listen
    ).run()
    timing.cpu_ms = 1000 * (own_cpu() - cpu) / (n * n_trials)
    timing.rss_mb = (process.memory_info().rss - rss) / 2**20
    ledger.close()
    return timing


def resume(n: int, n_trials: int, *, slots: int, sampler: str, folder: Path) -> tuple[float, int]:
    """(seconds from opening the ledger to the first decision, fits) of a finished run."""
    ours(n, n_trials, 0.0, slots=slots, sampler=sampler, folder=folder)
    run = max(folder.glob("run-*"))
    fits = 0

    def no_pool() -> Any:
        nonlocal fits
        fits += 1
        raise RuntimeError("a finished run asked for workers")

    start = time.perf_counter()
    ledger = Ledger(run, write=True)
    Engine(studies(n, n_trials, 0.0, sampler), ledger=ledger, pool=no_pool).run()
    ledger.close()
    return time.perf_counter() - start, fits


def optuna_in_process(n: int, n_trials: int, seconds: float, *, sampler: str) -> Timing:
    """The same with Optuna, in this process."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    timing = Timing(begin=time.perf_counter())
    cpu = own_cpu()
    for number in range(n):
        made = (
            optuna.samplers.RandomSampler(seed=number)
            if sampler == "random"
            else optuna.samplers.TPESampler(seed=number)
        )
        study = optuna.create_study(sampler=made)

        def objective(trial: optuna.Trial) -> float:
            x = trial.suggest_float("x", -1.0, 1.0)
            y = trial.suggest_float("y", 1e-4, 1.0, log=True)
            trial.suggest_int("k", 1, 10)
            start = time.perf_counter()
            if seconds:
                time.sleep(seconds)
            timing.add(time.perf_counter() - start)
            return x**2 + y

        study.optimize(objective, n_trials=n_trials)
    timing.cpu_ms = 1000 * (own_cpu() - cpu) / (n * n_trials)
    return timing


def ray_tune(n_trials: int, seconds: float, *, slots: int, folder: Path) -> Timing:
    """Ray Tune's class API with reused actors. Trials note when they end in a shared file."""
    from ray import tune

    log = folder / f"tune-{time.time_ns()}.log"

    class Sleeper(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.config = config

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self.config = new_config
            return True

        def step(self) -> dict[str, Any]:
            start = time.perf_counter()
            if seconds:
                time.sleep(seconds)
            took = time.perf_counter() - start
            with open(log, "a") as file:
                file.write(f"{took}\n")
            return {"loss": self.config["x"] ** 2, "done": True}

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            return None

        def load_checkpoint(self, checkpoint: Any) -> None:
            return None

    class Watch(tune.Callback):
        def __init__(self, timing: Timing) -> None:
            self.timing = timing

        def on_trial_complete(self, iteration: int, trials: list, trial: Any, **_: Any) -> None:
            self.timing.add(seconds)

    timing = Timing(begin=time.perf_counter())
    cpu = own_cpu()
    tuner = tune.Tuner(
        Sleeper,
        param_space={"x": tune.uniform(-1.0, 1.0)},
        tune_config=tune.TuneConfig(
            num_samples=n_trials, reuse_actors=True, max_concurrent_trials=slots
        ),
        run_config=tune.RunConfig(
            storage_path=str(folder / "tune"), verbose=0, callbacks=[Watch(timing)]
        ),
    )
    tuner.fit()
    timing.cpu_ms = 1000 * (own_cpu() - cpu) / n_trials
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
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a third of the trials, no Ray Tune")
    size.add_argument("--short", action="store_true", help="short trials of many studies alone")
    options = parser.parse_args()
    slots, part = options.slots, 3 if options.quick else 1
    with folder_of() as folder:
        begin(slots)
        if options.short:
            return measure_short(slots, folder)
        return measure(slots, part, options.quick, folder)


def begin(slots: int) -> None:
    """Start Ray and print the head of the table."""
    start = time.perf_counter()
    start_ray(slots=slots)
    print(
        f"{slots} slots, load {os.getloadavg()[0]:.1f}, "
        f"Ray up in {time.perf_counter() - start:.1f} s"
    )
    print(
        f"{'':44} {'trials':>6} {'first s':>8} {'eff.':>8} {'ovh ms':>9} {'per s':>9} {'CPU ms':>9}"
    )


def short_trials(slots: int, n_trials: int, folder: Path) -> dict[str, float]:
    """The figures of 60 studies of trials of 0.05 s."""
    row = ours(60, n_trials, 0.05, sampler="tpe", slots=slots, folder=folder).row(slots)
    show(SHORT, row)
    return row


def bare_calls(n: int, seconds: float, *, slots: int) -> Timing:
    """Calls of Ray actors that sleep, two in each one's queue: no engine, ledger or sampler."""
    import ray

    class Sleeper:
        def run(self, seconds: float) -> float:
            start = time.perf_counter()
            time.sleep(seconds)
            return time.perf_counter() - start

    remote: Any = ray.remote(num_cpus=1)(Sleeper)
    actors = [remote.remote() for _ in range(slots)]
    ray.get([actor.run.remote(0.0) for actor in actors])
    timing, cpu = Timing(begin=time.perf_counter()), own_cpu()
    waiting = {actor.run.remote(seconds): actor for actor in actors for _ in range(2)}
    left = n - len(waiting)
    while waiting:
        for ref in ray.wait(list(waiting))[0]:
            actor = waiting.pop(ref)
            timing.add(ray.get(ref))
            if left:
                left -= 1
                waiting[actor.run.remote(seconds)] = actor
    timing.cpu_ms = 1000 * (own_cpu() - cpu) / n
    return timing


def measure_short(slots: int, folder: Path) -> int:
    """Measure short trials and bare calls three times in turns and judge the median; returns the
    exit code."""
    found = []
    for _ in range(3):
        found.append(short_trials(slots, 20, folder)["efficiency"])
        show("bare calls of Ray actors, 0.05 s", bare_calls(1200, 0.05, slots=slots).row(slots))
    good = verdict(f"efficiency, {SHORT}, median", sorted(found)[1], 0.95, at_least=True)
    return 0 if good else 1


def measure(slots: int, part: int, quick: bool, folder: Path) -> int:
    """Measure every variant and compare with the targets; returns the exit code."""
    rows: dict[str, dict[str, float]] = {}

    def run(name: str, timing: Timing, n_slots: int = slots) -> None:
        rows[name] = timing.row(n_slots)
        show(name, rows[name])

    at: dict[str, Any] = {"slots": slots, "folder": folder}
    run("ours: no-op, random", ours(20, 150 // part, 0.0, sampler="random", **at))
    run("ours: no-op, tpe", ours(20, 60 // part, 0.0, sampler="tpe", **at))
    run("ours: 0.1 s", ours(20, 30 // part, 0.1, sampler="random", **at))
    run("ours: 1 s", ours(20, 6 // part, 1.0, sampler="random", **at))
    rows[SHORT] = short_trials(slots, 20 // part, folder)
    run(
        "optuna in process: no-op, random",
        optuna_in_process(20, 150 // part, 0.0, sampler="random"),
        1,
    )
    run("optuna in process: no-op, tpe", optuna_in_process(20, 60 // part, 0.0, sampler="tpe"), 1)
    run("optuna in process: 0.1 s", optuna_in_process(2, 60 // part, 0.1, sampler="random"), 1)
    if not quick:
        run("ray tune, reused actors: 0.1 s", ray_tune(60, 0.1, slots=slots, folder=folder))
        run("ray tune, reused actors: 1 s", ray_tune(24, 1.0, slots=slots, folder=folder))
    many = ours(20, 500 // part, 0.0, sampler="random", **at)
    run("ours: no-op, random, 10,000", many)
    seconds, fits = resume(10, 100, sampler="tpe", **at)
    print(f"resume of 1,000 finished trials: {seconds:.2f} s, {fits} fits")
    if not quick:
        for name, key in (("0.1 s", "0.1 s"), ("1 s", "1 s")):
            tune = rows[f"ray tune, reused actors: {key}"]["overhead_ms"]
            mine = rows[f"ours: {key}"]["overhead_ms"]
            print(f"overhead of Ray Tune / ours, {name} trials: {tune / mine:.1f}")
    met = [
        verdict("efficiency, 1 s", rows["ours: 1 s"]["efficiency"], 0.97, at_least=True),
        verdict("efficiency, 0.1 s", rows["ours: 0.1 s"]["efficiency"], 0.93, at_least=True),
        verdict(f"efficiency, {SHORT}", rows[SHORT]["efficiency"], 0.95, at_least=True),
        verdict(
            "driver CPU ms a trial without a sampler",
            rows["ours: no-op, random"]["driver_cpu_ms"],
            15.0,
        ),
        verdict("driver growth MB, 10,000 trials", many.rss_mb, 50.0),
        verdict("first result s after Ray is up", rows["ours: no-op, random"]["first_s"], 3.0),
        verdict("resume of 1,000 trials s", seconds, 3.0),
        verdict("fits in that resume", fits, 0),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
