"""The times in a column, as numbers in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np
import pandas as pd

from ...common.text import one_line
from ..errors import DataError
from .numbers import read_numbers

FORMATS = (
    *("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%y"),
    *("%d/%m/%Y", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S"),
    *("%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S"),
    *("%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%b %Y", "%B %Y"),
)
MONTH_AND_YEAR = re.compile(r"(0?[1-9]|1[0-2])\.(19|20)\d\d")


def read_times(
    cells: pd.Series,
    delimiter: str,
    where: Callable[[int], str],
    marks: Collection[str] = (),
) -> np.ndarray:
    """(N,) the times of a column as numbers: numbers as they are, dates as seconds since 1970.

    Dates are ISO 8601 (with or without a time, offsets to UTC) or in one of FORMATS, all cells
    alike. `where(row)` names a row. DataError for a missing or infinite value, for what is none of
    these, for days and months that could be swapped with another order as the result, and for dates
    that begin with the month or the day and are read as numbers, whose order is another.
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
        if cells.dtype != np.float64 and (shown := _disordered(cells)):
            raise DataError(
                f"time column {name!r}: {cells.iloc[0]!r} on {where(0)} seems to be {shown}, which "
                "are no numbers in the order of time; write dates like 2024-12-31"
            )
        return numbers.values
    iso = pd.to_datetime(cells, format="ISO8601", utc=True, errors="coerce")
    if not iso.isna().any():
        return _seconds(iso)
    found: dict[str, np.ndarray] = {}
    for form in FORMATS:
        times = pd.to_datetime(cells, format=form, utc=True, errors="coerce")
        if not times.isna().any():
            found[form] = _seconds(times)
    if not found:
        first = int(np.argmax(iso.isna().to_numpy()))
        raise DataError(
            f"time column {name!r}: {one_line(cells.iloc[first], 40)!r} on {where(first)} is no "
            "number and no date like 2024-12-31, or not written like the others"
        )
    orders = {form: np.argsort(times, kind="stable").tobytes() for form, times in found.items()}
    if len(set(orders.values())) > 1:
        raise DataError(
            f"time column {name!r}: days and months may be swapped ({' or '.join(found)}); write "
            "dates like 2024-12-31"
        )
    return next(iter(found.values()))


def _disordered(cells: pd.Series) -> str:
    """What the cells seem to be, if all are dates that begin with the month or the day: "a month
    and a year" (12.2024), "a day, a month and a year" (31122024); else ""."""
    if cells.str.fullmatch(MONTH_AND_YEAR).all():
        return "a month and a year"
    if cells.str.fullmatch(r"\d{8}").all():
        first, *others = (_all_dates(cells, form) for form in ("%Y%m%d", "%d%m%Y", "%m%d%Y"))
        return "" if first or not any(others) else "a day, a month and a year"
    return ""


def _all_dates(cells: pd.Series, form: str) -> bool:
    return not pd.to_datetime(cells, format=form, utc=True, errors="coerce").isna().any()


def _seconds(times: pd.Series) -> np.ndarray:
    return ((times - pd.Timestamp(0, tz="UTC").as_unit("s")) / pd.Timedelta(seconds=1)).to_numpy(
        np.float64
    )
