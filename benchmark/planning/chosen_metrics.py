"""The metric of each task: that of --metric, of the suite, or the usual one; what models are told
of it: the mean or a quantile of the target, as it is or transformed, and what a fit stops by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...common.tasks import REGRESSION, Task
from ...common.text import suggest
from ...models import registry
from ...reports.metrics import DEFAULT_METRIC, METRICS, metric, metrics_of
from .space_overrides import PlanError

if TYPE_CHECKING:
    from ...datasets.table import Table


def chosen_metrics(
    of_suite: Mapping[Task, str], asked: str | None, tables: Iterable[Table]
) -> dict[str, str]:
    """{task: metric that selects and ranks}. `asked` is used for every task that it fits.

    Raises PlanError for an unknown metric, for one that no table's task has, and for a table with
    costs of classes that another metric than `cost` would ignore.
    """
    tables = list(tables)
    chosen = DEFAULT_METRIC | dict(of_suite.items())
    for task, name in chosen.items():
        if name not in (known := metrics_of(task)):
            raise PlanError(f"{name!r} is no metric for {task} tasks; {suggest(name, known)}")
    if asked is not None:
        try:
            named = metric(asked)
        except ValueError as error:
            raise PlanError(str(error)) from None
        if tables and not {table.task for table in tables} & set(named.tasks):
            task = tables[0].task
            known = metrics_of(task)
            raise PlanError(f"{asked!r} is no metric for {task} tasks; {suggest(asked, known)}")
        chosen |= dict.fromkeys(named.tasks, asked)
    for table in tables:
        if table.costs and chosen[table.task] != "cost":
            raise PlanError(f"{table.name} has costs of classes: they need --metric cost")
    return chosen


def told(model: str, metric: str, transform: str | None) -> dict[str, Any]:
    """What a model is told of a study: {"stop_on": ...}, the metric that the study ranks by; of a
    regression target {"quantile": ...} where that is the pinball loss of one, and
    {"target_transform": ...} where one is asked for. Each where the model has a hyperparameter of
    this name that takes the value; what a class from elsewhere stops on is its own affair."""
    regression = REGRESSION in METRICS[metric].tasks
    settings = {
        "quantile": METRICS[metric].quantile,
        "target_transform": transform if regression else None,
    }
    wanted = {name: value for name, value in settings.items() if value is not None}
    from ...models.base import Estimator

    cls = registry.load_class(registry.spec(model).target)
    rules = cls.rules if issubclass(cls, Estimator) else {}
    known = registry.defaults(model) if wanted else {}
    fits = {
        n: v for n, v in wanted.items() if n in known and (n not in rules or rules[n].accepts(v))
    }
    stops = "stop_on" in rules and rules["stop_on"].accepts(metric)
    return fits | ({"stop_on": metric} if stops else {})


LEARNT = {"log": "log(1 + y)", "rank": "the normal values of its ranks"}


def target_notes(
    specs: Mapping[str, registry.ModelSpec],
    named: Callable[[str], str],
    metric: str,
    transform: str | None,
    tables: Sequence[Table],
) -> list[str]:
    """Sentences on what models learn of a regression target y. named: what the registry is asked
    for a model; metric: that of regression. PlanError where no target is one of regression, or one
    has no logarithm."""
    if transform is not None and tables and not any(t.task == REGRESSION for t in tables):
        raise PlanError(
            f"--target-transform is of regression alone; {tables[0].name} is a {tables[0].task} "
            "task"
        )
    for table in tables:
        if transform == "log" and table.task == REGRESSION and table.target.min() < 0:
            raise PlanError(
                f"--target-transform log learns {LEARNT['log']} of values of 0 or more; the "
                f"target of {table.name} goes down to {table.target.min():.6g}: use "
                "--target-transform rank"
            )
    models = [name for name, spec in specs.items() if REGRESSION in spec.tasks]
    given = {name: told(named(name), metric, transform) for name in models}
    notes = []
    if METRICS[metric].quantile is not None:
        able = [name for name in models if "quantile" in given[name]]
        rest = [name for name in models if name not in able]
        parts = [f"trained on this quantile: {', '.join(able)}"] if able else []
        parts += [f"trained as for the mean: {', '.join(rest)}"] if rest else []
        notes.append(f"Ranked by {METRICS[metric].label}: {'; '.join(parts)}.")
    if transform is not None:
        rest = [name for name in models if "target_transform" not in given[name]]
        left = f", but for {', '.join(rest)}" if rest else ""
        notes.append(
            f"Models learn {LEARNT[transform]} of a regression target y{left}; scores are in its "
            "own units."
        )
    return notes
