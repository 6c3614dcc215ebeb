"""How does a column of numbers stand on its decimal points? The S columns of LaTeX's siunitx."""

from __future__ import annotations

import re
from collections.abc import Sequence

PREAMBLE = "\\usepackage{booktabs} and \\usepackage{siunitx}, version 3"
SETUP = "\\sisetup{text-series-to-math, propagate-math-font, table-alignment=right}%\n"

_NUMBER = re.compile(r"(?P<sign>−?)(?P<whole>\d*)(?:\.(?P<digits>\d+))?")


def is_number(text: str) -> bool:
    """Whether a cell's text is a plain number, as `tables.fixed` and `tables.bare` write it."""
    return bool(text) and _NUMBER.fullmatch(text) is not None and text != "−"


def column(cells: Sequence[tuple[str, str]]) -> str | None:
    """The S column for cells of (text, LaTeX that follows it), with room for the widest of each
    part; None where fewer than half of the texts are numbers."""
    found = [m for text, _ in cells if is_number(text) and (m := _NUMBER.fullmatch(text))]
    if not found or 2 * len(found) < sum(bool(text) for text, _ in cells):
        return None
    sign = "-" if any(m["sign"] for m in found) else ""
    whole = max(len(m["whole"]) for m in found)
    digits = max(len(m["digits"] or "") for m in found)
    after = max((after for text, after in cells if is_number(text)), key=len)
    room = (
        f"{sign}{whole or ''}" + (f".{digits}" if digits else "") + (f"{{{after}}}" * bool(after))
    )
    bare = ", print-zero-integer=false" if any(not m["whole"] for m in found) else ""
    return f"S[table-format={room}{bare}]"


def entry(text: str, after: str, bold: bool, underline: bool) -> str:
    """A number for an S column. The line below it is drawn backwards from its end, as siunitx takes
    no command around a number."""
    number = text.replace("−", "-")
    if underline:
        shown = text.replace("−", "$-$")
        after = f"\\llap{{\\underline{{\\phantom{{{shown}}}}}}}{after}"
    return ("\\bfseries " if bold else "") + number + (f"{{{after}}}" if after else "")
