"""Tables that are kept beside the runs."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pandas as pd
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.kept import keep, kept

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


def test_a_table_that_was_read_otherwise_is_gone_or_damaged_counts_as_none(tmp_path: Path) -> None:
    file, place = tmp_path / "t.csv", tmp_path / "t.arrow"
    file.write_text("\n".join(LINES) + "\n")
    assert kept(place) is None
    keep(table_from_file(file, Reading(target="y")), place, asked=None)
    assert kept(place, asked="binary") is None
    whole = place.read_bytes()
    for damaged in (b"", whole[:1000], whole.replace(b"told", b"tolt"), b"x" * 4000):
        place.write_bytes(damaged)
        assert kept(place) is None
