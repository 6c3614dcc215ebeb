"""What is said of a target, and of numbers in any column that may mark a missing value."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pandas as pd
import pytest
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.table import Table


def table_of(tmp_path: Path, **columns: list[object]) -> Table:
    """The table in a CSV file of these columns, of which `y` is the target."""
    path = tmp_path / "t.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return table_from_file(path, Reading("y"))


def test_a_class_of_few_rows_is_a_warning_that_asks_whether_it_is_a_misspelt_one(tmp_path) -> None:
    table = table_of(tmp_path, x=list(range(40)), y=["a"] * 20 + ["b"] * 17 + ["rare"] * 3)
    assert "'rare' has 3 rows" in table.warnings[-1]
    labels = ["aktiv", "passiv"] * 12 + ["pasiv", "grade1", "grade2"]
    table = table_of(tmp_path, x=list(range(27)), y=labels)
    (asked,) = [one for one in table.warnings if "misspelt" in one]
    assert "'pasiv' has 1 row," in asked and "'passiv'" in asked
    table = table_of(tmp_path, x=list(range(25)), y=["aktiv", "passiv"] * 12 + ["grade1"])
    assert "class 'grade1' has 1 row" in table.warnings[-1]
    table = table_of(tmp_path, x=list(range(26)), y=labels[:25] + ["grade1"])
    assert [w for w in table.warnings if "classes have" in w] == []
    assert sum("fewer than 10 folds" in warning for warning in table.warnings) == 2


def test_many_classes_of_few_rows_are_one_line(tmp_path) -> None:
    labels = [f"c{k % 40}" for k in range(200)]
    (said,) = table_of(tmp_path, x=[k % 9 for k in range(200)], y=labels).warnings
    assert "40 classes have fewer rows than 10 folds ('c0' 5, 'c1' 5, " in said
    assert "and 37 more)" in said


def test_dates_are_no_target_unless_they_are_few_or_said_to_be_classes(tmp_path) -> None:
    days = [str(date(2024, 1, 1) + timedelta(k % 30)) for k in range(90)]
    x = [k % 9 for k in range(90)]
    with pytest.raises(DataError, match="holds dates, such as '2024-01-01', which no model"):
        table_of(tmp_path, x=x, y=days)
    with pytest.raises(DataError, match="holds dates, such as '01/02/2024'"):
        table_of(tmp_path, x=x, y=[f"{1 + k % 12:02d}/{2 + k % 7:02d}/2024" for k in range(90)])
    said = table_from_file(tmp_path / "t.csv", Reading("y", "classification"))
    assert said.task == "multiclass"
    few = table_of(tmp_path, x=x, y=[day[:-1] + "1" for day in days])
    assert few.task == "multiclass" and "has 4 dates; taken as classes" in few.warnings[0]


def test_whole_numbers_that_may_be_classes_are_said_to_be_amounts(tmp_path) -> None:
    letters = table_of(tmp_path, x=[k % 9 for k in range(300)], y=[k % 26 for k in range(300)])
    assert letters.task == "regression"
    assert "26 whole numbers; taken as amounts: say task 'classification'" in letters.warnings[0]
    halves = table_of(tmp_path, x=[k % 9 for k in range(300)], y=[k % 26 / 2 for k in range(300)])
    ages = table_of(tmp_path, x=[k % 9 for k in range(200)], y=[k % 26 for k in range(200)])
    assert not halves.warnings and not ages.warnings


def test_numbers_that_may_mark_a_missing_value_are_said(tmp_path) -> None:
    usual = [float(k % 30) for k in range(90)]
    holed = [-1.0 if k % 9 == 4 else value for k, value in enumerate(usual)]
    odd = {"below": holed, "above": [999.0 if k % 9 == 4 else v / 9 for k, v in enumerate(usual)]}
    fine = {"signs": [float(k % 2 * 2 - 1) for k in range(90)], "less": [v - 1 for v in usual]}
    said = table_of(tmp_path, **odd, **fine, y=[v * 1.1 - (v == 0) * 1000.0 for v in usual])
    marked = [one.partition(" stands out")[0] for one in said.warnings if "stands out" in one]
    assert marked == ["column 'below': -1", "column 'above': 999"]
    said = table_of(tmp_path, **fine, y=[v + 0.5 if v > 0 else -999.0 for v in usual])
    assert any("target 'y': -999 stands out; if it marks" in one for one in said.warnings)
