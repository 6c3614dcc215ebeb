"""The files of an experiment: its tables as .md, .csv and .tex, one page with all, and figures.

The bytes depend on the result alone; what differs from run to run stands in facts.json.
"""

from __future__ import annotations

import json
import math
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...reports.output import escape, files, tables
from ..console import plain
from .catalog import Experiment
from .experiment_result import ExperimentResult, ExperimentTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIGITS = 4  # significant digits of a printed number; the .csv has all
FIGURE_DPI = 150


def text_of(value: Any) -> str:
    """A table's entry as people read it: four significant digits, a dash for nothing.

    >>> [text_of(v) for v in (0.99941, 12345.6, 0.44, -52.0, 7, 0.0, None, float("nan"), "knn")]
    ['0.9994', '12346', '0.44', '−52', '7', '0', '–', '–', 'knn']
    """
    if value is None or value is pd.NA:
        return "–"
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    number = float(value)
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    text = tables.fixed(number, tables.decimals_for([number], DIGITS))
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def cells(table: ExperimentTable) -> list[list[str]]:
    """The entries as text, row by row."""
    return [[text_of(row.get(column)) for column in table.columns] for row in table.rows]


def _labels(table: ExperimentTable) -> int:
    """How many leading columns hold text alone; at least one."""
    text = (all(isinstance(row.get(c), str) for row in table.rows) for c in table.columns)
    return max(1, sum(1 for _ in takewhile(bool, text)))


def typeset(table: ExperimentTable) -> tables.ReportTable:
    """The table as `reports` writes it to LaTeX and Markdown."""
    rows = tuple(tuple(tables.TableCell(text) for text in row) for row in cells(table))
    return tables.ReportTable(
        table.name,
        table.title,
        tuple(table.columns),
        (tables.Panel(rows),),
        notes=(table.note,) if table.note else (),
        n_labels=_labels(table),
    )


def write(experiment: Experiment, result: ExperimentResult, folder: Path) -> list[Path]:
    """The files of a result in its folder: README.md, the page with everything, and three a
    table. Figures are there already."""
    texts = {"README.md": _page(experiment, result, folder)}
    for table in result.tables:
        frame = pd.DataFrame(list(table.rows), columns=table.columns, dtype=object)
        shown = (typeset(table),)
        texts |= files.render(tables.Section(table.name, experiment.entry.title, shown, frame))
    files.write_files(texts, folder)
    return [*(folder / name for name in texts), *result.figures]


def _page(experiment: Experiment, result: ExperimentResult, folder: Path) -> str:
    shown = tuple(typeset(table) for table in result.tables)
    section = tables.Section(
        experiment.name,
        experiment.entry.title,
        shown,
        pd.DataFrame(),
        (experiment.entry.source,),
    )
    parts = [tables.to_markdown(section)]
    parts += [f"![{path.stem}]({path.relative_to(folder).as_posix()})\n" for path in result.figures]
    parts += [f"{escape.markdown(escape.one_line(remark))}\n" for remark in result.remarks]
    return "\n".join(parts)


def write_facts(facts: dict[str, Any], folder: Path) -> Path:
    """facts.json: what made these files, and what differs from run to run."""
    path = folder / "facts.json"
    path.write_text(json.dumps(plain(facts), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def save_figure(figure: Figure, path: Path) -> Path:
    """A figure as PNG whose bytes depend on the figure alone; closes it."""
    from matplotlib import pyplot

    figure.savefig(path, dpi=FIGURE_DPI, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)
    return path


def new_figure(
    n_columns: int = 1, *, n_rows: int = 1, width: float = 4.5, height: float = 3.2
) -> tuple[Any, Any]:
    """(figure, axes[row][column]), inches each, drawn without a display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = (width * n_columns, height * n_rows)
    return pyplot.subplots(n_rows, n_columns, figsize=size, squeeze=False)
