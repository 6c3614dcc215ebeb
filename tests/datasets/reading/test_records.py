"""CSV files as other tools write them: what is read with a notice, and what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from tabsweep.common.columns.plain import PlainTexts
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.reading import records
from tabsweep.datasets.reading.cells import Cells, read_file
from tabsweep.datasets.reading.names import LONGEST, clean_name


@pytest.fixture
def read(tmp_path: Path):
    def of(text: str) -> Cells:
        (tmp_path / "t.csv").write_text(text, encoding="utf-8")
        return read_file(tmp_path / "t.csv")

    return of


def test_rows_that_are_short_or_end_with_empty_fields_are_read_with_a_notice(read) -> None:
    short = read("a,b,c\n1,2,3\n4\n5,6,7\n")
    assert short.frame.to_numpy().tolist() == [["1", "2", "3"], ["4", "", ""], ["5", "6", "7"]]
    assert "line 3 has 1 fields, the header has 3" in short.notices[0]
    long = read("a,b\n1,2,\n3,4,,\n5,6\n")
    assert long.frame.to_numpy().tolist() == [["1", "2"], ["3", "4"], ["5", "6"]]
    assert "line 2 (and 1 line more) has 3 fields" in long.notices[0]
    with pytest.raises(DataError, match="line 2 has 1 fields"):
        read("a,b,c\n1\n2\n3,4,5\n")
    with pytest.raises(DataError, match="line 2 has 3 fields.*above the header"):
        read("My table\na,b,c\n1,2,3\n")


def test_row_names_of_r_are_left_out_where_they_number_the_rows(read) -> None:
    found = read('"a","b"\n"1",5,x\n"2",6,y\n"3",7,z\n')
    assert list(found.frame.columns) == ["a", "b"] and found.frame["a"].tolist() == ["5", "6", "7"]
    named = read("a,b\nMazda,5,x\nFiat,6,y\n")
    assert list(named.frame.columns) == ["", "a", "b"]  # named by --drop ""


def test_quotes_of_other_tools_are_read(read) -> None:
    escaped = read('a,b\n1,"say \\"no\\", twice"\n2,"x"\n')
    assert escaped.frame["b"].tolist() == ['say "no", twice', "x"]
    assert "escaped by a backslash" in escaped.notices[0]
    lone = read('a\tb\n1\t"5 inch\n2\tx\n')
    assert lone.frame["b"].tolist() == ['"5 inch', "x"] and "in no pair" in lone.notices[0]
    with pytest.raises(DataError, match="line 2: a quotation mark .* never closed"):
        read('a,b\n1,"2\n')


def test_names_are_on_one_line_and_two_that_are_alike_then_are_refused(read) -> None:
    assert clean_name(" a\tb\u200b\n c ") == "a b c"
    assert len(clean_name("x" * 500)) <= LONGEST and clean_name("x" * 500) != clean_name("x" * 501)
    with pytest.raises(DataError, match="2 columns are called 'a b'"):
        read('"a b","a\nb"\n1,2\n')


def test_a_time_column_is_a_feature_where_it_is_said_to_be_a_date(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-{k + 1:02},{k % 5},{k * 1.5}\n" for k in range(30))
    (tmp_path / "t.csv").write_text("day,x,y\n" + rows)
    plain = table_from_file(tmp_path / "t.csv", Reading("y", time="day"))
    assert list(plain.frame) == ["x"] and "no feature" in " ".join(plain.warnings)
    dated = table_from_file(tmp_path / "t.csv", Reading("y", time="day", date=("day",)))
    assert dated.kinds == {"day": "date", "x": "numeric"}
    assert dated.times is not None and "no feature" not in " ".join(dated.warnings)


def test_what_is_joined_is_one_class_and_one_category(tmp_path: Path) -> None:
    rows = "".join(
        f"{['red', 'RED', 'blue'][k % 3]},{k},{['no', 'Yes', 'yes.'][k * k % 3 if k % 7 else 2]}\n"
        for k in range(30)
    )
    (tmp_path / "t.csv").write_text("c,x,y\n" + rows)
    apart = table_from_file(tmp_path / "t.csv", Reading("y"))
    assert apart.n_classes == 3 and sum("--join" in text for text in apart.warnings) == 2
    one = table_from_file(tmp_path / "t.csv", Reading("y", join=("c", "y")))
    assert one.classes == ("Yes", "no") and list(one.frame["c"].cat.categories) == ["RED", "blue"]


@pytest.mark.parametrize(
    ("text", "by_arrow"),
    [
        ("a,b\n1,x\n2, y \n", True),
        ("a,b\n1,x\n2,y\t\n3,\x1fz", True),
        ("a,b\n1,x\n2,\u00a0y\u00e9\u2003\n", True),
        ("a;b\r\n1;x\r\n;\r\n", True),
        ('"a","b"\n"1","x, y"\n"","z"\n', True),
        ("a\n1\n\n2\n", False),  # a blank line
        ('a,b\n1,"x ""y"""\n', False),  # a doubled quotation mark
        ('a,b\n1,"x\ny"\n', False),  # a line end within a field
        ('a,b\n1, "x, y"\n', False),  # a blank before a quotation mark
        ('a,b\n1,5" x\n', False),  # a quotation mark within a field
        ("a,b\r\n1,x\n2,y\r\n", False),  # two kinds of line ends
        ("a,b\n1,x\n2\n3,y\n", False),  # a short line
        ("\na,b\n1,x\n", False),  # a header below a blank line
    ],
)
def test_arrow_reads_what_it_reads_as_csv_does_and_nothing_else(read, text, by_arrow) -> None:
    found = read(text)
    assert found.form.endswith("(read by Arrow)") == by_arrow
    delimiter = ";" if ";" in text else ","
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    header, *lines = [row for row in rows if row]
    assert list(found.frame.columns) == header
    padded = [[cell.strip() for cell in [*line, ""][: len(header)]] for line in lines]
    assert found.frame.to_numpy().tolist() == padded
    assert len(found.lines) == len(lines) and found.where(0) == f"line {2 + (text[0] == chr(10))}"


@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_a_column_tells_its_texts_whatever_was_let_go_of_while_it_was_read(
    read, block, monkeypatch
) -> None:
    monkeypatch.setattr(records, "BLOCK", block)
    plain = ["1", "-2.50", "", "NA", "0.000001", "-0", "-0.0", "123456789012345", "?", "7.10"]
    late = {"code": "007", "word": "lost", "point": "1.", "sign": "+1", "exponent": "1e-05"}
    columns = {"plain": plain, **{name: [*plain[1:], text] for name, text in late.items()}}
    columns["few"] = ["a", "b"] * 5
    lines = [",".join(row) for row in [columns, *zip(*columns.values(), strict=True)]]
    found = read("\n".join(lines) + "\n")
    assert found.form.endswith("(read by Arrow)")
    for name, texts in columns.items():
        assert found[name].tolist() == texts and found[name].name == name
        assert isinstance(found.columns[name], PlainTexts) == (name == "plain")
    some = found.rows(np.arange(10) % 3 == 0)
    assert some["plain"].tolist() == plain[::3] and some["few"].tolist() == columns["few"][::3]
