"""Columns of texts: their kinds, their dates, and what an encoder learns of the training rows."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tabsweep.common.columns import dates
from tabsweep.common.columns.calendar import MONTH, NAMED, QUARTER, WEEK
from tabsweep.common.columns.dates import ISO, DateError, form_of, parsed
from tabsweep.common.columns.encoder import ColumnEncoder, text_column
from tabsweep.common.columns.kinds import kind_of
from tabsweep.common.columns.plain import LONG, cells_of, packed, text_cells

FORMS = [
    (["2024-01-31", "2024-02-01 10:30"], ISO, "2024-01-31"),
    (["2024-01-31T10:00:00+02:00", "2024-01-31 00:00:00 UTC"], ISO, "2024-01-31 08:00"),
    (["31.01.2024", "1.2.2024"], "%d.%m.%Y", "2024-01-31"),
    (["01/31/2024", "02/01/2024"], "%m/%d/%Y", "2024-01-31"),
    (["31/01/2024 4:05 PM", "01/02/2024 4:05 AM"], "%d/%m/%Y %I:%M %p", "2024-01-31 16:05"),
    (["Jan 31, 2024", "Feb 1, 2024"], "%b %d, %Y", "2024-01-31"),
    (["31-Jan-24", "01-Feb-24"], "%d-%b-%y", "2024-01-31"),
    (["2024-01", "2024-02"], ISO, "2024-01-01"),
    (["2024年1月31日", "2024年02月01日"], "%Y年%m月%d日", "2024-01-31"),
    (["2024-1-31", "2024-2-1"], ISO, "2024-01-31"),
    (["2024.01.31", "2024.02.01"], ISO, "2024-01-31"),
    (["2024-01-31 10:30:00+00", "2024-02-01 10:30:00+00"], ISO, "2024-01-31 10:30"),
    (["2024-01-31 10:30:05,500", "2024-02-01t10:30:00z"], ISO, "2024-01-31 10:30:05.5"),
    (["20240131T103000", "20240201T103000Z"], ISO, "2024-01-31 10:30"),
    (["2024-01-31 04:05:00 PM", "2024-02-01 04:05:00 AM"], ISO, "2024-01-31 16:05"),
    (["Jan-2024", "Feb-2024"], MONTH, "2024-01-01"),
    (["Jan-24", "Feb-24"], MONTH, "2024-01-01"),
    (["01/2024", "2/2024"], MONTH, "2024-01-01"),
    (["2024Q1", "Q2 2024", "2024-Q3"], QUARTER, "2024-01-01"),
    (["2024-W05", "2024-W06"], WEEK, "2024-01-29"),
    (["Wed, 31 Jan 2024 10:30:00 GMT", "Thu, 01 Feb 2024 10:30:00 GMT"], NAMED, "2024-01-31 10:30"),
    (["Wed Jan 31 10:30:00 +0000 2024"], NAMED, "2024-01-31 10:30"),
    (["31/Jan/2024:10:30:00 +0200"], NAMED, "2024-01-31 08:30"),
    (["31-JAN-24 10.30.00.000000 PM"], NAMED, "2024-01-31 22:30"),
    (["31. Januar 2024", "1. Februar 2024"], NAMED, "2024-01-31"),
    (["31 de enero de 2024", "1er février 2024"], NAMED, "2024-01-31"),
    (["Wednesday, January 31, 2024", "Feb. 1st, 2024"], NAMED, "2024-01-31"),
    (["Sept 5, 2023", "July 28, 2021"], NAMED, "2023-09-05"),
    (["31.01.2024, 10:30", "01.02.2024, 10:30"], "%d.%m.%Y %H:%M", "2024-01-31 10:30"),
]


@pytest.mark.parametrize(("texts", "form", "first"), FORMS)
def test_dates_are_read_in_the_one_form_that_all_of_them_have(texts, form, first):
    assert form_of([*texts, "", "n/a", "0000-00-00"]) == form
    found = parsed([*texts, "n/a"], form)
    assert found[0] == pd.Timestamp(first) and found.isna().tolist() == [
        *[False] * len(texts),
        True,
    ]


def test_the_order_of_day_and_month_is_the_columns_or_is_asked_for():
    texts = ["01/02/2024", "03/04/2024"]
    assert form_of(texts, day_first=True) == "%d/%m/%Y"
    assert form_of(texts, day_first=False) == "%m/%d/%Y"
    assert form_of([*texts, "13/01/2024"], day_first=False) == "%d/%m/%Y"  # the column tells
    assert form_of(["02/02/2024"]) in ("%d/%m/%Y", "%m/%d/%Y")  # the same date
    with pytest.raises(DateError, match="--day-first"):
        form_of(texts)
    assert form_of(["2024-01-31", "31.01.2024"]) == "ISO 8601 or %d.%m.%Y"
    with pytest.raises(DateError, match="--day-first"):
        form_of(["2024-01-31", "01/02/2024"])
    for words in (["red", "2024-01-31"], ["2024-13-31"], ["12", "13"], []):
        assert form_of(words) == ""


def cells(values):
    return pd.Series([str(value) for value in values], name="x", dtype=str)


def test_a_column_has_the_kind_that_its_texts_have_unless_another_is_stated():
    said = [f"house {k} of the old street" for k in range(60)]
    for values, kind in (
        (range(60), "numeric"),
        (["a", "b"] * 30, "categorical"),
        ([f"0{k}" for k in range(60)], "categorical"),
        (["2024-01-31"] * 60, "date"),
        (["9:05", "12:30", "17:45"] * 20, "date"),
        (["16:10", "16:9", "4:3"] * 20, "categorical"),
        ([f"1:{k}" for k in range(1, 41)], "categorical"),
        (said, "text"),
        ([f"id-{k}" for k in range(60)], "id"),
        ([f"Anna Number{k}" for k in range(60)], "text"),
        ([""] * 60, "empty"),
    ):
        assert kind_of(cells(values)).word == kind
        if kind != "empty":
            assert kind_of(cells(values), stated="text").word == "text"
            assert kind_of(cells(values), stated="categorical").word == "categorical"
    assert kind_of(cells([20240131, 20240201]), stated="date").style == "%Y%m%d"
    with pytest.raises(ValueError, match="no date"):
        kind_of(cells(["2024-01-31", "soon"]), stated="date")


def rows(n=40):
    rng = np.random.default_rng(0)
    words = np.array("garden balcony lift noisy dark damp quiet old".split())
    days = pd.Timestamp("2022-03-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "day": pd.Series(days).astype("datetime64[us]"),
            "said": text_column([" ".join(rng.choice(words, 4)) for _ in range(n)]),
        }
    )


def test_parts_that_do_not_vary_are_left_out_and_cyclic_ones_come_round():
    dates = pd.Series(pd.to_datetime(["2024-12-31", "2024-01-01", None])).astype("datetime64[us]")
    frame = pd.DataFrame({"d": dates})
    plain = ColumnEncoder().fit(frame).transform(frame)
    assert list(plain) == ["d.month", "d.day", "d.weekday", "d.days"]
    assert plain["d.days"].iloc[:2].tolist() == [365, 0] and plain.iloc[2].isna().all()
    cyclic = ColumnEncoder(cyclic=True).fit(frame).transform(frame)
    near = cyclic[["d.month_sin", "d.month_cos"]].iloc[:2].diff().iloc[1]
    assert np.hypot(*near) == pytest.approx(2 * np.sin(np.pi / 12))


def test_an_encoder_in_plain_data_encodes_as_before():
    frame = rows()
    encoder = ColumnEncoder(cyclic=True).fit(frame)
    again = ColumnEncoder.of_data(encoder.to_data())
    pd.testing.assert_frame_equal(again.transform(frame), encoder.transform(frame))


def test_texts_without_letters_and_few_rows_are_encoded_too():
    for texts in ([None, None], ["", "!"], ["a"], ["same words", "same words"]):
        frame = pd.DataFrame({"t": text_column(texts), "x": 1.0})
        found = ColumnEncoder().fit(frame).transform(frame)
        assert np.isfinite(found.to_numpy(dtype=float)).all() and "x" in found


@pytest.mark.parametrize("form", dates.FORMS)
def test_a_date_in_every_form_is_known(form: str) -> None:
    text = datetime(2024, 12, 31, 17, 5, 9).strftime(form)
    assert form_of([text], day_first="%d" in form and form.find("%d") < form.find("%m"))


@pytest.mark.parametrize("odd", ["", "-0", "1e5", "0.12345678901234567", "9007199254740993", "inf"])
def test_numbers_are_the_same_bits_whoever_reads_them(odd: str) -> None:
    texts = pd.Series(["-1.5", "0.1", "12345.6789", "7", ".5", "3."] + [odd] * bool(odd), dtype=str)
    found = kind_of(texts.rename("x"), stated="numeric").numbers
    expected = pd.to_numeric(texts).to_numpy(dtype=np.float64)
    assert found is not None and found.values.tobytes() == expected.tobytes()


@pytest.mark.parametrize("first", [["a", "b"] * LONG, [f"t{i}" for i in range(LONG)], ["a"] * 9])
@pytest.mark.parametrize("last", [["b", "c"] * LONG, ["c", "d", "e"], []])
def test_chunks_of_codes_and_of_texts_are_one_column(first, last):
    column = text_cells([packed(pa.array(part, pa.string())) for part in (first, last)])
    assert (column.dtype == "category") == (len(set(first)) < len(first) >= LONG)
    assert cells_of(column, "x").tolist() == first + last
