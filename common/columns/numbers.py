"""Numbers in cells of text: a column is read in the notation that explains most of its cells."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .durations import DURATIONS, IN_MINUTES, read_durations
from .notations import (
    AS_IT_IS,
    MISSING,
    STYLES,
    WORDS,
    Scale,
    Written,
    magnitude_of,
    money_of,
    scales_for,
    style_name,
    style_of,
    written,
)

GROUPED_BY_POINT = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
LEADING_ZERO = re.compile(r"0\d+")  # a code, such as a postal code, and no number
PADDED = re.compile(r"[-+]?\d*\.\d*[1-9]0+")  # a fraction with zeros at its end
EXACT = 2.0**53  # larger whole numbers are not told apart by float64
NO_VALUE = "empty"  # the style of a column without a value in training
SHORT, DIGITS = 15, r"^-?\d+(\.\d*)?$"  # so few digits are a float64 in one way, whoever reads them
BEGINS = r"^([-+.\s\d]|(?i:inf))"  # what pandas takes for a number
SAMPLED = 100  # texts that tell whether a column may hold numbers
MANY_SIGNS = 12  # the most frequent signs that a column is read by
FEW_UNITS = 0.1  # of the numbers; fewer letters behind numbers are no unit of all


@dataclass(frozen=True)
class Numbers:
    """The numbers of a column: `values` (N,), NaN where a cell is none; `missing` (N,), the cells
    that are missing; `style`, how they are written ("" for plain); `example`, a cell of that style
    and its value; `negative`, a cell whose minus is written otherwise than in front and its
    value."""

    values: np.ndarray
    missing: np.ndarray
    style: str = ""
    example: tuple[str, float] = ("", 0.0)
    negative: tuple[str, float] = ("", 0.0)

    @property
    def n_present(self) -> int:
        """The number of cells with a value."""
        return int((~self.missing).sum())

    @property
    def n_numbers(self) -> int:
        """The number of cells with a number."""
        return int((~np.isnan(self.values[~self.missing])).sum())

    @property
    def odd(self) -> np.ndarray:
        """(N,) the cells with a value that is no number."""
        return np.isnan(self.values) & ~self.missing


def _texts(cells: pd.Series) -> pa.Array | pa.ChunkedArray:
    return pa.array(cells, pa.large_string(), from_pandas=True)


def is_missing(cells: pd.Series, marks: Collection[str] = ()) -> np.ndarray:
    """(N,) whether a cell is empty or a mark of a missing value: MISSING, and `marks` of the user;
    where a mark is a number, all cells with this number, but for codes such as 007."""
    known = [number for mark in marks if np.isfinite(number := as_float(mark))]
    if cells.dtype == np.float64:
        return (cells.isna() | cells.isin(known)).to_numpy()
    texts = _texts(cells)
    found = pc.is_in(texts, value_set=pa.array([*MISSING, *marks], texts.type))
    missing = found.to_numpy(zero_copy_only=False)
    if known:
        numbers = pd.to_numeric(cells, errors="coerce").isin(known)
        missing = missing | (numbers & ~cells.str.fullmatch(LEADING_ZERO)).to_numpy()
    return missing


def leading_zeros(cells: pd.Series) -> bool:
    """Whether a cell is a number such as 01234 (a postal code), so that all are texts."""
    if cells.dtype == np.float64:
        return False
    texts = _texts(cells)
    some = texts.filter(pc.starts_with(texts, "0"))
    return bool(pc.any(pc.match_substring_regex(some, f"^{LEADING_ZERO.pattern}$")).as_py())


def is_word(cells: pd.Series) -> np.ndarray:
    """(N,) whether a cell is a mark of a missing value among numbers and dates, see WORDS."""
    lower = pc.utf8_lower(_texts(cells))
    return pc.is_in(lower, value_set=pa.array(sorted(WORDS), lower.type)).to_numpy(
        zero_copy_only=False
    )


def as_float(text: str) -> float:
    """The number that a text is by itself, NaN for none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _parsed(cells: pd.Series, missing: np.ndarray | None = None) -> np.ndarray:
    """(N,) the number that each text is by itself, NaN for none. `missing` (N,) need not be read.
    Arrow reads short plain numbers, to the bit as pandas does, which reads the other columns."""
    there = np.ones(len(cells), dtype=bool) if missing is None else ~missing
    texts = _texts(cells if there.all() else cells[there])
    if not pc.any(pc.match_substring_regex(texts, BEGINS)).as_py():
        return np.full(len(cells), np.nan)
    short = pc.max(pc.binary_length(texts)).as_py() <= SHORT and not texts.null_count
    if short and pc.all(pc.match_substring_regex(texts, DIGITS)).as_py():
        values = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
        if not np.signbit(values[values == 0]).any():  # pandas reads -0 among whole ones as 0
            every = np.full(len(cells), np.nan)
            every[there] = values
            return every
    return pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def read_numbers(cells: pd.Series, delimiter: str, marks: Collection[str] = ()) -> Numbers:
    """The numbers of a column, in the notation that explains most of its cells; the other cells are
    `odd`. Where no notation explains more than half of the cells, only plain numbers count.

    Where "1,234" fits two styles it has a decimal comma if semicolons separate the fields or some
    other cell can only have one ("12,5"), else a comma between thousands. "40%" is 40, but 0.4
    beside 0.38. Where most other cells are numbers, those of WORDS are missing.
    """
    missing = is_missing(cells, marks)
    if cells.dtype == np.float64:
        return Numbers(np.where(missing, np.nan, cells.to_numpy()), missing)
    plain = Numbers(np.where(missing, np.nan, _parsed(cells, missing)), missing)
    if plain.n_numbers == plain.n_present:
        return plain
    gaps = missing | is_word(cells)
    if gaps.all():
        return plain
    style = _style_in(cells[~gaps], delimiter)
    if style is None:
        return plain
    found = _in_style(cells, gaps, style)
    return found if found.n_numbers > found.n_present / 2 else plain


def _style_in(cells: pd.Series, delimiter: str) -> str | None:
    """The style that explains most of the cells, "" for plain numbers; None where none explains
    any."""
    counts = cells.value_counts(sort=False)
    texts, weights = counts.index.tolist(), counts.to_numpy()
    odd = np.isnan(_parsed(pd.Series(texts, dtype=str)))
    n_plain = int(weights[~odd].sum())
    places = np.flatnonzero(odd)
    some = places[:: len(places) // SAMPLED + 1]
    if not any(written(texts[at]) for at in some):
        return "" if n_plain else None
    found = [
        written(text) if is_odd else Written(text.lstrip("+"))
        for text, is_odd in zip(texts, odd.tolist(), strict=True)
    ]
    there = np.array([one is not None for one in found])
    weights, known = weights[there], [one for one in found if one is not None]
    signs = np.array([one.sign for one in known], dtype=object)
    bodies = pd.Series([one.body for one in known], dtype=str)
    best, chosen = 0, list[tuple[Scale, str, np.ndarray]]()
    which, different = pd.factorize(signs)
    scales = [
        (scale, np.array([scale.of(sign) is not None for sign in different])[which])
        for scale in _scales_in(signs, weights, bodies)
    ]
    for digits, (fit, needed) in _fits_of(bodies, delimiter).items():
        for scale, scaled in scales:
            explained = scaled & fit
            n = int(weights[explained].sum()) if (explained & needed).any() else 0
            if n > best:
                best, chosen = n, []
            if n and n == best and all(digits == other for _, other, _ in chosen):
                chosen.append((scale, digits, explained))
    named = [(style_name(scale, digits), explained) for scale, digits, explained in chosen]
    if len(named) > 1:
        named.sort(key=lambda one: _apart(one[0], bodies[one[1]], signs[one[1]]))
    return named[0][0] if named else None


def _fits_of(bodies: pd.Series, delimiter: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{a style of digits, "" for plain: (which bodies have its form, which have what it needs)},
    the preferred ones first."""
    names = ["", *STYLES]
    if delimiter != ";":  # "1,234" has thousands, where it may
        names.sort(key=lambda name: name not in ("", "commas between thousands"))
    found = {}
    for name in names:
        style = STYLES.get(name, AS_IT_IS)
        masks = (bodies.str.fullmatch(form).to_numpy(bool) for form in (style.form, style.needed))
        found[name] = (next(masks), next(masks))
    return found


def _scales_in(signs: np.ndarray, weights: np.ndarray, bodies: pd.Series) -> list[Scale]:
    """The scales by which the numbers may be read: letters behind few numbers, or behind codes such
    as 007A, are no unit."""
    which, different = pd.factorize(signs)
    of_sign = np.bincount(which, weights).astype(int).tolist()
    counts = Counter(dict(zip(different.tolist(), of_sign, strict=True)))
    total = counts.total()
    coded = bodies.str.match(r"[-+]?0\d").to_numpy(bool)
    codes = set(signs[coded])
    known = [
        sign
        for sign, n in counts.most_common(MANY_SIGNS)
        if not _is_unit(sign) or (n >= FEW_UNITS * total and sign not in codes)
    ]
    if any(_is_unit(sign) for sign in codes):
        known = [sign for sign in known if not _is_unit(sign)]
    return scales_for(known) if known else []


def _is_unit(sign: str) -> bool:
    money, rest = money_of(sign)
    return bool(rest) and rest[0] not in "%\u2030" and not (money and magnitude_of(rest))


def _apart(name: str, bodies: pd.Series, signs: np.ndarray) -> float:
    """How far the numbers without a sign are from those with one, as a factor's logarithm: where
    both stand in a column, the scale is that in which they are near."""
    scale, style = style_of(name)
    sizes: dict[bool, list[float]] = {True: [], False: []}
    for body, sign in zip(bodies, signs, strict=True):
        size = abs(as_float(style.plain_text(body))) * (scale.of(sign) or 1.0)
        if size > 0 and len(sizes[bool(sign)]) < 1000:
            sizes[bool(sign)].append(size)
    if not sizes[True] or not sizes[False]:
        return 0.0
    apart = abs(math.log(np.median(sizes[True]) / np.median(sizes[False])))
    return round(apart, 9)  # of two scales that are equally near the first one counts


def _in_style(cells: pd.Series, missing: np.ndarray, name: str) -> Numbers:
    """The numbers of the cells, NaN for one that is not written in this style."""
    scale, style = style_of(name)
    form, needed = re.compile(style.form), re.compile(style.needed)
    codes, found_texts = pd.factorize(cells.where(~missing, None))
    texts = found_texts.tolist()
    plain = _parsed(pd.Series(texts, dtype=str)).tolist() if texts else []
    factors: dict[str, float | None] = {}
    as_they_are = bool(re.fullmatch(style.form, "1.2345"))  # plain numbers mean what they say
    values, styled, odd = (np.full(len(texts), np.nan), [], [])
    for at, text in enumerate(texts):
        if as_they_are and not math.isnan(plain[at]):
            values[at] = plain[at]
            continue
        if (one := written(text)) is None:
            continue
        if one.sign not in factors:
            factors[one.sign] = scale.of(one.sign)
        factor = factors[one.sign]
        if factor is None or not form.fullmatch(one.body):
            continue
        values[at] = as_float(style.plain_text(one.body)) * factor
        if one.sign or (name and needed.fullmatch(one.body) and style is not AS_IT_IS):
            styled.append(at)
        if one.odd:
            odd.append(at)
    every = np.append(values, np.nan)[codes]

    def example(places: list[int]) -> tuple[str, float]:
        return (str(texts[places[0]]), float(values[places[0]])) if places else ("", 0.0)

    found = Numbers(every, missing, name if styled else "", example(styled), example(odd))
    return found if styled else replace(found, example=("", 0.0))


def numbers_in_style(cells: pd.Series, style: str, marks: Collection[str] = ()) -> Numbers:
    """The numbers of a column that is known to be written in `style` ("" for plain), each cell read
    by itself: NaN for one that is written in another way. KeyError for an unknown style."""
    missing = is_missing(cells, marks)
    if style == NO_VALUE:  # nothing is known of the column, whatever new rows hold
        return Numbers(np.full(len(cells), np.nan), np.ones(len(cells), dtype=bool))
    if cells.dtype == np.float64:
        return Numbers(np.where(missing, np.nan, cells.to_numpy()), missing)
    missing = missing | is_word(cells)
    if style not in (DURATIONS, IN_MINUTES):
        return _in_style(cells, missing, style)
    values = np.where(missing, np.nan, read_durations(cells, style)[0])
    if np.isnan(values).all():
        return Numbers(values, missing)
    first = int(np.argmax(~np.isnan(values)))
    return Numbers(values, missing, style, (str(cells.iloc[first]), float(values[first])))


def is_number_style(style: str) -> bool:
    """Whether `style` is the name of a way to write numbers, "" for plain ones."""
    try:
        return style in (NO_VALUE, DURATIONS, IN_MINUTES) or bool(style_of(style))
    except KeyError:
        return False


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
