"""Tables that are kept beside the runs."""

from __future__ import annotations

import struct
import warnings
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest
from tabsweep.benchmark.planning.own_tables import kept_place, own_table
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.kept import TAIL, keep, kept

LINES = [
    "n,c,d,t,g,w,y",
    *(
        f"{i}.5,{'NA' if i == 3 else 'ab'[i % 2]},2024-01-{1 + i % 28:02d},"
        f"the words of row {i} here,g{i % 5},{1 + i % 2},{'yes' if i % 3 else 'no'}"
        for i in range(60)
    ),
    ",,,,g1,1,no",
]


def test_a_kept_table_is_the_one_that_was_read_and_has_no_features_where_none_are_asked_for(
    tmp_path: Path,
) -> None:
    file, place = tmp_path / "t.csv", tmp_path / "kept" / "t.arrow"
    file.write_text("\n".join(LINES) + "\n")
    how = Reading(target="y", group="g", weight="w", positive="no", costs=("yes=3",))
    table = table_from_file(file, how)
    assert set(table.kinds.values()) == {"numeric", "categorical", "date", "text"}
    keep(table, place, asked=None)
    again, bare = kept(place, asked=None), kept(place, features=False)
    assert again is not None and bare is not None
    pd.testing.assert_frame_equal(again.frame, table.frame)
    assert bare.n_rows == table.n_rows and bare.n_features == 0
    for found in (again, bare):
        for name in {field.name for field in fields(table)} - {"frame"}:
            here, there = getattr(found, name), getattr(table, name)
            same = here.tobytes() == there.tobytes() if hasattr(here, "tobytes") else here == there
            assert same, name


def test_a_table_that_was_read_otherwise_or_is_gone_counts_as_none(tmp_path: Path) -> None:
    file, place = tmp_path / "t.csv", tmp_path / "t.arrow"
    file.write_text("\n".join(LINES) + "\n")
    assert kept(place) is None
    keep(table_from_file(file, Reading(target="y")), place, asked=None)
    assert kept(place, asked="binary") is None


def test_no_flipped_bit_and_no_cut_of_a_kept_table_passes_for_it(tmp_path: Path) -> None:
    file, place = tmp_path / "t.csv", tmp_path / "t.arrow"
    file.write_text("\n".join(LINES) + "\n")
    keep(table_from_file(file, Reading(target="y", drop=("t",))), place)
    whole = place.read_bytes()
    first = TAIL.unpack(whole[-TAIL.size :])[0]
    flipped = [
        (at, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]) for at in range(len(whole))
    ]
    cut = [(0, whole[:n]) for n in range(0, len(whole), 10)]
    for at, damaged in (*flipped, *cut, (0, whole + b"0")):
        place.write_bytes(damaged)
        with pytest.raises(DataError):
            kept(place)
        if at < first:
            with pytest.raises(DataError):
                kept(place, features=False)


def test_a_damaged_table_is_read_again_from_its_file_with_a_warning(tmp_path: Path) -> None:
    file, runs = tmp_path / "t.csv", tmp_path / "runs"
    file.write_text("\n".join(LINES) + "\n")
    how = Reading(target="y")
    first = own_table(file, how, runs)
    first.keep(runs)
    place = kept_place(runs, first.origin["csv"])
    damaged = bytearray(place.read_bytes())
    at = damaged.find(struct.pack("<d", 7.5))  # a value of column n
    damaged[at] ^= 1
    place.write_bytes(bytes(damaged))
    with pytest.warns(RuntimeWarning, match="is damaged: its file is read again"):
        again = own_table(file, how, runs)
    pd.testing.assert_frame_equal(again.table.frame, first.table.frame)
    again.keep(runs)
    with warnings.catch_warnings(action="error"):
        pd.testing.assert_frame_equal(own_table(file, how, runs).table.frame, first.table.frame)


def test_a_mapped_table_is_the_stored_one_and_without_one_nothing_changes(tmp_path: Path) -> None:
    file, runs = tmp_path / "t.csv", tmp_path / "runs"
    file.write_text("\n".join(LINES) + "\n")
    first = own_table(file, Reading(target="y"), runs)
    assert first.mapped(runs) is first
    first.keep(runs)
    mapped = first.mapped(runs).table
    pd.testing.assert_frame_equal(mapped.frame, first.table.frame)
    assert not mapped.frame["n"].to_numpy().flags.writeable
    assert mapped.target is first.table.target
