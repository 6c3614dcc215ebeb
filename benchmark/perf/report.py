"""Cost of a report: a ledger of 1,000,000 trials, read and written out as tables.

    python benchmark/perf/report.py [--trials N] [--keep DIR]

The ledger is made by its own writer out of made-up results: 30 models on 25 datasets in 10 folds, a
lease and a result a trial, a study's end, failures. Making it does not count. Of a million trials,
and of one trial a study, the command `bench report` is measured from its start to its end: wall,
CPU and the largest resident memory. The command finds compiled modules, as an installed package has
them: a small report comes before, and Python keeps what it compiled in the folder of the runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tabsweep.benchmark.perf.measuring import folder_of, status_mb, verdict
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import digest

MODELS, DATASETS, FOLDS = 30, 25, 10
QUIET = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
AT_ONCE = 100  # studies that run side by side, so that their records lie mixed
METRIC = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}
NAMES = {
    "binary": ("accuracy", "balanced_accuracy", "log_loss", "roc_auc"),
    "multiclass": ("accuracy", "balanced_accuracy", "log_loss", "roc_auc"),
    "regression": ("mae", "mse", "r2", "rmse"),
}


def studies_of(n_trials: int) -> list[dict[str, Any]]:
    """The plan's 7,500 studies, with so many trials together at least; of 0 trials a small plan."""
    tasks = [*["binary"] * 10, *["multiclass"] * 7, *["regression"] * 8]
    n_models, n_folds, step = (MODELS, FOLDS, 1) if n_trials else (3, 2, 4)
    each = max(1, -(-n_trials // (MODELS * DATASETS * FOLDS)))
    return [
        {
            "dataset": f"dataset-{d:02d}",
            "task": tasks[d],
            "fold": fold,
            "model": f"model-{m:02d}",
            "n_trials": each,
            "n_seeds": 1,
            "rungs": None,
            "async": None,
            "reason": "",
        }
        for d in range(0, DATASETS, step)
        for fold in range(n_folds)
        for m in range(n_models)
    ]


def plan_record(studies: list[dict[str, Any]]) -> dict[str, Any]:
    """The record of a plan, with the keys that a report reads."""
    tasks = {study["dataset"]: study["task"] for study in studies}
    models = sorted({study["model"] for study in studies})
    facts = {"n_rows": 1000, "n_features": 10, "classes": [], "protocol": "kfold", "warnings": []}
    budget = {"models": models, "folds": FOLDS, "trials": studies[0]["n_trials"]}
    return {
        "kind": "plan",
        "suite": {
            "name": "million",
            "title": "made-up results",
            "datasets": sorted(tasks),
            "metric": METRIC,
            "default_budget": "large",
            "budgets": {"large": budget},
        },
        "options": {"budget": "large", "seed": 0, "models": []},
        "identity": {
            "metric": METRIC,
            "protocol": dict.fromkeys(tasks, "kfold"),
            "seed": {"sweep": 0},
            "space": {},
            "sampler": {},
            "device": {},
        },
        "metric": METRIC,
        "datasets": {
            name: {**facts, "task": task, "sha256": digest(name, length=64)}
            for name, task in tasks.items()
        },
        "left_out": {},
        "notes": [],
        "studies": studies,
        "samplers": ["random"],
        "spaces": ["default"],
        "environment": {
            "code": "0",
            "cores": 2,
            "cpu": "made up",
            "libraries": {},
            "lock": "0",
            "memory_mb": 1,
            "python": "3",
            "system": "none",
        },
        "time": "2030-01-01T00:00:00.000Z",
    }


def records(studies: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Everything after the plan, in the order in which a sweep would leave it."""
    random = np.random.default_rng(0)
    clock = 0
    for start in range(0, len(studies), AT_ONCE):
        batch = studies[start : start + AT_ONCE]
        skill = random.normal(0, 0.03, len(batch))
        for index in range(batch[0]["n_trials"]):
            draws = random.uniform(size=(len(batch), 20))
            hexes = random.bytes(80 * len(batch)).hex()
            for at, study in enumerate(batch):
                clock += 1
                u, text = draws[at].tolist(), hexes[160 * at : 160 * (at + 1)]
                yield from _trial(study, index, u, text, float(skill[at]), clock)
        for study in batch:
            yield {
                "kind": "study",
                "study": _name(study),
                "best": 0,
                "loss": 0.1,
                "n_trials": study["n_trials"],
                "n_slots": study["n_trials"],
                "time": _time(clock),
            }


def _trial(
    study: dict[str, Any], index: int, u: list[float], text: str, skill: float, clock: int
) -> Iterator[dict[str, Any]]:
    """A lease and a result, or a slot that points at the trial before it."""
    shared = {
        "study": _name(study),
        "stage": "tune",
        "index": index,
        "id": text[:32],
        "config": {
            "early_stopping_rounds": 30,
            "learning_rate": u[0],
            "max_depth": 1 + int(10 * u[1]),
            "n_estimators": 300,
            "reg_alpha": u[2] * 10,
            "reg_lambda": u[3] * 10,
            "subsample": u[4],
        },
        "time": _time(clock),
    }
    place = {name: study[name] for name in ("dataset", "fold", "model")}
    yield {"kind": "lease", "attempt": 1, **shared}
    failed = u[5] < 0.005
    scores = {
        part: {name: 0.6 + skill + 0.1 * u[at + i] for i, name in enumerate(NAMES[study["task"]])}
        for part, at in (("val", 6), ("test", 10))
    }
    where = {"dtype": "<f8", "file": "000000.bin", "offset": 8000 * clock, "shape": [100, 2]}
    result = {
        "kind": "result",
        **shared,
        **place,
        "seed": 0,
        "fidelity": None,
        "status": "failed" if failed else "done",
        "cause": "timeout" if failed else None,
        "message": "ran longer than 300 s" if failed else "",
        "val": {} if failed else scores["val"],
        "test": {} if failed else scores["test"],
        "costs": {"cpu_s": u[14], "fit_s": u[15], "peak_ram_mb": 300 + u[16], "predict_s": u[17]},
        "info": {"cpu": "made up", "n_iter": int(300 * u[18]), "best_iteration": 1},
        "log": "",
        "predictions": {
            "test": {**where, "sha256": text[32:96]},
            "val": {**where, "sha256": text[96:160]},
        },
        "attempt": 1,
        "limits": {"memory_mb": 4096.0, "timeout_s": 300.0},
        "worker": f"629-1795227231823379032-{clock % 8}",
    }
    yield result


def _name(study: dict[str, Any]) -> str:
    return f"{study['dataset']}/{study['fold']}/{study['model']}"


def _time(clock: int) -> str:
    seconds, rest = divmod(clock, 1000)
    days, seconds = divmod(seconds, 86_400)
    text = time.strftime("%H:%M:%S", time.gmtime(seconds))
    return f"2030-01-{1 + days:02d}T{text}.{rest:03d}Z"


def generate(run: Path, n_trials: int) -> int:
    """Write the ledger; returns how many trials it holds."""
    studies = studies_of(n_trials)
    ledger = Ledger(run, write=True)
    ledger.append([plan_record(studies)], sync=False)
    waiting: list[dict[str, Any]] = []
    for record in records(studies):
        waiting.append(record)
        if len(waiting) == 2000:
            ledger.append(waiting, sync=False)
            waiting = []
    ledger.append(waiting, sync=False)
    ledger.close()
    return sum(study["n_trials"] for study in studies)


# ---------------------------------------------------------------------- in a fresh process


def commanded(run: Path, out: Path) -> dict[str, float]:
    """The figures of the command `bench report`, from its start to its end.

    Raises SystemExit if the command fails or its peak memory is unknown: on Linux a spawned process
    reports the peak of its parent if that was larger.
    """
    shutil.rmtree(out, ignore_errors=True)
    bench = "from tabsweep.benchmark.cli import main; main()"
    words = [sys.executable, "-c", bench, "report", str(run), "--out", str(out)]
    start = time.perf_counter()
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    given["PYTHONPYCACHEPREFIX"] = str(run.parent / "compiled")
    child = os.posix_spawn(sys.executable, words, given, file_actions=QUIET)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"bench report ended with {os.waitstatus_to_exitcode(status)}")
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    if peak <= (own := status_mb("VmHWM")):
        raise SystemExit(f"the peak of {peak:.0f} MB may be this process's own, of {own:.0f} MB")
    return {"wall": wall, "cpu": cpu, "peak_mb": peak}


def show(title: str, runs: list[dict[str, float]]) -> dict[str, float]:
    """Prints the medians of several runs, and returns them."""
    found = {key: float(np.median([figures[key] for figures in runs])) for key in runs[0]}
    print(
        f"{title}: {found['wall']:.2f} s wall, {found['cpu']:.2f} s CPU, peak "
        f"{found['peak_mb']:.0f} MB; load {os.getloadavg()[0]:.1f}"
    )
    return found


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="make the runs here, or find them here")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        start = time.process_time()
        n = generate(options.make, options.trials)
        print(f"{options.make.name}: {n} trials, made in {time.process_time() - start:.0f} s CPU")
        return 0
    with folder_of(options.keep) as folder:
        return compare(options, folder)


def compare(options: argparse.Namespace, folder: Path) -> int:
    """Print the figures beside their targets; returns the exit code."""
    sizes = {"large": options.trials, "matrix": MODELS * DATASETS * FOLDS, "small": 0}
    for name, n in sizes.items():
        if not (folder / name).exists():  # in a process of its own, see `commanded`
            words = [sys.executable, __file__, "--make", str(folder / name), "--trials", str(n)]
            subprocess.run(words, check=True)
    out = folder / "report"
    commanded(folder / "small", out)
    large, matrix = (
        show(name, [commanded(folder / name, out) for _ in range(options.repeats)])
        for name in ("large", "matrix")
    )
    good = [
        verdict(f"{options.trials} trials, s of the command", large["wall"], 10.0),
        verdict("its peak memory, MB", large["peak_mb"], 2000.0),
        verdict("30 x 25 x 10, s of the command", matrix["wall"], 6.0),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
