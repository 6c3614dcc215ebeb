"""How numbers are written as text: forms as regular expressions, shared by all readers of text."""

from __future__ import annotations

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


# How the numbers of a column are written -> the form of every cell, the forms of which a cell must
# be there, and what is taken away or replaced.
STYLES: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    "decimal commas": (
        POINTS_AND_COMMA,
        r".*,.*",
        ((".", ""), (",", ".")),
    ),
    "commas between thousands": (
        COMMA_THOUSANDS,
        r".*,.*",
        ((",", ""),),
    ),
    "points between thousands": (
        POINT_THOUSANDS,
        r".*\..*\..*",
        ((".", ""),),
    ),
    "spaces between thousands": (
        rf"{PLAIN}|{space_thousands(SPACES + APOSTROPHES, '.,')}",
        rf".*\d[{SPACES}{APOSTROPHES}]\d.*",
        (*((space, "") for space in SPACES + APOSTROPHES), (",", ".")),
    ),
}
