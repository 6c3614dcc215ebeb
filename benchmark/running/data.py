"""The datasets of a sweep: loaded, with the folds in use, or left out with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...common.errors import ENVIRONMENT, Error
from ...datasets import catalog
from ...datasets.errors import DatasetUnavailable
from ...datasets.infer import Reading
from ...datasets.passport import first_look
from ...datasets.protocols import nested
from ...datasets.table import Table
from ..errors import SweepError
from ..planning.fold_facts import Data, choose_folds
from ..planning.option_checks import sizes_asked
from ..planning.own_tables import added_for, added_table
from ..planning.plan_record import PlannedDataset
from ..planning.suite import Suite
from .request import Request


class NoData(Error):
    """None of the suite's datasets is available here; the message has the reason of each."""

    id = "BENCH-E012"
    exit_code = ENVIRONMENT


def gather(
    request: Request, old: Mapping[str, PlannedDataset] | None = None
) -> tuple[dict[str, Data], dict[str, str], list[str]]:
    """Load the available datasets: (data, {dataset left out: reason}, notes for the report).

    `old` has the datasets of a run that is continued: they stay the same, whatever was added or
    removed since. If fewer than `offline_below` of the suite's datasets are available, its offline
    list is used as well.

    Raises NoData if no dataset is available, DataError if one differs from its card or an added one
    of `old` was removed, SweepError if an added one changed since.
    """
    suite, options = request.suite, request.options
    wanted = list(options.datasets) or suite.datasets
    budget = suite.budget(options.budget)[1]
    before = old or {}
    data: dict[str, Data] = {}
    left_out: dict[str, str] = {}
    notes: list[str] = []

    def load(name: str) -> None:
        known = name in before
        added = before[name].added or None if known else added_for(suite, name)
        try:
            if name in request.tables:
                table, added = request.tables[name].table, None
            elif added:
                table = added_table(added, name)
            else:
                table = catalog.load_dataset(name)
        except DatasetUnavailable as error:
            if known:  # left out, it would vanish from the run's plan and report
                raise
            left_out[name] = error.reason
            return
        if added and known and table.sha256 != before[name].sha256:
            raise SweepError(
                f"the added dataset {added} is not the one that this run was started on (sha256 "
                f"{before[name].sha256[:16]}..., now {table.sha256[:16]}...): choose another "
                "--name, or add the old data again"
            )
        if name in request.tables or added:
            table = replace(table, warnings=(*table.warnings, *first_look(table)))
        data[name] = _with_folds(request, name, table, budget.folds, added)

    for name in wanted:
        load(name)
    joins = not options.datasets and len(data) < suite.offline_below
    more = [name for name in suite.offline if (joins if old is None else name in before)]
    if more and not options.datasets:
        n_wanted = len(data)
        for name in more:
            if name not in data:
                load(name)
        joined = ", ".join([*data][n_wanted:])
        offline = f"its offline list joined: {joined}" if joined else "of its offline list none is"
        here = f"Only {n_wanted} of {len(wanted)} datasets of suite {suite.name} are available here"
        if n_wanted == len(wanted):
            here = "The run began where some of its datasets were out of reach"
        notes.append(f"{here}; {offline}.")
    if not data:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise NoData(f"no dataset of suite {suite.name!r} is available here ({reasons})")
    notes += _official_notes(suite, data)
    notes += _folds_note(options.folds, data)
    return data, left_out, notes


def _folds_note(asked: int | None, data: Mapping[str, Data]) -> list[str]:
    """A line on the datasets whose protocol has fewer folds than --folds asks for."""
    n_folds = {name: len(each.folds) for name, each in data.items()}
    few = [f"{name} has {n}" for name, n in n_folds.items() if asked is not None and n < asked]
    return [f"Of the {asked} folds that --folds asks for: {', '.join(few)}."] if few else []


def _official_notes(suite: Suite, data: Mapping[str, Data]) -> list[str]:
    """Which datasets of a suite with `official` are the authors' own rows and split, and which
    could be."""
    if not suite.official:
        return []
    own = [name for name, one in data.items() if one.description.get("added")]
    kept = [name for name in data if name not in own and added_for(suite, name)]
    notes = []
    if own:
        others = [name for name in data if name not in own]
        rest = f" The split of {', '.join(others)} is drawn here." if others else ""
        notes.append(
            f"{', '.join(own)}: the authors' own rows and split, from the added datasets "
            f"{suite.official}-*.{rest}"
        )
    if kept:
        notes.append(
            f"{', '.join(kept)}: the run began with the split drawn here and keeps it; under "
            "another --name the authors' own is used."
        )
    return notes


def _with_folds(request: Request, name: str, table: Table, n_folds: int, added: str | None) -> Data:
    description: dict[str, Any] = {"learnable": True, "overlaps": [], "title": name}
    protocol: str | None = request.suite.protocol.get(name)
    if name in request.tables:
        description |= request.tables[name].origin
        protocol = protocol or Reading.of(description["csv"]).protocol
    else:
        card = catalog.card(added or name)
        known = card if added in (None, name) else catalog.card(name)
        description = {
            "learnable": known.learnable,
            "overlaps": list(known.overlaps),
            "title": known.title,
        }
        if added:
            description["added"] = added
        # one that stands in for another dataset has its own split: the suite's is of the other one
        if not protocol or added not in (None, name):
            protocol = card.protocol
    sizes = sizes_asked(request.options.sizes) or request.suite.sizes
    if sizes:  # all their draws, however many folds the budget has of other protocols
        protocol = nested(sizes, () if request.options.sizes else request.suite.draws)
    n = request.options.folds if sizes else request.options.folds or n_folds
    folds = choose_folds(table, protocol, seed=request.options.seed, folds=n)
    return Data(table=table, protocol=protocol, folds=folds, description=description)
