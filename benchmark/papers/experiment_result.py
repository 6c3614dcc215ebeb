"""The setting and the result of an experiment: tables, figures, remarks and measured facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...datasets.catalog import card, load_dataset
from ...datasets.protocols import Fold, make_folds
from ...datasets.table import Table
from ...models.registry import make_model

Size = Literal["tiny", "reduced", "full"]
TINY = "Size tiny: a trial run; its numbers mean nothing."


@dataclass(frozen=True)
class Setting:
    """How an experiment is to run. size: `reduced` ends within minutes on two CPU cores, `full` is
    the paper's and needs a GPU; `tiny` goes through all steps of `reduced` in seconds, with a few
    training steps and rows, and its numbers mean nothing. out: its folder, for figures. say: called
    with lines of progress."""

    size: Size
    seed: int
    device: str
    threads: int
    out: Path
    say: Callable[[str], None]

    @property
    def full(self) -> bool:
        """Whether this is the paper's size."""
        return self.size == "full"

    def seeds(self, n: int) -> range:
        """n seeds, the first of which is that of the experiment."""
        return range(self.seed, self.seed + n)

    def load(self, name: str) -> Table:
        """A dataset. Raises what `load_dataset` raises."""
        return load_dataset(name)

    def folds(self, data: Table) -> list[Fold]:
        """The folds of a dataset under the protocol of its card."""
        return make_folds(data, card(data.name).protocol, seed=self.seed)

    def fit(
        self,
        model: str,
        data: Table,
        fold: Fold,
        config: Mapping[str, Any],
        seed: int | None = None,
        **given: Any,
    ) -> Any:
        """A model of the registry, fitted on a fold's training rows with its validation rows.

        seed: that of the experiment where none is given. given: further arguments of `fit`.
        """
        made = make_model(
            model,
            task=data.task,
            seed=self.seed if seed is None else seed,
            threads=self.threads,
            device=self.device,
            **config,
        )
        y = data.target
        return made.fit(
            data.rows(fold.train), y[fold.train], data.rows(fold.val), y[fold.val], **given
        )


@dataclass(frozen=True)
class ExperimentTable:
    """Rows under a title. name: of its files, lower-kebab-case. rows: {column: text, number or
    None}; None is printed as a dash, and so is a column that the row lacks."""

    name: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    note: str = ""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order in which rows first have them."""
        return list(dict.fromkeys(column for row in self.rows for column in row))


@dataclass
class ExperimentResult:
    """Tables, figures (files in the experiment's folder) and remarks that stand below them. facts:
    what differs from run to run, seconds above all; it goes to facts.json alone."""

    tables: list[ExperimentTable] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
