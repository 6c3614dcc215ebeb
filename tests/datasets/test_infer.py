"""CSV files of users: what is inferred, what is a warning, what is refused and where."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tabsweep.datasets import infer
from tabsweep.datasets.describe import describe
from tabsweep.datasets.infer import DataError, Reading, table_from_file
from tabsweep.datasets.reading.cells import read_file
from tabsweep.datasets.table import Table

HOUSES = "rooms,area,street,price\n" + "".join(
    f"{k % 5},{k * 1.5},{'abc'[k % 3]},{k * 10.25}\n" for k in range(40)
)


@pytest.fixture
def load(tmp_path: Path):
    def read(text: str | bytes, target: str = "y", **options: object) -> Table:
        path = tmp_path / "my file.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return table_from_file(path, Reading(target, **options))  # type: ignore[arg-type]

    return read


def column(values: list[object], target: list[object] | None = None) -> str:
    """A CSV with a column x of `values` beside a harmless feature and target."""
    rows = zip(values, target or [k * 1.5 for k in range(len(values))], strict=True)
    return "k,x,y\n" + "".join(f"{(7 * k) % 11},{x},{y}\n" for k, (x, y) in enumerate(rows))


def test_numbers_are_numeric_and_texts_are_categories(load) -> None:
    table = load(HOUSES, "price")
    assert table.kinds == {"rooms": "numeric", "area": "numeric", "street": "categorical"}
    assert (table.task, table.classes, table.name) == ("regression", (), "my-file")
    assert list(table.frame["street"].cat.categories) == ["a", "b", "c"]
    np.testing.assert_array_equal(table.target, np.arange(40) * 10.25)
    assert table.warnings == ()


@pytest.mark.fault(14)
def test_the_way_a_file_is_written_does_not_change_the_table(load) -> None:
    plain = load(HOUSES, "price")
    for written in (
        "\ufeff" + HOUSES,  # a byte-order mark
        HOUSES.replace("\n", "\r\n"),
        HOUSES.replace(",", ";"),
        HOUSES.replace(",", ";").replace(".", ","),  # decimal commas
        HOUSES.replace(",", "\t"),
        HOUSES.replace(",", " , "),
        HOUSES.replace("street", '"street"'),
        HOUSES.replace("\n", "\n\n"),
        HOUSES.rstrip("\n"),
    ):
        assert written != HOUSES
        other = load(written, "price")
        pd.testing.assert_frame_equal(other.frame, plain.frame)
        np.testing.assert_array_equal(other.target, plain.target)


def test_marks_of_missing_values_are_missing_in_both_kinds(load) -> None:
    for mark in infer.MISSING:
        numbers = load(column([1.5, mark, 2.5, 3.5])).frame["x"]
        texts = load(column(["a", mark, "b", "a"])).frame["x"]
        assert numbers.isna().tolist() == texts.isna().tolist() == [False, True, False, False]
        assert list(texts.cat.categories) == ["a", "b"]


UNUSABLE: list[tuple[str | bytes, str]] = [  # a file's text, and what the error must name
    ("", "empty"),
    ("\n\n", "'y'|no name|no rows"),
    ("a,y\n", "no rows"),
    ("a,y\n1,2\n3,4,5\n", "line 3 .*3 fields.* 2"),
    ("a,y\n1,2\n\n3\n4\n", "line 4 .*1 fields.* 2"),
    ('a,y\n"x\nz",2\n3\n', "'y' is missing .* line 4"),
    ("a,,y\n1,2,3\n", "column 2"),
    ("a, ,y\n1,2,3\n", "column 2"),
    ("a,b,a,y\n1,2,3,4\n", "2 columns.*'a'"),
    ("a,b\n1,2\n", "'y'.*known: a, b"),
    ("a,Y\n1,2\n", "'y'"),
    ("y\n1\n2\n", "target alone"),
    ("a,y\n1,\n2,3\n4,\n", "'y'.* 2 rows.*line 2"),
    ("a,y\n1,2\n2,NaN\n", "'y'.* 1 rows.*line 3"),
    ("a,y\n1,2\n\n2,-inf\n", "'y'.* 1 rows.*line 4"),
    ("a,y\n1,5\n2,5\n", "'y' has one value"),
    ("a,y\n1,x\n2,x\n", "'y' has one value"),
    ('a,y\n"1,2\n', "line 2: a quotation mark .* never closed"),
    ("a,y\né,2\n".encode() + b"\xff,2\n", "line 3.*0xff.*UTF-8"),  # damaged, not Latin-1
    ("a,y\n1,2\n".encode("utf-32"), "UTF-32"),
    ("a,y\n1,2\n3,4\n".encode("utf-16")[:-1], "damaged UTF-16"),
    (b"a,y\n1,2\n\x00,3\n", "line 3.*zero byte"),
    ("a\x1b[31m,y\n1,2\n", "column 1.*control"),
    ("left\u202eright,y\n1,2\n", "column 1"),
    (column(["a"] * 60, [f"t{k}" for k in range(60)]), "'y' has 60"),
]


@pytest.mark.fault(14, 22)
def test_what_cannot_be_used_is_one_line_that_says_where(load) -> None:
    for text, named in UNUSABLE:
        with pytest.raises(DataError, match=named) as caught:
            load(text)
        assert not set(str(caught.value)) & set("\n\x1b\u202e")


def test_a_missing_file_a_folder_and_a_misspelt_target_are_clear(load, tmp_path: Path) -> None:
    for path in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(DataError, match="no such file"):
            table_from_file(path, Reading("y"))
    with pytest.raises(DataError, match="'prize'.*'price'"):
        load(HOUSES, "prize")
    with pytest.raises(DataError, match="one column, as commas"):
        load(HOUSES.replace(",", "^"), "price")
    with pytest.raises(DataError, match="'regresion'.*'regression'"):
        load(HOUSES, "price", task="regresion")


@pytest.mark.fault(26)
def test_a_feature_that_is_the_target_is_refused_and_a_near_one_is_not(load) -> None:
    for same in ("abc", "275", "uvw"):
        text = column([same[k % 3] for k in range(30)], ["abc"[k % 3] for k in range(30)])
        with pytest.raises(DataError, match="'x'.*'y'"):
            load(text)
    values = [k * 1.25 for k in range(30)]
    with pytest.raises(DataError, match="'x'.*'y'"):
        load(column(values, values))  # type: ignore[arg-type]
    assert load(column([values[0] + 1, *values[1:]], values)).n_features == 2  # type: ignore[list-item]


def test_what_no_notation_reads_is_told_with_its_columns(load) -> None:
    ratings = load(column([f"{k % 5}.5/5" for k in range(40)]))
    assert "column 'x': texts that begin with digits" in " ".join(ratings.warnings)
    letters = load(column(["abc"[k % 3] for k in range(40)]))
    assert not letters.warnings
    dates = load(column([f"2024-01-{1 + k % 28:02}" if k % 4 else "9999-12-31" for k in range(40)]))
    assert "10 dates after the year 2200" in " ".join(dates.warnings)


@pytest.mark.fault(14)
def test_doubtful_columns_are_kept_with_a_warning(load) -> None:
    empty = load(column([""] * 20))
    assert empty.frame["x"].isna().all() and empty.kinds["x"] == "numeric"
    assert "'x' has no value" in empty.warnings[0]

    infinite = load(column([1, "inf", "-inf", *range(17)]))
    assert infinite.frame["x"].isna().sum() == 2
    assert "2 infinite values" in infinite.warnings[0]

    mixed = load(column([*range(18), "3 or so", "n/a yet"]))
    assert mixed.kinds["x"] == "categorical" and mixed.frame["x"].notna().all()
    assert "18 numbers and 2 texts ('3 or so', 'n/a yet')" in mixed.warnings[0]

    codes = load(column([f"0{k}" for k in range(10, 30)]))
    assert codes.kinds["x"] == "categorical" and "zeros" in codes.warnings[0]
    assert "010" in codes.frame["x"].cat.categories

    ids = load(column([f"id-{k}" for k in range(80)]))
    assert "80 different values" in ids.warnings[0] and ids.left_out == ("x",)


def test_the_task_is_guessed_from_the_target(load) -> None:
    targets: list[tuple[list, str, int]] = [
        ([0, 1] * 20, "binary", 2),
        (["no", "yes"] * 20, "binary", 2),
        (["True", "False"] * 20, "binary", 2),
        ([1, 2, 3] * 20, "multiclass", 3),
        (["x", "y", "z"] * 20, "multiclass", 3),
        ([k / 3 for k in range(60)], "regression", 0),
        (list(range(60)), "regression", 0),
        ([0.5, 1.5] * 30, "regression", 0),
    ]
    for values, task, n_classes in targets:
        table = load(column(list(range(100, 100 + len(values))), values))
        assert (table.task, table.n_classes) == (task, n_classes)
        if task == "multiclass" and isinstance(values[0], int):
            assert "classes" in table.warnings[0]


def test_a_stated_task_is_followed_or_refused(load) -> None:
    three = column(list(range(50, 80)), [1, 2, 10] * 10)
    assert load(three, task="regression").task == "regression"
    assert load(three, task="classification").classes == ("1", "2", "10")
    with pytest.raises(DataError, match="3 classes.*'binary'"):
        load(three, task="binary")
    with pytest.raises(DataError, match="two classes.*'binary'"):
        load(column(list(range(50, 70)), [1, 2] * 10), task="multiclass")
    with pytest.raises(DataError, match="'x' on line 3"):
        load(column([1, 2, 3], [1, "x", 3]), task="regression")


def test_labels_with_leading_zeros_are_classes_unless_they_are_said_to_be_amounts(load) -> None:
    rows: list[object] = [k * k % 61 for k in range(60)]
    codes = load(column(rows, ["007", "7", "08"] * 20))
    assert (codes.task, codes.classes) == ("multiclass", ("007", "08", "7"))
    assert "leading zeros" in codes.warnings[0]
    assert load(column(rows, ["00", "01"] * 30)).classes == ("00", "01")
    padded = column(rows, [f"{k:03}" for k in range(30)] * 2)
    assert load(padded).n_classes == 30
    np.testing.assert_array_equal(load(padded, task="regression").target, [*range(30)] * 2)
    assert load(column(rows, [f"{k:03}" for k in range(60)])).task == "regression"
    assert load(column(rows, ["0.5", "05"] * 30)).task == "regression"
    assert load(column(rows, ["0", "1", "1.0"] * 20)).classes == ("0", "1")


def test_labels_that_differ_in_zeros_at_the_end_are_classes_unless_they_are_amounts(load) -> None:
    rows: list[object] = [k * k % 61 for k in range(60)]
    versions = column(rows, ["1.1", "1.10", "2.0"] * 20)
    for task in (None, "classification", "multiclass"):
        found = load(versions, task=task)
        assert found.classes == ("1.1", "1.10", "2.0")
        assert "'1.1' and '1.10' are taken as two classes" in found.warnings[0]
    amounts = load(versions, task="regression")
    assert set(amounts.target) == {1.1, 2.0} and not amounts.warnings
    assert load(column(rows, ["1.10", "2.50", "2.0"] * 20)).task == "regression"
    many: list[object] = [f"{k}.5" for k in range(58)]
    assert load(column(rows, [*many, "1.50", "1.50"])).task == "regression"


def test_features_and_groups_that_differ_in_zeros_at_the_end_are_told_or_kept_apart(load) -> None:
    rows = [f"{text},{k % 7}.5,{k % 2}" for k, text in enumerate(["1.1", "1.10", "3"] * 20)]
    text = "\n".join(["v,x,y", *rows]) + "\n"
    read = load(text)
    assert set(read.frame["v"]) == {1.1, 3.0} and "'1.1' and '1.10'" in read.warnings[0]
    kept = load(text, categorical=("v",))
    assert set(kept.frame["v"]) == {"1.1", "1.10", "3"} and not kept.warnings
    assert len(set(load(text, group="v").groups)) == 3


def test_a_target_is_of_the_kind_that_it_is_said_to_be(load) -> None:
    text = column([k * k % 61 for k in range(60)], [0.5, 1.5, 2.5] * 20)
    assert load(text).task == "regression"
    assert load(text, categorical=("y",)).classes == ("0.5", "1.5", "2.5")
    assert load(column(list(range(60)), [1, 2, 3] * 20), numeric=("y",)).task == "regression"


def test_costs_are_a_matrix_in_which_two_classes_count_before_one(load) -> None:
    text = column([5 * k % 7 for k in range(12)], ["a", "b:c", "c"] * 4)
    found = load(text, costs=("b:c:a=7", "b:c=2", "c:c=0.5", "a:b:c=3"))
    assert found.classes == ("a", "b:c", "c")
    assert found.costs == ((0, 3, 1), (7, 0, 2), (1, 1, 0.5))
    assert load(text).costs == ()
    for said in ("d=1", "a:d=1", "a", "a:c=-1", "a=inf"):
        with pytest.raises(DataError, match="no class|is not CLASS"):
            load(text, costs=(said,))


def test_a_cost_names_one_class_before_two_and_a_list_always_names_two(load) -> None:
    one_or_two = column([5 * k % 7 for k in range(12)], ["a", "b", "a:b"] * 4)
    found = load(one_or_two, costs=("a:b=3", '["a", "b"]=5'))
    assert found.classes == ("a", "a:b", "b")
    assert found.costs == ((0, 1, 5), (3, 0, 3), (1, 1, 0))
    twice = column([5 * k % 7 for k in range(12)], ["a", "a:b", "b:c", "c"] * 3)
    with pytest.raises(DataError, match=r'in two ways; write \["a", "b:c"\] or \["a:b", "c"\]'):
        load(twice, costs=("a:b:c=1",))
    assert load(twice, costs=('["a:b", "c"]=2',)).costs[1] == (1, 0, 1, 2)
    for said in ('["a", "z"]=1', '["a"]=1', "[=1", "[1, 2]=1", '{"a": "c"}=1', "[" * 10**5 + "=1"):
        with pytest.raises(DataError, match="no class"):
            load(twice, costs=(said,))


def test_two_notations_of_one_number_are_two_classes_with_a_notice(load) -> None:
    for pair in (["$1", "$1.0"], ['"1,000"', "1000"]):
        table = load(column(range(60), [*pair, pair[0].replace("1", "2")] * 20))
        shown = " and ".join(repr(text.strip('"')) for text in pair)
        assert len(table.classes) == 3 and f"{shown} are taken as two classes" in table.warnings[1]


def test_any_changed_byte_target_or_task_is_another_dataset(load) -> None:
    hashes = {
        load(HOUSES, "price").sha256,
        load(HOUSES.replace("10.25", "10.5"), "price").sha256,
        load(HOUSES, "area").sha256,
        load(HOUSES, "rooms", task="classification").sha256,
        load(HOUSES, "rooms", task="regression").sha256,
    }
    assert len(hashes) == 5
    assert load(HOUSES, "price").sha256 in hashes


@pytest.mark.fault(13)
def test_hostile_names_stay_texts_and_the_tables_name_is_a_slug(tmp_path: Path) -> None:
    path = tmp_path / "=HYPERLINK(1) <script>.csv"
    path.write_text('"=cmd|x",<script>,y\n' + "1,a,0.5\n2,b,1.5\n" * 5)
    table = table_from_file(path, Reading("y"))
    assert list(table.frame.columns) == ["=cmd|x", "<script>"]
    assert table.name == "hyperlink-1-script"


def test_numbers_that_float64_does_not_tell_apart_stay_apart_as_classes_categories_and_groups(
    tmp_path: Path,
) -> None:
    ids = [f"90000000000000000{k}" for k in (1, 2)] * 30
    frame = pd.DataFrame({"id": ids, "k": range(60), "y": sorted(ids)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    whole = frame.astype({"id": np.int64, "y": np.int64})
    whole.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        reading = Reading("y", "classification", categorical=("id",))
        table = table_from_file(tmp_path / name, reading)
        assert list(table.frame["id"].cat.categories) == list(table.classes) == sorted(set(ids))
        grouped = table_from_file(tmp_path / name, Reading("k", "regression", group="id"))
        assert len(set(grouped.groups)) == 2
        numeric = table_from_file(tmp_path / name, Reading("k", "regression"))
        assert numeric.kinds == {"id": "numeric", "y": "numeric"}


def test_a_group_written_in_two_ways_is_one_group_unless_its_zeros_say_otherwise(
    tmp_path: Path,
) -> None:
    def groups(*cells: str, **more: object) -> list[int]:
        rows = "".join(f"{c},{k},{k * 1.5}\n" for k, c in enumerate(cells))
        (tmp_path / "t.csv").write_text("g,k,y\n" + rows)
        reading = Reading("y", "regression", group="g", **more)  # type: ignore[arg-type]
        return table_from_file(tmp_path / "t.csv", reading).groups.tolist()

    assert groups("17", "17.0", "18", "18.00") == [0, 0, 1, 1]
    assert groups('"1,000"', "1000", "2", "3") == groups("$1", "$1.0", "$2", "$3") == [0, 0, 1, 2]
    assert groups("7", "007", "7", "8") == [0, 1, 0, 2]
    assert groups("a", "b", "a", "1") == [0, 1, 0, 2]
    with pytest.raises(DataError, match="missing in 2 rows, first on line 2"):
        groups("unknown", "b", "unknown", "1", missing=("unknown",))


def test_a_mark_that_is_a_number_is_missing_however_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,k,y\n-999.0,1,2\n-999,2,1\n5.5,3,3\nNaN,4,4\n")
    reading = Reading("y", "regression", missing=("-999", "nan"))
    assert table_from_file(tmp_path / "t.csv", reading).frame["a"].isna().sum() == 3
    (tmp_path / "t.csv").write_text("a,k,y\n007,1,2\n7,2,1\n7.0,3,3\n012,4,4\n")
    codes = table_from_file(tmp_path / "t.csv", Reading("y", "regression", missing=("7",)))
    assert codes.frame["a"].astype(object).fillna("-").tolist() == ["007", "-", "-", "012"]


def test_a_class_that_counts_as_missing_is_named(load) -> None:
    with pytest.raises(DataError, match=r"first on line 2 \('none' counts as missing; a class"):
        load(column(range(40), ["none", "mild"] * 20))
    with pytest.raises(DataError, match="first on line 2; --drop-missing-target"):
        load(column(range(40), ["", "mild"] * 20))


def test_names_of_columns_may_look_like_other_files_and_other_separators(load) -> None:
    for name in ("ORCID", "PAR1", "FEA1", "ARROW1", "BZh9", "x;y;z;w", "a|b|c|d", "a;b"):
        table = load(f"{name},k,y\n" + "".join(f"{k},{k % 7},{k * 1.5}\n" for k in range(40)))
        assert list(table.frame.columns) == [name, "k"]


def test_a_mark_that_is_a_number_is_told_in_files_of_every_kind(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [-999.0, 1.5, None, 2.5] * 5, "b": range(20), "y": ["u", "v"] * 10})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name, mark in (("t.csv", "-999.0"), ("t.parquet", "-999")):
        path = tmp_path / name
        found = describe(path, read_file(path), Reading("y", missing=("-999", "-99")))
        facts = found["columns"]["a"]
        assert (sorted(facts["marks"]), facts["n_missing"]) == (["(empty)", mark], 10)
        assert found["columns"]["b"]["marks"] == []


FIELDS = [["1", "2", "3"], ["", "5", "6"], ["7", "8", "9"]]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "\r\r", "\n\r", "\r\r\n", "\n\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_an_empty_first_field_stays_one_whatever_ends_the_lines(
    ends: str, encoding: str, tmp_path: Path
) -> None:
    text = ends.join(map(",".join, [["h1", "h2", "h3"], *FIELDS])) + ends
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    cells = read_file(tmp_path / "t.csv")
    assert cells.frame.to_numpy().tolist() == FIELDS
    assert list(cells.frame.columns) == ["h1", "h2", "h3"]


@pytest.mark.fault(14)
def test_a_damaged_zip_is_named_wherever_the_damage_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", HOUSES)
    sound = path.read_bytes()
    directory = sound.rindex(b"PK\x01\x02"), sound.rindex(b"PK\x05\x06")
    refused = 0
    for at in (*range(*directory), *range(directory[1], len(sound))):
        damaged = bytearray(sound)
        damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            read_file(path)
        except DataError as error:
            assert str(error).startswith("t.zip")
            refused += 1
    assert refused > 20


def test_the_table_says_how_its_numbers_were_written(load) -> None:
    text = "a;b;c;k;y\n"
    text += "".join(f"{k},5;1 {k:03},5;{k} %;{k};{k},25 €\n" for k in range(1, 41))
    found = {"a": "decimal commas", "b": "spaces between thousands", "c": "'%'"}
    assert load(text).styles == found


MESSY = """,when,other,weight,note,y
a,01/02/2024,2024-01-31,12 kg,x,10
b,03/04/2024,31.01.2024,13 kg,y,
c,05/06/2024,2024-02-01,14 kg,x,30
"""


def test_inspect_lists_every_problem_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(MESSY)
    found = describe(path, read_file(path), Reading("y", group="nope"))
    for words in ("'nope'", '--drop ""', "--drop-missing-target", "--day-first"):
        assert sum(words in problem for problem in found["problems"]) == 1, words
    assert sum("several ways" in warning for warning in found["warnings"]) == 1
    assert found["columns"]["weight"]["style"] == "'kg'" and "task" not in found
    some = {"drop": ("", "other"), "day_first": True, "drop_missing_target": True}
    found = describe(path, read_file(path), Reading("y", "regression", **some))
    assert found["columns"]["when"]["kind"] == "date"
    assert found["problems"] == ["protocol 'kfold' needs at least 10 rows, t has 2"]
    assert "missing in 1 of 3 rows" in " ".join(found["warnings"])
    days = pd.DataFrame({"day": [20240131, 20240201] * 5, "y": range(10)})
    days.to_parquet(path)
    found = describe(path, read_file(path), Reading("y", date=("day",)))
    assert found["columns"]["day"]["values"].startswith("2024-01-31")


def test_a_reading_is_the_same_after_it_was_written() -> None:
    for given in ({"day_first": False}, {"day_first": True}, {"drop": ("", "other")}):
        assert Reading.of(Reading("y", **given).to_data()) == Reading("y", **given)


def test_rows_without_a_target_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(column([7 * k % 31 for k in range(30)], [*range(27), "", "NA", "-"]))
    with pytest.raises(DataError, match="3 rows.*--drop-missing-target"):
        table_from_file(path, Reading("y"))
    table = table_from_file(path, Reading("y", drop_missing_target=True))
    assert table.n_rows == 27 and "3 of 30 rows" in table.warnings[0]


def test_row_numbers_without_a_name_are_left_out(load) -> None:
    for first in (0, 1):
        lines = HOUSES.splitlines()
        rows = [f"{k + first},{line}" for k, line in enumerate(lines[1:])]
        table = load("\n".join(["," + lines[0], *rows]), "price")
        assert list(table.frame.columns) == ["rooms", "area", "street"]
        assert "numbers the rows" in table.warnings[0]


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("gbk", ["北京", "上海", "广州"]),
        ("big5", ["臺北", "高雄", "臺中"]),
        ("shift_jis", ["東京", "大阪", "ひろしま"]),
        ("euc_kr", ["서울", "부산", "대구"]),
        ("cp1251", ["Москва", "Нижний Новгород", "Санкт-Петербург"]),
        ("latin-1", ["Köln", "Zürich", "Münster"]),
    ],
)
def test_a_file_in_any_usual_encoding_is_read(load, encoding: str, words: list[str]) -> None:
    rows = "".join(f"{words[k % 3]},{k % 7},{k * 1.5}\n" for k in range(40))
    table = load(("city,k,y\n" + rows).encode(encoding))
    assert set(table.frame["city"].cat.categories) == set(words)
    assert "not UTF-8" in table.warnings[0]


def test_a_table_of_very_many_columns_is_refused_at_once(load) -> None:
    names = ",".join(f"c{k}" for k in range(300_000))
    with pytest.raises(DataError, match="300,001 columns"):
        load(f"{names},y\n" + "1," * 300_000 + "1\n")


def test_dates_and_texts_are_columns_of_their_own_kind_and_part_of_the_hash(load) -> None:
    days = [f"{1 + k % 28}.{1 + k % 12}.2024" for k in range(60)]
    said = [f"house {k} of the street" for k in range(60)]
    rows = [f"{d},{t},{k % 5}.5" for k, (d, t) in enumerate(zip(days, said, strict=True))]
    text = "d,t,y\n" + "\n".join(rows) + "\n"
    table = load(text)
    assert table.kinds == {"d": "date", "t": "text"} and table.styles == {"d": "%d.%m.%Y"}
    kept = load(text, categorical=("d", "t"))
    assert set(kept.kinds.values()) == {"categorical"} and kept.sha256 != table.sha256
    assert load(text.replace("house 7 ", "hut 7 ")).sha256 != table.sha256
