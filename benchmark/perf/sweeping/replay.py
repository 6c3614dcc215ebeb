"""Ranking of samplers by replay of a random search, against the same samplers with real fits.

    python -m tabsweep.benchmark.perf.sweeping.replay [--trials 160] [--asked 40] [--repeats 2]

For two spaces (k nearest neighbours, and LightGBM with 20 rounds) on small datasets: a random
search of `--trials` configurations is run as a sweep; every sampler is replayed on its ledger, and
run for real on the same folds, `--asked` suggestions each under `--repeats` seeds. Real fits are
those of a sweep (`run_trial`), one after the other in this process. The files of the run are kept
below `--runs`, where a second call finds them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....reports.statistics.ranking import ranks
from ....sweeps.search.samplers import make_sampler
from ....sweeps.trial import derive_seed
from ...planning.plan import Options, Plan
from ...planning.suite import parse
from ...results.evidence_builder import evidence_of
from ...results.replayed import replay_of, spaces_of
from ...running import sweep
from ...running.request import Request
from ...running.run_trial import run_trial

MODELS = ("knn", "lightgbm")
DATASETS = ("iris", "diabetes", "breast-cancer-wdbc", "concrete")
SAMPLERS = ("random", "tpe", "hyperopt")


def suite(n_trials: int) -> Any:
    """The random search whose ledger is replayed."""
    return parse(
        {
            "name": "replay",
            "title": "A random search to be replayed",
            "datasets": list(DATASETS),
            "budgets": {
                "quick": {
                    "models": list(MODELS),
                    "folds": 1,
                    "trials": n_trials,
                    "sampler": "random",
                    "model": {"lightgbm": {"fixed": {"n_estimators": 20}}},
                }
            },
        },
        "perf/sweeping/replay.py",
    )


def real(plan: Plan, record: Any, n: int, repeats: int) -> pd.DataFrame:
    """Validation losses of real searches: a row per (sampler, dataset, model, repeat, n)."""
    spaces, gone = spaces_of(record)
    assert not gone, gone
    rows = []
    for study in plan.build():
        dataset, model = study.meta["dataset"], study.meta["model"]
        space, first = spaces[dataset, model]
        data = plan.payload(dataset)
        for name in SAMPLERS:
            for repeat in range(repeats):
                seed = derive_seed("real", dataset, model, name, repeat)
                search = make_sampler(name, space, seed=seed, n_trials=n, first=first)
                best = np.inf
                for index in range(n):
                    config = search.ask(index)
                    loss = study.loss_of(run_trial(study.make_trial(config, study.seed), data))
                    search.tell(index, config, loss)
                    best = min(best, np.inf if loss is None else loss)
                    where = {"sampler": name, "dataset": dataset, "model": model}
                    rows.append({**where, "repeat": repeat, "n": index + 1, "best": best})
    return pd.DataFrame(rows)


def compared(one: pd.DataFrame, other: pd.DataFrame, n: int) -> dict[str, Any]:
    """Agreement after n trials of two frames (sampler, dataset, model, n, best): mean ranks of the
    samplers, and the rank correlation of their losses within each (dataset, model)."""
    tables = []
    for frame in (one, other):
        mine = frame[frame["n"] == n]
        mean = mine.groupby(["dataset", "model", "sampler"])["best"].mean().unstack()
        tables.append(mean[list(SAMPLERS)])
    places = [ranks(table.to_numpy(dtype=float), "min") for table in tables]
    flat = [place - place.mean(axis=1, keepdims=True) for place in places]
    spread = np.sqrt((flat[0] ** 2).sum() * (flat[1] ** 2).sum())
    signs = [np.sign(p[:, [0, 0, 1]] - p[:, [1, 2, 2]]) for p in places]
    told = (signs[0] != 0) & (signs[1] != 0)
    means = [dict(zip(SAMPLERS, p.mean(axis=0).round(2).tolist(), strict=True)) for p in places]
    return {
        "n": n,
        "replay": means[0],
        "real": means[1],
        "correlation": round(float((flat[0] * flat[1]).sum() / spread), 2) if spread else None,
        "pairs": f"{int((signs[0] == signs[1])[told].sum())} of {int(told.sum())}",
    }


def main() -> None:
    """Run, replay and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=160)
    parser.add_argument("--asked", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/perf"))
    asked = parser.parse_args()
    folder = asked.runs / "replay"
    request = Request(
        suite=suite(asked.trials), options=Options(), runs=asked.runs, name="replay", workers=0
    )
    began = time.perf_counter()
    outcome = sweep.run(request)
    print(f"random search: {asked.trials} trials a study, {time.perf_counter() - began:.0f} s")
    evidence = evidence_of([folder])
    began, cpu = time.perf_counter(), time.process_time()
    replay = replay_of(folder, evidence, asked.asked)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    n_asked = sum(map(len, replay.steps.values()))
    print(f"replay: {n_asked} suggestions, {replay.repeats} repeats, {took:.1f} s, {cpu:.1f} s CPU")
    print(replay.known.round(3).to_string(index=False))
    kept = folder / f"real-{asked.asked}-{asked.repeats}.json"
    if kept.exists():
        fits = pd.DataFrame(json.loads(kept.read_text()))
    else:
        record = outcome.plan.record({})
        began, cpu = time.perf_counter(), time.process_time()
        fits = real(outcome.plan, record, asked.asked, asked.repeats)
        kept.write_text(json.dumps(fits.to_dict("list")))
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(f"real: {len(fits)} fits, {took:.0f} s, {cpu:.0f} s CPU")
    parts = [part.assign(sampler=name) for name, part in replay.steps.items() if name in SAMPLERS]
    replayed = pd.concat(parts, ignore_index=True)
    print("mean ranks of the samplers over datasets, and agreement of pairs of samplers")
    for model in (*MODELS, "both"):
        for n in (10, 20, asked.asked):
            one, other = (
                f if model == "both" else f[f["model"] == model] for f in (replayed, fits)
            )
            print(model, compared(one, other, n))
            if asked.repeats > 1:  # as much as seeds let the real searches agree with themselves
                own = other["repeat"] == 0
                found = compared(other[own], other[~own], n)
                print(f"   real against real: {found['correlation']}, {found['pairs']}")


if __name__ == "__main__":
    main()
