"""What does an experiment leave? Tables with the published numbers beside ours, figures, remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Size = Literal["reduced", "full"]


@dataclass(frozen=True)
class Setting:
    """How an experiment is to run. size: `reduced` ends within minutes on two CPU cores, `full` is
    the paper's and wants a GPU. out: its folder, for figures. say: told of progress, a line each."""

    size: Size
    seed: int
    device: str
    threads: int
    out: Path
    say: Callable[[str], None]


@dataclass(frozen=True)
class Table:
    """Rows under a title. columns: their names; rows: text, numbers or None (printed as a dash)."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


@dataclass
class Outcome:
    """Tables, figures (files in the experiment's folder) and remarks that stand below them."""

    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
