"""Laws of the notations: what is written in any of them reads back as itself, alone and mixed."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tabsweep.common.columns.dates import is_style, parsed
from tabsweep.common.columns.durations import DURATIONS, read_durations
from tabsweep.common.columns.kinds import kind_of
from tabsweep.common.columns.levels import Levels, spelt_alike
from tabsweep.common.columns.notations import WORDS
from tabsweep.common.columns.numbers import is_number_style, numbers_in_style


def grouped(number: float, mark: str, point: str) -> str:
    return f"{number:,.2f}".replace(",", "\0").replace(".", point).replace("\0", mark)


def lakh(number: float) -> str:
    whole, _, rest = f"{abs(number):.2f}".partition(".")
    head, tail = whole[:-3], whole[-3:]
    pairs = []
    while head:
        pairs.insert(0, head[-2:])
        head = head[:-2]
    return ("-" if number < 0 else "") + ",".join([*pairs, tail]) + "." + rest


def behind(number: float, sign: str) -> str:
    return f"{number:.2f}{sign}"


NUMBERS: dict[str, Callable[[float], str]] = {
    "plain": lambda v: f"{v:.2f}",
    "exponent": lambda v: f"{v:.8e}",
    "decimal comma": lambda v: f"{v:.2f}".replace(".", ","),
    "commas": lambda v: grouped(v, ",", "."),
    "points": lambda v: grouped(v, ".", ","),
    "spaces": lambda v: grouped(v, "\u202f", ","),
    "apostrophes": lambda v: grouped(v, "'", "."),
    "lakh": lakh,
    "$": lambda v: f"${v:.2f}".replace("$-", "-$"),
    "€ behind": lambda v: grouped(v, ".", ",") + " €",
    "₹": lambda v: "₹" + lakh(v),
    "R$": lambda v: "R$ " + grouped(v, ".", ","),
    "USD": lambda v: "USD " + grouped(v, ",", "."),
    "zł": lambda v: grouped(v, " ", ",") + " zł",
    "percent": lambda v: behind(v, "%"),
    "unit": lambda v: behind(v, " kg"),
    "unit with a stop": lambda v: f"{v:.2f}".replace(".", ",") + " Std.",
    "minus sign": lambda v: f"{v:.2f}".replace("-", "\u2212"),
    "parentheses": lambda v: f"({-v:.2f})" if v < 0 else f"{v:.2f}",
    "minus behind": lambda v: f"{-v:.2f}-" if v < 0 else f"{v:.2f}",
    "money in parentheses": lambda v: f"(${-v:,.2f})" if v < 0 else f"${v:,.2f}",
    "about": lambda v: f"~{v:.2f}",
    "power of ten": lambda v: f"{v / 1000:.5f} × 10^3",
    "no cents": lambda v: grouped(v, ".", ",").replace(",00", ",-"),
    "full width": lambda v: f"{v:.2f}".translate({48 + k: 0xFF10 + k for k in range(10)}),
}
SCALED: dict[str, Callable[[float], str]] = {  # a number of one, in two notations of other scales
    "percent and share": lambda v: f"{v:.4f}",
    "as percent": lambda v: f"{100 * v:.2f}%",
}
DATES: dict[str, Callable[[datetime], str]] = {
    "ISO": lambda d: d.strftime("%Y-%m-%d"),
    "unpadded": lambda d: f"{d.year}-{d.month}-{d.day}",
    "points": lambda d: d.strftime("%Y.%m.%d"),
    "slashes": lambda d: d.strftime("%Y/%m/%d"),
    "month by name": lambda d: d.strftime("%d %b %Y"),
    "American": lambda d: d.strftime("%B %d, %Y"),
    "weekday": lambda d: d.strftime("%A, %B %d, %Y"),
    "German": lambda d: f"{d.day}. {MONTHS[d.month - 1]} {d.year}",
    "Chinese": lambda d: d.strftime("%Y年%m月%d日"),
    "with a time": lambda d: d.strftime("%Y-%m-%d 00:00:00"),
    "offset of hours": lambda d: d.strftime("%Y-%m-%d 00:00:00+00"),
    "milliseconds": lambda d: d.strftime("%Y-%m-%d 00:00:00,000"),
    "basic": lambda d: d.strftime("%Y%m%dT000000"),
    "half days": lambda d: d.strftime("%Y-%m-%d 12:00:00 AM"),
    "mail": lambda d: d.strftime("%a, %d %b %Y 00:00:00 GMT"),
    "access log": lambda d: d.strftime("%d/%b/%Y:00:00:00 +0000"),
    "SAS": lambda d: d.strftime("%d%b%Y").upper(),
    "ctime": lambda d: d.strftime("%a %b %d 00:00:00 +0000 %Y"),
}
MONTHS = (
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()
)
PERIODS: dict[str, Callable[[datetime], str]] = {
    "Dec-2015": lambda d: d.strftime("%b-%Y"),
    "12/2015": lambda d: d.strftime("%m/%Y"),
    "2015-12": lambda d: d.strftime("%Y-%m"),
    "December 2015": lambda d: d.strftime("%B %Y"),
    "Dec-15": lambda d: d.strftime("%b-%y"),
}

amounts = st.lists(
    st.integers(-99_999_999, 99_999_999).map(lambda v: v / 100), min_size=60, max_size=90
)
days = st.lists(
    st.integers(0, 18_000).map(lambda n: datetime(1975, 1, 1) + timedelta(days=n)),
    min_size=60,
    max_size=90,
)
words = st.text(string.ascii_lowercase, min_size=6, max_size=9).map(lambda text: f"zz{text}")
few = settings(max_examples=5, deadline=None)


def read(texts: list[str], delimiter: str = ",") -> tuple[np.ndarray, str]:
    """(the numbers of a column, its style); each cell reads so by itself, too."""
    cells = pd.Series(texts, dtype=str, name="x").str.strip()
    kind = kind_of(cells, delimiter=delimiter)
    assert kind.word == "numeric" and kind.numbers is not None, kind
    assert is_number_style(kind.style)
    again = numbers_in_style(cells, kind.style)
    np.testing.assert_array_equal(again.values, kind.numbers.values)
    return kind.numbers.values, kind.style


@pytest.mark.parametrize("notation", NUMBERS)
@few
@given(values=amounts)
def test_numbers_in_any_notation_read_back_as_themselves(
    notation: str, values: list[float]
) -> None:
    values = [*values, 1234.56, -0.25, 12.5]  # some that need the marks
    np.testing.assert_allclose(read([*map(NUMBERS[notation], values)])[0], values, rtol=1e-8)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("plain", "minus sign"),
        ("plain", "parentheses"),
        ("plain", "minus behind"),
        ("plain", "commas"),
        ("plain", "exponent"),
        ("plain", "$"),
        ("plain", "percent"),
        ("plain", "unit"),
        ("plain", "full width"),
        ("$", "money in parentheses"),
        ("commas", "lakh"),
        ("points", "decimal comma"),
        ("plain", "decimal comma"),
    ],
)
@few
@given(values=amounts, data=st.data())
def test_two_notations_in_a_column_give_the_values_of_one(
    one: str, other: str, values: list[float], data: st.DataObject
) -> None:
    values = [1234.56, -0.25, 12.5, -17.75, *values]
    which = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    which[:4] = [True, False, True, False]
    texts = [NUMBERS[one if first else other](v) for first, v in zip(which, values, strict=True)]
    if {one, other} == {"plain", "unit"} and sum(not first for first in which) < 0.2 * len(which):
        return  # letters behind few numbers are no unit of all
    if other == "percent":  # 40% is 0.4 where that is nearer to the plain numbers than 40
        sizes = [
            {t: abs(v) for t, v, f in zip(texts, values, which, strict=True) if v and f == plain}
            for plain in (True, False)
        ]
        near, signed = (np.median([*part.values()]) for part in sizes)
        if signed > 10 * near:
            values = [v if f else v / 100 for v, f in zip(values, which, strict=True)]
    np.testing.assert_allclose(read(texts)[0], values, rtol=1e-8)


@few
@given(st.lists(st.integers(500, 9999), min_size=60, max_size=90), st.data())
def test_percentages_beside_shares_are_shares(parts: list[int], data: st.DataObject) -> None:
    values = [part / 10_000 for part in parts]
    which = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    which[:2] = [True, False]
    how = [*SCALED.values()]
    texts = [how[first](v) for first, v in zip(which, values, strict=True)]
    np.testing.assert_allclose(read(texts)[0], values, rtol=1e-9)


@pytest.mark.parametrize(
    ("units", "factors"),
    [
        (("kg", "g"), (1, 1e-3)),
        (("km", "m", "cm"), (1e3, 1, 1e-2)),
        (("h", "min"), (60, 1)),
        (("K", "M"), (1e3, 1e6)),
        (("", "k", "M"), (1, 1e3, 1e6)),
        (("Tsd. €", "Mio. €"), (1e3, 1e6)),
        (("sqft", "sqm"), (0.09290304, 1)),
        (("mph", "km/h"), (1.609344, 1)),
        (("room", "rooms"), (1, 1)),
        (("KG", "lbs", "kilograms"), (1, 0.45359237, 1)),
        (("°N", "°S"), (1, -1)),
    ],
)
def test_units_and_magnitudes_of_one_thing_are_one_scale(
    units: tuple[str, ...], factors: tuple[float, ...]
) -> None:
    sizes = np.random.default_rng(0).integers(1, 900, 120) / 4
    at = np.arange(120) % len(units)
    texts = [f"{v:g} {units[k]}".strip() for v, k in zip(sizes, at, strict=True)]
    found, _ = read(texts)
    ratio = found / (sizes * np.array(factors)[at])
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


@pytest.mark.parametrize("notation", DATES)
@few
@given(moments=days)
def test_dates_in_any_notation_read_back_as_themselves(
    notation: str, moments: list[datetime]
) -> None:
    cells = pd.Series([*map(DATES[notation], moments)], dtype=str, name="x")
    kind = kind_of(cells)
    assert kind.word == "date" and is_style(kind.style), kind
    assert parsed(cells, kind.style).tolist() == [pd.Timestamp(d) for d in moments]


@pytest.mark.parametrize("other", [name for name in DATES if name != "ISO"])
def test_two_notations_of_dates_in_a_column_give_the_dates_of_one(other: str) -> None:
    moments = [datetime(2019, 1, 28) + timedelta(days=7 * k) for k in range(80)]
    texts = [DATES["ISO" if k % 3 else other](day) for k, day in enumerate(moments)]
    cells = pd.Series(texts, dtype=str, name="x")
    kind = kind_of(cells)
    assert kind.word == "date" and is_style(kind.style), kind
    assert parsed(cells, kind.style).tolist() == [pd.Timestamp(d) for d in moments]


@pytest.mark.parametrize("notation", PERIODS)
def test_periods_are_their_first_day(notation: str) -> None:
    moments = [datetime(1995 + k // 12, 1 + k % 12, 1) for k in range(120)]
    cells = pd.Series([*map(PERIODS[notation], moments)], dtype=str, name="x")
    kind = kind_of(cells)
    assert kind.word == "date"
    assert parsed(cells, kind.style).tolist() == [pd.Timestamp(d) for d in moments]


@few
@given(st.lists(st.integers(0, 400_000), min_size=40, max_size=60))
def test_durations_in_any_notation_are_seconds(seconds: list[int]) -> None:
    parts = [(s // 86400, s % 86400 // 3600, s % 3600 // 60, s % 60) for s in seconds]
    for texts in (
        [f"{24 * d + h}:{m:02}:{s:02}" for d, h, m, s in parts],
        [f"{d} days {h:02}:{m:02}:{s:02}" for d, h, m, s in parts],
        [f"{d}d {h}h {m}m {s}s" for d, h, m, s in parts],
        [f"P{d}DT{h}H{m}M{s}S" for d, h, m, s in parts],
        [str(timedelta(seconds=s)) for s in seconds],
    ):
        found, style = read_durations(pd.Series(texts, dtype=str))
        assert style == DURATIONS
        np.testing.assert_array_equal(found, seconds)


@pytest.mark.parametrize(
    ("write", "size"),
    [
        (lambda n: f"{n // 12}'{n % 12}\"", 1),
        (lambda n: f"{n // 12} ft {n % 12} in", 1),
        (lambda n: f"{n // 16} lb {n % 16} oz", 1),
        (lambda n: f"{n // 12} years {n % 12} months", 1),
        (lambda n: f"{n // 12}y {n % 12}m", 1),
        (lambda n: f"{n // 60}°{n % 60}'", 60),
    ],
)
def test_quantities_in_several_units_are_one_number(
    write: Callable[[int], str], size: float
) -> None:
    wholes = np.random.default_rng(0).integers(1, 2000, 80)
    np.testing.assert_allclose(read([*map(write, wholes)])[0] * size, wholes, rtol=1e-12)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([f"{20150101 + 100 * (k % 12) + k % 28}" for k in range(90)], "%Y%m%d.*--date"),
        ([f"{1429199679 + 86399 * k}" for k in range(90)], "seconds since 1970.*--date"),
        ([f"{1 + k % 12:02}.{2000 + k % 20}" for k in range(90)], "%m.%Y.*--date"),
        ([f"{2**53 + 7919 * k}" for k in range(90)], "beyond 2\\^53.*--categorical"),
        ([f"{k} °{'CF'[k % 2]}" for k in range(90)], "several signs"),
    ],
)
def test_what_may_be_something_else_is_told_with_the_option(cells: list[str], told: str) -> None:
    assert re.search(told, " ".join(kind_of(pd.Series(cells, dtype=str, name="x")).notes))


@pytest.mark.parametrize("notation", [*NUMBERS, *DATES, *PERIODS])
@few
@given(data=st.data())
def test_a_few_foreign_words_change_no_kind_and_are_counted(
    notation: str, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    n = 200
    if notation in NUMBERS:
        values = rng.integers(-(10**8), 10**8, n) / 100
        texts = [NUMBERS[notation](float(v)) for v in [1234.56, -0.25, 12.5, *values]]
    else:
        write = {**DATES, **PERIODS}[notation]
        some = rng.integers(0, 18_000, n)
        texts = [write(datetime(1975, 1, 1) + timedelta(days=int(k))) for k in some]
    clean = kind_of(pd.Series(texts, dtype=str, name="x"))
    at = rng.choice(np.arange(3, len(texts)), round(0.03 * len(texts)), replace=False)
    foreign = data.draw(st.lists(words, min_size=len(at), max_size=len(at)))
    for place, word in zip(at, foreign, strict=True):
        texts[place] = word
    kind = kind_of(pd.Series(texts, dtype=str, name="x"))
    assert (kind.word, kind.style) == (clean.word, clean.style)
    assert sum(kind.odd.values()) == len(at) and set(kind.odd) == set(foreign)
    assert f"{len(at)} text" in " ".join(kind.notes)


@pytest.mark.parametrize("mark", sorted(WORDS))
def test_marks_of_a_missing_value_are_gaps_among_numbers_and_dates(mark: str) -> None:
    for texts in ([f"{k}.5" for k in range(60)], [f"2024-01-{1 + k % 28:02}" for k in range(60)]):
        for written in (mark, mark.upper()):
            cells = pd.Series([*texts, *[written] * 12], dtype=str, name="x")
            kind = kind_of(cells)
            assert kind.word in ("numeric", "date") and kind.missing.sum() == 12, written
            assert not kind.odd


@given(st.lists(st.text(string.ascii_letters, min_size=2, max_size=8), min_size=1, unique=True))
def test_levels_are_found_however_they_are_written(levels: list[str]) -> None:
    known = Levels(levels)
    alone = {level for level in levels if not any(level in group for group in spelt_alike(levels))}
    for level in levels:
        assert known.of(level) == level
        if level in alone:
            for other in (
                f" {level}",
                level.upper(),
                level.swapcase(),
                f"{level}.",
                f"{level}\u200b",
            ):
                assert known.of(other) == level
    assert known.of("no such level") == "no such level"


@pytest.mark.parametrize(
    "known", [[1, 2, 30], [1.0, 2.0, 30.0], ["1", "2", "30"], ["1.0", "2", "30"]]
)
def test_numbers_and_their_texts_are_one_level(known: list[object]) -> None:
    found = Levels(known)
    for value in (1, 1.0, np.int64(1), "1", "1.0", " 1 "):
        assert found.of(value) == known[0], value
    assert found.of(7) == 7 and found.of("007") == "007"


def documented() -> list[tuple[str, list[str], list[str]]]:
    """(notation, cells of a column, what they are read as) of each row of the table in the docs."""
    text = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
    table = text.split("| notation | cells of a column | read as |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return [
        (name, re.findall(r"`([^`]+)`", cells), re.findall(r"`([^`]+)`|(gap)", read))
        for name, cells, read in rows
    ]


@pytest.mark.parametrize(("name", "cells", "read"), documented(), ids=lambda v: str(v)[:20])
def test_the_documented_notations_are_read_as_documented(
    name: str, cells: list[str], read: list[tuple[str, str]]
) -> None:
    column = pd.Series(cells * 10, dtype=str, name="x")
    kind = kind_of(column)
    wanted = [value for value, _ in read]
    assert len(wanted) == len(cells)
    if kind.numbers is not None and kind.word == "numeric":
        found = kind.numbers.values[: len(cells)]
        np.testing.assert_allclose(found, [float(v) if v else np.nan for v in wanted], rtol=1e-12)
    elif kind.word == "date":
        dates = parsed(column, kind.style).tolist()[: len(cells)]
        assert dates == [pd.Timestamp(value) for value in wanted]
    else:
        assert kind.word == "categorical" and wanted == cells


SILENT_NO_MORE = {  # cells of a column of 60 rows, and what its notes name
    "two currencies": ([f"{'$€'[k % 2]}{k}.50" for k in range(60)], "several signs"),
    "a few euros among dollars": (
        [f"{'€' if k == 7 else '$'}{k}.50" for k in range(60)],
        "'€7.50'",
    ),
    "amounts and words": ([f"{k}.5" if k % 4 else f"word {k}" for k in range(60)], "mixes 45"),
    "dates and words": ([f"2024-01-{k % 28 + 1:02}" if k else "soon" for k in range(60)], "'soon'"),
    "no such day": ([f"2024-02-{k % 31 + 1:02}" for k in range(60)], "'2024-02-30'"),
    "codes with an E": ([f"{k}E{k % 4}" for k in range(60)], "--categorical"),
    "versions": (["1.1", "1.10", "1.2"] * 20, "'1.10'"),
    "postal codes": ([f"0{k}" for k in range(60)], "leading zeros"),
    "times of day": ([f"{k % 24:02}:{k:02}" for k in range(60)], "--numeric"),
    "several zones": ([f"2024-01-01T10:{k:02}:00+0{k % 3}:00" for k in range(60)], "offsets"),
    "several forms": (
        [f"2024-01-{k % 28 + 1:02}" if k else "31.01.2024" for k in range(60)],
        "several",
    ),
}


@pytest.mark.parametrize("case", SILENT_NO_MORE)
def test_what_is_doubtful_in_a_column_is_said(case: str) -> None:
    texts, named = SILENT_NO_MORE[case]
    kind = kind_of(pd.Series(texts, dtype=str, name="x"))
    assert named in " ".join(kind.notes), kind


def test_different_whole_numbers_in_all_rows_are_told() -> None:
    ids = np.random.default_rng(0).permutation(1500) + 10_000
    for cells in (pd.Series(ids.astype(str), name="x"), pd.Series(ids.astype(float), name="x")):
        assert "1,500 different whole numbers in 1,500 rows" in kind_of(cells).notes[0]
    assert not kind_of(pd.Series(ids // 2, dtype=float, name="x")).notes
