"""Ranking of samplers by replay of a random search, against the same samplers with real fits.

    python -m tabsweep.benchmark.perf.sweeping.replay [--trials 160] [--asked 40] [--repeats 10]

For two spaces (k nearest neighbours, and LightGBM with 20 rounds) on small datasets: a random
search of `--trials` configurations is run as a sweep; every sampler is replayed on its ledger, and
run for real on the same folds, `--asked` suggestions each under `--repeats` seeds. Real fits are
those of a sweep (`run_trial`), one after the other in this process. The files of the run are kept
below `--runs`, where a second call finds them.

Each pair of samplers on each (dataset, model) is compared by Welch's 95 % interval of the
difference of the lowest validation losses, of the real searches and of the replays. A pair counts
only where the real searches tell it apart; the others are "not separable": there is nothing that a
replay could agree with.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....reports.analyses.tuners import separations
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
    """Validation losses of real searches: a row per (tuner, dataset, model, repeat, n)."""
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
                search = make_sampler(name, space, seed=seed, first=first)
                best = np.inf
                for index in range(n):
                    config = search.ask(index)
                    loss = study.loss_of(run_trial(study.make_trial(config, study.seed), data))
                    search.tell(index, config, loss)
                    best = min(best, np.inf if loss is None else loss)
                    where = {"tuner": name, "dataset": dataset, "model": model}
                    rows.append({**where, "repeat": repeat, "n": index + 1, "best": best})
    return pd.DataFrame(rows)


PLACES = {True: "lower", False: "higher"}


def said(row: Any) -> str:
    """ "-0.12 [-0.2, -0.04] lower" of a row of `separations`."""
    told = PLACES[row["mean"] < 0] if row["separable"] else "not separable"
    return f"{row['mean']:.4g} [{row['low']:.4g}, {row['high']:.4g}] {told}"


def agreement(replay: pd.DataFrame, real: pd.DataFrame, n: int) -> pd.DataFrame:
    """After n trials: a row per pair of samplers on each (dataset, model), with what the real
    searches and the replays say (`real`, `replay`), whether each tells the pair apart, and whether
    the two means lie on the same side."""
    keys = ["model", "dataset", "tuner", "against"]
    one, other = (separations(frame, n).set_index(keys).sort_index() for frame in (real, replay))
    other = other.loc[one.index]
    return pd.DataFrame(
        {
            "real": one.apply(said, axis=1),
            "replay": other.apply(said, axis=1),
            "real_separable": one["separable"],
            "replay_separable": other["separable"],
            "same_side": np.sign(one["mean"]) == np.sign(other["mean"]),
        }
    ).reset_index()


def summary(pairs: pd.DataFrame) -> str:
    """How many pairs are told apart by which, and of those by both how many alike."""
    real, replay = pairs["real_separable"], pairs["replay_separable"]
    both, same = real & replay, pairs["same_side"]
    return (
        f"{len(pairs)} pairs; real searches tell {int(real.sum())} apart, of them replay has "
        f"{int((real & same).sum())} on the same side and tells {int(both.sum())} apart "
        f"({int((both & same).sum())} alike); replay alone tells {int((replay & ~real).sum())}; "
        f"not separable by real searches: {int((~real).sum())}"
    )


def main() -> None:
    """Run, replay and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=160)
    parser.add_argument("--asked", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=10)
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
    replayed = replay.losses[replay.losses["tuner"].isin(SAMPLERS)]
    print("difference of the lowest validation loss, sampler less sampler, with its 95 % interval")
    for n in (20, asked.asked):
        pairs = agreement(replayed, fits, n)
        for model, mine in pairs.groupby("model"):
            print(f"{model}, n = {n}: {summary(mine)}")
            for row in mine.itertuples(index=False):
                print(f"  {row.dataset}, {row.tuner} - {row.against}: {row.real} | {row.replay}")


if __name__ == "__main__":
    main()
