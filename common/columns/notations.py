"""The notations of numbers: marks of a missing value, signs, currencies, units, magnitudes.

Each table says what it matches and the scale of it; `numbers.py` reads columns by them. Dates and
periods stand in `dates.py`, durations in `durations.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none")
"""Texts that mark a missing value in every column."""

WORDS = frozenset(
    [
        *("-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "*", "n/a", "n.a.", "n.a", "na"),
        *("#n/a", "#na", "#n/a n/a", "<na>", "nat", "nan", "-nan", "-nan(ind)", "nan(ind)", "\\n"),
        *("1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind", "1.#nan", "null", "#null!", "(null)", "none"),
        *("#div/0!", "#value!", "#ref!", "#num!", "#name?", "#n/v", "nil", "missing", "unknown"),
        *("k.a.", "k. a.", "k.a", "n.v.", "s.o.", "n.d.", "not available", "not applicable"),
    ]
)
"""Texts, in lower case, that mark a missing value among numbers and dates, and nowhere else."""

# -- the characters of a cell ---------------------------------------------------------------------

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f"
BLANKS = "\u00a0\u202f\u2009\u2007\u2002\u2003\u3000"
_PLAINER: dict[int, str] = {
    **dict.fromkeys(map(ord, INVISIBLE), ""),
    **dict.fromkeys(map(ord, BLANKS), " "),
    **dict.fromkeys(map(ord, "\u2212\u2013\ufe63\uff0d"), "-"),
}


def plain_text(text: str) -> str:
    """A text without invisible characters; blanks, minus signs and digits of any kind as ASCII's.

    >>> plain_text("\\u2212\\uff15\\u00a0kg\\u200b")
    '-5 kg'
    """
    if text.isascii():
        return text.strip()
    plain = text.translate(_PLAINER).strip()
    digits = {ord(c): str(unicodedata.decimal(c)) for c in set(plain) if c.isdecimal() and c > "9"}
    return plain.translate(digits) if digits else plain


# -- currencies, units and magnitudes -------------------------------------------------------------

_SYMBOLS = "".join(c for c in map(chr, range(0x24, 0x20D0)) if unicodedata.category(c) == "Sc")
_CODES = (
    "USD EUR GBP JPY CNY RMB INR CHF CAD AUD NZD SEK NOK DKK ISK PLN CZK HUF RON BGN RUB UAH TRY"
    " ILS ZAR BRL MXN ARS CLP COP KRW TWD HKD SGD THB IDR MYR PHP VND AED SAR EGP NGN KES PKR BDT"
    " LKR BTC"
)
_NAMES = r"Rs\.?|[Kk]r\.?|Fr\.?|z\u0142|K\u010d|Ft|lei|руб\.?"
_MONEY = rf"[A-Z]{{0,3}}[{re.escape(_SYMBOLS)}]|{_CODES.replace(' ', '|')}|{_NAMES}"
_SAME_MONEY = {"US$": "$", "USD": "$", "EUR": "€", "GBP": "£", "INR": "₹", "Rs": "₹", "JPY": "¥"}
PERCENT = {"%": 1e-2, "\u2030": 1e-3}  # of one

MAGNITUDES = {
    **dict.fromkeys(("k", "tsd", "thousand", "tys", "тыс"), 1e3),
    **dict.fromkeys(("lakh", "lac", "lakhs"), 1e5),
    **dict.fromkeys(("m", "mn", "mm", "mio", "mln", "mill", "million", "millions", "млн"), 1e6),
    **dict.fromkeys(("cr", "crore", "crores"), 1e7),
    **dict.fromkeys(("b", "bn", "mrd", "mld", "billion", "billions", "млрд"), 1e9),
    **dict.fromkeys(("t", "tn", "trillion"), 1e12),
}
"""Words behind a number, in lower case and without a stop: by what it is multiplied."""

UNITS: tuple[Mapping[str, float], ...] = (  # families of units that measure one thing
    {
        "mg": 1e-6,
        **dict.fromkeys(("g", "gram"), 1e-3),
        **dict.fromkeys(("kg", "kilo", "kilogram"), 1.0),
        "t": 1e3,
        **dict.fromkeys(("oz", "ounce"), 0.028349523125),
        **dict.fromkeys(("lb", "lbs", "pound"), 0.45359237),
    },
    {
        "mm": 1e-3,
        "cm": 1e-2,
        **dict.fromkeys(("m", "meter", "metre"), 1.0),
        "km": 1e3,
        **dict.fromkeys(("in", "inch"), 0.0254),
        **dict.fromkeys(("ft", "foot", "feet"), 0.3048),
        **dict.fromkeys(("yd", "yard"), 0.9144),
        **dict.fromkeys(("mi", "mile"), 1609.344),
    },
    {"ml": 1e-3, "cl": 1e-2, "l": 1.0, "L": 1.0, "mL": 1e-3},
    {
        **dict.fromkeys(("m²", "m2", "qm", "sqm", "sq m", "sq. m"), 1.0),
        **dict.fromkeys(("ft²", "ft2", "sqft", "sq ft", "sq. ft"), 0.09290304),
        "ha": 1e4,
        **dict.fromkeys(("acre", "ac"), 4046.8564224),
        **dict.fromkeys(("km²", "km2"), 1e6),
    },
    {**dict.fromkeys(("km/h", "kmh", "kph"), 1.0), "mph": 1.609344, "m/s": 3.6, "kn": 1.852},
    {"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "B": 1.0},
    {"mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9},
    {"Wh": 1.0, "kWh": 1e3, "MWh": 1e6, "GWh": 1e9},
    {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    {"Pa": 1.0, "hPa": 1e2, "kPa": 1e3, "mbar": 1e2, "bar": 1e5},
    {"mV": 1e-3, "V": 1.0, "kV": 1e3},
    {
        "ms": 1e-3,
        **dict.fromkeys(("s", "sec", "second"), 1.0),
        **dict.fromkeys(("min", "minute"), 60.0),
        **dict.fromkeys(("h", "hr", "hrs", "hour"), 3600.0),
    },
    {"day": 1.0, "week": 7.0},
    {
        **dict.fromkeys(("month", "mo", "mos", "mon", "mth", "monat", "monate", "mois"), 1.0),
        **dict.fromkeys(("year", "yr", "yrs", "y"), 12.0),
    },
    {"th": 1.0, "st": 1.0, "nd": 1.0, "rd": 1.0},  # 1st, 2nd
    {"N": 1.0, "S": -1.0, "°N": 1.0, "°S": -1.0},
    {"E": 1.0, "W": -1.0, "°E": 1.0, "°W": -1.0},
)
_AS_WRITTEN = {unit for family in UNITS for unit in family}
_ANY_CASE = {  # where case tells no two units apart (mW and MW)
    key: units[0]
    for key in {unit.lower() for unit in _AS_WRITTEN if len(unit) > 1}
    if len(units := [unit for unit in _AS_WRITTEN if unit.lower() == key]) == 1
}

DEGREES = {"°": 1.0, "'": 1 / 60, '"': 1 / 3600}
COMPOUND = [family for family in UNITS if not {"s", "day"} & family.keys()]  # else: durations
OTHER_NAMES: tuple[Mapping[str, str], ...] = (  # of units in quantities of several: 5'7", 2y 3m
    {},
    {"'": "ft", '"': "in"},
    {"m": "month", "jahr": "year", "jahre": "year", "an": "year"},
)

UNIT = r"°|°?[^\W\d_]{1,12}[²³]?(?:/[^\W\d_]{1,8})?[23²³]?"
_BODY = r"\d(?:[\d.,'\u2019 ]*[\d.,])?(?:[eE][-+]?\d+)?|[.,]\d+(?:[eE][-+]?\d+)?"
_BEHIND = rf"[%\u2030]|{_MONEY}|(?:{UNIT})\.?(?: ?(?:{_MONEY}|{UNIT}\.?))?"
LONGEST = 100  # characters of a number with its signs
_ABOUT = r"(?:[~\u2248]|ca\.?|approx\.?|about|circa)"
_CELL = re.compile(
    rf"(?:{_ABOUT}\s*)?(?P<open>\()?\s*(?P<sign>[-+])?\s*(?P<before>{_MONEY})?\s*(?P<sign2>[-+])?"
    rf"(?P<open2>\()?(?P<body>{_BODY})(?(open2)\))\s*(?:(?<=[.,])(?:--?|\u2014)|/-)?"
    rf"(?P<minus>-(?=\s|$|[^\d.,\w]))?\s*(?P<behind>{_BEHIND})?\s*(?(open)\))"
)
_POWER = re.compile(r" ?[\u00d7xX*\u00b7] ?10(?:\^|\*\*)?([-+]?\d+)(?!\d)")
_PART = re.compile(r"(\d+(?:[.,]\d+)?)\s*([^\W\d_]{1,10}|['\"\u00b0])\.?,?\s*(?:and |und )?")


@dataclass(frozen=True, slots=True)
class Written:
    """A number as a cell writes it: the `body` of digits and marks with its minus, and its `sign`
    of currency, percent, magnitude or unit, "" for none. `odd`: whether the minus is written
    otherwise than in front."""

    body: str
    sign: str = ""
    odd: bool = False


def written(text: str) -> Written | None:
    """How a cell writes a number; None where it writes none.

    >>> written("($1,200)"), written("3,5 Std.")
    (Written(body='-1,200', sign='$', odd=True), Written(body='3,5', sign='Std', odd=False))
    """
    plain = plain_text(text)
    if len(plain) > LONGEST:
        return None
    plain = _POWER.sub(r"e\1", plain)
    found = _CELL.fullmatch(plain)
    if not found:
        return _compound(plain)
    minuses = [found["sign"] == "-", found["sign2"] == "-", bool(found["minus"])]
    around = bool(found["open"] or found["open2"])
    signs = [found["sign"], found["sign2"], found["minus"]]
    if sum(map(bool, signs)) + around > 1:
        return None
    body, behind = found["body"].rstrip(" "), (found["behind"] or "").rstrip(".")
    minus = any(minuses) or around
    odd = (
        around
        or minuses[2]
        or (minus and not plain.startswith("-"))
        or not {"\u2212", "\u2013"}.isdisjoint(text)
    )
    if behind.lower().replace(".", "") in ("am", "pm"):
        return None  # 3 pm
    before = (found["before"] or "").rstrip(".")
    if before and behind and (behind in PERCENT or money_of(behind)[0]):
        return None  # $5% and $5 €
    return Written(("-" if minus else "") + body, before + unit_of(behind), bool(odd))


def unit_of(word: str) -> str:
    """A unit as UNITS has it, whatever its case and number; another word as it is, in the singular.

    >>> unit_of("KG"), unit_of("hours"), unit_of("MW"), unit_of("rooms"), unit_of("€")
    ('kg', 'hour', 'MW', 'room', '€')
    """
    one = word.removesuffix("s")
    for known in (word, one, one.removesuffix("e")):
        if known in _AS_WRITTEN or known.lower() in _ANY_CASE:
            return known if known in _AS_WRITTEN else _ANY_CASE[known.lower()]
    return one if word.islower() and len(word) > 3 and one[-1:] != "s" else word


def _compound(text: str) -> Written | None:
    """How a cell writes a quantity in several units, the largest first; None where it writes none.

    >>> _compound("5' 7\\""), _compound("1 year 3 months").body, _compound("52°30'0\\" N")
    (Written(body='67', sign='in', odd=False), '15', Written(body='52.5', sign='°N', odd=False))
    """
    plain = (
        text.replace("\u2032", "'").replace("\u2033", '"').replace("''", '"').replace("\u2019", "'")
    )
    side = plain[-1:] if plain[-1:] in "NSEW" and "°" in plain else ""
    rest, parts = plain.removesuffix(side).rstrip(), list[tuple[str, str]]()
    while found := _PART.match(rest):
        parts.append((found[1].replace(",", "."), found[2]))
        rest = rest[found.end() :]
    if rest or not parts:
        return None
    numbers = [float(number) for number, _ in parts]
    words = [unit if unit in DEGREES else unit_of(unit.lower()) for _, unit in parts]
    for names in OTHER_NAMES:
        known = [names.get(word, word) for word in words]
        family = next((family for family in COMPOUND if family.keys() >= {*known}), None)
        if family and not side:
            return _summed(numbers, [family[unit] / family[known[-1]] for unit in known], known[-1])
    if words[0] == "°":
        return _summed(numbers, [DEGREES.get(word, 0.0) for word in words], "°" + side)
    return None


def _summed(numbers: list[float], factors: list[float], sign: str) -> Written | None:
    """The sum of numbers times factors, None where the units do not become smaller and smaller."""
    if not all(a > b for a, b in pairwise([*factors, 0.0])):
        return None
    total = sum(number * factor for number, factor in zip(numbers, factors, strict=True))
    return Written(f"{total:.15g}", sign)


_MONEY_FIRST, _MONEY_LAST = (
    re.compile(shape) for shape in (rf"({_MONEY})(.*)", rf"(.*?)\s*({_MONEY})")
)


def money_of(sign: str) -> tuple[str, str]:
    """(the currency of a sign, "" for none; what else it holds).

    >>> money_of("€K"), money_of("Mio. €"), money_of("kg"), money_of("US$")
    (('€', 'K'), ('€', 'Mio.'), ('', 'kg'), ('$', ''))
    """
    if first := _MONEY_FIRST.fullmatch(sign):
        money, rest = first.groups()
    elif last := _MONEY_LAST.fullmatch(sign):
        rest, money = last.groups()
    else:
        return "", sign
    plain = money.rstrip(".")
    return _SAME_MONEY.get(plain, plain), rest.strip()


def magnitude_of(word: str) -> float | None:
    """By what the word multiplies, None where it is none; 1 for no word."""
    return MAGNITUDES.get(word.rstrip(".").lower()) if word else 1.0


# -- the marks within a number --------------------------------------------------------------------

_PLAIN = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_MARKS = " \u00a0\u202f\u2009'\u2019"  # spaces and apostrophes that stand between thousands


def _grouped(marks: str) -> str:
    """A whole number with a mark between its thousands; "0,125" has a decimal comma instead."""
    return rf"[-+]?[1-9]\d{{0,2}}([{marks}]\d{{3}})+"


_LAKH = r"[-+]?[1-9]\d?(,\d{2})+,\d{3}"  # 1,86,464


@dataclass(frozen=True)
class Style:
    """How the numbers of a column are written, but for a sign: the form of a cell, the form that
    some cell must have, and what becomes of its marks in a plain number (None: the last mark of a
    number is its decimal mark)."""

    form: str
    needed: str
    plain: Mapping[int, Any] | None

    def plain_text(self, body: str) -> str:
        """The plain number of a body that has the form."""
        if self.plain is not None:
            return body.translate(self.plain)
        *thousands, fraction = re.split("[.,]", body)
        return f"{''.join(thousands)}.{fraction}" if thousands else body


AS_IT_IS = Style(_PLAIN, ".*", {})

# Most cells of a column have the form. A number below 1,000 has no mark, and larger ones may be
# written without, where that leaves one reading.
STYLES = {
    "decimal commas": Style(
        rf"([-+]?\d+|{_grouped('.')})(,\d*)?([eE][-+]?\d+)?|-?,\d+",
        r".*,.*",
        str.maketrans(",", ".", "."),
    ),
    "commas between thousands": Style(
        rf"{_PLAIN}|({_grouped(',')}|{_LAKH})(\.\d*)?", r".*,.*", str.maketrans("", "", ",")
    ),
    "points between thousands": Style(
        rf"[-+]?\d{{1,3}}|{_grouped('.')}", r".*\..*\..*", str.maketrans("", "", ".")
    ),
    "spaces between thousands": Style(
        rf"{_PLAIN}|({_grouped(_MARKS)}|[-+]?\d+)([.,]\d+)?",
        rf".*\d[{_MARKS}]\d.*",
        str.maketrans(",", ".", _MARKS),
    ),
    "decimal commas and points": Style(  # where each cell tells by itself
        r"[-+]?(\d+([.,](\d{1,2}|\d{4,}))?|0[.,]\d+|[1-9]\d{0,2}((,\d{3})+\.\d+|(\.\d{3})+,\d+))",
        r".*,.*",
        None,
    ),
}

# -- what a sign multiplies by, in a column -------------------------------------------------------

SHARES, MULTIPLES, MAGNIFIED = "as shares", "and its multiples", "with magnitudes"


@dataclass(frozen=True)
class Scale:
    """What the signs of a column's numbers mean: `sign`, a currency or a unit ("" for none), and
    `how`: "" for numbers that are taken as they stand, SHARES (a percentage is a part of one),
    MULTIPLES (units of one family, in terms of `sign`) or MAGNIFIED (thousands and millions).

    >>> Scale("kg", MULTIPLES).of("g"), Scale("€", MAGNIFIED).of("€K"), Scale("$").of("€")
    (0.001, 1000.0, None)
    """

    sign: str = ""
    how: str = ""

    def of(self, sign: str) -> float | None:
        """By what a number with this sign is multiplied; None for a sign of another scale. A number
        without any is meant like the others."""
        if self.how == SHARES:
            return PERCENT.get(sign) if sign else 1.0
        if self.how == MULTIPLES:
            family = next(f for f in UNITS if self.sign in f)
            return family[sign] / family[self.sign] if sign in family else None if sign else 1.0
        money, rest = money_of(sign)
        if self.how == MAGNIFIED:
            return magnitude_of(rest) if money in ("", self.sign) else None
        return 1.0 if not sign or (money, rest) == money_of(self.sign) else None

    @property
    def name(self) -> str:
        """The text of a scale, which `scale_of` reads."""
        return " ".join(filter(None, (f"'{self.sign}'" if self.sign else "", self.how)))


def scales_for(signs: Collection[str]) -> list[Scale]:
    """The scales that signs of a column may have, those of most signs first; "" is one of them
    where some number has none."""
    there = [sign for sign in signs if sign]
    found = [Scale(sign) for sign in there] or [Scale()]
    for family in UNITS:
        known = [sign for sign in there if sign in family]
        if len(known) > 1:
            largest = (
                known[0] if family[known[0]] == 1.0 else max(known, key=lambda s: family[s] == 1.0)
            )
            found.insert(0, Scale(largest, MULTIPLES))
    parts = [money_of(sign) for sign in there]
    for money in dict.fromkeys(money for money, _ in parts):
        words = {rest.lower().rstrip(".") for m, rest in parts if m == money and magnitude_of(rest)}
        words |= {""} if "" in signs and not money else set()
        if words - {""} and (len(words) > 1 or money):
            found.append(Scale(money, MAGNIFIED))
    if "%" in there and len(signs) > 1:
        found.append(Scale("%", SHARES))
    return [*found, Scale()] if "" in signs and there else found


_NAMED = re.compile(
    rf"(?:'([^']+)')? ?({SHARES}|{MULTIPLES}|{MAGNIFIED})?(?: and )?({'|'.join(STYLES)})?"
)


def style_of(name: str) -> tuple[Scale, Style]:
    """(what the signs mean, how the digits are written) of the name of a style, "" for plain
    numbers. KeyError for an unknown name.

    >>> style_of("'kg' and decimal commas")[0], style_of("'%'")[1].form == style_of("'kg'")[1].form
    (Scale(sign='kg', how=''), True)
    """
    found = _NAMED.fullmatch(name)
    if not found or (found[2] == MULTIPLES and not any(found[1] in f for f in UNITS)):
        raise KeyError(name)
    return Scale(found[1] or "", found[2] or ""), STYLES[found[3]] if found[3] else AS_IT_IS


def style_name(scale: Scale, digits: str) -> str:
    """The name of a style: "'$' and decimal commas"."""
    return " and ".join(filter(None, (scale.name, digits)))
