"""Cost of tracking for a sweep, and the number of sweeps that a store takes at once.

    python benchmark/perf/tracking.py [--studies 60] [--trials 10] [--seconds 0.1] [--quick]

First walls of sweeps with MLflow off, on SQLite, down, and on a server with PostgreSQL: the trials
sleep on real data, so that whatever tracking takes from the sweep shows as wall time. Then 1, 4 and
8 finished runs are synced at once into one store: throughput, CPU, and every run counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from tabsweep.benchmark.perf import scale
from tabsweep.benchmark.perf.measuring import folder_of
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.running import request, sweep
from tabsweep.benchmark.tracking.follower import Syncer, TrackingError, sync
from tabsweep.benchmark.tracking.mapping import project
from tabsweep.benchmark.tracking.store import default_uri, quiet_mlflow
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import DONE, Result, Trial

HELPERS = Path(__file__).resolve().parents[2] / "tests" / "helpers" / "processes"
PAUSE = "TABSWEEP_PERF_PAUSE"
DEAD = "http://127.0.0.1:9"  # nobody listens on the discard port
AT_ONCE = (1, 4, 8)


def sleeping_trial(trial: Trial, data: Any) -> Result:
    """A trial that costs wall time and nothing else."""
    seconds = float(os.environ[PAUSE])
    time.sleep(seconds)
    scores = {"accuracy": 0.5 + 0.4 * (int(trial.id[:6], 16) / 0xFFFFFF)}
    return Result(status=DONE, val=scores, test=scores, costs={"fit_s": seconds}, info={})


@dataclass
class Walls:
    """Seconds of one sweep: all of it, from its first result to its last, and the syncer's CPU."""

    all: float
    trials: float
    syncer_cpu: float


def one(folder: Path, name: str, options: argparse.Namespace, uri: str | None) -> Walls:
    """A sweep; `uri` "none" tracks nothing, None goes to SQLite in the run."""
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
    at: list[float] = []

    def listen(event: str, details: Any) -> None:
        if event == "started" and uri != "none":
            syncer.append(Syncer(folder / name, uri=uri).start())
        elif event == "result":
            at.append(time.perf_counter())

    wanted = request.Request(
        suite=made, options=Options(), runs=folder, name=name, workers=2, run_trial=sleeping_trial
    )
    start = time.perf_counter()
    outcome = sweep.run(wanted, listener=listen)
    wall = time.perf_counter() - start
    assert not outcome.tally.failed, outcome.tally
    cpu = scale.cpu_s(resource.RUSAGE_CHILDREN)
    for one_syncer in syncer:
        problem = one_syncer.stop(timeout=120.0)
        if problem:
            print(f"      {problem}")
    return Walls(wall, at[-1] - at[0], scale.cpu_s(resource.RUSAGE_CHILDREN) - cpu)


# ---------------------------------------------------------------------- many at once


@dataclass
class Store:
    """A store that many write to: how a client reaches it, its tables, what its processes used."""

    name: str
    uri: str
    database: str
    cpu_s: Callable[[], float] = lambda: 0.0


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process with those that it started, ended ones included."""
    master = psutil.Process(pid)
    spent = [process.cpu_times() for process in (master, *master.children(recursive=True))]
    return sum(t.user + t.system for t in spent) + sum(spent[0][2:4])


def servers(stack: ExitStack) -> list[Store]:
    """An MLflow server on a PostgreSQL of its own, if there is one to be had here."""
    sys.path.insert(0, str(HELPERS))
    from mlflow_server import MLflowServer
    from postgres import Postgres, missing

    if reason := missing():
        print(f"no server: {reason}")
        return []
    database = stack.enter_context(Postgres())
    server = stack.enter_context(MLflowServer(database.uri(), workers=2))
    pids = [process.pid for process in (database._process, server._process) if process]
    return [Store("server", server.uri, database.uri(), lambda: sum(map(tree_cpu_s, pids)))]


def sync_one(run: Path, uri: str, barrier: Any, answers: Any) -> None:
    """In a process of its own: sync until it works. Answers (CPU seconds, passes that failed)."""
    barrier.wait()
    cpu, failed = scale.cpu_s(), 0
    while failed < 10:
        try:
            sync(run, uri=uri)
            break
        except TrackingError as error:
            failed += 1
            print(f"      {error}")
    answers.put((scale.cpu_s() - cpu, failed))


def together(runs: list[Path], uri: str) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds of the syncing processes, passes that failed)."""
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(len(runs) + 1), context.SimpleQueue()
    processes = [
        context.Process(target=sync_one, args=(run, uri, barrier, answers)) for run in runs
    ]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    said = [answers.get() for _ in processes]
    wall = time.perf_counter() - start
    for process in processes:
        process.join()
    return wall, sum(cpu for cpu, _ in said), sum(failed for _, failed in said)


def wrong_in(store: Store, runs: list[Path]) -> str:
    """What the store lacks of the runs, or holds twice; "" where it is as it should be."""
    import sqlalchemy as sa

    wanted: Counter[str] = Counter()
    points = 0
    for run in runs:
        for study in project(Ledger(run), live=False).runs:
            wanted[study.key] += 1
            points += sum(map(len, study.trials)) + len(study.finals)
    with sa.create_engine(store.database).connect() as connection:
        rows = connection.execute(
            sa.text(
                "SELECT tags.value, count(metrics.key) FROM tags "
                "JOIN runs ON runs.run_uuid = tags.run_uuid "
                "LEFT JOIN metrics ON metrics.run_uuid = runs.run_uuid "
                "WHERE tags.key = 'tabsweep.key' AND runs.lifecycle_stage = 'active' "
                "GROUP BY runs.run_uuid, tags.value"
            )
        ).all()
    mine = {key.partition(":")[0] for key in wanted}  # the store may hold other sweeps too
    own = [(key, n) for key, n in rows if key.partition(":")[0] in mine]
    found, held = Counter(key for key, _ in own), sum(n for _, n in own)
    lost, more = wanted - found, found - wanted
    if lost or more or held != points:
        return f"{lost.total()} runs lost, {more.total()} too many, {held} of {points} points"
    return ""


def many(folder: Path, stores: list[Store], options: argparse.Namespace) -> list[bool]:
    """Finished runs, synced at once into each store."""
    import mlflow.tracking  # noqa: F401  (its 4 s of imports are each process's cost, not a run's)

    plan = scale.plan_of(scale.DATASETS, 1, options.trials, "random", folder)
    runs = [folder / f"run{number}" for number in range(1 + sum(AT_ONCE))]
    for run in runs:
        scale.run(plan, run, lambda: scale.Null(4), ())
    n = sum(study.n_trials for study in plan.studies)
    print(f"{len(plan.studies)} MLflow runs and {n} trials in each sweep, synced at once")
    print("                      wall s   runs/s  trials/s  syncer ms CPU  store ms CPU a trial")
    good = []
    for store in stores:
        sync(runs[0], uri=store.uri)  # the first makes the tables
        first = 1
        for number in AT_ONCE:
            some = runs[first : first + number]
            first += number
            before = store.cpu_s()
            wall, cpu, failed = together(some, store.uri)
            used = store.cpu_s() - before
            done, made = number * n, number * len(plan.studies)
            print(
                f"  {store.name:8} {number} sweeps {wall:9.1f} {made / wall:8.1f}"
                f" {done / wall:9.0f} {1000 * cpu / done:14.2f} {1000 * used / done:13.2f}"
                + (f"   {failed} passes failed and were made again" if failed else ""),
                flush=True,
            )
        wrong = wrong_in(store, runs)
        again = [sync(run, uri=store.uri) for run in runs]
        wrong = wrong or ("" if not any(r.created + r.updated for r in again) else "more each time")
        good.append(verdict(f"{store.name}: none lost, none twice", not wrong, wrong))
    return good


# ---------------------------------------------------------------------- all of it


def verdict(name: str, met: bool, more: str = "") -> bool:
    """Print and return whether a target is met."""
    print(f"{'met ' if met else 'MISS'}  {name}{f': {more}' if more else ''}")
    return met


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=60)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-server", action="store_true", help="SQLite alone")
    parser.add_argument("--quick", action="store_true", help="a rehearsal")
    options = parser.parse_args()
    if options.quick:
        options.studies, options.trials, options.repeats = 12, 5, 1
    os.environ[PAUSE] = str(options.seconds)
    with folder_of() as folder, ExitStack() as stack:
        found = [] if options.no_server else servers(stack)
        return measure(folder, found, options)


def measure(folder: Path, found: list[Store], options: argparse.Namespace) -> int:
    """Run the sweeps and syncs and compare with the targets; returns the exit code."""
    n = max(1, options.studies // 12) * 12 * options.trials
    print(f"{n} trials of {options.seconds} s, load {os.getloadavg()[0]:.1f}")
    print("               wall s  first to last result  syncer ms CPU  server ms CPU a trial")
    kinds: dict[str, str | None] = {"off": "none", "sqlite": None, "server down": DEAD}
    kinds |= {store.name: store.uri for store in found}
    walls: dict[str, list[Walls]] = {kind: [] for kind in kinds}
    for repeat in range(options.repeats):
        for kind, uri in kinds.items():
            # Every run is a sweep of its own: nothing is taken from the one before.
            own = folder / f"{kind.replace(' ', '-')}-{repeat}"
            own.mkdir()
            before = sum(store.cpu_s() for store in found if store.name == kind)
            walls[kind].append(wall := one(own, own.name, options, uri))
            used = sum(store.cpu_s() for store in found if store.name == kind) - before
            print(
                f"  {kind:12} {wall.all:7.2f} {wall.trials:21.2f}"
                f" {1000 * wall.syncer_cpu / n:14.1f} {1000 * used / n:14.1f}",
                flush=True,
            )
    ratios = {}  # of the shortest of each kind: Ray's start varies by seconds
    for kind in list(kinds)[1:]:
        ratios[kind], inner = (
            min(getattr(wall, part) for wall in walls[kind])
            / min(getattr(wall, part) for wall in walls["off"])
            for part in ("all", "trials")
        )
        print(f"sweep wall, {kind} / off: {ratios[kind]:.3f} (first to last result {inner:.3f})")
    run = folder / "server-down-0" / "server-down-0"
    cost = {}
    with quiet_mlflow():  # loads MLflow: 4 s that are the process's cost, not the trials'
        for shown, what in ((0, "studies alone"), (n, "with a run for each trial")):
            own = folder / f"shown-{shown}"  # MLflow keeps a store that it has opened
            shutil.copytree(run, own)
            cpu, start = time.process_time(), time.perf_counter()
            first = sync(own, trials_shown=shown)
            took, used = time.perf_counter() - start, time.process_time() - cpu
            cost[shown] = used
            print(
                f"later sync, {what}: {first.created} runs for {first.runs} studies, "
                f"{first.trials} trials, {1000 * took / n:.1f} ms wall and "
                f"{1000 * used / n:.1f} ms CPU a trial, the creation of the store included; "
                f"load {os.getloadavg()[0]:.1f}"
            )
        again = sync(own, trials_shown=n)
    print(f"CPU, with a run for each trial / studies alone: {cost[n] / cost[0]:.2f}")
    shared = default_uri(folder)
    good = many(folder, [Store("sqlite", shared, shared), *found], options)
    good += [
        verdict("sqlite within 3 %", ratios["sqlite"] <= 1.03, f"{ratios['sqlite']:.3f}"),
        verdict("server down within 2 %", ratios["server down"] <= 1.02),
        verdict("one run a study", first.created == first.runs),
        verdict("twice adds none", again.created == again.updated == 0),
        verdict("15 ms of CPU a trial", 1000 * used / n <= 15.0, f"{1000 * used / n:.1f}"),
        verdict("15 ms a trial", 1000 * took / n <= 15.0, f"{1000 * took / n:.1f}"),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
