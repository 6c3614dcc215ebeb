"""Data of the user: a CSV as a suite of its own, and added datasets in place of built-in ones."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.files import file_sha256
from ..errors import SweepError
from . import suite as suites

if TYPE_CHECKING:
    from ...datasets.table import Table


@dataclass(frozen=True)
class OwnTable:
    """A table that no card describes. `origin` goes into the plan: {"csv": path, sha256, target,
    task}."""

    table: Table
    origin: Mapping[str, Any] = field(default_factory=dict)


def csv_suite(
    path: Path, target: str | None, task: str | None
) -> tuple[suites.Suite, dict[str, OwnTable]]:
    """(a suite of this one table, {its name: the table}). Its budgets are those of uci-small.

    Raises SweepError without a target, DataError for a file that is no such table.
    """
    from ...datasets.infer import table_from_csv

    if target is None:
        raise SweepError("--csv needs --target COLUMN, the column to predict")
    target, name = as_utf8(target), as_utf8(path.name)
    table = table_from_csv(path, target, task=task)
    dataset = csv_name(path)
    usual = suites.load("uci-small")
    made = suites.Suite(
        name=f"csv-{dataset}",
        title=f"{name}: {target}",
        datasets=[dataset],
        protocol={dataset: "kfold"},
        metric=usual.metric,
        budgets={
            key: budget.model_copy(update={"note": f"{key} budget of uci-small on {name}."})
            for key, budget in usual.budgets.items()
        },
    )
    origin = {
        "path": str(path.resolve()),
        "sha256": file_sha256(path),
        "target": target,
        "task": table.task,
    }
    return made, {dataset: OwnTable(table=table, origin={"csv": origin})}


def own_tables(datasets: Mapping[str, Mapping[str, Any]]) -> dict[str, OwnTable]:
    """The CSV tables among the datasets of a plan, read again.

    Raises SweepError for a file that is gone or is not the one that the run was started on.
    """
    from ...datasets.infer import table_from_csv

    found = {}
    for name, described in datasets.items():
        csv = described.get("csv")
        if csv is None:
            continue
        path = Path(csv["path"])
        if not path.exists():
            raise SweepError(f"{path}, the table of this run, does not exist any more")
        actual = file_sha256(path)
        if actual != csv["sha256"]:
            raise SweepError(
                f"{path} has changed since this run was started: its sha256 was "
                f"{csv['sha256'][:16]}..., is {actual[:16]}.... Start a new run with another --name"
            )
        table = table_from_csv(path, csv["target"], task=csv["task"])
        found[name] = OwnTable(table=table, origin={"csv": csv})
    return found


def added_for(suite: suites.Suite, name: str) -> str | None:
    """The added dataset that a suite uses for its dataset `name`: the one of that name, or where
    the suite has `official`, the authors' own split of a built-in one; None for neither."""
    from ...datasets import catalog
    from ...datasets.added import store

    there = store.names()
    if name not in catalog.built_in():
        return name if name in there else None
    own = f"{suite.official}-{name}"
    return own if suite.official and own in there else None


def added_table(added: str, name: str) -> Table:
    """The table of the added dataset `added`, under the name `name` that it has in a suite.

    Raises DatasetUnavailable where it was removed, and DataError where it cannot be the built-in
    dataset that it stands for: another task, or another number of rows, features or classes.
    """
    from ...datasets import catalog
    from ...datasets.errors import DataError, DatasetUnavailable, UnknownDataset

    try:
        card = catalog.card(added)
    except UnknownDataset:
        reason = f"{added}, which this run began with, was removed: bench data add it again"
        raise DatasetUnavailable(name, reason) from None
    if added != name:
        due = catalog.card(name)
        facts = ("task", "n_rows", "n_features", "n_classes")
        odd = [
            f"{fact} {getattr(card, fact)}, {name} has {getattr(due, fact)}"
            for fact in facts
            if getattr(card, fact) != getattr(due, fact)
        ]
        if odd:
            raise DataError(
                f"the added dataset {added!r} is not {name}: {'; '.join(odd)}. Remove it (bench "
                f"data remove {added}), or add it under another --name"
            )
    return replace(catalog.load_dataset(added), name=name)


def planned_table(name: str, described: Mapping[str, Any], **where: Any) -> Table:
    """The table of a dataset of a plan, read again: a CSV, an added dataset or a built-in one.
    `where`: mirror and cache. Raises SweepError, DataError."""
    from ...datasets.catalog import load_dataset

    if described.get("csv"):
        return own_tables({name: described})[name].table
    if described.get("added"):
        return added_table(described["added"], name)
    return load_dataset(name, **where)


def csv_name(path: Path) -> str:
    """The name of a CSV file as a dataset.

    >>> csv_name(Path("data/My houses (2).csv"))
    'my-houses-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40] or "table"


def as_utf8(word: str) -> str:
    """A word of the command line, decoded as UTF-8.

    Tables are UTF-8. Under a locale that is not (LC_ALL=C on a server), Python leaves the bytes of
    other letters undecoded.

    >>> as_utf8("gr\\udcc3\\udcb6\\udcc3\\udc9fe"), as_utf8("größe")
    ('größe', 'größe')
    """
    try:
        word.encode()
        return word
    except UnicodeEncodeError:
        return os.fsencode(word).decode("utf-8", "replace")
