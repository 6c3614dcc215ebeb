"""The datasets of a sweep: loaded, with the folds in use, or left out with a reason."""

from __future__ import annotations

from typing import Any

from ...datasets import catalog
from ...datasets.errors import DatasetUnavailable
from ...datasets.table import Table
from ..planning.plan import Data, choose_folds
from .request import Request


class NoData(Exception):
    """None of the suite's datasets is available here; the message has the reason of each."""


def gather(request: Request) -> tuple[dict[str, Data], dict[str, str], list[str]]:
    """Load the available datasets: (data, {dataset left out: reason}, notes for the report).

    The suite's offline list joins where fewer than `offline_below` of its datasets are available.
    Raises NoData where none is, and DataError for a dataset that differs from its card.
    """
    suite, options = request.suite, request.options
    wanted = list(options.datasets) or suite.datasets
    budget = suite.budget(options.budget)[1]
    data: dict[str, Data] = {}
    left_out: dict[str, str] = {}
    notes: list[str] = []

    def load(name: str) -> None:
        try:
            if name in request.tables:
                table = request.tables[name].table
            else:
                table = catalog.load_dataset(name, mirror=request.mirror, cache=request.cache)
        except DatasetUnavailable as error:
            left_out[name] = error.reason
            return
        data[name] = _with_folds(request, name, table, options.folds or budget.folds)

    for name in wanted:
        load(name)
    if not options.datasets and len(data) < suite.offline_below and suite.offline:
        joined = [name for name in suite.offline if name not in data]
        for name in joined:
            load(name)
        notes.append(
            f"Only {len(wanted) - len(left_out)} of {len(wanted)} datasets of suite {suite.name} "
            f"are available here; its offline list joined: {', '.join(joined)}."
        )
    if not data:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise NoData(f"no dataset of suite {suite.name!r} is available here ({reasons})")
    return data, left_out, notes


def _with_folds(request: Request, name: str, table: Table, n_folds: int) -> Data:
    description: dict[str, Any] = {"learnable": True, "overlaps": [], "title": name}
    protocol = request.suite.protocol.get(name)
    if name in request.tables:
        description |= request.tables[name].origin
    else:
        card = catalog.card(name)
        description = {
            "learnable": card.learnable,
            "overlaps": list(card.overlaps),
            "title": card.title,
        }
        protocol = protocol or card.protocol
    protocol = protocol or "kfold"
    folds = choose_folds(table, protocol, seed=request.options.seed, folds=n_folds)
    return Data(table=table, protocol=protocol, folds=folds, description=description)
