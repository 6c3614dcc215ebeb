"""How numbers are written as text: forms as regular expressions, shared by all readers of text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

SPACES = " \u00a0\u202f\u2009"  # that stand between thousands
APOSTROPHES = "'\u2019"

PLAIN = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
DECIMAL_COMMA = r"[-+]?\d+(,\d+)?([eE][-+]?\d+)?"  # without a mark between thousands


def grouped(marks: str) -> str:
    """The form of a whole number with one of the marks between its thousands. No such group begins
    with 0: "0,125" has a decimal comma.

    >>> import re
    >>> [bool(re.fullmatch(grouped(","), text)) for text in ("1,234", "0,125", "1,23")]
    [True, False, False]
    """
    return rf"[-+]?[1-9]\d{{0,2}}([{marks}]\d{{3}})+"


# A column is read in a form if all its cells have it. A number below 1,000 has no mark, and larger
# ones may be written without, where that leaves one reading.
COMMA_THOUSANDS = rf"{PLAIN}|{grouped(',')}(\.\d*)?"
POINT_THOUSANDS = rf"[-+]?\d{{1,3}}|{grouped('.')}"
POINTS_AND_COMMA = rf"([-+]?\d+|{grouped('.')})(,\d*)?([eE][-+]?\d+)?"


def space_thousands(marks: str, decimal: str) -> str:
    """The form of numbers with one of the marks between thousands, and decimals behind one of the
    characters of `decimal`."""
    return rf"({grouped(marks)}|[-+]?\d+)([{decimal}]\d+)?"


SIGNS = "$€£¥%"
_SIGN_BEFORE = re.compile(r"\s*([-+]?)\s*([$€£¥])\s*")
_SIGN_BEHIND = re.compile(r"\s*([%$€£¥])\s*$")
UNIT = r"°|°?[A-Za-zµμΩ][A-Za-zµμΩ²³/]{0,7}"
_UNIT_BEHIND = re.compile(rf"(?<=[\d.,])\s*({UNIT})\s*$")


def without_sign(text: str) -> tuple[str, str]:
    """(the text without its signs, the signs: one of currency before the number, and one of
    currency or percent or a unit behind it, at most).

    >>> without_sign("-$1,200"), without_sign("40 %"), without_sign("12")
    (('-1,200', '$'), ('40', '%'), ('12', ''))
    >>> without_sign("57.3 °C")
    ('57.3', '°C')
    """
    signs = ""
    if before := _SIGN_BEFORE.match(text):
        text, signs = before[1] + text[before.end() :], before[2]
    behind = _SIGN_BEHIND.search(text) or (None if signs else _UNIT_BEHIND.search(text))
    if behind:
        text, signs = text[: behind.start()], signs + behind[1]
    return text, signs


@dataclass(frozen=True)
class Style:
    """How the numbers of a column are written.

    form: of every cell, without its sign. needed: the form that some cell must have. replaced:
    (what, by what) to make a cell a plain number. sign: of currency or percent, which some cell has
    and no cell another; or a unit, which every cell has.
    """

    form: str
    needed: str
    replaced: tuple[tuple[str, str], ...] = ()
    sign: str = ""


STYLES = {  # without a sign, by name
    "decimal commas": Style(POINTS_AND_COMMA, r".*,.*", ((".", ""), (",", "."))),
    "commas between thousands": Style(COMMA_THOUSANDS, r".*,.*", ((",", ""),)),
    "points between thousands": Style(POINT_THOUSANDS, r".*\..*\..*", ((".", ""),)),
    "spaces between thousands": Style(
        rf"{PLAIN}|{space_thousands(SPACES + APOSTROPHES, '.,')}",
        rf".*\d[{SPACES}{APOSTROPHES}]\d.*",
        (*((space, "") for space in SPACES + APOSTROPHES), (",", ".")),
    ),
}
_SIGNED = re.compile(rf"'([{SIGNS}]|{UNIT})'( and (.+))?")


def styles_with(sign: str) -> dict[str, Style]:
    """The styles of numbers with a sign, by name; {} for what is no sign.

    >>> list(styles_with("kg"))[-1], styles_with("$%")
    ("'kg'", {})
    """
    if not sign:
        return STYLES
    if not re.fullmatch(rf"[{SIGNS}]|{UNIT}", sign):
        return {}
    signed = {f"'{sign}' and {name}": replace(s, sign=sign) for name, s in STYLES.items()}
    return {**signed, f"'{sign}'": Style(PLAIN, ".*", sign=sign)}


def style_of(name: str) -> Style:
    """The style of that name; KeyError where there is none."""
    signed = _SIGNED.fullmatch(name)
    return (styles_with(signed[1]) if signed else STYLES)[name]
