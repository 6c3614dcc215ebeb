"""Choose what a run with bags takes home, by its predictions out of fold, and fit it on all rows.

1. The models: the greedy ensemble of their bags (`results/greedy_ensembles.py`), if it also beats
   the best model on rows that chose neither; else that model alone.
2. The configuration of a model: the one whose bag has the best score out of fold (ties to the lower
   fold, where several folds have chosen).
3. The rows: all of them. Each model is a bag again: member k is fitted without part k of all rows,
   by which it stops early. With a time column the parts are of the later half of the rows, and a
   member sees what came after its part, too: what is to be predicted comes later than all rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...datasets.inner_parts import member_folds
from ...datasets.protocols import Fold
from ...reports.metrics import METRICS
from ...sweeps.machine.cgroups import available_cpus
from ..errors import FitError
from ..results.greedy_ensembles import table_ensemble
from ..results.stored_predictions import blocks_of
from .chosen_fit import FittedPart, Run, choose_model, fit_part, make, takes_validation

if TYPE_CHECKING:
    from ...datasets.table import Table

ENSEMBLE = "ensemble"
LONG_S = 30.0  # CPU seconds of a bag; for less, starting further processes costs more than it gains


@dataclass(frozen=True)
class BagChoice:
    """`weights`: {model: share}; `configs`: {model: configuration}; `val`: the score out of fold by
    the run's metric, of `n_rows` predictions; `remark`: why an ensemble, or why not; `residuals`
    (n_rows,) of a regression."""

    weights: dict[str, float]
    configs: dict[str, dict[str, Any]]
    val: float
    n_rows: int
    remark: str
    residuals: np.ndarray | None

    @property
    def name(self) -> str:
        """The model's name, or that of an ensemble."""
        return ENSEMBLE if len(self.weights) > 1 else next(iter(self.weights))


def choose_bags(
    run: Run,
    model: str | None,
    *,
    single: bool = False,
    files: Sequence[Path] = (),
) -> BagChoice:
    """Steps 1 and 2, among the models in `run.chosen`. model: the one that was asked for; single:
    no ensemble. Raises FitError."""
    found, left_out = blocks_of([run.folder], only=run.dataset, files=files)
    blocks = [
        replace(block, trials=[one for one in block.trials if one.model in run.chosen])
        for block in found
        if block.bag
    ]
    best = choose_model(run, model)
    if not blocks:
        raise FitError(left_out.get(run.dataset, f"the run has no bag on {run.dataset} yet"))
    metric = METRICS[run.metric]
    remark = ""
    ensemble = None if model or single else table_ensemble(blocks, metric)
    if ensemble is not None and ensemble.taken:
        configs = {name: config_of(run, name) for name in ensemble.weights}
        remark = f"the best model alone, {ensemble.best}, has {ensemble.single:.4g}"
        told = ensemble.val, ensemble.n_rows, remark, ensemble.residuals
        return BagChoice(ensemble.weights, configs, *told)
    if ensemble is not None:
        remark = "no ensemble was better on rows that did not choose it"
    mine = [next(t for t in b.trials if t.counts and t.model == best) for b in blocks]
    y = np.concatenate([block.y["val"] for block in blocks])
    predicted = np.concatenate([trial.arrays("val")["val"] for trial in mine])
    parts = [w for block in blocks if (w := block.weights["val"]) is not None]
    score = metric.value(y, predicted, np.concatenate(parts) if parts else None, blocks[0].costs)
    if score is None:
        raise FitError(f"{run.metric} is undefined on the rows of {run.dataset}")
    residuals = y - predicted if blocks[0].task == "regression" else None
    return BagChoice({best: 1.0}, {best: config_of(run, best)}, score, len(y), remark, residuals)


def config_of(run: Run, model: str) -> dict[str, Any]:
    """Step 2 for one model."""
    losses = {
        fold: run.known[model, config, fold].loss for fold, config in run.chosen[model].items()
    }
    known = [(loss, fold) for fold, loss in losses.items() if loss is not None]
    if not known:
        raise FitError(f"{model} has no bag with a score on {run.dataset}; name another --model")
    config: dict[str, Any] = json.loads(run.chosen[model][min(known)[1]])
    return config


def fit_bag(
    run: Run, name: str, asked: str, config: Mapping[str, Any], table: Table, device: str = "cpu"
) -> list[FittedPart]:
    """Step 3 for one model: its fitted members. `asked`: the registry's name of the model. Where
    the run's bag took LONG_S, the members are fitted in processes of their own, one for each CPU;
    they are the same."""
    from joblib import Parallel, delayed

    every = np.arange(table.n_rows)
    whole = Fold(0, every, every[:0], every[:0])
    parts = member_folds(table, whole, run.n_members, seed=run.seed)
    took_s = max(run.known[name, chosen, fold].cpu_s for fold, chosen in run.chosen[name].items())
    alone = device != "cpu" or took_s < LONG_S
    n_processes = 1 if alone else min(available_cpus(), len(parts))
    return Parallel(n_jobs=n_processes)(
        delayed(_fit_member)(
            asked, config, table, part.val, (run.seed + k, run.time_limit_s, device)
        )
        for k, part in enumerate(parts)
    )


def _fit_member(
    asked: str,
    config: Mapping[str, Any],
    table: Table,
    left_out: np.ndarray,
    how: tuple[int, float | None, str],
) -> FittedPart:
    """A member of a bag without the rows `left_out`. how: (seed, seconds at most, device)."""
    seed, time_limit_s, device = how
    estimator = make(asked, config, table, seed=seed, device=device)
    rest = np.setdiff1d(np.arange(table.n_rows), left_out)
    stopping = left_out if takes_validation(estimator) else left_out[:0]
    return fit_part(asked, estimator, table, rest, stopping, time_limit_s)
