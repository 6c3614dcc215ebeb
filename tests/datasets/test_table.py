"""Tables in memory, and the parser `coded`: kinds, hashes, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tabsweep.datasets.card import Card, SourceFile
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.parsers import parse, stand_apart
from tabsweep.datasets.table import Table, categorical_column, content_sha256


def coded_card(**changes: object) -> Card:
    files = tuple(
        SourceFile(role, role, "https://example.org/x", "0" * 64, 1)
        for role in ("features", "labels", "test_masks", "val_masks")
    )
    card = Card(
        name="toy",
        title="",
        task="binary",
        target="",
        parser="coded",
        n_rows=6,
        n_features=2,
        n_classes=2,
        protocol="official",
        licence="",
        citation="",
        columns=("a", "b"),
        categorical=("b",),
        files=files,
    )
    return replace(card, **changes)  # type: ignore[arg-type]


PARTS = {
    "features": "0.1,-1\n0.2,2.5\n0.3,-1\n0.4,7\n0.1,7\n0.2,2.5\n",
    "labels": "0\n1\n0\n1\n0\n1\n",
    "test_masks": "1,0\n1,0\n0,0\n0,1\n0,0\n0,0\n",
    "val_masks": "0,1\n0,0\n1,0\n0,0\n0,0\n0,0\n",
}


@pytest.fixture
def files(tmp_path: Path):
    def write(**changes: str) -> dict[str, Path]:
        for role, text in {**PARTS, **changes}.items():
            (tmp_path / role).write_text(text)
        return {role: tmp_path / role for role in PARTS}

    return write


def test_coded_files_become_kinds_codes_and_masks(files) -> None:
    table = parse(coded_card(), files())
    assert table.kinds == {"a": "numeric", "b": "categorical"}
    assert table.frame["b"].tolist() == ["0", "1", "0", "2", "2", "1"]
    assert table.frame["a"].tolist() == [0.1, 0.2, 0.3, 0.4, 0.1, 0.2]
    assert table.target.tolist() == [0, 1, 0, 1, 0, 1]
    assert table.masks[0][0].tolist() == [True, True, False, False, False, False]
    assert table.masks[1][1].tolist() == [True, False, False, False, False, False]
    assert table.warnings == ()


def test_parts_that_share_no_value_are_ranked_apart_and_said(files) -> None:
    apart = "1,10\n2,20\n3,30\n4,0.1\n5,0.2\n6,0.3\n"
    masks = "0\n0\n0\n1\n1\n1\n"
    given = files(features=apart, test_masks=masks, val_masks="1\n0\n0\n0\n0\n0\n")
    together = parse(coded_card(), given)
    assert together.warnings[0].startswith("standardised-separately: ")
    assert together.frame["b"].tolist() == ["3", "4", "5", "0", "1", "2"]
    table = parse(coded_card(options={"part_from_row": 3}), given)
    assert table.frame["b"].tolist() == ["0", "1", "2", "0", "1", "2"]
    assert table.warnings == together.warnings


def test_files_that_do_not_fit_their_card_are_refused(files) -> None:
    for role, text, named in (
        ("features", PARTS["features"].replace("7", "seven", 1), "features: "),
        ("features", PARTS["features"].replace("0.1", "nan", 1), "row 0"),
        ("features", "1,2\n3\n", "features: "),
        ("features", "1\n" * 6, "1 features.* 2 "),
        ("labels", "0\n1\n", "6 rows.* 2 of labels"),
        ("labels", "0\n" * 6, "0..1"),
        ("labels", "0\n2\n" * 3, "0..1"),
        ("labels", "0.5\n1\n" * 3, "0..1"),
        ("val_masks", PARTS["test_masks"], "stored split"),
        ("val_masks", "2,0\n" * 6, "masks"),
        ("val_masks", "0\n" * 6, "masks"),
    ):
        with pytest.raises(DataError, match=named) as caught:
            parse(coded_card(), files(**{role: text}))
        assert "\n" not in str(caught.value)


def test_the_stated_sizes_and_parts_are_checked(files) -> None:
    with pytest.raises(DataError, match=r"\(6, 2, 2\).*\(7, 2, 2\)"):
        parse(coded_card(n_rows=7), files())
    with pytest.raises(DataError, match="part_from_row = 2"):
        parse(coded_card(options={"part_from_row": 2}), files())


def test_the_hash_sees_data_and_meaning_and_not_titles(files) -> None:
    base = parse(coded_card(), files()).sha256
    assert parse(coded_card(title="x", licence="y", notes="z"), files()).sha256 == base
    others = [
        parse(coded_card(categorical=()), files()).sha256,
        parse(coded_card(), files(features=PARTS["features"].replace("0.4", "0.5"))).sha256,
        parse(coded_card(), files(labels="1\n0\n0\n1\n0\n1\n")).sha256,
        parse(coded_card(), files(val_masks=PARTS["val_masks"].replace("0,1", "0,0"))).sha256,
    ]
    moved = coded_card()
    moved = replace(moved, files=(replace(moved.files[0], sha256="1" * 64), *moved.files[1:]))
    others.append(parse(moved, files()).sha256)
    assert len({base, *others}) == 1 + len(others)


def test_the_content_hash_tells_kinds_names_and_order_apart() -> None:
    numbers = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    y = np.array([0.0, 1.0])
    frames = [
        numbers,
        numbers[["b", "a"]],
        numbers.rename(columns={"a": "c"}),
        numbers.assign(a=categorical_column([0, 1])),
        numbers.assign(a=categorical_column(["a", "b"])),
        numbers.assign(a=[np.nan, 1.0]),
    ]
    assert len({content_sha256(frame, y, ()) for frame in frames}) == len(frames)
    other_nan = numbers.assign(a=np.array([-np.nan, 1.0]))
    assert content_sha256(other_nan, y, ()) == content_sha256(frames[-1], y, ())


def test_categories_are_texts_in_a_sensible_order() -> None:
    assert list(categorical_column([10, 2.0, 0.15]).cat.categories) == ["0.15", "2", "10"]
    assert list(categorical_column(["b", None, "a"]).cat.categories) == ["a", "b"]
    assert list(categorical_column([-0.0, 0.0, 1e-7]).cat.categories) == ["0", "0.0000001"]
    column = categorical_column([2, float("nan"), 1])
    assert column.isna().tolist() == [False, True, False]
    assert column.cat.codes.tolist() == [1, -1, 0]


def test_standing_apart_needs_every_column() -> None:
    numbers = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]])
    part = np.array([False, False, True])
    assert stand_apart(numbers, part)
    numbers[2, 1] = 6.0
    assert not stand_apart(numbers, part)
    assert not stand_apart(numbers, np.ones(3, dtype=bool))


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": [0.5, 1.5, np.nan], "b": categorical_column(["x", "y", "x"])})


def test_a_table_knows_its_columns_and_rows() -> None:
    table = Table("toy", frame(), np.array([0, 1, 0]), "binary", ("n", "y"), "0" * 64)
    assert (table.n_rows, table.n_features, table.n_classes) == (3, 2, 2)
    assert (table.numeric, table.categorical) == (["a"], ["b"])
    part = table.rows(np.array([2, 0]))
    assert part.index.tolist() == [0, 1] and part["b"].tolist() == ["x", "x"]
    assert list(part["b"].cat.categories) == ["x", "y"]
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(table)).frame, table.frame)


def test_a_table_that_breaks_its_promise_cannot_be_made() -> None:
    wrong: list[tuple[dict, str]] = [
        ({"task": "ranking"}, "'ranking'"),
        ({"target": np.array([0, 1])}, "3 rows.* 2 targets"),
        ({"target": np.array([0, 1, 2])}, "0..2, 2 classes"),
        ({"target": np.array([0.0, 1.0, 0.0])}, "binary.* float64"),
        ({"task": "regression"}, "regression with 2 classes"),
        ({"task": "regression", "classes": (), "target": np.array([0, np.inf, 1])}, "infinite"),
        ({"frame": pd.DataFrame({"a": [1, 2, 3]})}, "'a' is int64"),
        ({"masks": ((np.zeros(2, bool), np.zeros(2, bool)),)}, "stored split"),
    ]
    values = {
        "name": "toy",
        "frame": frame(),
        "target": np.array([0, 1, 0]),
        "task": "binary",
        "classes": ("n", "y"),
        "sha256": "0" * 64,
    }
    assert Table(**values).n_rows == 3
    for changes, named in wrong:
        with pytest.raises(DataError, match=named):
            Table(**{**values, **changes})
