"""The metric of each task (from --metric, the suite, or the usual one), and the hyperparameters
that tell a model of it: quantile, target transformation, metric of early stopping."""

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
    """Hyperparameters that a study sets by its metric: {"stop_on": metric}; for regression
    {"quantile": q} if the metric is a pinball loss, and {"target_transform": name} if one is asked
    for. Only hyperparameters that the model has and values that it accepts; "stop_on" is never set
    on a class from outside."""
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
    """Sentences on how models learn a regression target y. named: gives the registry's name of a
    model; metric: the metric of regression. Raises PlanError if `transform` is given and no table
    is a regression, or a target has negative values for a logarithm."""
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
