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


def without_sign(text: str) -> tuple[str, str]:
    """(the text without its signs of currency and percent, the signs: one before the number and one
    behind it at most).

    >>> without_sign("-$1,200"), without_sign("40 %"), without_sign("12")
    (('-1,200', '$'), ('40', '%'), ('12', ''))
    """
    signs = ""
    if before := _SIGN_BEFORE.match(text):
        text, signs = before[1] + text[before.end() :], before[2]
    if behind := _SIGN_BEHIND.search(text):
        text, signs = text[: behind.start()], signs + behind[1]
    return text, signs


@dataclass(frozen=True)
class Style:
    """How the numbers of a column are written.

    form: of every cell, without its sign. needed: the form that some cell must have. replaced:
    (what, by what) to make a cell a plain number. sign: of currency or percent, which some cell has
    and no cell another.
    """

    form: str
    needed: str
    replaced: tuple[tuple[str, str], ...] = ()
    sign: str = ""


_UNSIGNED = {
    "decimal commas": Style(POINTS_AND_COMMA, r".*,.*", ((".", ""), (",", "."))),
    "commas between thousands": Style(COMMA_THOUSANDS, r".*,.*", ((",", ""),)),
    "points between thousands": Style(POINT_THOUSANDS, r".*\..*\..*", ((".", ""),)),
    "spaces between thousands": Style(
        rf"{PLAIN}|{space_thousands(SPACES + APOSTROPHES, '.,')}",
        rf".*\d[{SPACES}{APOSTROPHES}]\d.*",
        (*((space, "") for space in SPACES + APOSTROPHES), (",", ".")),
    ),
}
STYLES: dict[str, Style] = {  # by name
    **_UNSIGNED,
    **{
        f"'{sign}' and {name}": replace(style, sign=sign)
        for sign in SIGNS
        for name, style in _UNSIGNED.items()
    },
    **{f"'{sign}'": Style(PLAIN, ".*", sign=sign) for sign in SIGNS},
}
