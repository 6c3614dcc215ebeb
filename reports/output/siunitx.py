"""Columns of numbers aligned on their decimal points: the S columns of LaTeX's siunitx."""

from __future__ import annotations

import re
from collections.abc import Sequence

PREAMBLE = "\\usepackage{booktabs} and \\usepackage{siunitx}, version 3"
SETUP = (
    "\\sisetup{text-series-to-math, propagate-math-font, table-alignment=right,\n"
    "  table-align-text-after=false}%\n"
)

_NUMBER = re.compile(r"(?P<sign>−?)(?P<whole>\d*)(?:\.(?P<digits>\d+))?")


def is_number(text: str) -> bool:
    """Whether a cell's text is a plain number, as `tables.fixed` and `tables.bare` write it."""
    return bool(text) and _NUMBER.fullmatch(text) is not None and text != "−"


def column(cells: Sequence[tuple[str, str]]) -> str | None:
    """The S column for cells of (text, LaTeX that follows it), with room for the most digits before
    and after the point; None if fewer than half of the texts are numbers."""
    texts = [text for text, _ in cells]
    numbers = [text for text in texts if is_number(text)]
    if not numbers or 2 * len(numbers) < sum(map(bool, texts)):
        return None
    sign, whole, digits = _parts(numbers)
    after = max((after for text, after in cells if is_number(text)), key=len)
    room = (
        f"{sign}{whole or ''}" + (f".{digits}" if digits else "") + (f"{{{after}}}" * bool(after))
    )
    bare = any(text.startswith((".", "−.")) for text in numbers)
    return f"S[table-format={room}{', print-zero-integer=false' * bare}]"


def widest(texts: Sequence[str]) -> str:
    """A number as wide as the S column of these texts: the most digits on both sides."""
    sign, whole, digits = _parts([text for text in texts if is_number(text)])
    return sign.replace("-", "−") + "0" * whole + ("." + "0" * digits if digits else "")


def _parts(numbers: Sequence[str]) -> tuple[str, int, int]:
    """(minus sign or empty, most digits before the point, most digits after it)."""
    found = [m for text in numbers if (m := _NUMBER.fullmatch(text))]
    sign = "-" if any(m["sign"] for m in found) else ""
    whole = max((len(m["whole"]) for m in found), default=0)
    return sign, whole, max((len(m["digits"] or "") for m in found), default=0)


def entry(text: str, after: str, bold: bool, underline: bool) -> str:
    """A number for an S column. Its underline is drawn backwards from its end, as siunitx accepts
    no command around a number."""
    number = text.replace("−", "-")
    if underline:
        shown = text.replace("−", "$-$")
        after = f"\\llap{{\\underline{{\\phantom{{{shown}}}}}}}{after}"
    return ("\\bfseries " if bold else "") + number + (f"{{{after}}}" if after else "")
