"""Numbers in cells of text: plain, or with decimal commas, thousands, a sign or a unit."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from . import number_forms
from .number_forms import SIGNS, style_of, styles_with, without_sign

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none")
WORDS = frozenset(("-", "--", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing"))
"""Texts, in lower case, that mark a missing value among numbers and dates, and nowhere else."""
DECIMAL_COMMA = re.compile(number_forms.DECIMAL_COMMA)
GROUPED_BY_POINT = re.compile(number_forms.grouped("."))
# "1,234" and "1.234": a fraction, or a whole number with one mark between its thousands.
TWO_READINGS = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")
LEADING_ZERO = re.compile(r"0\d+")  # a code, such as a postal code, and no number
PADDED = re.compile(r"[-+]?\d*\.\d*[1-9]0+")  # a fraction with zeros at its end
EXACT = 2.0**53  # larger whole numbers are not told apart by float64


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
    where a mark is a number, all cells with this number, but for codes such as 007."""
    known = [number for mark in marks if np.isfinite(number := as_float(mark))]
    if cells.dtype == np.float64:
        return (cells.isna() | cells.isin(known)).to_numpy()
    missing = cells.isin([*MISSING, *marks])
    if known:
        numbers = pd.to_numeric(cells, errors="coerce").isin(known)
        missing |= numbers & ~cells.str.fullmatch(LEADING_ZERO)
    return missing.to_numpy()


def as_float(text: str) -> float:
    """The number that a text is by itself, NaN for none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


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


def read_numbers(
    cells: pd.Series, delimiter: str, marks: Collection[str] = (), *, signs: bool = True
) -> Numbers:
    """The numbers of a column, in whatever of the known styles all its cells are written; without
    `signs`, in one of those without a sign of currency or percent and without a unit.

    Where "1,234" fits two styles it has a decimal comma if semicolons separate the fields or some
    other cell can only have one ("12,5"), else a comma between thousands. "40%" is 40. Where all
    other cells are numbers, those of WORDS are missing.
    """
    missing = is_missing(cells, marks)
    if cells.dtype == np.float64:
        return Numbers(np.where(missing, np.nan, cells.to_numpy()), missing)
    values = _parsed(cells, missing)
    odd = ~missing & np.isnan(values)
    if not odd.any():
        return Numbers(values, missing)
    words = odd & cells.str.lower().isin(WORDS).to_numpy()
    found = Numbers(values, missing)
    if words.any() and not (missing | words).all():
        found = _in_some_style(cells, missing | words, delimiter)
    if found.n_numbers < found.n_present:
        found = _in_some_style(cells, missing, delimiter)
    signed = bool(found.style and style_of(found.style).sign)
    return Numbers(values, missing) if signed and not signs else found


def _in_some_style(cells: pd.Series, missing: np.ndarray, delimiter: str) -> Numbers:
    values = _parsed(cells, missing)
    odd = ~missing & np.isnan(values)
    if not odd.any():
        return Numbers(values, missing)
    # Most columns of text are told by one cell.
    text, sign = without_sign(str(cells[odd].iloc[0]))
    styles = styles_with(sign)
    if not any(re.fullmatch(s.form, text) for s in styles.values()):
        return Numbers(values, missing)
    there = cells[~missing]
    present = _unsigned(there, sign)
    if sign not in SIGNS and ((present == there).any() or present.str.match(r"[-+]?0\d").any()):
        return Numbers(values, missing)  # some cell has no unit, or is a code such as 007A
    fits = [
        name
        for name, style in styles.items()
        if present.str.fullmatch(style.form).all() and present.str.fullmatch(style.needed).any()
    ]
    if not fits:
        return Numbers(values, missing)
    commas = next((name for name in fits if name.endswith("commas between thousands")), None)
    return _styled(cells, missing, commas if commas and delimiter != ";" else fits[0])


def _unsigned(cells: pd.Series, sign: str) -> pd.Series:
    """The cells without `sign`; one with another sign stays as it is, and is no number."""
    if not sign:
        return cells

    def bare(text: str) -> str:
        found, signs = without_sign(text)
        return found if signs == sign else text

    return cells.map(bare, na_action="ignore")


def _styled(cells: pd.Series, missing: np.ndarray, name: str) -> Numbers:
    style = style_of(name)
    unsigned = _unsigned(cells, style.sign)
    plain = unsigned
    for old, new in style.replaced:
        plain = plain.str.replace(old, new, regex=False)
    values = _parsed(plain, missing)
    written = unsigned.str.fullmatch(style.needed).to_numpy(dtype=bool) & ~missing
    if style.sign:
        written &= (unsigned != cells).to_numpy(dtype=bool)
    if not written.any():
        return Numbers(values, missing)
    at = int(np.argmax(written))
    return Numbers(values, missing, name, (str(cells.iloc[at]), float(values[at])))


def numbers_in_style(cells: pd.Series, style: str, marks: Collection[str] = ()) -> Numbers:
    """The numbers of a column that is known to be written in `style` ("" for plain), each cell read
    by itself: NaN for one that is written in another way. KeyError for an unknown style."""
    missing = is_missing(cells, marks)
    if cells.dtype == np.float64:
        return Numbers(np.where(missing, np.nan, cells.to_numpy()), missing)
    missing = missing | cells.str.lower().isin(WORDS).to_numpy()
    if not style:
        return Numbers(_parsed(cells, missing), missing)
    known = style_of(style)
    other = ~_unsigned(cells, known.sign).str.fullmatch(known.form).to_numpy(dtype=bool)
    found = _styled(cells.where(~other, ""), missing | other, style)
    return replace(found, missing=missing)


def exact_as_floats(cells: pd.Series, values: np.ndarray) -> bool:
    """Whether float64 tells the cells (N,) apart that are written as `values` (N,), NaN for none:
    no whole number beyond 2^53. Cells that were read as float64 are taken as they are."""
    return cells.dtype == np.float64 or not (np.abs(values) > EXACT).any()


def two_spellings(cells: pd.Series) -> tuple[str, str] | None:
    """A fraction that the cells write without and with zeros at its end, as versions 1.1 and 1.10
    are written; None where no fraction is. (17 and 17.0 are what pandas makes of one number.)"""
    if cells.dtype == np.float64:
        return None
    texts = set(cells.unique())
    padded = (str(text) for text in texts if PADDED.fullmatch(str(text)))
    return min(
        ((text.rstrip("0"), text) for text in padded if text.rstrip("0") in texts), default=None
    )
