"""A paper's folder: `paper.toml`, strictly parsed into plain values, and the files beside it.

paper.toml      what the paper says, and what stands behind each of its tables and figures
published/      its tables as printed, a CSV each (see `published_values.py`)
suites/         the suites that reproduce them
*.py            its experiments, and the functions of its special tables
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...common.errors import Error
from ...common.text import suggest
from ...reports.metrics import METRICS
from ...reports.reproduction.published_table import Shape
from .. import toml_file
from ..planning.suite import files as suite_files
from ..planning.suite import files_in
from ..toml_file import Fault, KeyPath, Strict

FOLDER = Path(__file__).resolve().parent  # of the built-in papers; resolved, as a `Paper`'s is
FILE = "paper.toml"
BEHIND = ("suite", "experiment", "command", "why")  # keys of an entry, of which it has one
FUNCTION = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"  # module:function


class PaperError(Error):
    """A paper's folder that cannot be read, with the file, the key and what would be right."""

    id = "BENCH-E024"


class OurMetric(Strict):
    """Our metric for a published one. unit: our values times this are in the published unit."""

    ours: str
    unit: float = 1.0


class Cost(Strict):
    """Our cost for a published one; what each is says `papers/cost_tables.py`. unit: ours times
    this is in the published unit. selected: the methods whose published value is of the chosen
    configuration alone, not of the search. over: the method that a ratio is to."""

    ours: Literal["search_s", "fit_s", "peak_ram_mb", "peak_vram_mb", "step_s"]
    unit: float = 1.0
    selected: list[str] = []
    over: str = ""


class StandIn(Strict):
    """A dataset of ours with other rows than the paper's dataset `of` (its name in the paper). The
    tables show it if the run has it but not the dataset that `datasets` names."""

    of: str
    why: str


class Entry(Strict):
    """A table or figure of the paper, and exactly one of the fields in BEHIND that shows ours.

    suite, budget: the run that shows it, and the budget without `--budget`.
    experiment: the experiment that shows it, which `bench reproduce` runs. shows: the files
    of the experiment to print, without endings; empty: those with the entry's name, else all.
    command: a command that shows our counterpart, such as a model's search spaces.
    why: the reason why there is no counterpart.
    """

    title: str
    suite: str = ""
    budget: str = "paper"
    experiment: str = ""
    shows: list[str] = []
    command: str = ""
    why: str = ""


class TableEntry(Entry):
    """A table of the paper.

    published: its CSV in `published/`, which a table with a suite needs.

    The rest is for a table that a suite stands behind.

    metrics: the published metrics, each with ours. costs: the published seconds and bytes likewise,
    for shape = "costs"; a published figure that neither names stands alone.
    shape: what the values are: scores of single models or of ensembles by dataset, costs of these,
    scores after a time of the search, or figures over datasets, which `function` makes.
    errors: the published errors are over splits, or over runs of one split (replicates).
    deviations: standard deviations are shown as the paper prints them, cut off after two digits or
    with two decimals.
    configurations: the table that counts the configurations which the paper searched.
    untuned: for results of others, the variant that the paper shows where a method has no tuned
    runs, such as "default".
    method_suffix: only the methods whose names end so.
    level_suffix: what the published level of a factor adds to a method's name, such as "-k{}". Such
    methods have settings in the suite's budgets, and run for this table alone.
    notes: stand below the table.
    function: "module:function" in the paper's folder, for a table that needs more than these keys.
    It gets the `Paper` and the table's `PublishedTable`, and returns the one to show.
    """

    published: str = ""
    metrics: dict[str, OurMetric] = {}
    costs: dict[str, Cost] = {}
    shape: Shape = "cells"
    errors: Literal["splits", "replicates"] = "splits"
    deviations: Literal["", "cut", "decimals"] = ""
    configurations: str = ""
    untuned: str = ""
    method_suffix: str = ""
    level_suffix: str = ""
    notes: list[str] = []
    function: str = Field(default="", pattern=rf"^$|{FUNCTION}")


class ExperimentEntry(Strict):
    """A study of the paper that is no sweep.

    run: "module:function" in the paper's folder; the function is called with a `Setting` and
    returns an `ExperimentResult`. reduced, full: what the two sizes are and roughly cost."""

    title: str
    source: str
    run: str = Field(pattern=FUNCTION)
    reduced: str
    full: str


class PaperFile(Strict):
    """`paper.toml`. datasets, models: the paper's names -> ours, where they differ. stand_ins: our
    names of sets with other rows than the paper's. aliases: what files of results call a method or
    dataset -> the name in the tables here, where more differs than a separator. notes: below every
    table that a run stands beside, after the table's own."""

    title: str
    reference: str
    notes: list[str] = []
    datasets: dict[str, str] = {}
    stand_ins: dict[str, StandIn] = {}
    models: dict[str, str] = {}
    aliases: dict[str, str] = {}
    table: dict[str, TableEntry] = {}
    figure: dict[str, Entry] = {}
    experiment: dict[str, ExperimentEntry] = {}

    @property
    def entries(self) -> dict[str, Entry]:
        """The tables, then the figures."""
        return {**self.table, **self.figure}


class Paper:
    """A paper's folder. name: the folder's."""

    def __init__(self, folder: Path, file: PaperFile) -> None:
        self.folder, self.file, self.name = folder, file, folder.name

    def published_file(self, table: str) -> Path:
        """The CSV of a table."""
        return self.folder / "published" / self.file.table[table].published

    def whole(self, stand_in: str) -> str:
        """Our name of the paper's dataset that `stand_in` replaces; the paper's name if we lack the
        dataset."""
        of = self.file.stand_ins[stand_in].of
        return self.file.datasets.get(of, of)

    def for_run(self, datasets: Collection[str]) -> Paper:
        """The paper beside a run with these datasets: where one is missing whose stand-in is there,
        the paper's name means the stand-in."""
        names = dict(self.file.datasets)
        for name, stand_in in self.file.stand_ins.items():
            if name in datasets and self.whole(name) not in datasets:
                names[stand_in.of] = name
        return Paper(self.folder, self.file.model_copy(update={"datasets": names}))

    def suite_file(self, name: str) -> Path:
        """Where a suite of this paper would be."""
        return self.folder / "suites" / f"{name}.toml"

    @property
    def is_built_in(self) -> bool:
        """Whether the paper comes with this package."""
        return self.folder.parent == FOLDER

    def function(self, key: str) -> Callable[..., Any]:
        """The function that a key of paper.toml names as "module:function", such as the key
        `experiment.npt-maps.run`. Raises PaperError for a module or function that the folder lacks,
        and whatever the module raises when it is imported."""
        section, name, field = key.split(".")
        module, _, function = str(getattr(getattr(self.file, section)[name], field)).partition(":")
        full_name = f"{self._package()}.{module}"
        wrong = f"{self.folder / FILE}: {key}: no"
        try:
            imported = import_module(full_name)
        except ModuleNotFoundError as error:
            if not f"{full_name}.".startswith(f"{error.name}."):  # a library that it imports
                raise
            raise PaperError(f"{wrong} module {module!r} in the folder") from None
        if not hasattr(imported, function):
            raise PaperError(f"{wrong} function {function!r} in module {module!r}")
        return getattr(imported, function)

    def _package(self) -> str:
        """The package that the folder's modules are imported from. A folder outside of this package
        gets one beside the built-in papers', so that relative imports mean the same in both."""
        if self.is_built_in:
            return f"{__package__}.{self.name}"
        name = f"{__package__}.external_{sha256(str(self.folder).encode()).hexdigest()[:12]}"
        if name not in sys.modules:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(self.folder)]
            sys.modules[name] = module_from_spec(spec)
        return name


def read_paper(folder: str | Path) -> Paper:
    """The paper in a folder. Raises PaperError."""
    folder = Path(folder).resolve()
    path = folder / FILE
    data, lines = toml_file.read(path, "paper", PaperError)
    faults = partial(_faults, folder=folder)
    return Paper(folder, toml_file.checked(PaperFile, data, str(path), lines, PaperError, faults))


def _faults(paper: PaperFile, folder: Path) -> Iterator[Fault]:
    """What types cannot say: names that must be known elsewhere, and keys that exclude others."""
    files = sorted(path.name for path in (folder / "published").glob("*.csv"))
    suites = {*suite_files(), *files_in(folder)}
    printed = [name for name, table in paper.table.items() if table.published]
    for name, figure in paper.figure.items():
        if name in paper.table:
            yield ("figure", name), "is the name of a table, too"
        yield from _source_faults(paper, suites, ("figure", name), figure)
    for name, table in paper.table.items():
        at: KeyPath = ("table", name)
        yield from _unknown((*at, "published"), "no file in published/ is", table.published, files)
        if table.suite and not table.published:
            yield (*at, "published"), "is missing: the suite's scores stand beside its numbers"
        yield from _source_faults(paper, suites, at, table)
        key = "costs" if table.shape == "costs" else "metrics"
        if table.suite and not getattr(table, key):
            yield (*at, key), "is missing"
        if table.shape not in ("cells", "ensembles", "costs") and not table.function:
            yield (*at, "function"), f"is missing: shape = {table.shape!r} needs one"
        if table.deviations and table.errors != "replicates" and table.shape != "ensembles":
            yield (*at, "deviations"), 'goes with errors = "replicates" or shape = "ensembles"'
        for metric, ours in table.metrics.items():
            yield from _unknown(
                (*at, "metrics", metric, "ours"), "no metric is", ours.ours, METRICS
            )
        counts = (*at, "configurations")
        yield from _unknown(counts, "no table with numbers is", table.configurations, printed)
    used = {table.published for table in paper.table.values()}
    for file in (file for file in files if file not in used):
        yield ("table",), f"no table has the file published/{file}"


def _unknown(at: KeyPath, law: str, name: str, known: Collection[str]) -> Iterator[Fault]:
    """The fault of a name that is given and not known."""
    if name and name not in known:
        yield at, f"{law} called {name!r}; {suggest(name, known)}"


def _source_faults(
    paper: PaperFile, suites: Collection[str], at: KeyPath, entry: Entry
) -> Iterator[Fault]:
    """What is wrong with what stands behind a table or figure."""
    behind = [key for key in BEHIND if getattr(entry, key)]
    if len(behind) != 1:
        given = " and ".join(behind) or "none"
        yield at, f"needs one of suite, experiment, command and why, not {given}"
    if entry.command and not entry.command.startswith("bench "):
        yield (*at, "command"), f"is a command of this package, bench ..., not {entry.command!r}"
    yield from _unknown((*at, "suite"), "no suite is", entry.suite, suites)
    yield from _unknown(
        (*at, "experiment"), "no experiment here is", entry.experiment, paper.experiment
    )
