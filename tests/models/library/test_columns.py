"""Columns of any table: how each kind is read, and what a notice says."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from tabsweep.models.library.columns import ColumnReader


def read(column, **how):
    """(the columns that come of one, the notices)."""
    frame = pd.DataFrame({"x": column, "other": 1.0})
    reader = ColumnReader(**how).fit(frame)
    return reader.transform(frame).drop(columns="other"), reader.notices_


def stamps(*texts):
    return pd.to_datetime(list(texts), format="ISO8601")


@pytest.mark.parametrize(
    "column",
    [
        stamps("2024-02-29 13:05", "1970-01-01", None),
        stamps("2024-02-29 13:05", "1970-01-01", None).tz_localize("UTC"),
        stamps("2024-02-29 08:05", "1969-12-31 19:00", None).tz_localize("Etc/GMT+5"),
        ["2024-02-29T13:05:00Z", "1970-01-01", "n/a"],
        [datetime.datetime(2024, 2, 29, 13, 5), datetime.datetime(1970, 1, 1), None],
        pd.PeriodIndex(["2024-02-29 13:05", "1970-01-01", None], freq="min"),
    ],
    ids=["plain", "utc", "zone", "text", "objects", "periods"],
)
def test_a_date_becomes_the_parts_that_vary_and_the_days_since_the_first(column):
    found, notices = read(column)
    names = ("year", "month", "day", "hour", "minute", "days")  # both are Thursdays
    assert list(found) == [f"x.{name}" for name in names]
    assert found.iloc[0].tolist() == pytest.approx([2024, 2, 29, 13, 5, 19782 + 785 / 1440])
    assert found.iloc[1].tolist() == [1970, 1, 1, 0, 0, 0]
    assert found.iloc[2].isna().all()
    assert len(notices) == isinstance(column, list) * isinstance(column[0], str)


def test_numbers_booleans_and_durations_of_every_type_are_float64():
    columns = [
        ([True, False], [1, 0]),
        ([True, None], [1, np.nan]),
        ([Decimal("1.5"), 2], [1.5, 2]),
        (pd.array([1, None], dtype="Int64"), [1, np.nan]),
        (pd.array([True, None], dtype="boolean"), [1, np.nan]),
        (np.array([1, 2], dtype=np.uint8), [1, 2]),
        (pd.to_timedelta(["1 day", None]), [86400, np.nan]),
        ([None, None], [np.nan, np.nan]),
    ]
    for column, wanted in columns:
        found, notices = read(column)
        assert found.dtypes.tolist() == [np.float64] and not notices
        np.testing.assert_array_equal(found.iloc[:, 0], wanted)


def test_categories_stay_what_they_are_and_blank_texts_are_gaps():
    kept = pd.Categorical(["b", "a", None], categories=["c", "b", "a"])
    assert read(kept)[0]["x"].dtype == kept.dtype
    found, notices = read(["red", " ", None])
    assert found["x"].tolist() == ["red", None, None] and not notices
    found, _ = read([1.0, 2.0], categories=["x"])
    assert found["x"].dtype == object
    found, notices = read([{"a": 1}, [2]])
    assert found["x"].tolist() == ["{'a': 1}", "[2]"] and "dict, list" in notices[0]
    with pytest.raises(ValueError, match="'nothing'"):
        read([1.0], categories=["nothing"])
    found, _ = read(pd.Categorical(["b", " ", "a", ""], categories=["", "b", " ", "a"]))
    assert found["x"].cat.categories.tolist() == ["b", "a"]
    assert found["x"].isna().tolist() == [False, True, False, True]


@pytest.mark.parametrize("dtype", [object, "str", "null[pyarrow]"])
def test_a_column_that_was_empty_in_training_is_a_gap_whatever_comes(dtype):
    if "pyarrow" in str(dtype):
        pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": pd.Series([None, None], dtype=dtype), "other": 1.0})
    reader = ColumnReader().fit(frame)
    assert not reader.notices_
    for later in (["red", "blue"], [5, None], [pd.Timestamp(2024, 1, 1), "red"]):
        found = reader.transform(frame.assign(x=pd.Series(later, dtype=object)))
        assert list(found) == ["x", "other"] and len(found) == 2
        assert dtype == "str" or found["x"].isna().all()  # of text the categories are unknown


def test_free_text_is_encoded_and_identifiers_are_left_out():
    said = ["the red house by the sea", "a blue car near the church", "old tree in a wood"]
    texts = [f"{said[i % 3]} number{i} of street{i % 7}" for i in range(60)]
    found, notices = read(texts)
    assert found.shape == (60, 30) and len(notices) == 1
    near = np.linalg.norm(found - found.iloc[0], axis=1)
    assert near[3::3].mean() < near[1::3].mean()  # rows about the same thing are closer
    dropped, notices = read([f"id-{i}" for i in range(60)])
    assert not dropped.shape[1] and "identifier" in notices[0]
    few, notices = read([f"id-{i % 30}" for i in range(60)])
    assert few["x"].dtype == object and not notices
    with pytest.raises(ValueError, match="no column is left"):
        ColumnReader().fit(pd.DataFrame({"x": [f"id-{i}" for i in range(60)]}))


def test_new_rows_are_read_as_those_of_the_fit():
    frame = pd.DataFrame(
        {"price": ["1,200", "3"], "day": ["2024-01-01", "2024-01-02"], "n": [1, 2]}
    )
    reader = ColumnReader().fit(frame)
    new = pd.DataFrame({"n": ["7", None], "day": ["2025-03-04", None], "price": [5, 6.5]})
    found = reader.transform(new)
    assert found["price"].tolist() == [5, 6.5] and found["day.days"].iloc[0] == 428
    np.testing.assert_array_equal(found["n"], [7, np.nan])
    for name, value in (("price", "cheap"), ("n", "many"), ("day", "tomorrow"), ("day", 50)):
        with pytest.raises(ValueError, match=f"{name!r}"):
            reader.transform(new.assign(**{name: value}))


def test_a_number_is_a_date_by_its_digits_and_no_duration():
    day = pd.array(["2024-01-01", None, "2024-01-04"], dtype="string")
    frame = pd.DataFrame({"day": day, "took": pd.to_timedelta([1, 2, 3], unit="h")})
    reader = ColumnReader().fit(frame)
    found = reader.transform(pd.DataFrame({"day": [20240103, 20240104], "took": ["1h", None]}))
    assert found["day.days"].tolist() == [2, 3] and found["took"].iloc[0] == 3600
    with pytest.raises(ValueError, match="'took' holds durations"):
        reader.transform(frame.assign(took=[3600, 7200, 10800]))


def test_dates_of_any_year_are_read_also_beside_nanoseconds():
    columns = [
        ["9999-12-31", "1582-10-15T00:00:00.123456789", "0000-00-00", "2024-02-29"],
        stamps("9999-12-31", "1582-10-15", None, "2024-02-29").to_series(),
        pd.PeriodIndex(["9999-12-31", "1582-10-15", None, "2024-02-29"], freq="D"),
        [datetime.date(9999, 12, 31), datetime.date(1582, 10, 15), None, pd.Timestamp(2024, 2, 29)],
        [datetime.datetime(9999, 12, 31), None, None, pd.Timestamp("2024-02-29").as_unit("ns")],
    ]
    for column in columns:
        column = column.reset_index(drop=True) if isinstance(column, pd.Series) else column
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found, _ = read(column)
        assert found["x.year"].iloc[0] == 9999 and found["x.month"].iloc[0] == 12
        assert found["x.year"].iloc[1] == 1582 or found.iloc[1].isna().all()
        assert found.iloc[2].isna().all()
        assert round(found["x.days"].iloc[0] - found["x.days"].iloc[3]) == 2913114
    reader = ColumnReader().fit(pd.DataFrame({"x": stamps("2024-02-29", "2024-03-01")}))
    found = reader.transform(pd.DataFrame({"x": ["9999-12-31", "0000-00-00 00:00:00", "?"]}))
    assert found["x.days"].iloc[0] == 2913114 and found.iloc[1:].isna().all(axis=None)


def test_dates_in_columns_of_arrow_are_read_as_those_of_pandas():
    pa = pytest.importorskip("pyarrow")
    days = [datetime.date(9999, 12, 31), datetime.date(1582, 10, 15), None]
    times = [day and datetime.datetime(day.year, day.month, day.day) for day in days]
    kinds = [(pa.date32(), days), (pa.date64(), days), (pa.timestamp("us"), times)]
    kinds += [(pa.timestamp("s"), times), (pa.timestamp("ms", tz="UTC"), times)]
    for kind, values in kinds:
        found, _ = read(pd.array(pa.array(values, type=kind), dtype=pd.ArrowDtype(kind)))
        assert found["x.year"].iloc[:2].tolist() == [9999, 1582], kind
        assert found["x.days"].iloc[:2].tolist() == [3074323, 0], kind
        assert found.iloc[2].isna().all(), kind
    here = stamps("2024-02-29 00:30", "2024-02-29 12:30", None).tz_localize("Europe/Berlin")
    for unit in ("us", "ns"):
        kind = pd.ArrowDtype(pa.timestamp(unit, tz="Europe/Berlin"))
        found, _ = read(pd.Series(here).astype(kind))
        assert found["x.hour"].iloc[:2].tolist() == [23, 11] and found.iloc[2].isna().all()


def test_texts_that_look_like_dates_and_are_none_are_categories():
    found, notices = read(["2023-02-28", "2023-02-30", "2023-02-28"])
    assert found["x"].tolist() == ["2023-02-28", "2023-02-30", "2023-02-28"]
    assert "'2023-02-30' is none" in notices[0]
    found, notices = read(["0000-00-00", "0000-00-00"])
    assert found["x"].tolist() == ["0000-00-00"] * 2 and not notices
    found, notices = read(["2024-01-31", "31.01.2024"])
    assert not found.to_numpy().any() and "several ways" in notices[0]
    with pytest.raises(ValueError, match="'x'.*--day-first.*pd.to_datetime"):
        read(["2024-01-31", "01/02/2024"])


def test_the_value_of_a_row_does_not_depend_on_the_rows_beside_it():
    fits = {
        "plain": [1.0, 1234.0],
        "text": ["1", "12.5"],
        "commas": ["1,234", "12"],
        "decimal": ["0,125", "1,5"],
        "points": ["1.234,5", "12.500"],
    }
    rows = ["1,234", "1.234", 1.234, "1,5", "0,125", "1e3", 1234, "1_000", "inf", "$5", "n/a", None]
    for name, column in fits.items():
        reader = ColumnReader().fit(pd.DataFrame({"x": column}))

        def value(*cells, reader=reader):
            frame = pd.DataFrame({"x": pd.Series(list(cells), dtype=object)})
            try:
                return reader.transform(frame)["x"].tolist()
            except ValueError:
                return [None]

        alone = {row: value(row)[0] for row in rows}
        for first in rows:
            for second in ("1,5", "1,234", 1.234, "1e3"):
                if None not in (alone[first], alone[second]):
                    np.testing.assert_array_equal(
                        value(first, second), [alone[first], alone[second]], err_msg=name
                    )
        assert alone[1.234] == 1.234 and alone["1e3"] == 1000 and alone["inf"] is None
        if name in ("plain", "text"):
            assert alone["1,234"] is alone["1,5"] is None and alone["1.234"] == 1.234
    with pytest.raises(ValueError, match="'1,234'.*1234.5"):
        ColumnReader().fit(pd.DataFrame({"x": [1.0]})).transform(pd.DataFrame({"x": ["1,234"]}))


def test_a_made_column_takes_no_name_that_is_there():
    frame = pd.DataFrame({"d": pd.to_datetime(["2024-01-01"]), "d.days": [5.0]})
    found = ColumnReader().fit(frame).transform(frame)
    assert found["d.days"].tolist() == [5.0] and found["d.days_"].tolist() == [0.0]
    with pytest.raises(ValueError, match="twice"):
        ColumnReader().fit(pd.DataFrame([[1, 2]], columns=["a", "a"]))
