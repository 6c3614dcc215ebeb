"""One row per slot of a run, made of the columns that a ledger keeps."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.column_cache import COSTS, RARE_COSTS, WARNINGS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Columns = dict[str, Any]  # of chunked arrays, by name

# Columns that are often compared with a word: ten times as fast as strings of pandas.
WORDS = ("stage", "status")
COPIERS = 2  # columns that are put in order at once
# OWN columns come from the record of the slot, RESULT from that of its trial. PLACE comes from the
# trial, too, but for a slot that was linked to the trial of another slot.
OWN, PLACE = ("study", "stage", "index"), ("dataset", "fold", "model")
RESULT: tuple[str, ...] = ("seed", "config", "status", "cause", "message", *COSTS, *RARE_COSTS)
RESULT += ("id", "origin", "time", "cpu", "gpu")


def columns_of(records: pa.Table) -> Columns:
    """The columns of a ledger (`Ledger.columns`) one by one: each can be freed after use."""
    return {name: records.column(name) for name in records.column_names}


def warnings_by_model(columns: Columns) -> dict[str, dict[str, int]]:
    """{model: {category of warning: count}} over all recorded results. Removes the column of
    warnings from `columns`."""
    totals: dict[str, Counter[str]] = {}
    column = columns.pop(WARNINGS, None)
    if column is None:
        return {}
    import pyarrow.compute as pc

    warned = pc.fill_null(pc.not_equal(column, ""), False)
    models = pc.filter(columns["model"], warned).to_pylist()
    for model, text in zip(models, pc.filter(column, warned).to_pylist(), strict=True):
        counts = _counts(text)
        if counts:
            totals.setdefault(model, Counter()).update(counts)
    return {model: dict(sorted(totals[model].items())) for model in sorted(totals)}


def _counts(text: str) -> dict[str, int]:
    """The whole numbers in a JSON object; {} for any other text (a run may be foreign)."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    known = parsed.items() if isinstance(parsed, dict) else ()
    return {name: n for name, n in known if type(n) is int}


def results_frame(columns: Columns, *, compact: bool = False) -> pd.DataFrame:
    """One row for every slot that has ended, in the order of (study, stage, index).

    The frame has OWN from the slot's last record, PLACE, RESULT, val_<metric> and test_<metric>
    from its trial's last result, as far as `columns` has them. Empties `columns`: for a million
    trials they take as much memory as the frame. compact: configurations are not copied, each row
    points at its own (see `_pointed_at`).
    """
    at, result, linked = _ends(columns)
    import pandas as pd

    # In one order, whichever trial ended first: a table of all trials is part of a report.
    scores = [n for part in ("val_", "test_") for n in sorted(columns) if n.startswith(part)]
    sources = {
        **dict.fromkeys(PLACE, np.where(linked, at, result)),
        **dict.fromkeys(OWN, at),
        **dict.fromkeys((*RESULT, *scores), result),
    }
    sources = {name: rows for name, rows in sources.items() if name in columns}

    def taken(name: str) -> Any:
        how = _pointed_at if compact and name == "config" else _taken
        return how(name, columns.pop(name), sources[name])

    with ThreadPoolExecutor(COPIERS) as pool:
        arrays = dict(zip(sources, pool.map(taken, sources), strict=True))
    return pd.DataFrame(arrays, copy=False)


def study_ends(columns: Columns) -> list[tuple[str, int, int]]:
    """(study, n_trials, n_slots) of every study-end record with both numbers, in order."""
    kinds, words = _texts(columns["kind"])
    ends = np.flatnonzero(np.array([word == "study" for word in words], dtype=bool)[kinds])
    studies, names = _texts(columns["study"])
    n_trials, n_slots = (
        columns[name].to_numpy()[ends].tolist() for name in ("n_trials", "n_slots")
    )
    every_end = zip((names[i] for i in studies[ends]), n_trials, n_slots, strict=True)
    return [end for end in every_end if min(end[1:]) >= 0]


def _ends(columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row of each slot's last record, row of its trial's last result, whether the slot was linked
    to it), in the order of slots; a slot whose trial has no result left has not ended."""
    kinds, words = _texts(columns["kind"])
    is_result, is_slot = (
        np.array([word == kind for word in words], dtype=bool)[kinds] for kind in ("result", "slot")
    )
    latest = _latest(columns["id"], is_result)
    ends = np.flatnonzero(is_result | is_slot)
    key = np.zeros(len(ends), dtype=np.int64)
    for name in ("study", "stage"):
        codes, texts = _texts(columns[name])
        rank = np.empty(len(texts), dtype=np.int64)
        rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        key = key * len(texts) + rank[codes[ends]] if len(ends) else key
    key = (key << 32) + 1 + columns["index"].to_numpy()[ends]
    order = np.argsort(key, kind="stable")
    key = key[order]
    at = ends[order[np.append(key[1:] != key[:-1], True)[: len(order)]]]
    result, linked = latest[at], is_slot[at]
    # An asynchronous slot that is linked: the place of a failure whose retry ended on another rung.
    gone = (result < 0) | (linked & columns["async"].to_numpy()[result])
    return at[~gone], result[~gone], linked[~gone]


def _latest(ids: pa.ChunkedArray, is_result: np.ndarray) -> np.ndarray:
    """The row of the last result with each row's id, -1 where there is none."""
    codes = _codes(ids)[0]
    latest = np.full(len(ids), -1)
    latest[codes[is_result]] = np.flatnonzero(is_result)
    return latest[codes]


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """(a number for each row's text, the texts by number)."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = column.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # of no chunk at all
        return np.zeros(0, dtype=np.int32), pa.array([], type=pa.string())
    return encoded.indices.to_numpy(), encoded.dictionary


def last_of(column: pa.ChunkedArray) -> list[str]:
    """The last text of a column, if it has any."""
    return column.slice(len(column) - 1).to_pylist() if len(column) else []


def _texts(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    codes, distinct = _codes(column)
    return codes, distinct.to_pylist()


def _taken(name: str, column: pa.ChunkedArray, rows: np.ndarray) -> Any:
    """A column of the frame, taken from these ledger rows; equal texts are one object."""
    import pandas as pd
    import pyarrow as pa

    if pa.types.is_string(column.type):
        return column.cast(pa.large_string()).take(pa.array(rows)).to_pandas()
    if not pa.types.is_dictionary(column.type):
        values = column.to_numpy()[rows]
        return values.astype(np.int64) if values.dtype == np.int32 else values
    if name in WORDS:
        codes, words = _codes(column)
        return words.cast(pa.large_string()).take(pa.array(codes[rows])).to_pandas()
    codes, texts = _texts(column)
    if name != "seed":
        # pandas alone would make each of the texts anew
        return pd.Series(np.array(texts, dtype=object)[codes[rows]], dtype=object)
    codes = codes[rows]
    seeds = np.zeros(len(texts), dtype=object)
    for code in np.unique(codes):
        seeds[code] = json.loads(texts[code] or "null")
    try:
        return seeds.astype(np.int64)[codes]
    except (TypeError, ValueError, OverflowError):  # a seed may need more bits
        return seeds[codes]


def _pointed_at(name: str, column: pa.ChunkedArray, rows: np.ndarray) -> Any:
    """`_taken` for long texts that differ: they are not copied into the order of the rows. Such a
    column is for reading and comparing: pandas sorts, groups and counts it wrongly, as equal texts
    stand in it twice."""
    import pandas as pd
    import pyarrow as pa

    texts = column.cast(pa.large_string()).combine_chunks()
    if isinstance(texts, pa.ChunkedArray):  # of no chunk at all
        texts = pa.array([], type=pa.large_string())
    return pd.arrays.ArrowExtensionArray(pa.DictionaryArray.from_arrays(pa.array(rows), texts))
