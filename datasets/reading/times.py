"""The times in a column, as numbers in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pandas as pd

from ...common.columns.dates import ISO, LOCAL, DateError, parsed
from ...common.columns.kinds import NotOfKind, date_kind
from ...common.columns.numbers import read_numbers
from ...common.text import one_line
from ..errors import DataError

# Dates that are written as a number of so many digits; a zero in front may have been lost.
YEAR_LAST = {8: ("%d%m%Y", "%m%d%Y"), 6: ("%d%m%y", "%m%d%y", "%m%Y")}
YEAR_FIRST = {8: ("%Y%m%d",), 6: ("%y%m%d", "%Y%m")}
USUAL_YEARS = 1900, 2099
SPAN = 50  # years that dates with a year of two digits stay below; counters reach 00 and 99
MANY_YEARS = 27  # that days of the month, 01 to 31, span if they are taken for years


def read_times(
    cells: pd.Series,
    delimiter: str,
    where: Callable[[int], str],
    marks: Collection[str] = (),
    day_first: bool | None = None,
) -> np.ndarray:
    """(N,) the times of a column as numbers: numbers as they are, dates as seconds since 1970.

    Dates are those of `common/columns/dates.py`, all cells alike. `where(row)` names a row.
    Raises DataError for a missing or infinite value, for a cell that is neither number nor date,
    for dates whose day and month could be swapped, and for numbers that look like dates beginning
    with the day or month, because their order would be wrong.
    """
    name = cells.name
    numbers = read_numbers(cells, delimiter, marks)
    if numbers.missing.any():
        first = int(np.argmax(numbers.missing))
        raise DataError(
            f"time column {name!r} is missing in {numbers.missing.sum()} rows, first on "
            f"{where(first)}; fill it or remove these rows"
        )
    if not np.isnan(numbers.values).any():
        if np.isinf(numbers.values).any():
            first = int(np.argmax(np.isinf(numbers.values)))
            raise DataError(f"time column {name!r} is infinite on {where(first)}")
        if shown := _disordered(numbers.values):
            cell = cells.iloc[0]
            said = f"{cell:.15g}" if cells.dtype == np.float64 else repr(one_line(cell, 40))
            raise DataError(
                f"time column {name!r}: {said} on {where(0)} seems to be {shown}, which "
                "are no numbers in the order of time; write dates like 2024-12-31"
            )
        return numbers.values
    try:
        kind = date_kind(cells, numbers.missing, day_first)
        if kind.missing.any():
            raise NotOfKind(int(np.argmax(kind.missing)), "is a gap")
    except DateError as error:
        raise DataError(f"time column {name!r}: {error}") from None
    except NotOfKind as error:
        raise DataError(
            f"time column {name!r}: {one_line(cells.iloc[error.row], 40)!r} on {where(error.row)} "
            "is no number and no date like 2024-12-31"
        ) from None
    form = ISO if kind.style == LOCAL else kind.style  # moments have an order, hours of places none
    seconds = (parsed(cells, form) - pd.Timestamp(0).as_unit("s")) / pd.Timedelta(seconds=1)
    return seconds.to_numpy(np.float64)


def _disordered(values: np.ndarray) -> str:
    """What the numbers (N,) seem to be if they are dates whose order differs from the order of the
    numbers: "a month and a year" (12.2024, 122024) or "a day, a month and a year" (31122024,
    311224); else "".

    If the numbers could also be dates that begin with the year, they count as such, unless that
    reading spans MANY_YEARS and twice the years of the other one (311222 is in 2022, not in 2031).
    """
    distinct = np.unique(values)  # in their order
    pointed = bool((distinct != np.round(distinct)).any())
    whole = np.round(distinct * 1e4) if pointed else distinct
    if pointed and not np.allclose(whole / 1e4, distinct, rtol=1e-7, atol=0):
        return ""
    lengths = (6,) if pointed else (6, 8)
    fits = (n for n in lengths if 10 ** (n - 2) <= whole[0] and whole[-1] < 10**n)
    if not (n_digits := next(fits, 0)):
        return ""
    texts = pd.Series(whole.astype(np.int64).astype(str)).str.zfill(n_digits)
    others = [] if pointed else [_dates(texts, form) for form in YEAR_FIRST[n_digits]]
    for form in ("%m%Y",) if pointed else YEAR_LAST[n_digits]:
        dates = _dates(texts, form)
        if dates is None or dates.is_monotonic_increasing:
            continue
        span = _span(dates)
        if "%y" in form and span >= SPAN:
            continue
        if all(d is None or _span(d) >= max(MANY_YEARS, 2 * span) for d in others):
            return "a day, a month and a year" if "%d" in form else "a month and a year"
    return ""


def _dates(texts: pd.Series, form: str) -> pd.Series | None:
    """The dates, or None where a text is no date of this form, or none of USUAL_YEARS."""
    for some in (texts.iloc[:: len(texts) // 100 + 1], texts):  # most numbers are told by a few
        dates = pd.to_datetime(some, format=form, errors="coerce")
        if not dates.dt.year.between(*USUAL_YEARS).all():
            return None
    return dates


def _span(dates: pd.Series) -> int:
    """The years from the first date to the last."""
    return int(dates.dt.year.max() - dates.dt.year.min())
