"""Dates and times: the way in which a column writes them, and their moments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from ..text import one_line
from .numbers import MISSING, WORDS

ISO = "ISO 8601"
"""2024-01-31, also with a time and an offset to UTC."""

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
FORMS = (
    *(day + time for day, time in product(_DAYS, _TIMES)),
    *("%b %Y", "%B %Y", "%H:%M", "%H:%M:%S", "%I:%M %p"),
)
NUMBERS = ("%Y%m%d", "%Y")
"""Dates that are written as numbers: these are read as dates only where that is asked for."""

SAMPLED = 20  # texts that are tried before all are
_NO_DATE = re.compile(r"0000-00-00([ T]00:00(:00(\.0+)?)?)?")  # a gap, as MySQL writes it
_NANOSECONDS = re.compile(r"([.,]\d{6})\d+")


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


def is_no_date(text: str) -> bool:
    """Whether a text stands for a missing date.

    >>> is_no_date("0000-00-00"), is_no_date("n/a"), is_no_date("2024-01-31")
    (True, True, False)
    """
    plain = text.strip()
    return plain in MISSING or plain.lower() in WORDS or bool(_NO_DATE.fullmatch(plain))


def form_of(texts: Iterable[str], day_first: bool | None = None, *, numbers: bool = False) -> str:
    """The form in which all texts are dates: ISO, or one of FORMS; "" where the first is no date.

    day_first: whether the day stands before the month where both orders fit. numbers: whether dates
    that are written as numbers count. DateError where both orders fit and nobody said which, and
    for dates in several forms or with other texts between them.

    >>> form_of(["31/12/2024", "01/02/2024"]), form_of(["12/31/2024"]), form_of(["red"])
    ('%d/%m/%Y', '%m/%d/%Y', '')
    """
    different = list(dict.fromkeys(text.strip() for text in texts if not is_no_date(text)))
    if not different:
        return ""
    known = (ISO, *FORMS, *(NUMBERS if numbers else ()))
    fits = [form for form in known if _fits(different[0], form) and _all_fit(different, form)]
    if len(fits) > 1:
        moments = {tuple(parsed(different, form)): form for form in reversed(fits)}
        if day_first is not None:
            fits = [f for f in fits if (f.find("%d") < f.find("%m")) == day_first] or fits
        elif len(moments) > 1:
            raise DateError(
                f"{different[0]!r} may begin with the day or the month ({' or '.join(fits)}): say "
                "which (--day-first, --month-first)"
            )
    if fits:
        return fits[0]
    first = _form(different[0], known)
    odd = next((text for text in different if first and _form(text, known) != first), "")
    if odd and _form(odd, known):
        raise DateError(
            f"dates are written in several ways ({different[0]!r}, {one_line(odd, 40)!r}); write "
            "all of them alike, such as 2024-12-31"
        )
    return ""


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
    return next((form for form in known if _fits(text, form)), "")


def _fits(text: str, form: str) -> bool:
    if form == ISO:
        return bool(_ISO_CELL.fullmatch(text)) and _all_fit([text], ISO)
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _all_fit(texts: list[str], form: str) -> bool:
    written = form != ISO or all(map(_ISO_CELL.fullmatch, texts))
    return written and not parsed(texts, form).isna().any()


def parsed(values: Iterable[Any], form: str) -> pd.Series:
    """Texts, and moments among them, as datetimes in UTC without a zone, to the microsecond; NaT
    for what is missing or not in this form. A number counts as the text of its digits: 20241231."""
    column = pd.Series([_to_microseconds(value) for value in values], dtype=object)
    shape = "ISO8601" if form == ISO else form
    found = pd.to_datetime(column, format=shape, utc=True, errors="coerce")
    return found.dt.tz_localize(None).dt.as_unit("us")


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
    with an index from 0; NoMoment where a value is none."""
    if isinstance(column.dtype, pd.ArrowDtype):
        column = column.array.__arrow_array__().to_pandas().rename(column.name)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    column = column.reset_index(drop=True)
    if types.is_datetime64_any_dtype(column.dtype):
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return column.dt.as_unit("us")
    values = column.astype(object)
    no_date = [isinstance(value, str) and is_no_date(value) for value in values]
    gaps = values.isna().to_numpy() | np.array(no_date, dtype=bool)
    found = parsed(values.where(~gaps, None), form)
    wrong = found.isna().to_numpy() & ~gaps
    if wrong.any() and form != ISO:
        found = found.where(~wrong, parsed(values.where(wrong, None), ISO))
        wrong = found.isna().to_numpy() & ~gaps
    if wrong.any():
        raise NoMoment(column, int(np.argmax(wrong)))
    return found
