"""Columns of records: what report tables need, so that a million records are read undecoded.

They are made from the records and can be made again: only the records are the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..trial import canonical

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("result", "slot", "study")  # the records that tables are made of
CELL = ("kind", "id", "study", "stage", "status", "dataset", "model", "cause", "message")
TEXTS = (*CELL, "config", "seed", "origin", "time", "cpu", "gpu")  # configuration and seed as JSON
SHARED = tuple(name for name in TEXTS if name not in ("id", "config", "time"))  # by many rows
NUMBERS = ("index", "fold", "n_trials", "n_slots")  # -1 where missing
COSTS = ("fit_s", "predict_s", "cpu_s", "peak_ram_mb")
# Costs that not every run has recorded; such columns are there only if some trial has them.
RARE_COSTS = ("predict_1k_s", "predict_1k_single_s", "peak_vram_mb", "step_s")
WARNINGS = "warnings"  # of the fit, {category: count} as JSON; there only if some fit warned
SCORES = ("val", "test")  # become val_<metric> and test_<metric>


def column_values(record: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a record's columns, by name.

    A value of the wrong type is left out, an undefined score is None; text that UTF-8 cannot hold
    is escaped.

    >>> column_values({"kind": "study", "study": "iris/0/svm", "n_trials": 4})
    {'kind': 'study', 'study': 'iris/0/svm', 'n_trials': 4}
    """
    info, costs = _mapping(record, "info"), _mapping(record, "costs")
    values = {name: record[name] for name in TEXTS if isinstance(record.get(name), str)}
    if isinstance(info.get("cpu"), str):
        values["cpu"] = info["cpu"]
    if isinstance(info.get("gpu"), str):  # its model, the precision on it and torch's build
        parts = (info["gpu"], info.get("precision"), f"torch {info.get('torch')}")
        values["gpu"] = ", ".join(part for part in parts if isinstance(part, str))
    if warned := _mapping(info, WARNINGS):
        values[WARNINGS] = canonical(warned)
    for name, text in values.items():
        if not text.isascii():
            values[name] = text.encode("utf-8", "backslashreplace").decode()
    for name in ("config", "seed"):
        if name in record:
            values[name] = canonical(record[name])
    for name in NUMBERS:
        value = record.get(name)
        if type(value) is int and 0 <= value < 2**31:
            values[name] = value
    each = (*COSTS, *RARE_COSTS)
    values |= {name: number for name in each if (number := _number(costs.get(name))) is not None}
    for part in SCORES:
        values |= {
            f"{part}_{name}": _number(value)
            for name, value in _mapping(record, part).items()
            if name.isascii()
        }
    if _mapping(record, "fidelity").get("async"):
        values["async"] = True
    return values


def _mapping(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    try:
        return float(value) if type(value) in (int, float) else None
    except OverflowError:
        return None


def column_table(rows: Sequence[int], records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The columns of records with these numbers, from their `column_values`.

    Texts of SHARED are stored as numbers in a dictionary of texts.
    """
    import pyarrow as pa

    more = set(filter(_at_times, set().union(*records)))
    given = {"row": rows, "async": [values.get("async", False) for values in records]}
    columns = {}
    for name, type_ in column_types(more).items():
        missing = "" if name in (*TEXTS, WARNINGS) else -1 if name in NUMBERS else None
        cells = given.get(name) or [values.get(name, missing) for values in records]
        column = pa.array(cells, type=pa.string() if name in SHARED else type_)
        columns[name] = column.dictionary_encode() if name in SHARED else column
    return pa.table(columns)


def column_types(more: Iterable[str] = ()) -> dict[str, pa.DataType]:
    """{column: its Arrow type}; `more` names the columns of scores, and those of WARNINGS and
    RARE_COSTS that are there."""
    import pyarrow as pa

    more = set(more)
    warnings = {WARNINGS} & more
    return {
        "row": pa.int32(),
        **dict.fromkeys(TEXTS, pa.string()),
        **dict.fromkeys(SHARED, pa.dictionary(pa.int32(), pa.string())),
        **dict.fromkeys(NUMBERS, pa.int32()),
        **dict.fromkeys((*COSTS, *sorted(more - warnings)), pa.float64()),
        "async": pa.bool_(),
        **dict.fromkeys(warnings, pa.string()),
    }


def _at_times(name: str) -> bool:
    """Whether a column is there only in tables with a value for it."""
    score = name.startswith(tuple(f"{part}_" for part in SCORES))
    return score or name == WARNINGS or name in RARE_COSTS


def has_columns(schema: pa.Schema) -> bool:
    """Whether a table has these columns and types, and besides them only those that are there at
    times."""
    wanted = column_types(filter(_at_times, schema.names))
    return [(field.name, field.type) for field in schema] == list(wanted.items())
