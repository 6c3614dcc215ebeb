"""What does a table need of a record? Its facts in columns, so that a million are read undecoded.

A segment's facts lie beside it in a file of their own, which is made from the records and can be
made again: the records alone are the truth.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..trial import canonical

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("result", "slot", "study")  # the records that tables are made of
CELL = ("kind", "id", "study", "stage", "status", "dataset", "model", "cause", "message")
TEXTS = (*CELL, "config", "seed", "origin", "time", "cpu")  # configuration and seed as JSON
SHARED = tuple(name for name in TEXTS if name not in ("id", "config", "time"))  # by many rows
NUMBERS = ("index", "fold", "n_trials", "n_slots")  # -1: not said
COSTS = ("fit_s", "predict_s", "cpu_s", "peak_ram_mb")
SCORES = ("val", "test")  # become val_<metric> and test_<metric>


def facts_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that a record states. What has another type than it should is not stated, a score
    without a meaning (None) is stated as None; text that UTF-8 lacks is escaped.

    >>> facts_of({"kind": "study", "study": "iris/0/svm", "n_trials": 4})
    {'kind': 'study', 'study': 'iris/0/svm', 'n_trials': 4}
    """
    info, costs = _mapping(record, "info"), _mapping(record, "costs")
    found = {name: record[name] for name in TEXTS if isinstance(record.get(name), str)}
    if isinstance(info.get("cpu"), str):
        found["cpu"] = info["cpu"]
    for name, text in found.items():
        if not text.isascii():
            found[name] = text.encode("utf-8", "backslashreplace").decode()
    for name in ("config", "seed"):
        if name in record:
            found[name] = canonical(record[name])
    for name in NUMBERS:
        value = record.get(name)
        if type(value) is int and 0 <= value < 2**31:
            found[name] = value
    found |= {name: number for name in COSTS if (number := _number(costs.get(name))) is not None}
    for part in SCORES:
        found |= {
            f"{part}_{name}": _number(value)
            for name, value in _mapping(record, part).items()
            if name.isascii()
        }
    if _mapping(record, "fidelity").get("async"):
        found["async"] = True
    return found


def _mapping(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    try:
        return float(value) if type(value) in (int, float) else None
    except OverflowError:
        return None


def facts_table(
    kinds: Iterable[str], texts: Iterable[bytes], records: Sequence[Mapping[str, Any]] | None = None
) -> pa.Table:
    """The facts of encoded records of KINDS, a row each; `row` says which of the records it is.
    records: the same, decoded, where they are at hand.

    Texts of SHARED are numbers of the texts in a dictionary.
    """
    import pyarrow as pa

    rows, found = [], []
    for row, (kind, text) in enumerate(zip(kinds, texts, strict=True)):
        if kind in KINDS:
            rows.append(row)
            found.append(facts_of(records[row] if records else json.loads(text)))
    scores = {name for facts in found for name in facts if is_score(name)}
    given = {"row": rows, "async": [facts.get("async", False) for facts in found]}
    columns = {}
    for name, type_ in types(scores).items():
        missing = "" if name in TEXTS else -1 if name in NUMBERS else None
        values = given.get(name) or [facts.get(name, missing) for facts in found]
        column = pa.array(values, type=pa.string() if name in SHARED else type_)
        columns[name] = column.dictionary_encode() if name in SHARED else column
    return pa.table(columns)


def types(scores: Iterable[str] = ()) -> dict[str, pa.DataType]:
    """The columns of a table of facts, with those of some scores."""
    import pyarrow as pa

    return {
        "row": pa.int32(),
        **dict.fromkeys(TEXTS, pa.string()),
        **dict.fromkeys(SHARED, pa.dictionary(pa.int32(), pa.string())),
        **dict.fromkeys(NUMBERS, pa.int32()),
        **dict.fromkeys((*COSTS, *sorted(scores)), pa.float64()),
        "async": pa.bool_(),
    }


def is_score(name: str) -> bool:
    return name.startswith(tuple(f"{part}_" for part in SCORES))


def is_facts(schema: pa.Schema) -> bool:
    """Whether a table has our columns and types, and besides them only scores."""
    wanted = types(name for name in schema.names if is_score(name))
    return [(field.name, field.type) for field in schema] == list(wanted.items())
