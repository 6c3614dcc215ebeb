"""Small tables that were read wrongly once: the right reading of each.

The folder that TABSWEEP_CASES names has them, with the command and the reason for the value.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tabsweep
from calls import answer, bench, working_in
from case_folders import copy_of
from tabsweep.datasets.infer import Reading, table_from_file


def inspected(file: str, *args: str, code: int = 0) -> dict[str, Any]:
    """What `bench data inspect --json` says of a file."""
    found: dict[str, Any] = answer("data", "inspect", file, *args, code=code)
    return found


def frame_of(file: str, target: str, **how: Any) -> pd.DataFrame:
    """The features of a file."""
    return table_from_file(file, Reading(target, **how)).frame


def said(found: dict[str, Any], *words: str) -> bool:
    """Whether one warning has all the words."""
    return any(all(word in warning for word in words) for warning in found["warnings"])


def same_values(one: pd.Series, other: pd.Series) -> None:
    pd.testing.assert_series_equal(one, other, check_names=False, rtol=1e-9)


def object_columns_of_numbers_and_blanks_are_numbers(folder: Path) -> None:
    frame = pd.read_csv("input.csv")
    train, test = slice(0, 160), slice(160, None)
    for mark in ("", "-", "unknown", "—", "#DIV/0!"):
        mixed = frame.assign(v=[mark if pd.isna(x) else float(x) for x in frame.v])
        with pytest.warns(tabsweep.ColumnNotice, match="holds numbers"):
            model = tabsweep.LinearRegressor().fit(mixed[["v", "z"]][train], frame.y[train])
        assert model.score(mixed[["v", "z"]][test], frame.y[test]) > 0.94, mark
    odd = frame.assign(v=["lost" if pd.isna(x) else float(x) for x in frame.v])
    with pytest.warns(tabsweep.ColumnNotice, match="texts .'lost' .*count as missing"):
        model = tabsweep.LinearRegressor().fit(odd[["v", "z"]], frame.y)
    assert model.columns_.kinds_["v"][0] == "numeric"


def categories_are_found_however_they_are_written(folder: Path) -> None:
    frame = pd.read_csv("input.csv")
    X, y = frame[["plan", "x"]], frame.y
    words = X.assign(plan=X.plan.map({1: "basic", 2: "plus", 3: "pro", 4: "team"}))
    texts, as_category = X.assign(plan=X.plan.astype(str)), X.assign(plan=X.plan.astype("category"))
    named = {"categorical_features": ["plan"]}
    for train, new, how in (
        (X, texts, named),
        (X, X.assign(plan=X.plan.astype(float).astype(str)), named),
        (as_category, texts, {}),
        (texts, X, named),
        (words, words.assign(plan=words.plan.str.title()), {}),
        (words, words.assign(plan=words.plan + " "), {}),
    ):
        model = tabsweep.DecisionTreeClassifier(**how).fit(train, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (model.predict(new) == y).all()
    with pytest.warns(tabsweep.ColumnNotice, match="240 of 240 rows hold a category"):
        model.predict(words.assign(plan=words.plan + "!?x"))


def months_quarters_and_weeks_are_dates(folder: Path) -> None:
    right = frame_of("same_iso.csv", "y")["issued"]
    for name in ("input.csv", "input_mm_yyyy.csv"):
        same_values(frame_of(name, "y")["issued"], right)
    assert inspected("input_mm_yyyy.csv", "--target", "y", "--date", "issued")["problems"] == []
    quarters = frame_of("input_quarter.csv", "y")["issued"]
    assert (quarters.dt.quarter == right.dt.quarter).all()
    assert (quarters.dt.year == right.dt.year).all()
    timed = inspected("input.csv", "--target", "y", "--time", "issued")
    assert timed["protocol"] == "temporal"
    assert said(timed, "'issued'", "no feature", "--date")


def an_offset_of_hours_alone_is_one(folder: Path) -> None:
    same_values(frame_of("input.csv", "y")["seen_at"], frame_of("same_iso.csv", "y")["seen_at"])


def negative_numbers_have_several_signs(folder: Path) -> None:
    right = frame_of("same_plain.csv", "y")["balance"]
    for name in ("input.csv", "input_behind.csv", "input_parentheses.csv"):
        same_values(frame_of(name, "y")["balance"], right)
        assert said(inspected(name, "--target", "y"), "'balance'", "is read as -")


def amounts_have_many_currencies(folder: Path) -> None:
    right = frame_of("same_plain.csv", "y")["price"]
    for name in ("input.csv", "input_real.csv", "input_usd.csv", "input_zloty.csv"):
        same_values(frame_of(name, "y")["price"], right)
    thousands = frame_of("input_million.csv", "y")["price"]
    np.testing.assert_allclose(thousands, right, rtol=0.05)


def labels_that_differ_in_case_or_a_dot_are_told(folder: Path) -> None:
    found = inspected("input.csv", "--target", "income")
    assert said(found, "'<=50K' and '<=50K.'", "--join")
    assert inspected("input.csv", "--target", "income", "--join", "income")["task"] == "binary"
    found = inspected("input_case.csv", "--target", "paid")
    assert said(found, "'YES' and 'Yes' and 'yes'", "--join")
    joined = inspected("input_case.csv", "--target", "paid", "--join", "paid")
    assert joined["task"] == "binary" and said(joined, "count as")
    as_feature = inspected("input_case.csv", "--target", "age")
    assert said(as_feature, "column 'paid'", "--join")


def marks_that_are_classes_are_told(folder: Path) -> None:
    for name, mark in (
        ("input.csv", "#N/A"),
        ("input_na.csv", "n/a"),
        ("input_pandas.csv", "<NA>"),
    ):
        found = inspected(name, "--target", "churn")
        assert said(found, f"'{mark}'", "--missing"), name
        how = ("--missing", mark, "--drop-missing-target")
        assert inspected(name, "--target", "churn", *how)["task"] == "binary"


def one_word_among_amounts_is_named(folder: Path) -> None:
    found = inspected("input.csv", "--target", "price", code=2)
    (problem,) = found["problems"]
    for words in ("599 numbers and 1 text", "'on request' on line 19", "--drop-missing-target"):
        assert words in problem
    kept = inspected("input.csv", "--target", "price", "--drop-missing-target")
    assert kept["task"] == "regression" and said(kept, "1 of 600 rows")
    table = table_from_file("input.csv", Reading("price", drop_missing_target=True))
    right = table_from_file("same_without.csv", Reading("price"))
    assert table.n_rows == 599 and abs(table.target.mean() - right.target.mean()) < 5


def quotes_are_doubled_escaped_or_told(folder: Path) -> None:
    for name in ("input.csv", "input_later.csv", "input_inner.csv", "input_blank.csv"):
        found = inspected(name, "--target", "price")
        assert found["n_rows"] == 80 and set(found["columns"]) == {"sqm", "part", "price"}
        assert said(found, "quotation marks are"), name
    parts = frame_of("input.csv", "price", categorical=("part",))["part"]
    assert parts.iloc[0] == '3" pipe no 0'


def names_of_columns_are_on_one_line(folder: Path) -> None:
    for name, first in (
        ("input.csv", "floor area (sqm)"),
        ("input_nbsp.csv", "floor area"),
        ("input_zero_width.csv", "floor area"),
    ):
        assert first in inspected(name, "--target", "price")["columns"]
    long = min(inspected("input_long.csv", "--target", "price")["columns"])
    assert long.startswith("Thinking of the flat") and len(long) <= 200


def a_separator_above_the_header_is_one(folder: Path) -> None:
    found = inspected("input.csv", "--target", "price")
    assert set(found["columns"]) == {"sqm", "rooms", "price"} and found["n_rows"] == 80


def columns_without_a_name_and_a_value_are_left_out(folder: Path) -> None:
    found = inspected("input.csv", "--target", "price")
    assert set(found["columns"]) == {"sqm", "rooms", "price"}
    assert said(found, "2 columns without a name and a value")


def the_hour_is_that_of_the_place(folder: Path) -> None:
    right = frame_of("same_without_offset.csv", "load")["at"]
    same_values(frame_of("input.csv", "load")["at"], right)
    assert said(inspected("input.csv", "--target", "load"), "offsets to UTC vary")
    zoned = pd.to_datetime(pd.read_csv("input.csv")["at"], utc=True).dt.tz_convert("US/Eastern")
    reader = tabsweep.LinearRegressor().fit(pd.DataFrame({"at": zoned}), range(600)).columns_
    same_values(reader.read(pd.DataFrame({"at": zoned}))["at"], right)


def durations_are_seconds_where_they_are_none_of_the_day(folder: Path) -> None:
    found = inspected("input.csv", "--target", "cost")
    assert said(found, "'length'", "time of day", "--numeric")
    seconds = frame_of("input.csv", "cost", numeric=("length",))["length"]
    assert seconds.iloc[0] == 12 * 3600 + 51 * 60
    long = frame_of("input_beyond_a_day.csv", "cost")["length"]
    assert long.iloc[0] == 38 * 3600 + 14 * 60 + 31
    how = ("--model", "decision-tree", "--trials", 1, "--folds", 2, "--workers", 0)
    how += ("--tracking-uri", "none", "--runs", "runs")
    for name, more, warned in (("day", (), True), ("seconds", ("--numeric", "length"), False)):
        sweep = ("sweep", "--csv", "input.csv", "--target", "cost", "--name", name, *how, *more)
        assert bench(*sweep, "-q").code == 0
        assert bench("fit", f"runs/{name}", "--out", "m.tabsweep", "-q").code == 0
        told = bench("predict", "m.tabsweep", "new.csv", "--out", "out.csv")
        assert told.code == 0 and len(pd.read_csv("out.csv")) == 2
        assert ("'24:30'" in told.err + told.out) == warned


def a_first_line_that_is_a_row_is_told(folder: Path) -> None:
    assert said(inspected("input.csv"), "looks like a row", "0.5, b, 147.7")


def a_column_of_lists_is_refused_alone(folder: Path) -> None:
    found = inspected("input.parquet", "--target", "price", code=2)
    assert "tags" in found["problems"][0] and len(found["columns"]) > 2
    assert inspected("input.parquet", "--target", "price", "--drop", "tags")["problems"] == []
    sweep = ("sweep", "--csv", "input.parquet", "--target", "price", "--drop", "tags", "--dry-run")
    assert bench(*sweep).code == 0


def dates_are_read_in_any_usual_form(folder: Path) -> None:
    right = frame_of("same_iso.csv", "y")["sent"]
    for name in ("input.csv", "input_ampm.csv"):
        same_values(frame_of(name, "y")["sent"], right)
    for form in ("german", "points", "unpadded", "weekday"):
        same_values(frame_of(f"input_{form}.csv", "y")["sent"], right.dt.normalize())


def codes_with_an_e_are_told(folder: Path) -> None:
    assert said(inspected("input.csv", "--target", "y"), "'48E0'", "--categorical")


def marks_among_numbers_are_gaps(folder: Path) -> None:
    right = frame_of("same_empty.csv", "y")["v"]
    for name in sorted(Path().glob("input*.csv")):
        same_values(frame_of(str(name), "y")["v"], right)
        facts = inspected(str(name), "--target", "y")["columns"]["v"]
        assert facts["kind"] == "numeric" and facts["n_missing"] == 24


def dates_and_texts_of_a_task_are_those_of_a_file(folder: Path) -> None:
    server = [sys.executable, "server.py", "input.arff", "price", "2", "--"]
    where = {**os.environ, "TABSWEEP_DATA": str(folder / "added")}
    bench_path = shutil.which("bench", path=str(Path(sys.executable).parent)) or "bench"
    add = [*server, bench_path, "data", "add", "openml:7", "--name", "c29"]
    ran = subprocess.run(add, env=where, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABSWEEP_DATA", str(folder / "added"))
        table = tabsweep.load_dataset("c29")
    right = frame_of("same.csv", "price")
    assert table.kinds == {"sold": "date", "about": "text"}
    same_values(table.frame["sold"], right["sold"])
    assert table.frame["about"].tolist() == right["about"].tolist()


def whole_numbers_of_numpy_are_hyperparameters(folder: Path) -> None:
    ran = subprocess.run([sys.executable, "case.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert all(" best " in line for line in ran.stdout.splitlines()), ran.stdout


def a_refused_time_or_group_is_named(folder: Path) -> None:
    for option, column in (("--time", "day"), ("--group", "shop")):
        found = inspected("input.csv", "--target", "y", option, column, code=2)
        assert any(f"{option[2:]} column '{column}'" in text for text in found["problems"])
        assert not any("protocol" in text for text in found["problems"])


CASES: dict[str, Callable[[Path], None]] = {
    "01_object_column_of_numbers_and_blanks": object_columns_of_numbers_and_blanks_are_numbers,
    "02_category_written_as_text_at_predict": categories_are_found_however_they_are_written,
    "04_month_and_year": months_quarters_and_weeks_are_dates,
    "05_offset_of_hours_alone": an_offset_of_hours_alone_is_one,
    "06_negative_numbers_written_otherwise": negative_numbers_have_several_signs,
    "07_other_currencies_and_lakh": amounts_have_many_currencies,
    "08_labels_that_differ_in_case_or_a_dot": labels_that_differ_in_case_or_a_dot_are_told,
    "09_missing_marks_that_become_a_class": marks_that_are_classes_are_told,
    "10_one_word_among_the_amounts_of_a_target": one_word_among_amounts_is_named,
    "12_quotes_escaped_with_a_backslash": quotes_are_doubled_escaped_or_told,
    "14_names_of_columns_with_breaks_or_long": names_of_columns_are_on_one_line,
    "16_separator_hint_of_excel": a_separator_above_the_header_is_one,
    "17_empty_columns_behind_the_last": columns_without_a_name_and_a_value_are_left_out,
    "19_hour_of_the_local_day": the_hour_is_that_of_the_place,
    "20_durations_taken_for_times_of_day": durations_are_seconds_where_they_are_none_of_the_day,
    "22_file_without_a_header": a_first_line_that_is_a_row_is_told,
    "23_parquet_with_a_column_of_lists": a_column_of_lists_is_refused_alone,
    "25_dates_that_become_text_in_silence": dates_are_read_in_any_usual_form,
    "26_codes_such_as_12E3": codes_with_an_e_are_told,
    "27_other_marks_of_a_missing_number": marks_among_numbers_are_gaps,
    "29_arff_with_dates_and_texts": dates_and_texts_of_a_task_are_those_of_a_file,
    "30_hyperparameters_from_np_arange": whole_numbers_of_numpy_are_hyperparameters,
    "31_inspect_of_a_time_or_group_that_is_refused": a_refused_time_or_group_is_named,
}


@pytest.mark.parametrize("case", CASES)
def test_a_small_table_that_was_read_wrongly_is_read_right(case: str, tmp_path: Path) -> None:
    folder = copy_of("tables", case, tmp_path)
    with working_in(folder):
        CASES[case](folder)
