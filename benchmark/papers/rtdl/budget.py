"""Test scores after a limited time of tuning (Gorishniy et al. 2021, D.2, Table 5).

TPE limited by time alone: at each budget the best trial by validation so far, its test score, and
how many trials had ended, as means over tuning seeds. One log of trials serves all budgets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....reports.metrics import accuracy, rmse
from ....sweeps.search.samplers import make_sampler
from ....sweeps.search.space import Space
from ....sweeps.trial import derive_seed
from ...planning.space_overrides import narrow, resolve_space
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load
from .tuned import available, left_out_remarks, split_of, split_remarks

FOLDER = Path(__file__).parent

MODELS = ("xgboost", "mlp", "resnet", "ft-transformer")


FEW = {"epochs": 12, "patience": 4}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "datasets": ("california-housing",),
        "budgets": (0.5, 1.0),
        "seeds": 1,
        "space": "default",
        "fixed": {
            "mlp": {"epochs": 1},
            "resnet": {"epochs": 1, "n_layers": 1, "width": 8},
            "ft-transformer": {"epochs": 1, "n_layers": 1, "width": 8, "n_heads": 1},
        },
    },
    "reduced": {
        "datasets": ("california-housing",),
        "budgets": (15.0, 30.0, 60.0),
        "seeds": 1,
        "space": "default",
        "fixed": {
            "mlp": FEW,
            "resnet": {**FEW, "n_layers": 2},
            "ft-transformer": {**FEW, "n_layers": 1, "width": 32, "n_heads": 4},
        },
    },
    "full": {
        "datasets": ("california-housing", "adult", "higgs-small"),
        "budgets": tuple(3600.0 * hours for hours in (0.25, 0.5, 1, 2, 3, 4, 5, 6)),
        "seeds": 5,
        "space": "rtdl",
        "fixed": {},
    },
}


@dataclass(frozen=True)
class Ended:
    """A trial: seconds from the start of the tuning to its end, validation loss, test score."""

    seconds: float
    loss: float
    test: float


def cut(log: Sequence[Ended], budget: float) -> tuple[float | None, int]:
    """(test score of the best trial by validation, number of trials) that ended within `budget`
    seconds; no score where none did. Of equal losses the earlier trial counts."""
    done = [trial for trial in log if trial.seconds <= budget]
    return (min(done, key=lambda trial: trial.loss).test if done else None), len(done)


def trial(
    setting: Setting, model: str, data: Data, fold: Fold, config: Mapping[str, Any]
) -> tuple[float, float]:
    """(validation loss, test score) of one configuration; seed 0, as in the paper."""
    made = setting.fit(model, data, fold, config, seed=0)
    val, test = (
        rmse(data.target[rows], made.predict(data.rows(rows)))
        if data.task == "regression"
        else accuracy(data.target[rows], made.predict_proba(data.rows(rows)))
        for rows in (fold.val, fold.test)
    )
    return (val if data.task == "regression" else 1.0 - val), test


def tune(
    space: Space,
    seed: int,
    budget: float,
    one: Callable[[Mapping[str, Any]], tuple[float, float]],
    clock: Callable[[], float],
) -> list[Ended]:
    """Every trial of one search that ended within `budget` seconds. one: as `trial` for a
    configuration."""
    sampler = make_sampler("tpe", space, seed=seed)
    log: list[Ended] = []
    start = clock()
    while clock() - start < budget:
        index = len(log)
        config = sampler.ask(index)
        loss, test = one(config)
        sampler.tell(index, config, loss)
        log.append(Ended(clock() - start, loss, test))
    return log


def run(
    setting: Setting,
    *,
    datasets: Sequence[str],
    budgets: Sequence[float],
    seeds: int,
    space: str,
    fixed: Mapping[str, Mapping[str, Any]],
    one: Callable[..., tuple[float, float]] = trial,
    clock: Callable[[], float] = time.monotonic,
) -> ExperimentResult:
    """`bench experiment rtdl-budget`. budgets: in seconds. seeds: of the tuning. fixed: what a
    model's space is cut to. one, clock: a trial, and the time in seconds."""
    published = {
        (r.dataset, r.method, float(r.level), r.metric): r.value
        for r in load(FOLDER, "table5").itertuples(index=False)
    }
    rows = []
    tables, left_out = available(datasets, setting)
    for dataset, data in tables.items():
        fold = split_of(data)
        metric = "rmse" if data.task == "regression" else "accuracy"
        for model in MODELS:
            setting.say(f"{dataset}: {model}")
            searched = narrow(
                resolve_space(model, space, data.task)[0], fixed.get(model, {}), {}, model
            )
            logs = [
                tune(
                    searched,
                    derive_seed(seed, data.name, model),
                    budgets[-1],
                    partial(one, setting, model, data, fold),
                    clock,
                )
                for seed in setting.seeds(seeds)
            ]
            for seconds in budgets:
                cuts = [cut(log, seconds) for log in logs]
                scores = [score for score, _ in cuts if score is not None]
                key = (dataset, model, seconds / 3600.0)
                rows.append(
                    {
                        "dataset": dataset,
                        "model": model,
                        "metric": metric,
                        "seconds": seconds,
                        "test": float(np.mean(scores)) if len(scores) == len(logs) else None,
                        "trials": float(np.mean([n for _, n in cuts])),
                        "published": published.get((*key, metric)),
                        "published trials": published.get((*key, "n-tuning-iterations")),
                    }
                )
    note = (
        f"{seeds} tuning seed(s); score: test {'of' if seeds == 1 else 'mean over'} "
        "the best trial by validation that ended in time, from seed 0; a dash: no trial did."
    )
    if not setting.full:
        note += (
            " Seconds stand for the paper's hours (0.25 to 6), and networks are small and trained "
            "for at most 12 epochs; the paper's values belong to its own budgets."
        )
    return ExperimentResult(
        [ExperimentTable("rtdl-budget", "Tuning limited by time", rows, note)],
        remarks=[*split_remarks(tables), *left_out_remarks(left_out)],
    )
