"""The files of a report: a section in its three forms, and writing them to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...common.files import write_atomically
from .tables import Section, to_csv, to_latex, to_markdown


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
