"""The setting and the result of an experiment: tables, figures, remarks and measured facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Size = Literal["tiny", "reduced", "full"]
TINY = "Size tiny: a trial run; its numbers mean nothing."


@dataclass(frozen=True)
class Setting:
    """How an experiment is to run. size: `reduced` ends within minutes on two CPU cores, `full` is
    the paper's and needs a GPU; `tiny` goes through all steps of `reduced` in seconds, with a few
    training steps and rows, and its numbers mean nothing. out: its folder, for figures. say: called
    with lines of progress. mirror, cache: where datasets come from, for `load_dataset`."""

    size: Size
    seed: int
    device: str
    threads: int
    out: Path
    say: Callable[[str], None]
    mirror: str | None = None
    cache: str | None = None

    @property
    def full(self) -> bool:
        """Whether this is the paper's size."""
        return self.size == "full"


@dataclass(frozen=True)
class ExperimentTable:
    """Rows under a title. name: of its files, lower-kebab-case. columns: their names; rows: text,
    numbers or None (printed as a dash)."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


@dataclass
class ExperimentResult:
    """Tables, figures (files in the experiment's folder) and remarks that stand below them. facts:
    what differs from run to run, seconds above all; it goes to facts.json alone."""

    tables: list[ExperimentTable] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
