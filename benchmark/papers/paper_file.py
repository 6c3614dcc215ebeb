"""A paper's folder: `paper.toml`, strictly parsed into plain values, and the files beside it.

paper.toml      what the paper says, and what stands behind each of its tables
published/      its tables as printed, a CSV each (see `published_values.py`)
suites/         the suites that reproduce them
*.py            its experiments
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError

from ...common.text import one_line, suggest
from ...reports.aggregation.ranking_rules import RANKING_RULES
from ...reports.metrics import METRICS
from ..planning.suite import MISSPELT, KeyPath, Strict, explain, files_in, line_of, toml_lines
from ..planning.suite import names as suite_names

FILE = "paper.toml"
MAX_BYTES = 1_000_000


class PaperError(Exception):
    """A paper's folder that cannot be read, with the file, the key and what would be right."""


class OurMetric(Strict):
    """Our metric for a published one. unit: our values times this are in the published unit."""

    ours: str
    unit: float = 1.0


class Missing(Strict):
    """A value that the paper prints and that cannot be read. dataset: by our name; method and
    metric: by the paper's."""

    dataset: str
    method: str
    metric: str
    why: str


class Controls(Strict):
    """Rows of ours that the paper lacks: these methods on these datasets (by our names). label:
    how the notes call them."""

    label: str
    why: str
    datasets: list[str] = Field(min_length=1)
    methods: list[str] = Field(min_length=1)


class Additions(Strict):
    """Rows from another published table for methods that this one lacks: those whose columns have
    the values of `where`."""

    table: str
    where: dict[str, str] = {}
    why: str


class Means(Strict):
    """What a table of means over datasets is made of: the table `cells` with the value of each
    dataset, the host models, and the end of their names with the extension."""

    cells: str
    hosts: list[str] = Field(min_length=1)
    suffix: str
    extension: str
    measures: str


class TableEntry(Strict):
    """A table or figure of the paper, and what stands behind it: one of suite, experiment and why.

    published: its CSV in `published/`.
    suite, budget: the run that stands beside it, and the budget without `--budget`.
    experiment: the experiment that sets it beside its own table. measures: what the experiment's
    table of this name holds; with it `bench reproduce` runs the experiment.
    why: why nothing of ours stands beside it.

    The rest is for a table that a suite stands behind; `reports/reproduction/published_table.py`
    says what each means. method_suffix: only the methods whose names end so. level_suffix: what the
    published level of a factor adds to a method's name, such as "-k{}"; such methods are models of
    the suite that run for this table alone. only_its_datasets: the suite has others, which do not
    run for this table. untuned: for results of others, the variant that the paper shows where a
    method has no tuned runs, such as "default".
    """

    title: str
    published: str
    why: str = ""
    suite: str = ""
    budget: str = "paper"
    experiment: str = ""
    measures: str = ""
    metrics: dict[str, OurMetric] = {}
    shape: Literal["cells", "ensembles", "medians", "means"] = "cells"
    errors: Literal["splits", "replicates"] = "splits"
    configurations: str = ""
    ranking: str = ""
    ranking_note: str = ""
    ranked: list[str] = []
    untuned: str = ""
    deviations: Literal["", "cut", "decimals"] = ""
    method_suffix: str = ""
    level_suffix: str = ""
    only_its_datasets: bool = False
    missing: list[Missing] = []
    controls: Controls | None = None
    additions: Additions | None = None
    means: Means | None = None
    notes: list[str] = []


class Experiment(Strict):
    """A study of the paper that is no sweep.

    run: "module:function" in the paper's folder; the function is called with a `Setting` and
    returns an `ExperimentResult`. reduced, full: what the two sizes are and roughly cost.
    beside: published tables that it shows, besides those that name it as theirs.
    """

    title: str
    source: str
    run: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    reduced: str
    full: str
    beside: list[str] = []


class PaperFile(Strict):
    """`paper.toml`. datasets, models: the paper's names -> ours, where they differ. aliases: what
    files of results call a method or dataset -> the name in the tables here, where more differs
    than a separator. notes: below every table that a run stands beside, after the table's own."""

    title: str
    reference: str
    notes: list[str] = []
    datasets: dict[str, str] = {}
    models: dict[str, str] = {}
    aliases: dict[str, str] = {}
    table: dict[str, TableEntry] = {}
    experiment: dict[str, Experiment] = {}


class Paper:
    """A paper's folder. name: the folder's."""

    def __init__(self, folder: Path, file: PaperFile) -> None:
        self.folder, self.file, self.name = folder, file, folder.name

    def published_file(self, table: str) -> Path:
        """The CSV of a table."""
        return self.folder / "published" / self.file.table[table].published

    def suite_file(self, name: str) -> Path:
        """Where a suite of this paper would be."""
        return self.folder / "suites" / f"{name}.toml"


def read_paper(folder: str | Path) -> Paper:
    """The paper in a folder. Raises PaperError."""
    folder = Path(folder).resolve()
    path = folder / FILE
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PaperError(f"{path} is larger than {MAX_BYTES // 1000} kB: it is no paper's file")
        text = path.read_text(encoding="utf-8-sig")
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PaperError(f"{path}: not TOML: {error}") from None
    except (OSError, ValueError) as error:
        raise PaperError(one_line(f"cannot read the paper {path}: {error}", 500)) from None
    except RecursionError:
        raise PaperError(f"{path} is nested too deeply") from None
    return Paper(folder, _parse(data, path, text))


def _parse(data: dict[str, Any], path: Path, text: str) -> PaperFile:
    """The file's values; one error that names the key (and its line) for the first fault."""
    try:
        found = PaperFile.model_validate(data)
        faults = list(_faults(found, path.parent))
    except ValidationError as error:
        # a misspelt key is also a missing one: the spelling says more
        found_faults = sorted(error.errors(), key=lambda fault: fault["type"] not in MISSPELT)
        faults = [explain(dict(fault), _keys_at) for fault in found_faults]
    if not faults:
        return found
    key, message = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    line = line_of(toml_lines(text), key)
    raise PaperError(f"{path}{line}: {'.'.join(key)}: {message}{more}")


def _keys_at(path: KeyPath) -> Iterable[str]:
    """The keys of the table at a path of the file."""
    model: Any = PaperFile
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[part].annotation
        else:  # a table of tables, or a list of them: `part` is a name or a number
            model = get_args(model)[-1]
        if get_origin(model) is UnionType:
            model = next(option for option in get_args(model) if option is not type(None))
    return model.model_fields


def _faults(paper: PaperFile, folder: Path) -> Iterator[tuple[KeyPath, str]]:
    """What types cannot say: names that must be known elsewhere, and keys that exclude others."""
    files = sorted(path.name for path in (folder / "published").glob("*.csv"))
    suites = {*suite_names(), *files_in(folder)}
    for name, table in paper.table.items():
        at: KeyPath = ("table", name)
        if table.published not in files:
            yield (
                (*at, "published"),
                f"no file {table.published!r} in published/; {suggest(table.published, files)}",
            )
        behind = [key for key in ("suite", "experiment", "why") if getattr(table, key)]
        if len(behind) != 1:
            given = " and ".join(behind) or "none"
            yield at, f"needs one of suite, experiment and why, not {given}"
        if table.suite and table.suite not in suites:
            yield (*at, "suite"), f"unknown suite {table.suite!r}; {suggest(table.suite, suites)}"
        if table.suite and not table.metrics:
            yield (*at, "metrics"), "is missing"
        if table.experiment and table.experiment not in paper.experiment:
            hint = suggest(table.experiment, paper.experiment)
            yield (*at, "experiment"), f"no experiment {table.experiment!r} here; {hint}"
        if table.measures and not table.experiment:
            yield (*at, "measures"), "goes with experiment"
        if (table.shape == "means") != (table.means is not None):
            yield (*at, "means"), 'goes with shape = "means", which needs it'
        for metric, ours in table.metrics.items():
            if ours.ours not in METRICS:
                key = (*at, "metrics", metric, "ours")
                yield key, f"unknown metric {ours.ours!r}; {suggest(ours.ours, METRICS)}"
        if table.ranking and table.ranking not in RANKING_RULES:
            hint = suggest(table.ranking, RANKING_RULES)
            yield (*at, "ranking"), f"unknown ranking {table.ranking!r}; {hint}"
        yield from _unknown_tables(paper, name, table)
    for name, experiment in paper.experiment.items():
        for other in experiment.beside:
            if other not in paper.table:
                at = ("experiment", name, "beside")
                yield at, f"no table {other!r} here; {suggest(other, paper.table)}"
    named = {path.removesuffix(".csv") for path in files}
    used = {table.published.removesuffix(".csv") for table in paper.table.values()}
    for file in sorted(named - used):
        yield ("table",), f"no table has the file published/{file}.csv"


def _unknown_tables(
    paper: PaperFile, name: str, table: TableEntry
) -> Iterator[tuple[KeyPath, str]]:
    """Tables that a table refers to and that the file lacks."""
    others: dict[KeyPath, str] = {("configurations",): table.configurations}
    if table.additions:
        others["additions", "table"] = table.additions.table
    if table.means:
        others["means", "cells"] = table.means.cells
    for key, other in others.items():
        if other and other not in paper.table:
            yield ("table", name, *key), f"no table {other!r} here; {suggest(other, paper.table)}"
