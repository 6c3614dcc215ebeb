"""Test scores after a limited time of tuning (Gorishniy et al. 2021, D.2, Table 5).

TPE limited by time alone: at each budget the best trial by validation so far, its test score, and
how many trials had ended, as means over tuning seeds. One log of trials serves all budgets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....models.registry import make_model
from ....reports.metrics import accuracy, rmse
from ....sweeps.search.samplers import make_sampler
from ....sweeps.trial import derive_seed
from ...planning.space_overrides import narrow, resolve_space
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load
from .tuned import available, left_out_remarks, split_of, split_remarks

FOLDER = Path(__file__).parent

MODELS = ("xgboost", "mlp", "resnet", "ft-transformer")


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. seconds: the budgets. fixed: what a model's space is cut to."""

    datasets: tuple[str, ...]
    seconds: tuple[float, ...]
    seeds: int
    space: str
    fixed: Mapping[str, Mapping[str, Any]]


FEW = {"epochs": 12, "patience": 4}
EXTENTS = {
    "tiny": Extent(
        ("california-housing",), (0.5, 1.0), 1, "default",
        {
            "mlp": {"epochs": 1},
            "resnet": {"epochs": 1, "n_layers": 1, "width": 8},
            "ft-transformer": {"epochs": 1, "n_layers": 1, "width": 8, "n_heads": 1},
        },
    ),
    "reduced": Extent(
        ("california-housing",), (15.0, 30.0, 60.0), 1, "default",
        {
            "mlp": FEW,
            "resnet": {**FEW, "n_layers": 2},
            "ft-transformer": {**FEW, "n_layers": 1, "width": 32, "n_heads": 4},
        },
    ),
    "full": Extent(
        ("california-housing", "adult", "higgs-small"),
        tuple(3600.0 * h for h in (0.25, 0.5, 1, 2, 3, 4, 5, 6)), 5, "rtdl", {},
    ),
}  # fmt: skip


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
    model: str, config: Mapping[str, Any], data: Data, fold: Fold, setting: Setting
) -> tuple[float, float]:
    """(validation loss, test score) of one configuration; seed 0, as in the paper."""
    given = {**config, "threads": setting.threads, "device": setting.device}
    made = make_model(model, task=data.task, seed=0, **given)
    y = data.target
    made.fit(data.rows(fold.train), y[fold.train], data.rows(fold.val), y[fold.val])
    if data.task == "regression":
        val, test = (rmse(y[rows], made.predict(data.rows(rows))) for rows in (fold.val, fold.test))
        return val, test
    shares = [
        accuracy(y[rows], made.predict_proba(data.rows(rows))) for rows in (fold.val, fold.test)
    ]
    return 1.0 - shares[0], shares[1]


def tune(
    model: str,
    data: Data,
    fold: Fold,
    extent: Extent,
    setting: Setting,
    seed: int,
    one: Callable[..., tuple[float, float]],
    clock: Callable[[], float],
) -> list[Ended]:
    """Every trial of one search that ended within the largest budget."""
    space, _ = resolve_space(model, extent.space, data.task)
    space = narrow(space, extent.fixed.get(model, {}), {}, model)
    sampler = make_sampler("tpe", space, seed=derive_seed(seed, data.name, model))
    log: list[Ended] = []
    start = clock()
    while clock() - start < extent.seconds[-1]:
        index = len(log)
        config = sampler.ask(index)
        loss, test = one(model, config, data, fold, setting)
        sampler.tell(index, config, loss)
        log.append(Ended(clock() - start, loss, test))
    return log


def run(
    setting: Setting,
    extent: Extent | None = None,
    one: Callable[..., tuple[float, float]] = trial,
    clock: Callable[[], float] = time.monotonic,
) -> ExperimentResult:
    """`bench experiment rtdl-budget`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    paper = {
        (r.dataset, r.method, float(r.level), r.metric): r.value
        for r in load(FOLDER, "table5").itertuples(index=False)
    }
    rows = []
    tables, left_out = available(extent.datasets, setting)
    for dataset, data in tables.items():
        fold = split_of(data)
        metric = "rmse" if data.task == "regression" else "accuracy"
        for model in MODELS:
            setting.say(f"{dataset}: {model}")
            seeds = range(setting.seed, setting.seed + extent.seeds)
            logs = [tune(model, data, fold, extent, setting, s, one, clock) for s in seeds]
            for budget in extent.seconds:
                cuts = [cut(log, budget) for log in logs]
                scores = [score for score, _ in cuts if score is not None]
                hours = budget / 3600.0
                rows.append(
                    [
                        dataset, model, metric, budget,
                        float(np.mean(scores)) if len(scores) == len(logs) else None,
                        float(np.mean([n for _, n in cuts])),
                        paper.get((dataset, model, hours, metric)),
                        paper.get((dataset, model, hours, "n-tuning-iterations")),
                    ]
                )  # fmt: skip
    note = (
        f"{extent.seeds} tuning seed(s); score: test {'of' if extent.seeds == 1 else 'mean over'} "
        "the best trial by validation that ended in time, from seed 0; a dash: no trial did."
    )
    if not setting.full:
        note += (
            " Seconds stand for the paper's hours (0.25 to 6), and networks are small and trained "
            "for at most 12 epochs; the paper's values belong to its own budgets."
        )
    columns = [
        "dataset", "model", "metric", "seconds", "test", "trials", "published", "published trials",
    ]  # fmt: skip
    return ExperimentResult(
        [ExperimentTable("rtdl-budget", "Tuning limited by time", columns, rows, note)],
        remarks=[*split_remarks(tables), *left_out_remarks(left_out)],
    )
