"""The function that runs one trial on a worker: fit, predict, score."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from ...common.portable import PINS, pinned
from ...datasets.inner_parts import out_of_fold
from ...datasets.protocols import Fold
from ...datasets.table import Table
from ...models.base import Unsupported
from ...models.discovery import runnable
from ...models.hyperparameters import InvalidConfig
from ...reports.metrics import DEFAULT_METRIC, METRICS
from ...sweeps.machine.process_tree import living_cpu_s
from ...sweeps.store.checkpoints import Checkpoints
from ...sweeps.trial import DONE, Result, Trial, failure
from ...sweeps.workers.pool import TrialRefused, first_line, text_of
from ..bag import run_bag
from ..bag_members import is_bag, members_of
from ..cell import BadConfig, Cell, load_class, run_cell
from ..column_encoding import encoder_source, table_of_trial
from ..planning.code_identity import source_alone
from ..planning.environment import cpu_model
from ..prediction_time import BestSoFar, prediction_times
from ..results.trial_scores import score_parts

Data = tuple[Table, Mapping[int, Fold]]

_BEST = BestSoFar()  # of this process: decides which trials are measured, never a result


@cache
def source_of(cls: type, target: str, stepwise: bool, bag: bool) -> str:
    """The fingerprint of a class and of all that it imports, taken once per process."""
    return source_alone(target, stepwise=stepwise, bag=bag)


def check_source(trial: Trial) -> None:
    """Refuse to compute a trial with other source than its id names. Raises TrialRefused where a
    model was edited after the sweep began, or this machine has another version."""
    target, claimed = trial.identity["target"], trial.identity.get("source")
    if claimed is None:
        return
    bag = is_bag(trial.fidelity)
    stepwise = trial.fidelity is not None and not bag
    if source_of(load_class(target), target, stepwise, bag) != claimed:
        raise TrialRefused(
            f"the source of {target} is not the one that the sweep began with; "
            "start the sweep again to use the new one"
        )
    if trial.identity.get("encoding", {}).get("source", encoder_source()) != encoder_source():
        raise TrialRefused(
            "the encoder of dates and texts is not the one that the sweep began with"
        )


def run_trial(trial: Trial, data: Data, checkpoints: Checkpoints | None = None) -> Result:
    """Fit, predict and score one trial; the worker turns other exceptions into the cause "error".

    `checkpoints`: where a trial with a fidelity takes its state from and saves it.
    A bag is scored on the rows that its members predicted out of fold, and on the test rows.
    """
    check_source(trial)
    if trial.identity.get("portable") and not pinned():
        raise TrialRefused(
            "this worker's instruction sets are not pinned, as --portable asks for: start its Ray "
            "with " + " ".join(f"{name}={value!r}" for name, value in PINS.items())
        )
    table, folds = data
    fold = folds[trial.fold]
    how: dict[str, Any] = {
        "target": runnable(trial.identity["target"]),
        "task": table.task,
        "config": trial.config,
        "seed": trial.seed,
        "threads": trial.identity["threads"],
        "device": trial.identity.get("device", "cpu"),
        "key": trial.chain,
        "checkpoints": checkpoints,
        "time_limit_s": trial.identity.get("time_limit_s"),
    }
    living_s = living_cpu_s()
    encoded = partial(table_of_trial, table, identity=trial.identity)
    try:
        if trial.fidelity is not None and is_bag(trial.fidelity):
            members = _members(table, fold, trial.fidelity)
            cell = run_bag(members, encoded, **how)
            fold, last = out_of_fold(fold, members), members[-1]
            table = encoded(last)[0]
        else:
            table, encoding_s = encoded(fold)
            cell = run_cell(table=table, fold=fold, fidelity=trial.fidelity, **how)
            cell.costs["fit_s"] += encoding_s
        # of the trees of processes the cell counts what has ended in it; what lives on comes here
        cell.costs["cpu_s"] = max(0.0, cell.costs["cpu_s"] + living_cpu_s() - living_s)
        not_finite = _not_finite(cell)
        if not not_finite:
            scores = score_parts(table, fold, cell.predictions)
            metric = METRICS[table.metric or DEFAULT_METRIC[table.task]]
            score = scores["val"].get(metric.name)
            study = trial.fold, trial.model, is_bag(trial.fidelity)
            if score is not None and _BEST.beaten(table, study, metric.loss(score)):
                _measure(cell, table, fold)
    except (BadConfig, InvalidConfig) as error:
        return failure("invalid_config", _first_line(error))
    except Unsupported as error:
        return failure("unsupported", _first_line(error))
    if not_finite:
        return failure("nonfinite", not_finite)
    return Result(
        status=DONE,
        val=scores["val"],
        test=scores["test"],
        costs=cell.costs,
        info={**cell.info, "cpu": cpu_model(), **_gpu(trial.identity.get("device", "cpu"))},
        predictions=cell.predictions,
    )


def _members(table: Table, fold: Fold, fidelity: Mapping[str, Any]) -> tuple[Fold, ...]:
    try:
        return members_of(table, fold, fidelity)
    except ValueError as error:
        raise TrialRefused(f"{error}; start the sweep again to use what is here now") from None


def _gpu(device: str) -> dict[str, str]:
    """The kind of GPU and this machine's build of torch, for a trial that does not run on a CPU."""
    if device == "cpu":
        return {}
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return {"gpu": gpu, "torch": torch.__version__}


def _not_finite(cell: Cell) -> str:
    """How many predictions are NaN or infinite, and where; "" where all are finite."""
    for part, values in cell.predictions.items():
        bad = int((~np.isfinite(values)).sum())
        if bad:
            return f"{bad} predictions on {part} are NaN or infinite"
    return ""


def _measure(cell: Cell, table: Table, fold: Fold) -> None:
    """Add the seconds of predictions of 1,000 rows to the cell's costs."""
    test_share = len(fold.test) / (len(fold.val) + len(fold.test))
    times, trouble = prediction_times(
        cell.predict,
        table.rows(fold.test),
        took_s=cell.costs["predict_s"] * test_share,
        budget_s=cell.costs["fit_s"] + cell.costs["predict_s"],
    )
    cell.costs.update(times)
    if trouble:
        cell.info["prediction_times"] = trouble


def _first_line(error: BaseException) -> str:
    return first_line(text_of(error)) or type(error).__name__
