"""A script run inside either version of an A/B test: ids of planned cells, rows of runs.

It is started as a file with the interpreter and the import path of the version that it asks, and
prints one JSON document. The version may be older than this file, as far back as 0.2: what it has
is imported when it is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import threading
import time
import tomllib
from pathlib import Path
from typing import Any


def main() -> None:
    """`ids SUITE` or `fit SUITE`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["ids", "fit"])
    parser.add_argument("suite", type=Path)
    parser.add_argument("--taken", type=Path, required=True)
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--cells", type=json.loads)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--run", action="append", default=[], metavar="SEED:NAME")
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    suite = tomllib.loads(given.suite.read_text(encoding="utf-8"))
    suite = with_every_model(suite) if given.complete else suite
    suite = only(suite, given.cells) if given.cells else suite
    given.taken.write_text(json.dumps(suite, indent=1, sort_keys=True), encoding="utf-8")
    found: Any
    if given.what == "ids":
        found = ids_of(str(given.taken), given.model)
    else:
        runs = [(int(word.split(":")[0]), word.split(":")[1]) for word in given.run]
        found = [
            row
            for seed, name in runs
            for row in fitted(str(given.taken), seed, given.runs, name, given.workers)
        ]
    print(json.dumps(found))


def end_with(parent: int) -> None:
    """End this process soon after its parent, even one that was killed: a night that is resumed
    needs the run folders."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def with_every_model(data: dict[str, Any]) -> dict[str, Any]:
    """A suite's data with every registered model in its default budget: one that the file does not
    name has the small fit that its space file gives for tests, so that a new model is judged
    without an edit of the suite."""
    from tabsweep.models import registry
    from tabsweep.models.space_files import small_fits

    budget = data["budgets"][data.get("default_budget", "quick")]
    for name in sorted(registry.MODELS):
        if name not in budget["models"]:
            budget["models"].append(name)
            budget.setdefault("model", {})[name] = {
                "fixed": dict(small_fits(name).get("config", {}))
            }
    return data


def only(suite: dict[str, Any], cells: dict[str, list[str]]) -> dict[str, Any]:
    """A suite's data with these cells alone, {model: datasets}: the others are absent from its
    default budget."""
    name = suite.get("default_budget", "quick")
    budget = dict(suite["budgets"][name])
    datasets = sorted({dataset for those in cells.values() for dataset in those})
    budget["models"] = sorted(cells)
    budget["model"] = {m: s for m, s in budget.get("model", {}).items() if m in cells}
    there = {}
    for dataset in datasets:
        missing = [model for model in sorted(cells) if dataset not in cells[model]]
        known = dict(budget.get("dataset", {}).get(dataset, {}).get("model", {}))
        for model in missing:
            known[model] = {**known.get(model, {}), "absent": "not fitted tonight"}
        if known:
            there[dataset] = {"model": known}
    budget["dataset"] = there
    protocol = {d: p for d, p in suite.get("protocol", {}).items() if d in datasets}
    rest = {k: v for k, v in suite.items() if k not in ("offline", "budgets", "protocol")}
    return {**rest, "datasets": datasets, "protocol": protocol, "budgets": {name: budget}}


def ids_of(suite: str, models: list[str]) -> dict[str, Any]:
    """The id of the one trial of every study of a suite, and what the ids are made of.

    {"cells": {"model/dataset/fold/seed": {"id", "config"}}, "data": {dataset: sha256 of its bytes},
    "models": {model: {"source", "libraries"}}, "left_out": {dataset: why it could not be had},
    "absent": {model/dataset: why it is not planned}, "unknown": [models that this version does not
    have]}. Nothing is fitted and nothing written.
    """
    from tabsweep.benchmark.planning.options import Options
    from tabsweep.benchmark.planning.suite import load
    from tabsweep.benchmark.running.request import Request
    from tabsweep.benchmark.running.sweep import prepare
    from tabsweep.models import registry

    chosen = load(suite)
    budget, numbers = chosen.budget(None)
    wanted = [name for name in numbers.models if not models or name in models]
    known = [name for name in wanted if numbers.asked(name) in registry.names()]
    options = Options(budget=budget, models=tuple(known), name="ids")
    found: dict[str, Any] = {
        **{"cells": {}, "models": {}, "data": {}, "left_out": {}, "absent": {}},
        "unknown": sorted(set(wanted) - set(known)),
    }
    if not known:
        return found
    try:
        plan = prepare(Request(chosen, options), None)
    except Exception as error:
        if type(error).__name__ != "NoData":
            raise
        return {**found, "left_out": dict.fromkeys(chosen.datasets, str(error))}
    found["left_out"] = dict(plan.left_out)
    found["data"] = {name: data.table.sha256 for name, data in plan.data.items()}
    found["absent"] = {f"{s.model}/{s.dataset}": s.reason for s in plan.studies if s.reason}
    for study in plan.build():
        slot = study.next_slot()
        assert slot is not None
        trial = study.open(slot)
        key = f"{trial.model}/{trial.dataset}/{trial.fold}/{trial.seed}"
        config = json.dumps(dict(trial.config), sort_keys=True)
        found["cells"][key] = {"id": trial.id, "config": short(config)}
        if trial.model not in found["models"]:
            found["models"][trial.model] = {
                "source": str(trial.identity["source"]),
                "libraries": dict(trial.identity["libraries"]),
            }
    return found


def short(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fitted(suite: str, seed: int, runs: Path, name: str, workers: int) -> list[dict[str, Any]]:
    """The rows of the run `runs`/`name`, a sweep of the suite that is run to its end here: what its
    ledger holds is not fitted again."""
    from tabsweep.benchmark.planning.options import Options
    from tabsweep.benchmark.planning.suite import load
    from tabsweep.benchmark.running.request import Request
    from tabsweep.benchmark.running.sweep import run

    run(Request(load(suite), Options(seed=seed, runs=runs, name=name, workers=workers)))
    return rows_of(runs / name)


def rows_of(run: Path) -> list[dict[str, Any]]:
    """One row per trial of a run: dataset, fold and model, status, error, costs and a hash.

    `error` is the root mean squared error on the test rows: of the values, or of the probabilities
    against a one where the class is and zeros elsewhere (the root of the Brier score); None for a
    failure. It changes with every prediction, as an accuracy does not, and a single confident
    mistake does not rule it, as it rules a log loss. `sha256` is over the bytes of the stored
    predictions.
    """
    import numpy as np
    from tabsweep.benchmark.results.stored_predictions import blocks_of
    from tabsweep.sweeps.store.ledger import Ledger
    from tabsweep.sweeps.store.records import latest_results

    errors: dict[str, float] = {}
    blocks, _ = blocks_of([run])
    for block in blocks:
        y = block.y["test"]
        for trial in block.trials:
            values = np.asarray(trial.arrays()["test"], dtype=np.float64)
            wanted = np.eye(values.shape[1])[y] if values.ndim == 2 else y
            missed = np.square(values - wanted).sum(axis=tuple(range(1, values.ndim)))
            errors[trial.id] = float(np.sqrt(missed.mean()))
    ledger = Ledger(run)
    rows = []
    for id, at in sorted(latest_results(ledger).items()):
        record = ledger.at(at)
        where = record["predictions"]
        text = "".join(str(where[part]["sha256"]) for part in sorted(where))
        rows.append(
            {
                **{name: record[name] for name in ("model", "dataset", "fold", "seed", "id")},
                **{name: record[name] for name in ("status", "cause", "message")},
                "error": errors.get(id),
                "sha256": hashlib.sha256(text.encode()).hexdigest() if text else "",
                "cpu_s": record["costs"].get("cpu_s"),
            }
        )
    return rows


if __name__ == "__main__":
    main()
