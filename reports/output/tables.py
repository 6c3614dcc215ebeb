"""Tables of a report, and their writers for LaTeX, Markdown and CSV.

A ReportTable holds plain text; the writers escape it (`escape.py`). The LaTeX needs booktabs and
fits the text width of an article: it has the largest of three font sizes in which the table fits,
else blocks of columns below each other. Wide ones span two columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pandas as pd

from . import escape
from .text_width import TEXT_WIDTH_PT, width

COLUMN_PT = 200.0  # of a column of an article in two columns at 10pt
MOST_WAITING = 4  # floats of a file in a row; LaTeX keeps 52 until there is room for them
PAGE_PT = 550.0  # height of its text
NOTE_CHARACTERS = 95  # about so many characters of a note in \scriptsize fit on a line
LABEL_GAP_PT = 6.0  # between two columns of text
MAX_DECIMALS = 6
MIN_LINES = 5  # of a piece of a table: four rows and a rule, also beside notes that fill the page
HEADER_CHARACTERS = 9  # a longer heading is broken at its hyphens


@dataclass(frozen=True)
class TableCell:
    """One cell of a table: text, an uncertainty in small type (`sub`), a footnote sign (`mark`).

    `span`: the number of columns. `underline` is written as italics in Markdown.
    """

    text: str = ""
    sub: str = ""
    bold: bool = False
    underline: bool = False
    mark: str = ""
    span: int = 1


Row = Sequence[TableCell]


@dataclass(frozen=True)
class Panel:
    """Rows between two rules, with an optional title."""

    rows: tuple[Row, ...]
    title: str = ""


@dataclass(frozen=True)
class ReportTable:
    """A titled table with notes. The first `n_labels` columns are text, repeated in every block of
    columns. ValueError for a row whose cells do not fill the header's columns, and for underlined
    cells without `best`."""

    name: str  # for the LaTeX label: letters, digits, hyphens
    title: str
    header: tuple[str, ...]
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    n_labels: int = 1
    in_latex: bool = True  # or in Markdown alone
    best: str = ""  # of each of these, such as "column", the best is bold, the second underlined

    def __post_init__(self) -> None:
        for panel in self.panels:
            for row in panel.rows:
                width = sum(cell.span for cell in row)
                if width != len(self.header):
                    raise ValueError(
                        f"table {self.name!r}: a row has {width} columns, not {len(self.header)}"
                    )
                if any(cell.underline for cell in row) and not self.best:
                    raise ValueError(f"table {self.name!r}: what is underlined? `best` is empty")

    def rule(self, second: str = "underlined") -> str:
        """Which cells stand out, and how the writer shows the second best; "" where none does."""
        return f"The best of each {self.best} is bold, the second best {second}." * bool(self.best)

    def caption(self, second: str = "underlined") -> str:
        """The title and the `rule`."""
        return f"{self.title} {self.rule(second)}".rstrip()

    @cached_property
    def columns(self) -> list[list[TableCell]]:
        """The cells of each column, without those that span several columns."""
        found: list[list[TableCell]] = [[] for _ in self.header]
        for row in (row for panel in self.panels for row in panel.rows):
            start = 0
            for cell in row:
                if cell.span == 1:
                    found[start].append(cell)
                start += cell.span
        return found

    def only(self, columns: Sequence[int]) -> ReportTable:
        """These columns alone, of a table without a cell over several."""
        panels = tuple(
            Panel(tuple([row[c] for c in columns] for row in panel.rows), panel.title)
            for panel in self.panels
        )
        return replace(self, header=tuple(self.header[c] for c in columns), panels=panels)

    def without_same(self, *heads: str) -> ReportTable:
        """Without those of these columns that say the same in several rows; a note has it."""
        columns = [(c, cells) for c, cells in enumerate(self.columns) if self.header[c] in heads]
        same = {c: cells[0].text for c, cells in columns if len(cells) > 1 == len(set(cells))}
        if not same:
            return self
        told = ", ".join(f"{self.header[c]} {text}" for c, text in same.items())
        kept = [c for c in range(len(self.header)) if c not in same]
        return replace(self.only(kept), notes=(*self.notes, f"In every row: {told}."))


@dataclass(frozen=True)
class Section:
    """One file of the report: tables for its .tex and .md, a tidy frame for its .csv."""

    name: str
    title: str
    tables: tuple[ReportTable, ...]
    frame: pd.DataFrame
    remarks: tuple[str, ...] = field(default=())  # paragraphs above the tables in Markdown
    about: str = ""  # what it holds, for the list of files in about.md

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of its files; without .tex where none of its tables is for LaTeX."""
        latex = any(table.in_latex for table in self.tables)
        return ("tex", "md", "csv") if latex else ("md", "csv")


# --- numbers --------------------------------------------------------------------------------------


def fixed(value: float, decimals: int) -> str:
    """The number with so many decimals; in scientific notation if it is very large or small."""
    if abs(value) >= 1e7 or (decimals >= MAX_DECIMALS and 0.0 < abs(value) < 1e-4):
        short = f"{value:.2e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
        return short.replace("-", "−")
    text = f"{value:.{decimals}f}"
    if text.startswith("-"):
        return "−" + text[1:] if text.strip("-0.") else text[1:]
    return text


def bare(value: float, decimals: int) -> str:
    """`fixed` without the zero before the point."""
    text = fixed(value, decimals)
    return text.replace("0.", ".", 1) if text.startswith(("0.", "−0.")) else text


def decimals_for(values: Sequence[float], digits: int = 3) -> int:
    """The number of decimals with which the smallest value has `digits` significant digits."""
    sizes = [abs(v) for v in values if v and math.isfinite(v)]
    if not sizes:
        return 2
    return min(MAX_DECIMALS, max(0, digits - 1 - math.floor(math.log10(min(sizes)))))


def p_text(p: float, alpha: float = 0.05) -> str:
    """A p-value with three decimals, four below .001 and beside `alpha`, on whose sides it has two
    meanings (.0496); '1' above .9995, '<.0001' below .0001."""
    if p < 0.0001 or p > 0.9995:
        return "1" if p > 0.5 else "<.0001"
    text = f"{p:.4f}" if p < 0.001 or 0 < abs(p - alpha) < 0.0005 else f"{p:.3f}"
    return text[1:] if text.startswith("0") else text


# --- LaTeX ----------------------------------------------------------------------------------------

_SIZES = (("small", 9.0, 4.0), ("footnotesize", 8.0, 3.0), ("scriptsize", 7.0, 1.5))
_BASELINES = {"small": 11.0, "footnotesize": 9.5, "scriptsize": 8.0}  # pt
_WIDER_GAPS = (6.0, 5.0, 4.0, 3.0, 2.0)  # pt; 6 is LaTeX's own


@dataclass(frozen=True)
class _Fit:
    """The layout of a table: font size (name and pt), half of the gap between columns (pt), the
    width of each column (pt), and the column numbers of each block."""

    size: str
    points: float
    gap: float
    widths: list[float]
    blocks: list[list[int]]


def upright(table: ReportTable) -> ReportTable:
    """A table of scores `transposed` where it has more models than datasets, any other as it is."""
    rows = sum(len(panel.rows) for panel in table.panels)
    wide = table.name.startswith("scores-") and len(table.header) - 1 > rows
    return transposed(table) if wide else table


def transposed(table: ReportTable) -> ReportTable:
    """A table of datasets with a row for each of its columns, the models."""
    rows = [row for panel in table.panels for row in panel.rows]
    header = ("model", *(row[0].text + row[0].mark for row in rows))
    models = enumerate(table.header[1:], start=1)
    turned = tuple((TableCell(name), *(row[c] for row in rows)) for c, name in models)
    return replace(table, header=header, panels=(Panel(turned),))


def to_latex(tables: Sequence[ReportTable]) -> str:
    """Floats with booktabs rules, for \\input; they need \\usepackage{booktabs}."""
    floats = [f for table in tables if table.in_latex for f in _float(table)]
    for last in range(MOST_WAITING - 1, len(floats), MOST_WAITING):
        floats[last] += "\\clearpage\n"
    needs = "\\usepackage{booktabs} in the preamble"
    if not all(map(str.isascii, floats)):
        needs += ", and LuaLaTeX with fonts for its letters, as in paper/main.tex"
    return "\n".join([f"% Made by tabsweep. Needs {needs}.\n", *floats])


def _float(table: ReportTable) -> list[str]:
    fit = _largest_fit(table)
    room = _room(table, fit.size)
    pieces = [
        (block, panels)
        for block in fit.blocks
        for panels in _row_chunks(table, max(room - 2 * _header_depth(table, block), MIN_LINES))
    ]
    floats: list[list[str]] = [[]]
    used = 0
    for block, panels in pieces:
        lines = sum(len(p.rows) + 1 for p in panels) + _header_depth(table, block) + 1
        if floats[-1] and used + lines > room:
            floats.append([])
            used = 0
        floats[-1].append(_tabular(table, block, panels, fit))
        used += lines
    return [_wrap_float(table, body, fit, number) for number, body in enumerate(floats, start=1)]


def _room(table: ReportTable, size: str) -> int:
    """Table lines of that size that fit on a page together with the caption and all notes."""
    notes = sum(math.ceil(len(note) / NOTE_CHARACTERS) for note in table.notes)
    caption = math.ceil(len(table.caption()) / 70)
    return max(12, int((PAGE_PT - 8.0 * notes - 12.0 * caption - 44.0) / _BASELINES[size]))


def _largest_fit(table: ReportTable) -> _Fit:
    """The layout with the largest font size in which the table is one block, else the smallest
    size; the gaps are as wide as possible without another block."""
    fits = []
    for size, points, gap in _SIZES:
        widths = _widths(table, points)
        fits.append(_Fit(size, points, gap, widths, _blocks(table, widths, gap)))
        labels = sum(widths[: table.n_labels]) + LABEL_GAP_PT * (table.n_labels - 1)
        if len(fits[-1].blocks) == 1 and labels <= TEXT_WIDTH_PT:
            break
    fit = fits[-1]
    for gap in (g for g in _WIDER_GAPS if g > fit.gap):
        if len(_blocks(table, fit.widths, gap)) == len(fit.blocks):
            return replace(fit, gap=gap)
    return fit


def _wrap_float(table: ReportTable, body: list[str], fit: _Fit, number: int) -> str:
    title = escape.latex(table.caption()) + (" (continued)" if number > 1 else "")
    suffix = f"-{number}" if number > 1 else ""
    notes = ""
    if table.notes and number == 1:
        text = "\\par\n    ".join(escape.latex(escape.one_line(n)) for n in table.notes)
        notes = (
            "  \\par\\smallskip\n"
            "  \\begin{minipage}{\\linewidth}\\scriptsize\\raggedright\n"
            f"    {text}\n"
            "  \\end{minipage}\n"
        )
    tabulars = "  \\par\\medskip\n".join(body)
    widest = max(sum(fit.widths[c] + 2 * fit.gap for c in block) for block in fit.blocks)
    kind = "table" if widest <= COLUMN_PT else "table*"  # over both columns of a two-column class
    return (
        f"\\begin{{{kind}}}[tp]\n"
        "  \\centering\n"
        f"  \\caption{{{title}}}\\par\\smallskip\n"
        f"  \\label{{tab:{table.name}{suffix}}}\n"
        f"  \\{fit.size}\\setlength{{\\tabcolsep}}{{{fit.gap:g}pt}}%\n"
        f"{tabulars}{notes}"
        f"\\end{{{kind}}}\n"
    )


def _tabular(table: ReportTable, block: list[int], panels: list[Panel], fit: _Fit) -> str:
    labels = f"@{{\\hspace{{{LABEL_GAP_PT:g}pt}}}}".join("l" * table.n_labels)
    columns = labels + "r" * len(block[table.n_labels :])
    lines = [f"  \\begin{{tabular}}{{@{{}}{columns}@{{}}}}", "    \\toprule"]
    headings = [_broken(table.header[c]) for c in block]
    depth = max(len(h) for h in headings)
    for line in range(depth):
        row = [h[line - depth + len(h)] if line >= depth - len(h) else "" for h in headings]
        lines.append("    " + " & ".join(map(escape.latex, row)) + r" \\")
    for panel in panels:
        lines.append("    \\midrule")
        if panel.title:
            title = f"\\textit{{{escape.latex(panel.title)}}}"
            lines.append(f"    \\multicolumn{{{len(block)}}}{{@{{}}l}}{{{title}}} \\\\")
        lines.extend("    " + _latex_row(row, block, fit) + r" \\" for row in panel.rows)
    lines += ["    \\bottomrule", "  \\end{tabular}\n"]
    return "\n".join(lines)


def _latex_row(row: Row, block: list[int], fit: _Fit) -> str:
    """The row's cells that lie in the block; a spanning cell covers its columns in this block."""
    entries, start = [], 0
    for cell in row:
        here = [c for c in block if start <= c < start + cell.span]
        start += cell.span
        if here and cell.span > 1:
            beside = [fit.widths[c] + 2 * fit.gap for c in block if c not in here]
            entries.append(_spanning(cell, len(here), TEXT_WIDTH_PT - sum(beside), fit))
        elif here:
            entries.append(_latex_cell(cell))
    return " & ".join(entries)


def _spanning(cell: TableCell, n_columns: int, room: float, fit: _Fit) -> str:
    """A cell over several columns, broken into lines if it is wider than `room` pt."""
    text = _latex_cell(cell)
    if _cell_width(cell, fit.points) <= room - 2 * fit.gap:
        return f"\\multicolumn{{{n_columns}}}{{l}}{{{text}}}"
    paragraph = f"p{{{room - 2 * fit.gap - LABEL_GAP_PT:.0f}pt}}"
    return f"\\multicolumn{{{n_columns}}}{{{paragraph}}}{{\\raggedright {text}}}"


def _latex_cell(cell: TableCell) -> str:
    text = escape.latex(cell.text)
    if cell.bold:
        text = f"\\textbf{{{text}}}"
    if cell.underline:
        text = f"\\underline{{{text}}}"
    if cell.sub:  # the sign minus would end the mathematics
        text += f"$_{{\\mathrm{{{escape.latex(cell.sub.replace('−', '-'))}}}}}$"
    return text + (f"\\textsuperscript{{{escape.latex(cell.mark)}}}" if cell.mark else "")


def _broken(heading: str) -> list[str]:
    """A heading in lines of about HEADER_CHARACTERS, broken after hyphens, dots and spaces."""
    words = re.findall(r"[^-_.: ]*[-_.: ]|[^-_.: ]+", heading) or [""]
    lines = [""]
    for word in words:
        alone = len(word.strip()) > 1  # a single sign, such as an arrow, stays with its word
        if lines[-1] and alone and len(lines[-1] + word.rstrip()) > HEADER_CHARACTERS:
            lines.append("")
        lines[-1] += word
    return [line.strip() for line in lines]


def _header_depth(table: ReportTable, block: list[int]) -> int:
    return max(len(_broken(table.header[c])) for c in block)


def _widths(table: ReportTable, points: float) -> list[float]:
    """Width in pt of each column, without the cells that span several."""
    widths = []
    for heading, cells in zip(table.header, table.columns, strict=True):
        lines = [width(line, points) for line in _broken(heading)]
        widths.append(max(*lines, *(_cell_width(cell, points) for cell in cells), 0.0))
    return widths


def _blocks(table: ReportTable, widths: list[float], gap: float) -> list[list[int]]:
    """The columns of each block: groups of nearly equal size that fit the text width, each with the
    label columns."""
    labels = list(range(table.n_labels))
    rest = list(range(table.n_labels, len(table.header)))
    room = (
        TEXT_WIDTH_PT
        + 2 * gap
        - LABEL_GAP_PT * (table.n_labels - 1)
        - sum(widths[c] + 2 * gap for c in labels)
    )
    n_blocks = 1
    while n_blocks < len(rest):
        size = math.ceil(len(rest) / n_blocks)
        groups = [rest[i : i + size] for i in range(0, len(rest), size)]
        if all(sum(widths[c] + 2 * gap for c in group) <= room for group in groups):
            break
        n_blocks += 1
    size = math.ceil(len(rest) / n_blocks) if rest else 1
    return [labels + rest[i : i + size] for i in range(0, len(rest), size)] or [labels]


def _row_chunks(table: ReportTable, limit: int) -> list[list[Panel]]:
    """The panels split into pieces of at most `limit` lines."""
    chunks: list[list[Panel]] = [[]]
    used = 0
    for panel in table.panels:
        rows = list(panel.rows)
        while rows:
            free = limit - used - 1
            if used and len(rows) > free and (free < 3 or len(rows) < limit):
                chunks.append([])
                used, free = 0, limit - 1
            chunks[-1].append(Panel(tuple(rows[:free]), panel.title))
            used += len(rows[:free]) + 1
            rows = rows[free:]
    return [chunk for chunk in chunks if chunk] or [[]]


def _cell_width(cell: TableCell, points: float) -> float:
    bold = 1.15 if cell.bold else 1.0
    small = width(cell.sub, 5.0) + 1.0 if cell.sub else 0.0
    return bold * width(cell.text, points) + small + width(cell.mark, 5.0)


# --- Markdown and CSV -----------------------------------------------------------------------------


Escape = Callable[[str], str]


def to_markdown(section: Section) -> str:
    """The section as Markdown: headings, padded pipe tables, and notes as lists."""
    return _in_pipes(section, escape.markdown)


def to_text(section: Section) -> str:
    """The same for a terminal: nothing is escaped, invisible characters are shown as [U+XXXX]."""
    return _in_pipes(section, escape.visible)


def _in_pipes(section: Section, esc: Escape) -> str:
    parts = [f"# {esc(section.title)}\n"]
    parts += [f"{esc(escape.one_line(r))}\n" for r in section.remarks]
    parts += [_markdown_table(table, esc) for table in section.tables]
    return "\n".join(parts)


def _markdown_table(table: ReportTable, esc: Escape) -> str:
    head = [esc(h) for h in table.header]
    rows: list[list[str]] = []
    for panel in table.panels:
        if panel.title:
            rows.append([f"*{esc(panel.title)}*"] + [""] * (len(head) - 1))
        for row in panel.rows:
            rows.append([t for cell in row for t in _markdown_cells(cell, esc)])
    widths = [max(3, *(len(r[c]) for r in [head, *rows])) for c in range(len(head))]
    widths = [min(w, 44) for w in widths]
    right = [c >= table.n_labels for c in range(len(head))]
    rule = ["-" * (w - 1) + ":" if r else "-" * w for w, r in zip(widths, right, strict=True)]
    lines = [_pipe(head, widths, right), "| " + " | ".join(rule) + " |"]
    lines += [_pipe(row, widths, right) for row in rows]
    notes = "".join(f"- {esc(escape.one_line(n))}\n" for n in table.notes)
    return f"## {esc(table.caption('italic'))}\n\n" + "\n".join(lines) + "\n\n" + notes


def _markdown_cells(cell: TableCell, esc: Escape) -> list[str]:
    text = esc(cell.text)
    if cell.bold:
        text = f"**{text}**"
    if cell.underline:
        text = f"*{text}*"
    if cell.sub:
        text += f" ± {esc(cell.sub)}"
    if cell.mark:
        text += f" {esc(cell.mark)}"
    return [text] + [""] * (cell.span - 1)


def _pipe(row: list[str], widths: list[int], right: list[bool]) -> str:
    padded = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)]
    return "| " + " | ".join(padded) + " |"
