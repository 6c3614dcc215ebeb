"""Numbers and times in cells of text: which styles are read, and which are not guessed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tabsweep.common.columns.kinds import kind_of
from tabsweep.common.columns.numbers import numbers_in_style, read_numbers
from tabsweep.common.columns.plain import plain_kinds
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.reading.times import read_times

READ = [  # cells, separator, style, numbers
    (["1", "2.5", ""], ",", "", [1, 2.5, np.nan]),
    (["1,234", "999"], ",", "commas between thousands", [1234, 999]),
    (["1,234", "999"], ";", "decimal commas", [1.234, 999]),
    (["1,234", "12,5"], ",", "decimal commas", [1.234, 12.5]),
    (["1,234,567", "2"], ";", "commas between thousands", [1234567, 2]),
    (["-1,234.5", "?", "7e3"], "\t", "commas between thousands", [-1234.5, np.nan, 7000]),
    (["1.234,5", "1.234"], ";", "decimal commas", [1234.5, 1234]),
    (["1.234.567", "1.234"], ",", "points between thousands", [1234567, 1234]),
    (["0,125", "0,500", "12,750"], ",", "decimal commas", [0.125, 0.5, 12.75]),
    (["-0,125", "1,234"], "\t", "decimal commas", [-0.125, 1.234]),
    (["0", "1.234.567"], ",", "points between thousands", [0, 1234567]),
    (["1 234,5", "7"], ",", "spaces between thousands", [1234.5, 7]),
    (["1\u202f234", "1'000.5"], ",", "spaces between thousands", [1234, 1000.5]),
    (["$87,444", "-$3", "$ 1,200.5"], ",", "'$' and commas between thousands", [87444, -3, 1200.5]),
    (["21.0%", "4 %", "", "0"], ",", "'%'", [21, 4, np.nan, 0]),
    (["7", "€5"], ",", "'€'", [7, 5]),
    (["1.234,5 €", "12\u00a0€"], ";", "'€' and decimal commas", [1234.5, 12]),
    (["57.3 °C", "-12°C", ""], ",", "'°C'", [57.3, -12, np.nan]),
    (["135.7 m2", "90 m2"], ",", "'m2'", [135.7, 90]),
    (["1,200 kg", "3 kg"], ",", "'kg' and commas between thousands", [1200, 3]),
    (["3.5 m²", "-", "n/a"], ",", "'m²'", [3.5, np.nan, np.nan]),
    (["3,14", "2,7"], ",", "decimal commas", [3.14, 2.7]),
    (["1e3", "-.5", "+2."], ",", "", [1000, -0.5, 2]),
    (["1,234 kg", "2"], ",", "'kg' and commas between thousands", [1234, 2]),
    (["12 kg", "500 g"], ",", "'kg' and its multiples", [12, 0.5]),
    (["US$5"], ",", "'US$'", [5]),
    (["0,125", "1,234.5"], ",", "decimal commas and points", [0.125, 1234.5]),
    (["12.5%", "0.125", "0.2", "30%"], ",", "'%' as shares", [0.125, 0.125, 0.2, 0.3]),
    (["12.5%", "13", "20"], ",", "'%'", [12.5, 13, 20]),
    (["(1.23)", "2.5", "1.5-", "\u22123"], ",", "", [-1.23, 2.5, -1.5, -3]),
    (
        ["$-3", "-$3", "$(5)", "($1,200)"],
        ",",
        "'$' and commas between thousands",
        [-3, -3, -5, -1200],
    ),
    (["76 J.", "12 J"], ",", "'J'", [76, 12]),
    (["12 Std.", "3,5 Std."], ",", "'Std' and decimal commas", [12, 3.5]),
    (["13,3", "k.A.", "12,5"], ",", "decimal commas", [13.3, np.nan, 12.5]),
    (
        ["\u20b91,86,464", "\u20b929,284"],
        ",",
        "'\u20b9' and commas between thousands",
        [186464, 29284],
    ),
    (["29 284 z\u0142", "1 z\u0142"], ",", "'z\u0142' and spaces between thousands", [29284, 1]),
    (["R$ 29.284,00", "R$ 1,50"], ";", "'R$' and decimal commas", [29284, 1.5]),
    (["USD 29,284", "USD 5"], ",", "'USD' and commas between thousands", [29284, 5]),
    (["\u20ac29K", "\u20ac1.20M"], ",", "'\u20ac' with magnitudes", [29000, 1200000]),
    (["3.4M", "12k", "950"], ",", "with magnitudes", [3.4e6, 12000, 950]),
    (["$5 million", "$2.5 billion"], ",", "'$' with magnitudes", [5e6, 2.5e9]),
    (["90 min", "2 h"], ",", "'min' and its multiples", [90, 120]),
    (["1st", "2nd", "3rd"], ",", "'st' and its multiples", [1, 2, 3]),
    (["\uff15", "6"], ",", "", [5, 6]),
    (["1.5", "2.5", "on request"], ",", "", [1.5, 2.5, np.nan]),
    (["1", "n/a", "?", "", "-", "NULL"], ",", "", [1, *[np.nan] * 5]),
]
TEXTS = [
    ["12,34,5", "1"],
    ["1.2.3.4", "1"],
    ["12 3", "4"],
    ["007 A", "012 A"],
    ["a", "1"],
    ["$1", "€2"],
    ["$1,000", "1000 kg"],
    ["$5%"],
    ["%5"],
    ["0.125.000", "1"],
    ["0.125,5", "1.5"],
    ["0 125", "4"],
    ["0'500", "4"],
    ["1,5", "1.2.3"],
    ["1,23,4"],
    ["0_125"],
]


@pytest.mark.parametrize(("cells", "delimiter", "style", "numbers"), READ)
def test_numbers_are_read_in_the_style_that_all_cells_have(cells, delimiter, style, numbers):
    found = read_numbers(pd.Series(cells, dtype=str), delimiter)
    assert found.style == style
    np.testing.assert_array_equal(found.values, numbers)


@pytest.mark.parametrize("cells", TEXTS)
def test_what_is_written_otherwise_stays_text(cells):
    for delimiter in ",;":
        found = read_numbers(pd.Series(cells, dtype=str), delimiter)
        assert found.style == "" and np.isnan(found.values[0])


def times(*cells: str) -> list[float]:
    """The numbers of these times."""
    return read_times(pd.Series(cells, name="t"), ",", lambda row: f"row {row}").tolist()


def test_times_are_numbers_or_dates_and_what_could_be_swapped_is_refused():
    assert times("3", "1.5") == [3, 1.5]
    assert times("1970-01-02", "1970-01-01 00:00:10") == [86400, 10]
    assert times("1970-01-01T01:00:00+01:00", "1970-01-01") == [0, 0]
    assert times("31.01.1970", "01.02.1970") == [30 * 86400, 31 * 86400]
    assert times("01/13/1970", "02/01/1970") == [12 * 86400, 31 * 86400]
    with pytest.raises(DataError, match="--day-first"):
        times("02/01/1970", "01/03/1970")
    with pytest.raises(DataError, match="'soon' on row 1"):
        times("1970-01-01", "soon")
    with pytest.raises(DataError, match="missing in 1 rows, first on row 0"):
        times("", "1")


def test_times_that_are_no_numbers_in_their_order_are_refused_and_far_dates_are_read():
    for cells in (("12.2023", "1.2024"), ("31122023", "01012024"), ("12312023", "01012024")):
        with pytest.raises(DataError, match="write dates like 2024-12-31"):
            times(*cells)
    assert times("20231231", "20240101") == [20231231, 20240101]
    assert times("12.2023", "13.2024") == [12.2023, 13.2024]
    assert times("9999-12-31", "1500-01-01") == [253402214400, -14831769600]


DAYS = pd.date_range("2022-01-01", periods=400)
MONTHS = pd.date_range("2019-01-01", periods=40, freq="MS")


@pytest.mark.parametrize(
    ("dates", "form"),
    [
        *((DAYS, form) for form in ("%d%m%Y", "%m%d%Y", "%d%m%y", "%m%d%y")),
        *((MONTHS, form) for form in ("%m%Y", "%m.%Y", "%m%d%Y", "%d%m%Y")),
    ],
)
def test_dates_that_begin_with_the_day_or_the_month_are_refused_however_they_are_kept(dates, form):
    written = pd.Series(dates.strftime(form), name="t", dtype=str)
    numbers = written.astype(np.float64)
    rounded = numbers.astype(np.float32).astype(np.float64) if form == "%m.%Y" else numbers
    for cells in (written, written.str.lstrip("0"), numbers, rounded):
        with pytest.raises(DataError, match="'t': .* on row 0 seems to be .*dates like 2024-12-31"):
            read_times(cells, ",", lambda row: f"row {row}")


PLAIN_TIMES = {
    "counters": [np.arange(1, 500), np.arange(9_900, 13_000), np.arange(120_500, 120_900)],
    "sevens": [np.arange(1_012_000, 1_013_000), np.arange(10_101_900, 10_102_200)],
    "years": [np.arange(1890, 2030), np.arange(1990, 2021) + 0.5],
    "seconds": [1_700_000_000 + 60 * np.arange(500), np.arange(0, 90_000, 500)],
    "fractions": [np.arange(500) / 8, np.arange(1, 30) * 0.2, np.arange(1, 13) + 0.2],
    "serial days of a spreadsheet": [np.arange(40_900, 45_000), np.arange(41_000, 41_300, 7)],
    "Julian days": [np.arange(2_455_197, 2_456_000), np.arange(60_100, 61_000)],
    "days of a year": [y * 1000 + np.arange(1, 366) for y in (2012, 2022, 2024)],
    "weeks of a year": [y * 100 + np.arange(1, 53) for y in (2010, 2012, 2024)],
    "one month": [np.array([12024, 12024, 12024]), np.array([1012024, 2012024, 3012024])],
    "few": [np.array([7]), np.array([-1012024, 1012024]), np.array([0.1, 2.0])],
}


@pytest.mark.parametrize("kind", PLAIN_TIMES)
def test_numbers_in_the_order_of_time_stay_numbers(kind):
    for values in PLAIN_TIMES[kind]:
        shuffled = np.random.default_rng(0).permutation(values)
        for cells in (pd.Series(shuffled.astype(np.float64)), pd.Series(shuffled.astype(str))):
            found = read_times(cells, ",", lambda row: f"row {row}")
            np.testing.assert_array_equal(found, shuffled.astype(np.float64))


@pytest.mark.parametrize("form", ["%Y%m%d", "%y%m%d", "%Y%m", "%Y"])
def test_dates_that_begin_with_the_year_may_be_numbers(form):
    for first, step, n in (("2022-01-01", "D", 400), ("2001-01-01", "D", 9000)):
        dates = pd.date_range(first, periods=n, freq=step)
        for some in (dates, dates[dates.day == 1], dates[::37]):
            numbers = pd.Series(some.strftime(form).astype(np.float64))
            assert read_times(numbers, ",", str).tolist() == numbers.tolist()


def test_a_known_style_reads_each_cell_by_itself():
    texts = pd.Series(["1,234", "12,5", "1.234", "7", "-9", "", "1.5", "a"], dtype=str)
    found = numbers_in_style(texts, "decimal commas", ["-9"])
    wanted = [1.234, 12.5, 1234, 7, np.nan, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(found.values, wanted)
    assert found.missing.tolist() == [False] * 4 + [True] * 2 + [False] * 2
    assert (found.style, found.example) == ("decimal commas", ("1,234", 1.234))
    signed = pd.Series(["$7", "8", "€9", "$1,5", "10%"], dtype=str)
    np.testing.assert_array_equal(
        numbers_in_style(signed, "'$'").values, [7, 8, np.nan, np.nan, np.nan]
    )
    alone = numbers_in_style(pd.Series(["7"], dtype=str), "decimal commas")
    assert (alone.values.tolist(), alone.style) == ([7], "")


def columns_of_all_sorts(n: int) -> pd.DataFrame:
    """Columns of numbers in which something may be odd; their names begin with "plain" where all
    cells are short plain numbers or gaps."""
    rng = np.random.default_rng(n)
    fine, whole = rng.standard_normal(n), rng.integers(-3, 4, n)
    days = pd.date_range("2001-01-01", periods=n).strftime
    found = {
        "plain": [f"{x:.4f}" for x in fine],
        "plain, padded": [f"{x:.2f}" for x in fine],
        "plain, gaps": ["?" if x > 1 else f"{x:.3f}" for x in fine],
        "plain, whole and gaps": ["" if x > 2 else str(x) for x in whole],
        "plain, two values": [str(x % 2) for x in whole],
        "plain, versions": [("1.1", "1.10", "1.2")[x % 3] for x in whole],
        "plain, counted": [str(x) for x in range(n)],
        "plain, days": list(days("%Y%m%d")),
        "plain, months": [f"{10 + x % 3}.{1960 + k % 60}" for k, x in enumerate(whole)],
        "plain, -0 and fractions": ["-0", "0.5", *map(str, whole)][:n],
        "-0 among whole ones": ["-0", "1", *map(str, whole)][:n],
        "codes": [f"0{x % 7}" for x in whole],
        "exponents": [f"{x:.1e}" for x in fine],
        "long": [f"{x:.17f}" for x in fine],
        "infinite": ["inf", *(f"{x:.3f}" for x in fine)][:n],
        "words": ["n/a" if x > 1 else f"{x:.3f}" for x in fine],
        "empty": [""] * n,
        "commas": [f"{x:.2f}".replace(".", ",") for x in fine],
        "texts": [f"v{x}" for x in whole],
    }
    frame = pd.DataFrame(found, dtype=str)
    numbers = {"plain floats": fine, "plain float gaps": np.where(fine > 1, np.nan, fine)}
    numbers |= {"infinite floats": np.where(fine > 1, np.inf, fine), "no floats": fine * np.nan}
    return frame.assign(**numbers, **{"plain float days": found["plain, days"]}).astype(
        {"plain float days": float}
    )


@pytest.mark.parametrize("n", [30, 150])
@pytest.mark.parametrize("marks", [(), ("?", "lost"), ("2",)])
def test_columns_that_are_told_together_are_what_each_is_alone(n, marks):
    frame = columns_of_all_sorts(n)
    told = dict(plain_kinds(frame, list(frame), marks))
    assert list(told) == list(frame)
    plain = {name for name in frame if name.startswith("plain")} if "2" not in marks else set()
    assert {name for name, kind in told.items() if kind} == plain
    for name in plain:
        kind, alone = told[name], kind_of(frame[name], marks=marks)
        assert (kind.word, kind.style, kind.notes) == (alone.word, alone.style, alone.notes)
        assert kind.numbers.values.tobytes() == alone.numbers.values.tobytes()
        np.testing.assert_array_equal(kind.missing, alone.missing)
