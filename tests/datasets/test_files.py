"""Parser `table`: files of mixed columns become the table that their card describes."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tabsweep.datasets import catalog
from tabsweep.datasets.card import Card
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.parsers import parse
from tabsweep.datasets.protocols import make_folds

ROWS = [f"{i},'low ',{i % 3},{i / 2},{'yes' if i % 4 else 'no'}." for i in range(40)]


def card(**options: Any) -> Card:
    base = replace(catalog.card("poker-hand-25k"), name="toy", task="binary", files=())
    return replace(
        base,
        n_rows=40,
        n_features=3,
        n_classes=2,
        columns=("level", "code", "half"),
        categorical=("level", "code"),
        options={"target": 4, "classes": ["no.", "yes."], "drop": [0], **options},
    )


def written(path: Path, rows: list[str], name: str = "data.csv") -> Path:
    file = path / name
    text = "\n".join(rows) + "\n"
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


def test_columns_are_numbers_or_texts_without_quotes_and_blanks_and_gaps_stay_gaps(tmp_path):
    rows = ["id,level,code,half,label", *ROWS[:38], "38, high,,NULL,no.", "39,?,10,1e3,yes."]
    file = written(tmp_path, rows)
    table = parse(card(header=True, missing=["?", "NULL"]), {"data": file})
    assert table.kinds == {"level": "categorical", "code": "categorical", "half": "numeric"}
    assert list(table.frame["level"].cat.categories) == ["high", "low"]
    assert list(table.frame["code"].cat.categories) == ["0", "1", "2", "10"]  # by number
    assert table.frame.isna().sum().tolist() == [1, 1, 1]
    assert table.frame["half"].iloc[[0, 5, 39]].tolist() == [0.0, 2.5, 1000.0]
    assert table.target[[0, 1, 38, 39]].tolist() == [0, 1, 0, 1]


def test_the_last_rows_or_a_second_file_are_the_fixed_test_part(tmp_path):
    whole = {"data": written(tmp_path, ROWS)}
    parts = {
        "data": written(tmp_path, ROWS[:20], "a.csv"),
        "more": written(tmp_path, ROWS[20:32], "b.csv"),
        "test": written(tmp_path, ROWS[32:], "c.csv.gz"),
    }
    one, two = parse(card(test_rows=8), whole), parse(card(), parts)
    pd.testing.assert_frame_equal(one.frame, two.frame)
    for table in (one, two):
        (fold,) = make_folds(table, "official")
        assert fold.test.tolist() == list(range(32, 40))
        assert len(fold.val) == 4 and len(fold.train) == 28  # an eighth of the others
        assert table.target[fold.val].mean() == 0.75  # stratified
        assert make_folds(table, "official", seed=7)[0].sha256 == fold.sha256
    assert not parse(card(), whole).masks


def test_parquet_comes_back_in_the_order_of_its_row_numbers(tmp_path):
    wanted = parse(card(), {"data": written(tmp_path, ROWS)})
    cells = [row.split(",") for row in ROWS]
    frame = pd.DataFrame(
        {
            "id": range(40),
            "level": [c[1] for c in cells],
            "code": [int(c[2]) for c in cells],
            "half": [float(c[3]) for c in cells],
            "label": [c[4] for c in cells],
        }
    ).sample(frac=1.0, random_state=1)
    frame.iloc[:15].to_parquet(tmp_path / "a.parquet")
    frame.iloc[15:].to_parquet(tmp_path / "b.parquet")
    found = parse(card(), {"data": tmp_path / "a.parquet", "more": tmp_path / "b.parquet"})
    pd.testing.assert_frame_equal(found.frame, wanted.frame)
    assert np.array_equal(found.target, wanted.target)


def test_a_file_that_is_not_what_the_card_says_is_refused_in_one_line(tmp_path):
    for row, options, named in (
        ("39,low,1,many,yes.", {}, "many|float"),
        ("39,low,1,2,maybe.", {}, "'maybe.'"),
        ("39,low,1,2,?", {"missing": ["?"]}, "labels missing"),
        ("39,low,1,2,yes.", {"drop": [0, 5]}, "5 columns.* 6"),
    ):
        file = written(tmp_path, [*ROWS[:39], row])
        with pytest.raises(DataError, match=named) as caught:
            parse(card(**options), {"data": file})
        assert str(caught.value).startswith("toy") and "\n" not in str(caught.value)


# ---------------------------------------------------------------------- the real files


def test_the_census_has_the_counts_of_its_source(mirror: str, tmp_path):
    table = catalog.load_dataset("income-kdd", mirror=mirror, cache=tmp_path)
    assert table.frame.isna().sum().sum() == 624_096 and len(table.numeric) == 7
    (fold,) = make_folds(table, "official")
    assert fold.test.tolist() == list(range(199_523, 299_285)) and len(fold.val) == 24_941
    sizes = {name: len(table.frame[name].cat.categories) for name in ("sex", "race", "education")}
    assert sizes == {"sex": 2, "race": 5, "education": 17}  # one text a category in both parts


def test_kick_and_the_parts_of_poker_and_forest_have_the_counts_of_their_sources(mirror, tmp_path):
    kick = catalog.load_dataset("kick", mirror=mirror, cache=tmp_path)
    assert kick.frame.isna().sum().sum() == 149_203 and len(kick.numeric) == 14
    assert len(kick.frame["Model"].cat.categories) == 1063
    poker = catalog.load_dataset("poker-hand-25k", mirror=mirror, cache=tmp_path)
    assert np.bincount(poker.target).tolist() == [12493, 10599, 1206, 513, 93, 54, 36, 6, 5, 5]
    forest = catalog.load_dataset("forest-cover-15k", mirror=mirror, cache=tmp_path)
    assert set(np.bincount(forest.target)) == {2160}
