"""Models tuned against each other from Python: `tabsweep.sweep` and its result."""

from __future__ import annotations

import html
import operator
import sys
import warnings
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...common.tasks import REGRESSION
from ...common.text import suggest
from ...datasets import catalog
from ...datasets.reading.columns import TASKS
from ...models import registry
from ...models.library.classes import class_of
from ...models.library.columns import ColumnNotice
from ...models.library.estimator import steps_of
from ...models.library.names import class_names
from ...sweeps.engine import Stop
from ..arguments import module_form
from ..errors import SweepError, check_name, check_run
from ..outcome.chosen_bags import choose_bags, fit_bag
from ..outcome.chosen_fit import (
    FittedPart,
    Run,
    choose_config,
    choose_model,
    fit_all,
    importable,
    read_data,
    read_run,
)
from ..outcome.feature_importance import feature_importance
from ..outcome.run_report import make_report
from ..planning.option_checks import check_minutes
from ..planning.own_tables import csv_suite
from ..planning.plan import Options
from ..planning.plan_record import by_reason
from ..planning.suite import Suite, load
from ..results.evidence_builder import load_results
from ..running import sweep as engine
from ..running.events import Planned, SweepEvent
from ..running.minutes import with_minutes
from ..running.progress import Progress
from ..running.ray_session import available_cpus
from ..running.request import Request, import_folders, models_of
from .ensembles import FittedClassifiers, FittedRegressors
from .frames import FrameColumns, FrameData
from .leaderboard import leaderboard

if TYPE_CHECKING:
    from ..planning.own_tables import OwnTable


class SweepResult:
    """What a sweep found. A run that was started elsewhere opens as `SweepResult(folder)`.

    Parameters
    ----------
    run : str or Path
        The folder of the run.
    data : FrameData, optional
        The DataFrame that was swept; without it `best_model` takes the columns as the run saw them.
    verbose : int, default 0
        1 to say what `best_model` fits.

    Attributes
    ----------
    run : Path
        The folder of the run, which every command of `bench` takes.
    best_model : estimator
        The best model by validation with its best configuration, fitted on all rows at the first
        access (as `bench fit` does); of a run with bags the members of the best bag, or of the
        ensemble. It predicts from a DataFrame with the columns of the swept one.
    """

    def __init__(self, run: str | Path, *, data: FrameData | None = None, verbose: int = 0) -> None:
        self.run = Path(run)
        check_run(self.run)
        self._data = data
        self._verbose = verbose

    def leaderboard(self) -> pd.DataFrame:
        """The models, the best first; the columns are those of `tabsweep.leaderboard`."""
        return leaderboard(self.run)

    def results(self) -> pd.DataFrame:
        """One row for each trial; the columns are those of `tabsweep.load_results`."""
        return load_results(self.run)

    def report(self) -> Path:
        """Writes the report again; returns its page, `index.html`, which needs no server."""
        make_report([self.run], None)
        return self.run / "report" / "html" / "index.html"

    @cached_property
    def best_model(self) -> Any:
        """See the class. FitError where no model has a score on every fold."""
        found = read_run(self.run, None)
        if found.n_members:
            return self._best_bags(found)
        name = choose_model(found, None)
        asked = importable(found, name, found.plan.outside)
        table, folds = read_data(found)
        choice = choose_config(found, name, asked, (table, folds), self._say)
        part, rows = fit_all(asked, choice, table, folds, found.seed, found.time_limit_s)
        self._say(f"{name} is the best by {found.metric} on validation rows; fitted on {rows}")
        return self._estimator(asked, choice.config, part, table, found.seed)

    def _best_bags(self, found: Run) -> Any:
        """`best_model` of a run with bags: the members of one model's bag, or of several models,
        that predict together."""
        choice = choose_bags(found, None)
        table, _ = read_data(found)
        estimators, weights = [], []
        for name, share in choice.weights.items():
            asked, config = importable(found, name, found.plan.outside), choice.configs[name]
            members = fit_bag(found, name, asked, config, table)
            for k, part in enumerate(members):
                estimators.append(self._estimator(asked, config, part, table, found.seed + k))
            weights += [share / len(members)] * len(members)
        of = ", ".join(f"{name} {share:.0%}" for name, share in choice.weights.items())
        self._say(
            f"the best by {found.metric} on {choice.n_rows} rows out of fold: {of}; fitted "
            f"{len(estimators)} times, each without one part of all {table.n_rows} rows"
        )
        together = FittedRegressors if table.task == REGRESSION else FittedClassifiers
        return together(estimators, weights, dict(choice.weights))

    def _estimator(
        self, model: str, config: Mapping[str, Any], part: FittedPart, table: Any, seed: int
    ) -> Any:
        """The library's estimator around a fitted model of the registry."""
        kind = "Regressor" if table.task == REGRESSION else "Classifier"
        cls = class_of(model, kind)
        known = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
        estimator = cls(**known, preset="paper", random_state=seed)
        data = self._data
        seen = table.frame if data is None else data.features
        columns = FrameColumns.of_table(table) if data is None else data.columns
        estimator.columns_ = copy(columns)
        estimator.columns_.encoder_ = part.encoder
        estimator.estimator_ = part.estimator
        estimator.n_iter_ = steps_of(part.estimator)
        estimator.n_features_in_ = seen.shape[1]
        if all(isinstance(name, str) for name in seen.columns):
            estimator.feature_names_in_ = np.asarray(seen.columns, dtype=object)
        estimator._names_in = list(seen.columns)
        if kind == "Classifier":
            names = table.classes if data is None else [data.labels[n] for n in table.classes]
            estimator.classes_ = label_array(list(names))
            estimator._costs = table.costs
        return estimator

    def feature_importance(self, models: Iterable[Any] = (), *, repeats: int = 5) -> pd.DataFrame:
        """How much the score on test rows worsens where a feature is shuffled.

        Parameters
        ----------
        models : iterable, default ()
            Names of models of the run, or classes of the library; () for the best by validation.
        repeats : int, default 5
            How often a column is shuffled on each fold.

        Returns
        -------
        DataFrame
            model, feature, importance (mean over folds, in the units of the metric), std (over
            folds), folds. It is kept in the run, and `report()` shows it.
        """
        names = [model_name(m) for m in _listed("models", models)]
        return feature_importance(
            self.run, models=names, repeats=repeats, trust=True, note=self._say
        )

    def _say(self, text: str) -> None:
        if self._verbose:
            print(text, file=sys.stderr)

    def __repr__(self) -> str:
        board = self.leaderboard()
        n = int(board["trials"].sum())
        first = board.iloc[0]
        score = [c for c in board.columns if c.startswith("test_") and not c.endswith("_se")]
        told = f", {score[0]} {first[score[0]]:.5g}" if score else ""
        best = f"first on test rows: {first['model']} (rank {first['rank']:.3g}{told})"
        return f"SweepResult({str(self.run)!r}: {n} trials of {len(board)} models; {best})"

    def _repr_html_(self) -> str:
        page = self.run / "report" / "html" / "index.html"
        link = ""
        if page.exists():
            link = f'<p>Report: <a href="{html.escape(page.resolve().as_uri())}">index.html</a></p>'
        board = self.leaderboard().to_html(index=False, na_rep="", float_format="{:.5g}".format)
        return f"<div><p>{html.escape(repr(self))}</p>{board}{link}</div>"


def sweep(
    data: Any,
    target: Any = None,
    *,
    models: Iterable[Any] = (),
    trials: int | None = None,
    folds: int | None = None,
    budget: str | None = None,
    minutes: float | None = None,
    bag: int | None = None,
    validation: str | None = None,
    metric: str | None = None,
    target_transform: str | None = None,
    task: str | None = None,
    positive: Any = None,
    costs: Mapping[Any, float] | None = None,
    categorical_features: Iterable[Any] = (),
    group: Any = None,
    time: Any = None,
    weight: Any = None,
    seed: int = 0,
    name: str | None = None,
    runs: str | Path = "runs",
    workers: int | None = None,
    verbose: int = 1,
) -> SweepResult:
    """Tune models against each other and compare them on rows that none has seen.

    It is `bench sweep` from Python: every trial is kept in the folder of a run, so that the same
    call again, after an interruption too, runs only what is missing.

    Parameters
    ----------
    data : DataFrame or str
        The table, with its target; or the name of a dataset (`bench data list`).
    target : column name
        What is predicted; for a DataFrame.
    models : iterable, default ()
        Names of models (`bench models`), classes of the library or their names
        (`KNNClassifier`), or classes of your own as "module:Class". () for the budget's: twelve.
    trials : int, optional
        Configurations of each model on each fold; default: the budget's (4 in `quick`).
    folds : int, optional
        How many folds of the ten-fold protocol; default: the budget's (2 in `quick`).
    budget : {"quick", "standard", "tuned", ...}, optional
        A budget of the suite `uci-small` (`bench suites uci-small`); default: `quick`.
    minutes : float, optional
        Plan what fits into so many minutes on this machine, in place of `budget`, `trials` and
        `bag`; for a DataFrame. The plan is written down before the first trial.
    bag : int, optional
        Fit the chosen configuration of a model so many times, each time without one part of the
        rows for training and validation, and take the mean; 0 for one fit. Default: as the budget
        says.
    validation : {"holdout", "cv"}, optional
        What configurations are chosen by: one part of the rows, or bags of each of them.
    metric : str, optional
        What the configurations are selected and the models ranked by, such as "f1", "mcc",
        "brier", "mape" or "pinball_90"; default: "roc_auc", "accuracy" or "rmse" by the task.
    target_transform : {"log", "rank"}, optional
        What the models learn of a regression target: the logarithm of 1 + y, or the normal values
        of its ranks. Scores stay in the units of the target.
    task : {"classification", "regression", "binary", "multiclass"}, optional
        Default: guessed from the target's values.
    positive : label, optional
        The class that counts as positive in "f1" and "average_precision"; default: the last by
        name.
    costs : mapping, optional
        {(label, other label): what a row of the first class costs that is taken for the second};
        a label alone stands for all pairs with it that nothing else is said of. 1 where nothing is
        said; for the metric "cost".
    categorical_features : iterable of column names, default ()
        Columns of numbers that are categories.
    group : column name, optional
        Rows with the same value here stay in one part of every split.
    time : column name, optional
        The rows' times: models learn from rows that come before those that they are tested on.
    weight : column name, optional
        How much a row counts, in fits and in scores. None of the three columns is a feature.
    seed : int, default 0
        Seed of the folds, the search and the fits.
    name : str, optional
        Name of the run's folder; default: the target's name and a hash of the data.
    runs : str or Path, default "runs"
        The folder that holds runs. A DataFrame is kept there too, as `<name>.arrow`.
    workers : int or None, default None
        CPUs for trials, on Ray; None for all CPUs; 0 for this process, without Ray.
    verbose : int, default 1
        1 shows progress on the standard error, 0 nothing.

    Returns
    -------
    SweepResult
        `leaderboard()`, `best_model`, `report()`, `results()`; a table in a notebook.

    Raises
    ------
    SweepError, PlanError, SuiteError, UnknownModel, UnknownDataset, DataError
        Where something cannot be swept as asked, before any trial runs.
    """
    if task is not None and task not in TASKS:
        raise SweepError(f"unknown task {task!r}; {suggest(task, TASKS)}")
    trials, folds = _whole("trials", trials, 1), _whole("folds", folds, 1)
    seed, workers = _whole("seed", seed, 0) or 0, _whole("workers", workers, 0)
    models = _listed("models", models)
    categorical_features = _listed("categorical_features", categorical_features)
    if name:
        check_name(name)
    named = {"group": group, "time": time, "weight": weight}
    roles = {role: name for role, name in named.items() if name is not None}
    frame: FrameData | None = None
    tables: dict[str, OwnTable] = {}
    runs = Path(runs)
    if isinstance(data, str):
        if Path(data).is_file():
            raise SweepError(
                f"{data} is a file: give a DataFrame (pandas.read_csv({data!r})), or have the file "
                "read as it is by `bench sweep --csv`"
            )
        if target is not None:
            raise SweepError(f"dataset {data!r} has its target already; leave `target` out")
        if task is not None or categorical_features:
            raise SweepError(
                f"dataset {data!r} has its task and kinds of columns already; leave `task` and "
                "`categorical_features` out"
            )
        if positive is not None or costs or roles:
            raise SweepError(
                "`positive`, `costs`, `group`, `time` and `weight` go with a DataFrame"
            )
        suite = dataset_suite(data)
    else:
        frame = _frame_data(data, target, task, categorical_features, roles)
        path, name = frame.write(runs, name)
        suite, tables = csv_suite([path], [frame.target], frame.reading(positive, costs))
    options = Options(
        budget=budget,
        minutes=minutes,
        bag=_whole("bag", bag, 0),
        validation=validation,
        metric=metric,
        target_transform=target_transform,
        models=tuple(model_name(m) for m in models),
        folds=folds,
        trials=trials,
        seed=seed,
        runs=runs,
        name=name,
        workers=workers,
    )
    if minutes is not None:
        check_minutes(options)
        if frame is None:
            raise SweepError("`minutes` goes with a DataFrame")
    n_workers = available_cpus() if workers is None else workers
    request = with_minutes(Request(suite, options, tables=tables), n_workers)
    request.options = request.options.on(request.suite)
    request.paths = import_folders(models_of(request))
    _run(request, verbose)
    make_report([request.folder], None)
    return SweepResult(request.folder, data=frame, verbose=verbose)


def _listed(name: str, values: Iterable[Any] | None) -> list[Any]:
    """An argument of several values as a list, None as none; SweepError for a text."""
    if isinstance(values, str):
        raise SweepError(f"`{name}` is a list: {name}=[{values!r}]")
    return [] if values is None else list(values)


def _whole(name: str, value: Any, least: int) -> int | None:
    """An argument as a whole number, None where it is not given; SweepError for anything else."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise SweepError(f"`{name}` must be a whole number of at least {least}, not {value!r}")
    return number


def _frame_data(
    data: Any,
    target: Any,
    task: str | None,
    categorical_features: list[Any],
    roles: Mapping[str, Any],
) -> FrameData:
    if not isinstance(data, pd.DataFrame) and hasattr(data, "to_pandas"):
        data = data.to_pandas()
    if not isinstance(data, pd.DataFrame):
        raise SweepError(
            f"data must be a DataFrame or the name of a dataset, not {type(data).__name__}; "
            "tabsweep.sweep(pd.DataFrame(X).assign(target=y), target='target') takes arrays"
        )
    if target is None:
        raise SweepError("say which column is predicted: tabsweep.sweep(df, target='price')")
    found = FrameData(
        data, target, task=task, categorical_features=categorical_features, roles=roles
    )
    for notice in (*found.notes, *found.columns.notices_):
        warnings.warn(notice, ColumnNotice, stacklevel=3)
    return found


def label_array(labels: list[Any]) -> np.ndarray:  # (C,)
    """Labels as an array in which each keeps its type.

    >>> label_array([1, "1"]).tolist(), label_array(["a", "b"]).dtype.kind
    ([1, '1'], 'U')
    """
    if len({isinstance(label, str) for label in labels}) == 1:
        found = np.array(labels)
        if found.ndim == 1:
            return found
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found


def dataset_suite(dataset: str) -> Suite:
    """A suite of one dataset of the catalogue, with the budgets of `uci-small`."""
    card = catalog.card(dataset)
    usual = load("uci-small")
    return Suite(
        name=f"only-{dataset}"[:64],
        title=card.title,
        datasets=[dataset],
        metric=usual.metric,
        budgets=usual.budgets,
    )


def model_name(model: Any) -> str:
    """The registry's name of a model: a name, a class of the library, or a class's name.

    >>> model_name("knn"), model_name("KNNRegressor")
    ('knn', 'knn')
    """
    if isinstance(model, str):
        known = class_names()
        return known[model][0] if model in known else module_form(model)
    spec = vars(model if isinstance(model, type) else type(model)).get("spec")  # not inherited
    if not isinstance(spec, registry.ModelSpec):
        raise SweepError(
            f"models has {model!r}: give a name ('knn'), a class of the library "
            "(tabsweep.KNNClassifier), or a class of your own as 'module:Class'"
        )
    if not isinstance(model, type) and repr(model) != repr(type(model)()):
        raise SweepError(
            f"models has {model!r}, and a sweep chooses hyperparameters itself: give the class "
            "alone, or write a suite"
        )
    return spec.name


def _run(request: Request, verbose: int) -> None:
    """Run a sweep with its progress on the standard error."""
    progress = Progress(quiet=not verbose, color=sys.stderr.isatty())

    def tell(text: str) -> None:
        if verbose:
            print(text, file=sys.stderr)

    def listen(event: SweepEvent) -> None:
        if not isinstance(event, Planned):
            progress.listen(event)
            return
        for line in by_reason(event.plan.left_out):
            tell(f"left out: {line}")
        for table in request.tables.values():
            for warning in table.table.warnings:
                tell(warning)
        total = event.known + sum(event.left.values())
        progress.begin(total, request.name, known=event.known)

    try:
        outcome = engine.run(request, listener=listen, stop=Stop())
    finally:
        progress.end()
    for warning in outcome.warnings:
        tell(warning)
