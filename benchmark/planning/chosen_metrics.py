"""The metric of each task: that of --metric, of the suite, or the usual one; what it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ...common.tasks import REGRESSION
from ...common.text import suggest
from ...models import registry
from ...reports.metrics import DEFAULT_METRIC, METRICS, metric, metrics_of
from .space_overrides import PlanError

if TYPE_CHECKING:
    from ...datasets.table import Table


def chosen_metrics(
    of_suite: Mapping[str, str], asked: str | None, tables: Iterable[Table]
) -> dict[str, str]:
    """{task: the metric that selects and ranks}. `asked` replaces that of every task that has it.

    Raises PlanError for an unknown metric, for one that no table's task has, and for a table with
    costs of classes that another metric than `cost` would ignore.
    """
    tables = list(tables)
    chosen = DEFAULT_METRIC | dict(of_suite)
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


def trained_quantile(model: str, metric: str) -> dict[str, float]:
    """{"quantile": ...} for a model that can be trained on a quantile of the target (it has a
    hyperparameter of this name), where the metric is the pinball loss of one; else {}."""
    quantile = METRICS[metric].quantile
    if quantile is None or "quantile" not in registry.defaults(model):
        return {}
    rules = getattr(registry.load_class(registry.spec(model).target), "rules", {})
    able = "quantile" not in rules or rules["quantile"].accepts(quantile)
    return {"quantile": quantile} if able else {}


def quantile_notes(
    specs: Mapping[str, registry.ModelSpec],
    named: Callable[[registry.ModelSpec], str],
    metric: str,
) -> list[str]:
    """A sentence on what the models are trained on where `metric`, of regression, is a pinball
    loss. named: what the registry is asked for a model."""
    if METRICS[metric].quantile is None:
        return []
    models = [name for name, spec in specs.items() if REGRESSION in spec.tasks]
    able = [name for name in models if trained_quantile(named(specs[name]), metric)]
    rest = [name for name in models if name not in able]
    parts = [f"trained on this quantile: {', '.join(able)}"] if able else []
    parts += [f"trained as for the mean: {', '.join(rest)}"] if rest else []
    return [f"Ranked by {METRICS[metric].label}: {'; '.join(parts)}."]
