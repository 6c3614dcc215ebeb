"""Choose the best model of a run and its configuration, and fit it on all rows.

The rule, for one dataset of a run:

1. The model: the best mean validation score of its chosen configurations over all folds of the
   dataset (ties to the first name). A model without a score on some fold must be named.
2. The configuration: each fold has chosen one, on validation rows of its own, so their scores do
   not compare. Each is therefore scored on the validation rows of every fold (known scores are
   taken from the ledger, the others are fitted now), and the best mean wins; ties to the lower
   fold. One that fails on a fold is out.
3. The rows: all of them. Boosting that stopped early gets as many rounds as the median fold used
   (rounded up) and does not stop early. Any other model that stops early is fitted without the
   first fold's validation rows, by which it stops.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...common.columns.encoder import ColumnEncoder
from ...common.counting import count
from ...common.text import suggest
from ...models import registry
from ...models.base import Estimator
from ...models.library.columns import is_cyclic
from ...models.persistence.model_file import fit_rows
from ...reports.metrics import METRICS
from ...sweeps.store.ledger import Ledger
from ...sweeps.store.records import latest_results
from ...sweeps.study_state import EVAL, TUNE
from ...sweeps.trial import DONE, Trial
from ..column_encoding import encoding_identity
from ..errors import FitError, SweepError, command_on
from ..planning.plan import loss_function
from ..planning.plan_record import PlannedDataset, RunPlan
from ..results.evidence_builder import planned_rows
from ..results.run_status import status_of
from ..results.stored_predictions import planned_data
from ..running.run_trial import run_trial

if TYPE_CHECKING:
    from ...datasets.protocols import Fold
    from ...datasets.table import Table
    from ...models.model_spec import ModelSpec

MOST_RESIDUALS = 2000  # of a model file, for its intervals

# -- which model and configuration ----------------------------------------------------------------


@dataclass
class Score:
    """One configuration on one fold: its loss on the validation rows, None where it failed, and the
    CPU seconds of its fits."""

    loss: float | None
    rounds: int | None
    cpu_s: float = 0.0


@dataclass
class Run:
    """The results of the run in `folder` on one dataset. known: {(model, configuration, fold):
    Score}; chosen: {model: {fold: configuration as canonical JSON}}, each a key of `known`;
    predictions: {(model, fold): places of the chosen configuration's predictions}."""

    folder: Path
    plan: RunPlan
    dataset: str
    metric: str
    known: dict[tuple[str, str, int], Score] = field(default_factory=dict)
    chosen: dict[str, dict[int, str]] = field(default_factory=dict)
    predictions: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    device: str = "cpu"  # of fits that this process will make

    @property
    def described(self) -> PlannedDataset:
        """What the plan records of the dataset."""
        return self.plan.datasets[self.dataset]

    @property
    def folds(self) -> list[int]:
        """The numbers of the planned folds, ascending."""
        return self.plan.folds_of(self.dataset)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.plan.options.seed

    @property
    def time_limit_s(self) -> float | None:
        """Time limit of a fit in wall seconds, for models trained in steps; None without limit."""
        return self.plan.options.time_limit_s or self.plan.budget.time_limit_s

    @property
    def n_members(self) -> int:
        """Members of a bag on the fold where bags are largest; 0 if the run has no bags (see
        `chosen_bags.py`)."""
        return max(study.n_members for study in self.plan.studies_of(self.dataset))

    def mean_loss(self, model: str) -> float | None:
        """Mean loss of the model's chosen configurations; None if a fold has no chosen one."""
        chosen = self.chosen.get(model, {})
        if set(chosen) != set(self.folds):
            return None
        losses = [self.known[model, config, fold].loss for fold, config in chosen.items()]
        return math.fsum(v for v in losses if v is not None) / len(losses)


def read_run(run: Path, dataset: str | None) -> Run:
    """The run's results on a dataset, None for its only one. Raises FitError."""
    ledger = Ledger(run)
    plan, every = planned_rows(ledger)
    names = sorted(plan.datasets)
    if dataset is None and len(names) != 1:
        raise FitError(f"the run has {len(names)} datasets, name one of them: {', '.join(names)}")
    name = dataset or names[0]
    if name not in plan.datasets:
        raise FitError(f"the run has no dataset {name!r}; {suggest(name, names)}")
    of_dataset = Run(run, plan, name, plan.metric[plan.datasets[name].task])
    rows = [row for row in every if row["dataset"] == name]
    results = latest_results(ledger)
    info = {row["id"]: ledger.at(results[row["id"]]).get("info", {}) for row in rows}
    planned = {study.model for study in plan.studies_of(name)}
    stages = {stage for (study, stage) in plan.bags if study.partition("/")[0] == name}
    chosen_at = EVAL if EVAL in stages else TUNE  # where the chosen configuration is a bag
    for row in rows:
        value = row.get(f"val_{of_dataset.metric}") if row["status"] == DONE else None
        if row["stage"] != chosen_at or value is None or row["model"] not in planned:
            continue
        loss = METRICS[of_dataset.metric].loss(value)
        score = Score(loss, info[row["id"]].get("best_iteration"), row.get("cpu_s") or 0.0)
        of_dataset.known.setdefault((row["model"], row["config"], row["fold"]), score)
        if row["selected"] or chosen_at == EVAL:
            of_dataset.chosen.setdefault(row["model"], {})[row["fold"]] = row["config"]
            where = ledger.at(results[row["id"]])["predictions"]
            of_dataset.predictions[row["model"], row["fold"]] = where
    return of_dataset


def choose_model(run: Run, model: str | None) -> str:
    """Step 1 of the rule. model: None, a name in the run, or a class from outside."""
    if model is not None:
        model = registry.spec(model).name if ":" in model else model
        if model not in run.chosen:
            planned = sorted(run.plan.models)
            if model not in planned:
                raise FitError(f"the run has no model {model!r}; {suggest(model, planned)}")
            raise FitError(
                f"{model} has no finished trial with a score on {run.dataset}; see "
                f"{command_on(run.folder, 'logs', '--failed')}, or name another --model"
            )
        return model
    losses = {name: run.mean_loss(name) for name in sorted(run.chosen)}
    whole = {name: loss for name, loss in losses.items() if loss is not None}
    if not whole:
        has = f"; with some: {', '.join(losses)}" if losses else ""
        rest, failed = command_on(run.folder, "resume"), command_on(run.folder, "logs", "--failed")
        way = f"run the rest with {rest}"
        if status_of(run.folder).finished:
            way = f"see {failed}, and run them again with {command_on(run.folder, 'retry')}"
        raise FitError(
            f"no model has a score on all {len(run.folds)} folds of {run.dataset}{has}; {way}, "
            "or name a model with --model"
        )
    return min(whole, key=lambda name: (whole[name], name))


def importable(run: Run, model: str, named: Iterable[str | None]) -> str:
    """The registry's name of a chosen model. A ledger may come from elsewhere: a class
    from outside is imported only where the caller has `named` it."""
    for name in named:
        if name and ":" in name and registry.spec(name).name == model:
            return name
    if model in registry.names():
        return model
    of = run.plan.variants.get(model)  # a variant that the suite defines
    if of in registry.names():
        return str(of)
    known = " or ".join(run.plan.outside) or "package.module:Class"
    raise FitError(
        f"{model} is code from outside tabsweep, which fitting would import; "
        f"if you trust it, name it as the model: {known}"
    )


@dataclass(frozen=True)
class Choice:
    """A configuration, its mean loss over folds, and the rounds that the median fold used."""

    config: dict[str, Any]
    loss: float
    rounds: int | None
    n_configs: int


def choose_config(
    run: Run,
    model: str,
    asked: str,
    data: tuple[Table, Mapping[int, Fold]],
    note: Callable[[str], None],
) -> Choice:
    """Step 2 of the rule. `asked`: the registry's name of the model."""
    chosen = run.chosen[model]
    configs = list(dict.fromkeys(chosen[fold] for fold in sorted(chosen)))
    folds = sorted(chosen)
    missing = [(c, f) for c in configs for f in folds if (model, c, f) not in run.known]
    if missing:
        note(
            f"{count(len(configs), 'configuration')} of {model} chosen on "
            f"{count(len(folds), 'fold')}; {count(len(missing), 'fit')} to compare them on the "
            "same validation rows"
        )
    for config, fold in missing:
        run.known[model, config, fold] = score_cell(run, asked, json.loads(config), fold, data)
    best: Choice | None = None
    for config in configs:
        scores = [run.known[model, config, fold] for fold in folds]
        losses = [score.loss for score in scores if score.loss is not None]
        if len(losses) < len(folds):
            continue
        loss = math.fsum(losses) / len(losses)
        rounds = [score.rounds for score in scores if score.rounds is not None]
        middle = math.ceil(float(np.median(rounds))) if rounds else None
        if best is None or loss < best.loss:
            best = Choice(json.loads(config), loss, middle, len(configs))
    if best is None:
        raise FitError(
            f"every chosen configuration of {model} fails on some fold; name another --model"
        )
    return best


def score_cell(
    run: Run,
    model: str,
    config: dict[str, Any],
    fold: int,
    data: tuple[Table, Mapping[int, Fold]],
) -> Score:
    """Fit and score a configuration on a fold that did not try it; a failure has no loss."""
    identity = identity_of(registry.spec(model), data[0], run.device, run.time_limit_s)
    trial = Trial(run.dataset, fold, model, config, run.seed, identity)
    try:
        result = run_trial(trial, data)
    except Exception:  # a model's own error: this configuration is no candidate
        return Score(None, None)
    return Score(loss_function(run.metric)(result), result.info.get("best_iteration"))


def identity_of(
    spec: ModelSpec, table: Table, device: str = "cpu", time_limit_s: float | None = None
) -> dict[str, Any]:
    """The identity of a trial that is fitted outside of any run."""
    identity = {"target": spec.target, "threads": spec.threads, "device": device}
    if time_limit_s is not None and spec.resource:
        identity["time_limit_s"] = time_limit_s
    return identity | encoding_identity(spec, table)


def residuals_of(run: Run, model: str, table: Table, folds: Mapping[int, Fold]) -> np.ndarray:
    """(n,) target minus prediction on the validation rows of all folds, `thinned`; each fold's rows
    are predicted by the configuration that the fold chose."""
    ledger = Ledger(run.folder)
    parts = []
    for fold in sorted(run.chosen[model]):
        where = {"val": run.predictions[model, fold]["val"]}
        parts.append(table.target[folds[fold].val] - ledger.predictions.get(where)["val"])
    return thinned(np.concatenate(parts))


def thinned(residuals: np.ndarray) -> np.ndarray:
    """The sorted residuals, reduced to MOST_RESIDUALS evenly spaced ones."""
    gaps = np.sort(residuals)
    return gaps[np.linspace(0, len(gaps) - 1, min(len(gaps), MOST_RESIDUALS)).round().astype(int)]


# -- the data, and the fit on all of it -----------------------------------------------------------


def read_data(run: Run, csv: str | Path | None = None) -> tuple[Table, dict[int, Fold]]:
    """The run's table and folds. Raises FitError if the data is gone or has changed."""
    if csv is not None and not run.described.csv:
        raise FitError(
            f"{run.dataset} is a catalogued dataset, not read from a file: leave --csv out"
        )
    files = [Path(csv)] if csv else []
    try:
        return planned_data(run.plan, run.dataset, files=files, runs=run.folder.parent)
    except SweepError as error:
        raise FitError(str(error)) from None


@dataclass(frozen=True)
class FittedPart:
    """A fitted estimator, the encoder of its columns, the arguments of its fit, and the weights of
    their rows as `fit_rows` takes them."""

    estimator: Any
    encoder: ColumnEncoder
    training: tuple[Any, ...]
    weights: dict[str, np.ndarray] | None


def make(
    model: str, config: Mapping[str, Any], table: Table, *, seed: int, device: str = "cpu"
) -> Any:
    """An unfitted model of the registry."""
    given = {**config, **({} if device == "cpu" else {"device": device})}
    threads = registry.spec(model).threads
    return registry.make_model(model, task=table.task, seed=seed, threads=threads, **given)


def takes_validation(estimator: Any) -> bool:
    """Whether `fit` takes validation rows for early stopping."""
    return "X_val" in inspect.signature(estimator.fit).parameters


def fit_part(
    model: str,
    estimator: Any,
    table: Table,
    rows: np.ndarray,
    stopping: np.ndarray,
    time_limit_s: float | None = None,
) -> FittedPart:
    """Fit a model on `rows` of a table. stopping: rows for early stopping, may be empty; the
    encoding of columns is fitted on `rows` alone. time_limit_s: wall seconds, for a model trained
    in steps."""
    spec = registry.spec(model)
    table, encoder = table.encoded(rows, cyclic=is_cyclic(spec))
    training: tuple[Any, ...] = (table.rows(rows), table.target[rows])
    if len(stopping):
        training += (table.rows(stopping), table.target[stopping])
    if time_limit_s is not None and spec.resource and isinstance(estimator, Estimator):
        estimator.limit_time(time_limit_s)
    weights = None
    if table.weights is not None:
        weights = {"weights": table.weights[rows], "val_weights": table.weights[stopping]}
    fit_rows(estimator, training, weights)
    return FittedPart(estimator, encoder, training, weights)


def fit_all(
    model: str,
    choice: Choice,
    table: Table,
    folds: Mapping[int, Fold],
    seed: int,
    time_limit_s: float | None = None,
    device: str = "cpu",
) -> tuple[FittedPart, str]:
    """Step 3 of the rule. Returns (the fitted model, a sentence about the rows).

    time_limit_s: the limit of the run's fits. It is used for a model that is trained in steps and
    has no number of rounds to repeat."""
    config = dict(choice.config)
    estimator = make(model, config, table, seed=seed, device=device)
    takes_val = takes_validation(estimator)
    stops = estimator._early_stopping() if isinstance(estimator, Estimator) else takes_val
    by_rounds = {"n_estimators", "early_stopping_rounds"} <= set(vars(estimator))
    rest = every = np.arange(table.n_rows)
    stopping = every[:0]
    fitted_on = f"all {table.n_rows} rows"
    if stops and by_rounds and choice.rounds is not None:
        config |= {"n_estimators": choice.rounds, "early_stopping_rounds": 0}
        estimator = make(model, config, table, seed=seed, device=device)
        fitted_on += f", {choice.rounds} rounds (the median fold's)"
        time_limit_s = None
    elif stops and takes_val:
        stopping = folds[min(folds)].val
        rest = np.setdiff1d(every, stopping)
        fitted_on = (
            f"{len(rest)} rows; {len(stopping)} (fold {min(folds)}'s validation part) stopped the "
            "fit"
        )
    spec = registry.spec(model)
    if time_limit_s is not None and spec.resource and isinstance(estimator, Estimator):
        fitted_on += f", for at most {time_limit_s:g} s as in the run"
    if table.weights is not None:
        fitted_on += ", by their weights"
    return fit_part(model, estimator, table, rest, stopping, time_limit_s), fitted_on
