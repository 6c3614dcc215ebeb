"""Import of a user's file: stored as it is, with a card that states how it is read and split."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ...common.columns.notations import MISSING
from ...common.text import one_line, slug, suggest
from ..card import PARSERS, Card
from ..errors import DataError
from ..infer import Reading, table_from_file
from ..protocols import make_folds
from ..reading.columns import GROUP_OR_TIME
from ..table import Table
from . import store
from .importing import Added

PROTOCOLS = ("kfold", "fivefold", "holdout", "grouped", "temporal")


def name_of(path: Path, asked: str | None, built_in: Iterable[str]) -> str:
    """The name under which a file is stored. Raises DataError for one that is no name, or is that
    of a built-in dataset."""
    return store.checked_name(asked or slug(store.stem_of(path)), built_in)


def check_protocol(protocol: str, reading: Reading) -> None:
    """DataError for a protocol that is unknown, or does not fit the columns that are named."""
    if protocol not in PROTOCOLS:
        raise DataError(f"unknown protocol {protocol!r}; {suggest(protocol, PROTOCOLS)}")
    if reading.group is not None and reading.time is not None:
        raise DataError(GROUP_OR_TIME)
    for needed, column, option in (
        ("grouped", reading.group, "--group"),
        ("temporal", reading.time, "--time"),
    ):
        if protocol == needed and column is None:
            raise DataError(f"protocol {protocol!r} needs {option} COLUMN")
        if column is not None and protocol != needed:
            raise DataError(
                f"{option} {column!r} is for protocol {needed!r}, not {protocol!r}: leave one of "
                "the two out (--drop takes a column out of the features)"
            )


def add(
    path: Path, reading: Reading, name: str, protocol: str | None = None
) -> tuple[Added, Table]:
    """Store a copy of a file with its card: (what became of it, its table). Raises DataError for a
    file that is no such table, OSError."""
    protocol = protocol or reading.protocol
    check_protocol(protocol, reading)
    table = replace(table_from_file(path, reading, name=name), name=name)
    make_folds(table, protocol)  # too few rows or groups are told now
    with store.incoming() as scratch:
        made = scratch / name
        made.mkdir()
        copy = made / ("data" + "".join(f".{part}" for part in _endings(path)))
        shutil.copyfile(path, copy)
        write_card(table, reading, name, protocol, path.name, copy)
        new = store.install(made, name)
    card: Card = store.card(name)
    return Added(card, new), table


def _endings(path: Path) -> list[str]:
    """The known endings of a file's name, which a reader of the folder goes by."""
    return [part.lower() for part in path.name.split(".")[1:] if part.lower() in store.ENDINGS]


def write_card(
    table: Table, reading: Reading, name: str, protocol: str, origin: str, copy: Path
) -> None:
    """Write the card beside the stored file. It states the kinds of columns, which its user may
    edit."""
    marks = ", ".join(repr(mark) for mark in (*MISSING[1:], *reading.missing))
    options = {k: v for k, v in reading.to_data().items() if k in PARSERS["file"]}
    kept = {kind: [n for n, k in table.kinds.items() if k == kind] for kind in ("date", "text")}
    options |= {kind: names for kind, names in kept.items() if names}
    if table.left_out:
        options["drop"] = [*reading.drop, *table.left_out]
    card = {
        "name": name,
        "title": one_line(f"{origin}: {reading.target}", 500),
        "task": table.task,
        "target": reading.target,
        "n_rows": table.n_rows,
        "n_features": table.n_features,
        "n_classes": table.n_classes,
        "protocol": protocol,
        "licence": "not stated in the file",
        "citation": "the owner of the file",
        "notes": one_line(f"Missing values are empty cells and {marks}.", 500),
        "origin": one_line(origin, 500),
        "parser": "file",
        "columns": [str(column) for column in table.frame.columns],
        "categorical": list(table.categorical),
    }
    store.write_card(copy.parent, card, options, {"data": copy})
