"""Dates and times: the ways in which a column writes them, and their moments.

pandas reads ISO 8601 and the forms of strptime. What is left and can only be one date (a month by
its name, a quarter, a week) is written as ISO 8601 first, by `calendar.iso_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from ..text import one_line
from .calendar import NOTATIONS, OFFSET, iso_of, plain_date
from .notations import MISSING, WORDS

ISO = "ISO 8601"
"""2024-01-31, also with a time and an offset to UTC."""
LOCAL = "ISO 8601 in local time"
"""The same, where a column has several offsets to UTC: day and hour are those of the place."""

_ISO_CELL = re.compile(
    r"\d{4}-\d{2}(-\d{2}([ T]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?)?)?( ?(Z|UTC|[-+]\d{2}:?\d{2}))?"
)
_DAYS = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%Y/%m/%d"),
    "%Y年%m月%d日",
    *("%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
CLOCK = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I %p")
FORMS = (*(day + time for day, time in product(_DAYS, _TIMES)), *("%b %Y", "%B %Y"), *CLOCK)
EPOCH = {"seconds since 1970": "s", "milliseconds since 1970": "ms"}
NUMBERS = ("%Y%m%d", "%Y%m", "%y%m%d", "%m.%Y", "%Y", *EPOCH)
"""Dates that are written as numbers: these are read as dates only where that is asked for."""
_DIGITS = re.compile(r"\d{6}|\d{8}|\d{9,10}|\d{12,13}|\d\d\.\d{4}")  # of one of NUMBERS, but a year
_YEARS = (1900, 2100)  # of numbers that may be dates
AND = " or "  # between the forms of a column that has several
_PARTS = {  # of a form -> what strptime takes for it at most
    **dict.fromkeys(("%d", "%m", "%H", "%I", "%M", "%S"), r"[ \d]?\d"),
    **{"%Y": r"\d{4}", "%y": r"\d\d", "%p": r".{0,12}", " ": r"\s+"},
    **dict.fromkeys(("%b", "%B"), r".{1,20}"),
}
_SHAPES = {
    form: re.compile(
        "".join(_PARTS.get(part, re.escape(part)) for part in re.findall(r"%\w|[^%]", form))
    )
    for form in (*FORMS, *NUMBERS)
    if form not in EPOCH
}
_A_SHAPE = re.compile("|".join(sorted({shape.pattern for shape in _SHAPES.values()})))

SAMPLED = 20  # texts that are tried before all are
LONGEST = 100  # characters of a date: each form tries a run of blanks again and again
_NO_DATE = re.compile(r"0000-00-00([ T]00:00(:00(\.0+)?)?)?")  # a gap, as MySQL writes it
_NANOSECONDS = re.compile(r"([.,]\d{6})\d+")
_IN_DIGITS = re.compile(r"\d{1,2}[-./]\d{1,2}[-./]\d{2,4}\b.*|\d{1,2}(:\d\d.*| ?[AaPp]\.?[Mm]\.?)")


class DateError(ValueError):
    """Texts that are dates in several ways, or in no one way."""


class NoMoment(ValueError):
    """A column of dates has another value in `row`, from 0."""

    def __init__(self, column: pd.Series, row: int) -> None:
        shown = one_line(repr(column.iloc[row]), 120)
        super().__init__(
            f"column {column.name!r} holds dates in training and {shown} now; write dates as "
            "2024-01-31"
        )
        self.row = row


@dataclass(frozen=True)
class Dates:
    """How the texts of a column are dates: the `form`, and which of them are (N,)."""

    form: str
    fits: np.ndarray


def is_style(form: str) -> bool:
    """Whether `form` is the name of a way to write dates."""
    known = {ISO, LOCAL, *FORMS, *NUMBERS, *NOTATIONS}
    return all(part in known for part in form.split(AND))


def is_no_date(text: str) -> bool:
    """Whether a text stands for a missing date.

    >>> is_no_date("0000-00-00"), is_no_date("n/a"), is_no_date("2024-01-31")
    (True, True, False)
    """
    plain = text.strip()
    return plain in MISSING or plain.lower() in WORDS or bool(_NO_DATE.fullmatch(plain))


def form_of(texts: Iterable[str], day_first: bool | None = None, *, numbers: bool = False) -> str:
    """The form in which all texts are dates: ISO, one of FORMS, a notation of the calendar, or
    several of these; "" where a text is no date.

    day_first: whether the day stands before the month where both orders fit. numbers: whether dates
    that are written as numbers count. DateError where both orders fit and nobody said which.

    >>> form_of(["31/12/2024", "01/02/2024"]), form_of(["12/31/2024"]), form_of(["red"])
    ('%d/%m/%Y', '%m/%d/%Y', '')
    >>> form_of(["Dec-2015", "Jan-2016"]), form_of(["2015Q3"])
    ('month and year', 'quarter')
    """
    different = list(dict.fromkeys(text.strip() for text in texts if not is_no_date(text)))
    if not different:
        return ""
    if form := _one_form(different, day_first, numbers=numbers):
        return form
    found = read_dates(different, np.ones(len(different)), day_first)
    return found.form if found is not None and found.fits.all() else ""


def _one_form(different: list[str], day_first: bool | None, *, numbers: bool) -> str:
    """The form of pandas that all texts have, "" for none."""
    known = (ISO, *FORMS, *(NUMBERS if numbers else ()))
    fits = [form for form in known if _fits(different[0], form) and _all_fit(different, form)]
    return _decided(fits, different, day_first) if fits else ""


def _decided(fits: list[str], texts: Sequence[str], day_first: bool | None) -> str:
    """The first of the forms that all texts have; DateError where they give several dates."""
    moments = {tuple(parsed(texts, form)): form for form in reversed(fits)} if fits[1:] else {}
    if day_first is not None:
        fits = [f for f in fits if (f.find("%d") < f.find("%m")) == day_first] or fits
    elif len(moments) > 1:
        raise DateError(
            f"{texts[0]!r} may begin with the day or the month ({' or '.join(fits)}): say "
            "which (--day-first, --month-first)"
        )
    return fits[0]


def dates_in(present: pd.Series, day_first: bool | None = None) -> Dates | None:
    """How most of the texts (N,) of a column are dates, with `fits` of each of them; None and
    DateError as for `read_dates`."""
    codes, texts = pd.factorize(present.str.strip())
    different = [str(text) for text in texts]
    if form := _one_form(different, day_first, numbers=False):
        return Dates(form, np.ones(len(present), dtype=bool))
    found = read_dates(different, np.bincount(codes), day_first)
    return found and Dates(found.form, found.fits[codes])


def read_dates(
    texts: Sequence[str], weights: np.ndarray, day_first: bool | None = None
) -> Dates | None:
    """How most of the different texts (N,) are dates; None where less than half of a sample is.

    weights: (N,) how often each occurs. Texts that can be one date only are read one by one; of
    those in digits the order of day and month is decided together. DateError as for `form_of`.
    """
    some = texts[:: len(texts) // SAMPLED + 1]
    if sum(not _form(text) for text in some) > len(some) / 2:  # most columns of texts
        return None
    named = [iso_of(text) for text in texts]
    fits = np.array([not np.isnat(moment) for moment in _moments_of(texts, ISO, named)])
    forms = {ISO: float(weights[fits & np.array([name == "" for name, _ in named])].sum())}
    for name in NOTATIONS:
        of_name = fits & np.array([other == name for other, _ in named])
        forms[name] = float(weights[of_name].sum())
    left = np.flatnonzero(~fits & np.array([bool(_IN_DIGITS.fullmatch(t)) for t in texts]))
    if len(left):
        rest = [plain_date(texts[int(at)]) for at in left]
        by_form = {form: ~parsed(rest, form).isna().to_numpy() for form in _in_digits(rest)}
        most = max((int(mask.sum()) for mask in by_form.values()), default=0)
        best = [form for form, mask in by_form.items() if mask.sum() == most > 0]
        if best:
            there = [text for text, fit in zip(rest, by_form[best[0]], strict=True) if fit]
            form = _decided(best, there, day_first)
            fits[left[by_form[form]]] = True
            forms[form] = float(weights[left[by_form[form]]].sum())
    ranked = sorted((form for form, n in forms.items() if n), key=lambda form: -forms[form])
    if not ranked:
        return None
    there = [text for text, fit in zip(texts, fits, strict=True) if fit]
    return Dates(_one_form(there, day_first, numbers=False) or AND.join(ranked), fits)


def _in_digits(texts: Sequence[str]) -> list[str]:
    """The forms of digits alone that one of the texts has, or all of a sample."""
    some = list(dict.fromkeys(texts))[:SAMPLED]
    return [form for form in FORMS if any(_fits(text, form) for text in some)]


def offsets_vary(texts: Iterable[str]) -> bool:
    """Whether texts of dates name several offsets to UTC, so that their hours of the day are others
    than in UTC."""
    found = set()
    for text in texts:
        if (zone := OFFSET.search(text)) is not None:
            found.add(zone[2].replace(":", "").removesuffix("00") or "Z")
        if len(found) > 1:
            return True
    return False


def first_no_date(texts: Iterable[str]) -> str:
    """The first text that is no date in any form, such as 2023-02-30; "" where there is none, and
    where less than half of the texts are dates."""
    different = [text.strip() for text in dict.fromkeys(texts) if not is_no_date(text)]
    some = different[:SAMPLED]
    if sum(not _form(text) for text in some) > len(some) / 2:  # most columns of texts
        return ""
    odd = [text for text in different if not _form(text)]
    return odd[0] if odd and len(odd) <= len(different) / 2 else ""


def _form(text: str, known: Iterable[str] = (ISO, *FORMS)) -> str:
    """The first form in which a text is a date, "" for none."""
    if len(text) > LONGEST:
        return ""
    named, iso = iso_of(text)
    if iso and not pd.isna(pd.to_datetime(iso, format="ISO8601", errors="coerce", utc=True)):
        return named or ISO
    plain = plain_date(text) if text[:1].isdigit() else text
    if not _A_SHAPE.fullmatch(plain) and not _ISO_CELL.fullmatch(plain):
        return ""
    return next((form for form in known if _fits(plain, form)), "")


def _fits(text: str, form: str) -> bool:
    if len(text) > LONGEST:
        return False
    if form == ISO:
        return bool(_ISO_CELL.fullmatch(text)) and _all_fit([text], ISO)
    if form in EPOCH:
        return numbers_as_dates([text]) == form
    if not _SHAPES[form].fullmatch(text):  # strptime takes a hundred times as long to say so
        return False
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _all_fit(texts: list[str], form: str) -> bool:
    written = form != ISO or all(map(_ISO_CELL.fullmatch, texts))
    return written and not parsed(texts, form).isna().any()


def parsed(values: Iterable[Any], form: str) -> pd.Series:
    """Texts, and moments among them, as datetimes in UTC without a zone (LOCAL: with the day and
    the hour of the place), to the microsecond; NaT for what is missing or not in this form. A
    number counts as the text of its digits: 20241231."""
    codes, different = pd.factorize(np.array([*values, None], dtype=object)[:-1])
    column = pd.Series([_to_microseconds(value) for value in different], dtype=object)
    found = pd.Series(pd.NaT, index=column.index, dtype="datetime64[us]")
    for part in form.split(AND):
        left = found.isna() & column.notna()
        if left.any():
            found[left] = _parsed(column[left], part)
    every = np.append(found.to_numpy(), np.datetime64("NaT"))[codes]
    return pd.Series(every, dtype="datetime64[us]")


def _parsed(column: pd.Series, form: str) -> pd.Series:
    if form in (ISO, LOCAL, *NOTATIONS):
        local = form == LOCAL
        taken = column.map(_without_offset) if local else column
        found = _to_datetimes(taken, "ISO8601")
        left = found.isna().to_numpy() & column.map(lambda v: isinstance(v, str)).to_numpy()
        if left.any():
            texts = list(taken[left])
            found[left] = _moments_of(texts, form, [iso_of(text) for text in texts])
        return found
    found = _to_datetimes(column, form)
    if found.isna().any():
        plain = column.map(lambda v: plain_date(v) if isinstance(v, str) else v)
        found = found.where(found.notna(), _to_datetimes(plain, form))
    return found


def _moments_of(texts: Sequence[str], form: str, named: list[tuple[str, str]]) -> np.ndarray:
    """(N,) moments of the texts that `iso_of` knows and of what it made of them; NaT elsewhere."""
    values = [iso or None for name, iso in named]
    return _to_datetimes(pd.Series(values, dtype=object), "ISO8601").to_numpy()


def _to_datetimes(column: pd.Series, form: str) -> pd.Series:
    if form in EPOCH:
        column = pd.to_numeric(column, errors="coerce").astype(np.float64)
        found = pd.to_datetime(column, unit=EPOCH[form], utc=True, errors="coerce")
    else:
        found = pd.to_datetime(column, format=form, utc=True, errors="coerce")
    return found.dt.tz_localize(None).dt.as_unit("us")


def numbers_as_dates(texts: Sequence[str]) -> str:
    """The form in which different numbers, as texts, may all be dates of these days; "" for none.
    Years alone are numbers as well as dates.

    >>> numbers_as_dates(["20240131", "20231224"]), numbers_as_dates(["1429199679"])
    ('%Y%m%d', 'seconds since 1970')
    """
    for form in NUMBERS if all(map(_DIGITS.fullmatch, texts)) else ():
        years = parsed(texts, form).dt.year
        if form != "%Y" and years.between(*_YEARS if form not in EPOCH else (1990, 2040)).all():
            return form
    return ""


def _without_offset(value: Any) -> Any:
    if isinstance(value, pd.Timestamp):
        return value.tz_localize(None)
    return OFFSET.sub(r"\1", value) if isinstance(value, str) else value


def _to_microseconds(value: Any) -> Any:
    """A moment, or the text of one ("Z" for "UTC"), without digits after the microseconds, as years
    after 2262 have no nanoseconds; None for a gap."""
    if isinstance(value, pd.Timestamp):
        return value.as_unit("us")
    if isinstance(value, int | float | np.number):
        value = f"{value:.0f}"
    if not isinstance(value, str):
        return value
    plain = value.strip()
    bare = plain.removesuffix("UTC").strip() + ("Z" if plain.endswith("UTC") else "")
    return None if is_no_date(plain) else _NANOSECONDS.sub(r"\1", bare)


def moments(column: pd.Series, form: str = ISO) -> pd.Series:
    """Datetimes, periods, dates, or texts in `form` or ISO, as datetimes in UTC without a zone and
    with an index from 0 (LOCAL: with the day and the hour of the place); NoMoment where a value is
    none."""
    found, wrong = readable_moments(column, form)
    if wrong.any():
        raise NoMoment(column.reset_index(drop=True), int(np.argmax(wrong)))
    return found


def readable_moments(column: pd.Series, form: str = ISO) -> tuple[pd.Series, np.ndarray]:
    """(as `moments`, NaT for a value that is none; (N,) which values are none)."""
    if isinstance(column.dtype, pd.ArrowDtype):
        column = column.array.__arrow_array__().to_pandas().rename(column.name)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    column = column.reset_index(drop=True)
    if types.is_datetime64_any_dtype(column.dtype):
        if getattr(column.dtype, "tz", None) is not None:
            column = (column if form == LOCAL else column.dt.tz_convert("UTC")).dt.tz_localize(None)
        return column.dt.as_unit("us"), np.zeros(len(column), dtype=bool)
    values = column.astype(object)
    no_date = [isinstance(value, str) and is_no_date(value) for value in values]
    gaps = values.isna().to_numpy() | np.array(no_date, dtype=bool)
    found = parsed(values.where(~gaps, None), form)
    wrong = found.isna().to_numpy() & ~gaps
    if wrong.any() and not {ISO, LOCAL} & set(form.split(AND)):
        found = found.where(~wrong, parsed(values.where(wrong, None), ISO))
        wrong = found.isna().to_numpy() & ~gaps
    return found, wrong
