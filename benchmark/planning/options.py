"""The options of `bench sweep` as one value: each is a field, which says all there is to say of it.

From the fields follow the command line (`arguments.options_of`), what a run's plan keeps, what a
run that is started again may change (`running.resume`), and the command that makes a number again
(`bench explain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..arguments import flag_of, named_model, option, options_of, seed_of
from ..completion import DATASETS, MODELS, SUITES

if TYPE_CHECKING:
    from ...datasets.reading.columns import Reading
    from .suite import Suite

data, search, machine, output = (
    partial(option, group) for group in ("data", "search", "machine", "output")
)
column: Any = partial(data, reads=True, metavar="COLUMN")

# What a plan keeps of an option ("kept"), by what a run that is started again makes of it.
SAME = "same"  # another value is refused
STAYS = "stays"  # what the run had, where none is given
LARGER = "larger"  # the larger of the two numbers
BOTH = "both"  # all that either names

WHOLE = click.IntRange(min=1)
SECONDS = click.FloatRange(min=0, min_open=True)
PATH = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
TASKS = click.Choice(["binary", "multiclass", "classification", "regression"])
SAMPLERS = click.Choice(["grid", "random", "tpe", "hyperopt"])


@dataclass(frozen=True)
class Options:
    """What `bench sweep` is asked for.

    Facts of a field besides those above. again: `bench resume` and `retry` take the option, too.
    reads: it says how the files of --csv are read.
    """

    suite: str | None = data(
        help="Name of a suite (`bench suites`) or path of a suite file.",
        shell_complete=SUITES,
    )
    csv: tuple[Path, ...] = data(
        (),
        help="A file of yours instead: CSV, Parquet or Arrow, also compressed. Repeatable.",
        type=PATH,
        metavar="FILE",
    )
    target: tuple[str, ...] = data(
        (), help="Column of --csv to predict: one for all files, or one each.", metavar="COLUMN"
    )
    task: str | None = data(
        help="Task of a file; default: from the values of its target.", type=TASKS, reads=True
    )
    group: str | None = column(help="Rows with one value here stay in one part.")
    time: str | None = column(help="Split by time: the earliest rows train, the latest are tested.")
    weight: str | None = column(help="How much each row counts.")
    drop: tuple[str, ...] = column((), help="Not a feature. Repeatable.")
    missing: tuple[str, ...] = column(
        (), help="Marks a missing value, too. Repeatable.", metavar="TEXT"
    )
    categorical: tuple[str, ...] = column((), help="Categories, not numbers. Repeatable.")
    numeric: tuple[str, ...] = column((), help="Numbers, not categories. Repeatable.")
    date: tuple[str, ...] = column((), help="Dates or times. Repeatable.")
    text: tuple[str, ...] = column((), help="Texts, read by their letters. Repeatable.")
    join: tuple[str, ...] = column(
        (),
        help="Its categories or classes are one where only case, blanks or a mark at their end "
        "tell them apart. Repeatable.",
    )
    day_first: bool | None = data(
        help="Dates such as 01/02/2024 begin with the day.",
        flag="--day-first/--month-first",
        reads=True,
    )
    drop_missing_target: bool = data(False, help="Leave out rows without a target.", reads=True)
    predict_missing: bool | None = data(
        help="With --drop-missing-target: write the best model's predictions of these rows at the "
        "end.",
        is_flag=True,
        kept=STAYS,
    )
    positive: str | None = data(
        help="The positive class of average precision and F1; default: the last by name.",
        metavar="CLASS",
        reads=True,
    )
    costs: tuple[str, ...] = data(
        (),
        help="What a row of CLASS costs that is taken for OTHER, or without OTHER for any other "
        "class. Repeatable.",
        flag="--cost",
        metavar="CLASS[:OTHER]=NUMBER",
        reads=True,
    )
    datasets: tuple[str, ...] = data(
        (),
        help="Only this dataset of the suite, or another one by name. Repeatable.",
        flag="--dataset",
        shell_complete=DATASETS,
        kept=BOTH,
    )
    sizes: str | None = data(
        help="Draw so many training rows, smaller sets as parts of larger ones, and test all on "
        "the same rows: would more rows help?",
        metavar="N,N,...",
        kept=STAYS,
    )

    metric: str | None = search(
        help="Selects the configurations and ranks the models, on data of its task.",
        metavar="NAME",
        kept=STAYS,
    )
    target_transform: str | None = search(
        help="Learn the logarithm or the ranks of a regression target; scores stay in its units.",
        type=click.Choice(["log", "rank"]),
        kept=SAME,
    )
    budget: str | None = search(
        help="quick, standard, paper, ... as the suite defines them.", kept=SAME
    )
    minutes: float | None = search(
        help="Plan what fits into so many minutes on this machine, for files of --csv.",
        type=SECONDS,
        metavar="M",
        kept=SAME,
    )
    models: tuple[str, ...] = search(
        (),
        help="Name, package.module:Class or file.py:Class. Repeatable.",
        flag="--model",
        callback=named_model,
        shell_complete=MODELS,
        kept=BOTH,
    )
    folds: int | None = search(help="First K folds of each protocol.", type=WHOLE, kept=LARGER)
    trials: int | None = search(help="Configurations per study.", type=WHOLE, kept=LARGER)
    study_s: float | None = search(
        help="A study starts no more trials after this many CPU seconds.",
        type=SECONDS,
        kept=STAYS,
    )
    time_limit_s: float | None = search(
        help="Stop a fit after this many seconds and keep its best state (models trained in "
        "steps).",
        type=SECONDS,
        kept=STAYS,
    )
    bag: int | None = search(
        help="Fit the chosen configuration K times, each time without one part of the rows for "
        "training and validation, and take the mean; 0 for one fit.",
        type=click.IntRange(min=0),
        metavar="K",
        kept=SAME,
    )
    validation: str | None = search(
        help="What the search validates by: one part of the rows (holdout), or bags of every "
        "configuration (cv; K of --bag, default 5).",
        type=click.Choice(["holdout", "cv"]),
        kept=SAME,
    )
    seeds: int | None = search(
        help="Fit the chosen configuration under so many seeds.", type=WHOLE, kept=LARGER
    )
    sampler: str | None = search(help="Default: the budget's.", type=SAMPLERS, kept=STAYS)
    space: str | None = search(help="Search space: default, npt, hopular, rtdl, ...", kept=STAYS)
    seed: int = search(0, kept=SAME, **seed_of("folds, search and fits"))
    transductive: bool | None = search(
        help="Models that can do so see the features of the rows to predict while they train, as "
        "in NPT's paper.",
        is_flag=True,
        kept=STAYS,
    )
    asynchronous: str | None = search(
        help="ASHA or PBT on Ray Tune; configurations come at random or from the grid, and "
        "tables may differ from run to run.",
        flag="--async",
        type=click.Choice(["asha", "pbt"]),
        kept=STAYS,
    )

    device: str = machine(
        "cpu",
        help="cuda: models that use a GPU get one, or a share of one.",
        type=click.Choice(["cpu", "cuda"]),
        kept=SAME,
    )
    portable: bool = machine(
        False,
        help="Pin instruction sets, for the same bytes on other x86-64 processors; slower.",
        kept=SAME,
    )
    workers: int | None = machine(
        help="CPUs for trials; default all. 0 runs in this process, for a debugger.",
        type=click.IntRange(min=0),
        again=True,
    )
    address: str | None = machine(
        help="Where trials run: none (processes of this machine without Ray; default for files of "
        "your own), local (a Ray of this machine; default for suites), auto (this machine's "
        "cluster) or HOST:PORT.",
        again=True,
    )
    timeout_s: float | None = machine(
        help="Time limit of a trial, CPU seconds; on the clock ten times as many.",
        flag="--timeout",
        type=SECONDS,
        kept=STAYS,
    )
    memory_mb: float | None = machine(
        help="Memory limit of a trial, MB.", type=click.FloatRange(min=64), kept=STAYS
    )

    runs: Path = output(
        Path("runs"),
        help="Folder of runs; finished trials of its other runs are reused.",
        type=FOLDER,
        envvar="TABSWEEP_RUNS",
    )
    beside: tuple[str, ...] = output(
        (),
        help="Published results beside the run's: names of `bench beside list`, or folders of the "
        "same form. Ranked where rows and metric are the same. Repeatable.",
        metavar="NAME[,NAME]",
        kept=STAYS,
    )
    name: str | None = output(help="Name of the run; default <suite>-<budget>.")
    reuse: tuple[Path, ...] = output(
        (), help="A run elsewhere whose finished trials may be copied. Repeatable.", type=PATH
    )
    tracking_uri: str | None = output(
        help="MLflow server; default: SQLite in the run's folder. 'none' switches tracking off.",
        envvar="TABSWEEP_TRACKING_URI",
        again=True,
    )
    allow_code_change: bool = output(
        False, help="Run trials again whose code has changed.", again=True
    )
    dry_run: bool = output(False, help="Show what would run; write nothing.")

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Options:
        """The options that a plan holds. Options that are missing in it get their defaults."""
        values = {one.name: kept[one.name] for one in KEPT if one.name in kept}
        values = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**values)

    def to_data(self) -> dict[str, Any]:
        """The options that a plan keeps, by name, as JSON has them."""
        by_name = {}
        for one in KEPT:
            value = getattr(self, one.name)
            by_name[one.name] = list(value) if isinstance(value, tuple) else value
        return by_name

    def given(self, *among: str) -> dict[str, Any]:
        """{name: value} of the options that have another value than the default."""
        named = ((one, getattr(self, one.name)) for one in fields(self))
        return {
            one.name: value
            for one, value in named
            if value != one.default and (not among or one.name in among)
        }

    def words(self) -> list[str]:
        """The command line that gives these options."""
        words: list[str] = []
        for name, values in self.given().items():
            flag = flag_of(FIELDS[name])
            for value in values if isinstance(values, tuple) else (values,):
                said = f"{value:.15g}" if isinstance(value, float) else str(value)
                on, _, off = flag.partition("/")
                turned = [word for word in [on if value else off] if word]  # off may need no word
                words += turned if isinstance(value, bool) else [flag, said]
        return words

    def reading(self) -> Reading:
        """How the files of --csv are read."""
        from ...datasets.reading.columns import Reading

        return Reading.of({name: getattr(self, name) for name in READING})

    def on(self, suite: Suite) -> Options:
        """The options with what they leave to the suite: the budget, and the name of the run."""
        budget = suite.budget(self.budget)[0]
        return replace(self, budget=budget, name=self.name or f"{suite.name}-{budget}")


FIELDS = {one.name: one for one in fields(Options)}
KEPT = tuple(one for one in fields(Options) if one.metadata["kept"])
READING = tuple(one.name for one in fields(Options) if one.metadata["reads"])
AGAIN = options_of(Options, *(one.name for one in fields(Options) if one.metadata["again"]))
COLUMNS = options_of(Options, *READING)  # of every command that reads a file of the user
