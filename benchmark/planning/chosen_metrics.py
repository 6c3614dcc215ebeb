"""The metric of each task: that of --metric, of the suite, or the usual one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...common.text import suggest
from ...reports.metrics import DEFAULT_METRIC, metric, metrics_of
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
