"""The files of a report: a section in its three forms, and writing them to a folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from ...common.files import write_atomically
from . import escape
from .tables import Section, to_latex, to_markdown


def render(section: Section) -> dict[str, str]:
    """{file name: text} of a section as LaTeX, Markdown and CSV."""
    texts = {
        "tex": lambda: to_latex(section.tables),
        "md": lambda: to_markdown(section),
        "csv": lambda: to_csv(section.frame),
    }
    return {f"{section.name}.{ending}": texts[ending]() for ending in section.endings}


def write_files(texts: Mapping[str, str | bytes], out: str | Path) -> list[Path]:
    """Write each text to its file under `out`, atomically; return the sorted paths."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for parent in {(folder / name).parent for name in texts}:
        parent.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        data = text.encode("utf-8") if isinstance(text, str) else text
        write_atomically(folder / name, data, sync=False)
    return [folder / name for name in sorted(texts)]


def to_csv(frame: pd.DataFrame) -> str:
    """Comma-separated, '\\n' line ends, numbers with 12 significant digits, missing = empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(frame.columns)
    texts = [_csv_texts(frame.iloc[:, i]) for i in range(frame.shape[1])]
    writer.writerows(zip(*texts, strict=True))
    return out.getvalue()


def _csv_texts(column: pd.Series) -> list[str]:
    """The values of a column as `to_csv` writes them."""
    if column.dtype == "float64":
        return ["" if value != value else f"{value:.12g}" for value in column.tolist()]
    if column.dtype == "int64":
        return list(map(str, column.tolist()))
    return list(map(_csv_value, column.tolist()))


def _csv_value(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.12g}"
    if value.__class__ is str:
        return escape.csv_text(value)  # type: ignore[arg-type]
    if value is None or value is pd.NA or value != value:
        return ""
    if value.__class__.__name__ in ("bool", "bool_"):
        return "true" if value else "false"
    if isinstance(value, int) or hasattr(value, "__index__"):
        return str(int(value))  # type: ignore[call-overload]
    return escape.csv_text(str(value))
