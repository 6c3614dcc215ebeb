"""Numbers in cells of text: plain, with decimal commas, or with marks between thousands."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...common import number_forms

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none")
DECIMAL_COMMA = re.compile(number_forms.DECIMAL_COMMA)
SPACES = number_forms.SPACES + number_forms.APOSTROPHES  # that stand between thousands
GROUPED_BY_POINT = re.compile(number_forms.grouped("."))

# How the numbers of a column are written -> the form of every cell, the forms of which a cell must
# be there, and what is taken away or replaced.
_STYLES: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    "decimal commas": (
        number_forms.POINTS_AND_COMMA,
        r".*,.*",
        ((".", ""), (",", ".")),
    ),
    "commas between thousands": (
        number_forms.COMMA_THOUSANDS,
        r".*,.*",
        ((",", ""),),
    ),
    "points between thousands": (
        number_forms.POINT_THOUSANDS,
        r".*\..*\..*",
        ((".", ""),),
    ),
    "spaces between thousands": (
        rf"{number_forms.PLAIN}|{number_forms.space_thousands(SPACES, '.,')}",
        rf".*\d[{SPACES}]\d.*",
        (*((space, "") for space in SPACES), (",", ".")),
    ),
}


@dataclass(frozen=True)
class Numbers:
    """The numbers of a column: `values` (N,), NaN where a cell is none; `missing` (N,), the cells
    that are missing; `style`, how they are written ("" for plain); `example`, a cell of that style
    and its value."""

    values: np.ndarray
    missing: np.ndarray
    style: str = ""
    example: tuple[str, float] = ("", 0.0)

    @property
    def n_present(self) -> int:
        """The number of cells with a value."""
        return int((~self.missing).sum())

    @property
    def n_numbers(self) -> int:
        """The number of cells with a number."""
        return int((~np.isnan(self.values[~self.missing])).sum())


def is_missing(cells: pd.Series, marks: Collection[str] = ()) -> np.ndarray:
    """(N,) whether a cell is empty or a mark of a missing value: MISSING, and `marks` of the user;
    among numbers those that a mark reads as."""
    if cells.dtype == np.float64:
        known = [number for mark in marks if (number := _float(mark)) is not None]
        return (cells.isna() | cells.isin(known)).to_numpy()
    return cells.isin([*MISSING, *marks]).to_numpy()


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def as_numbers(cells: pd.Series, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """(numbers (N,), NaN where a cell is no number; mask (N,) of the missing cells). Decimal commas
    count where semicolons separate the fields; no other form is guessed."""
    missing = is_missing(cells)
    present = cells[~missing]
    if delimiter == ";" and present.str.contains(",", regex=False).any():
        if present.str.fullmatch(DECIMAL_COMMA).all():
            cells = cells.str.replace(",", ".", regex=False)
    return _parsed(cells, missing), missing


def _parsed(cells: pd.Series, missing: np.ndarray) -> np.ndarray:
    numbers = pd.to_numeric(cells.where(~missing, None), errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def read_numbers(cells: pd.Series, delimiter: str, marks: Collection[str] = ()) -> Numbers:
    """The numbers of a column, in whatever of the known styles all its cells are written.

    Where "1,234" fits two styles it has a decimal comma if semicolons separate the fields or some
    other cell can only have one ("12,5"), else a comma between thousands.
    """
    missing = is_missing(cells, marks)
    if cells.dtype == np.float64:
        return Numbers(np.where(missing, np.nan, cells.to_numpy()), missing)
    values = _parsed(cells, missing)
    present = cells[~missing]
    if not np.isnan(values[~missing]).any():
        return Numbers(values, missing)
    odd = cells[~missing & np.isnan(values)]
    # Most columns of text are told by one cell.
    if not any(re.fullmatch(form, str(odd.iloc[0])) for form, _, _ in _STYLES.values()):
        return Numbers(values, missing)
    fits = []
    for style, (form, needed, _) in _STYLES.items():
        if present.str.fullmatch(form).all() and present.str.fullmatch(needed).any():
            fits.append(style)
    if not fits:
        return Numbers(values, missing)
    style = fits[0]
    if "commas between thousands" in fits and delimiter != ";":
        style = "commas between thousands"
    plain = cells
    for old, new in _STYLES[style][2]:
        plain = plain.str.replace(old, new, regex=False)
    values = _parsed(plain, missing)
    needed = _STYLES[style][1]
    at = int(np.argmax((cells.str.fullmatch(needed) & ~missing).to_numpy()))
    return Numbers(values, missing, style, (str(cells.iloc[at]), float(values[at])))
