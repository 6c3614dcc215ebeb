"""Import of a user's file: stored as it is, with a card that states how it is read and split."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ...common.columns.numbers import MISSING
from ...common.text import one_line, suggest, toml_string
from ..card import PARSERS, Card
from ..errors import DataError
from ..infer import Reading, table_from_file
from ..protocols import make_folds
from ..reading.columns import GROUP_OR_TIME
from ..table import Table
from . import store
from .importing import Added, slug, toml_text

PROTOCOLS = ("kfold", "fivefold", "holdout", "grouped", "temporal")


def name_of(path: Path, asked: str | None, built_in: Iterable[str]) -> str:
    """The name under which a file is stored. Raises DataError for one that is no name, or is that
    of a built-in dataset."""
    name = asked or slug(store.stem_of(path))
    if not store.NAME.fullmatch(name):
        raise DataError(
            f"{one_line(name, 80)!r} is no name of a dataset (lower-case letters, digits and '-', "
            "at most 64): give --name"
        )
    if name in built_in:
        raise DataError(f"{name!r} is the name of a built-in dataset: give another one by --name")
    return name


def check_protocol(protocol: str, reading: Reading) -> None:
    """DataError for a protocol that is unknown, or does not fit the columns that are named."""
    if protocol not in PROTOCOLS:
        raise DataError(f"unknown protocol {protocol!r}; {suggest(protocol, PROTOCOLS)}")
    if reading.group and reading.time:
        raise DataError(GROUP_OR_TIME)
    for needed, column, option in (
        ("grouped", reading.group, "--group"),
        ("temporal", reading.time, "--time"),
    ):
        if protocol == needed and not column:
            raise DataError(f"protocol {protocol!r} needs {option} COLUMN")
        if column and protocol != needed:
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
        (made / store.CARD).write_text(
            card_text(table, reading, name, protocol, path.name, copy), encoding="utf-8"
        )
        new = store.install(made, name)
    found: Card = store.card(name)
    return Added(found, new), table


def _endings(path: Path) -> list[str]:
    """The known endings of a file's name, which a reader of the folder goes by."""
    return [part.lower() for part in path.name.split(".")[1:] if part.lower() in store.ENDINGS]


def card_text(
    table: Table, reading: Reading, name: str, protocol: str, origin: str, copy: Path
) -> str:
    """The card of a stored file. It states the kinds of columns, which its user may edit."""
    marks = ", ".join(repr(mark) for mark in (*MISSING[1:], *reading.missing))
    notes = f"Missing values are empty cells and {marks}."
    columns = [str(column) for column in table.frame.columns]
    options = {k: v for k, v in reading.to_data().items() if k in PARSERS["file"]}
    kept = {kind: [n for n, k in table.kinds.items() if k == kind] for kind in ("date", "text")}
    options |= {kind: names for kind, names in kept.items() if names}
    if table.left_out:
        options["drop"] = [*reading.drop, *table.left_out]
    lines = [
        f"name = {toml_text(name)}",
        f"title = {toml_text(f'{origin}: {reading.target}')}",
        f'task = "{table.task}"',
        f"target = {toml_string(reading.target)}",
        f"n_rows = {table.n_rows}",
        f"n_features = {table.n_features}",
        f"n_classes = {table.n_classes}",
        f'protocol = "{protocol}"',
        'licence = "not stated in the file"',
        'citation = "the owner of the file"',
        f"notes = {toml_text(notes)}",
        f"origin = {toml_text(origin)}",
        'parser = "file"',
        f"columns = {toml_list(columns)}",
        f"categorical = {toml_list(table.categorical)}",
        "",
        "[options]",
        *(
            f"{key} = {toml_list(v) if isinstance(v, list) else json.dumps(v, ensure_ascii=False)}"
            for key, v in options.items()
        ),
        *store.file_lines("data", copy),
    ]
    return "\n".join(lines) + "\n"


def toml_list(texts: Iterable[str]) -> str:
    """A list of such strings."""
    return "[" + ", ".join(map(toml_string, texts)) + "]"
