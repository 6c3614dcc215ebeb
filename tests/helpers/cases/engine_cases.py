"""Studies and a scripted worker pool for tests of the engine.

The pool ends trials in random order, lets workers die, and keeps a log.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import slot_places
from tabsweep.sweeps.study import Needs, Study
from tabsweep.sweeps.trial import DONE, Limits, Result, Trial, failure
from tabsweep.sweeps.workers.pool import Job, JobOutcome, WorkerPool

SPACE = Space.parse(
    {
        "params": {
            "x": {"kind": "uniform", "low": -1.0, "high": 1.0},
            "k": {"kind": "int", "low": 1, "high": 4},
        }
    }
)
SMALL = Space.parse({"params": {"k": {"kind": "int", "low": 1, "high": 6}}})


def score(trial: Trial) -> float:
    """A loss that depends on everything that a trial is made of."""
    bump = int(trial.id[:4], 16) / 16**4 / 10
    return (trial.config.get("x", 0.3) - 0.4) ** 2 + 0.01 * trial.config["k"] + bump


def run_trial(trial: Trial, data: Any) -> Result:
    predictions = {"val": np.full(2, score(trial))}
    return Result(status=DONE, val={"loss": score(trial)}, predictions=predictions)


Script = Callable[[Job, int], JobOutcome | None]


class ScriptedPool(WorkerPool):
    """Ends waiting jobs in random order. `script(job, nth submission)` may say how, or None."""

    def __init__(self, *, seed: int = 0, slots: int = 3, script: Script | None = None) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.submitted: Counter[str] = Counter()
        self.most = 0
        self._chance = random.Random(seed)
        self._slots = slots
        self._script = script or (lambda job, nth: None)
        self._jobs: list[Job] = []

    def __call__(self) -> ScriptedPool:
        return self

    def room(self, needs: Needs) -> bool:
        return len(self._jobs) < self._slots

    def submit(self, job: Job) -> None:
        assert self.room(job.needs)
        assert all(job.trial.id != other.trial.id for other in self._jobs), "one trial in twice"
        self.submitted[job.trial.id] += 1
        self.log.append(("submit", job.trial.id))
        self._jobs.append(job)
        self.most = max(self.most, len(self._jobs))

    def poll(self, timeout_s: float) -> list[JobOutcome]:
        if not self._jobs:
            return []
        self._chance.shuffle(self._jobs)
        n = self._chance.randint(1, len(self._jobs))
        ended, self._jobs = self._jobs[:n], self._jobs[n:]
        return [
            self._script(job, self.submitted[job.trial.id])
            or JobOutcome(job, run_trial(job.trial, None))
            for job in ended
        ]

    def running(self) -> int:
        return len(self._jobs)

    def forget(self, data_key: str) -> None:
        self.log.append(("forget", data_key))

    def close(self) -> None:
        self.log.append(("close",))


def make_study(
    name: str = "s",
    *,
    sampler: str = "tpe",
    n_trials: int = 5,
    source: str = "v1",
    data: str | None = None,
    lag: int = 1,
    seed: int = 7,
    **more: Any,
) -> Study:
    def make_trial(config: dict[str, Any], trial_seed: int, fidelity: Any = None) -> Trial:
        identity = {"source": source, "data": data or name}
        return Trial(name, 0, "m", config, trial_seed, identity, fidelity)

    space = SMALL if sampler == "grid" else SPACE
    made = make_sampler(sampler, space, seed=seed, lag=lag)
    loss_of: Callable[[Result], float | None] = lambda result: result.val["loss"]  # noqa: E731
    return Study(name, made, n_trials, make_trial, loss_of, **more)


def study_of(trial: Trial, limits: Limits, **more: Any) -> Study:
    """A study of this one trial, called as its identity says; it searches nothing."""
    return Study(
        name=trial.identity["name"],
        sampler=make_sampler("random", Space({}), seed=0),
        n_trials=1,
        make_trial=lambda config, seed: replace(trial, seed=seed),
        loss_of=lambda result: result.val.get("loss"),
        limits=limits,
        **more,
    )


def studies(**change: Any) -> list[Study]:
    """One study a sampler, one of them evaluated on three seeds, one with a lag."""
    kinds: list[dict[str, Any]] = [
        {"name": "tpe", "seeds": (0, 1, 2), "n_trials": 12},
        {"name": "hyperopt", "sampler": "hyperopt", "lag": 3},
        {"name": "random", "sampler": "random", "seeds": (0, 1)},
        {"name": "grid", "sampler": "grid"},
    ]
    return [make_study(**{**kind, **change}) for kind in kinds]


def run(folder: Path, made: list[Study], pool: ScriptedPool | None = None, **more: Any) -> Any:
    """Run studies on the ledger in a folder; returns what `ended` says."""
    ledger = Ledger(folder, write=True)
    engine = Engine(made, ledger=ledger, pool=pool or ScriptedPool(), **more)
    try:
        engine.run()
    finally:
        ledger.close()
    return ended(folder)


def ended(folder: Path) -> dict[str, tuple[Any, ...]]:
    """{slot: (trial id, configuration, status, cause, loss)} as the ledger has it."""
    ledger = Ledger(folder)
    results = {record["id"]: record for record in ledger.records("result")}
    return {
        str(slot): (id, results[id]["config"], results[id]["status"], results[id]["cause"])
        + (results[id]["val"].get("loss"),)
        for slot, (id, _) in slot_places(ledger).items()
    }


def prefixes(folder: Path, into: Path, *, at_least: int = 0, step: int = 1) -> list[Path]:
    """Copies of a run as kills would have left it: after each of its records."""
    lines = (folder / "ledger" / "log.jsonl").read_bytes().splitlines(keepends=True)
    found = []
    for n in range(at_least, len(lines), step):
        cut = into / str(n)
        (cut / "ledger").mkdir(parents=True)
        (cut / "ledger" / "log.jsonl").write_bytes(b"".join(lines[:n]))
        found.append(cut)
    return found


def dying(*deaths: str) -> Script:
    """The first submissions of a trial end in these deaths, later ones well."""

    def script(job: Job, nth: int) -> JobOutcome | None:
        if nth > len(deaths):
            return None
        death = deaths[nth - 1]
        if death.startswith("result:"):  # the worker lived to tell
            return JobOutcome(job, failure(death.removeprefix("result:"), "no memory"))
        return JobOutcome(job, None, death=death)

    return script
