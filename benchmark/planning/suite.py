"""Suite files: datasets, models, metrics and budgets, strictly parsed into plain values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...common.errors import Error
from ...common.tasks import Task
from ...common.text import suggest
from ...datasets.card import PROTOCOLS
from .. import toml_file
from ..toml_file import KeyPath, Strict

FOLDER = Path(__file__).parents[1] / "suites"
PAPERS = Path(__file__).parents[1] / "papers"

Sampler = Literal["grid", "random", "tpe", "hyperopt"]
Protocol = Literal[(*PROTOCOLS, "official-permuted")]  # type: ignore[valid-type]


class SuiteError(Error):
    """A suite that cannot be read, with the file, the key and what would be right."""

    id = "BENCH-E001"


class Halve(Strict):
    """Successive halving on a model's steps (rounds, epochs): see `sweeps/search/halving.py`."""

    eta: int = Field(default=3, ge=2)
    rungs: int = Field(default=3, ge=2, le=10)


class Search(Strict):
    """How one model is tuned; what is None comes from the budget.

    `of`: the model that this name is a variant of (an ablation, say): it starts from the settings
    of that model and has its own rows in the tables. `fixed` pins hyperparameters, also those that
    the space does not search. `absent`: why the model does not run; a planned absence.
    """

    of: str | None = None
    space: str | None = None
    sampler: Sampler | None = None
    trials: int | None = Field(default=None, ge=1)
    lag: int | None = Field(default=None, ge=1)
    startup: int | None = Field(default=None, ge=1)
    seeds: int | None = Field(default=None, ge=1)
    halving: Halve | None = None
    save_every: int | None = Field(default=None, ge=1)
    fixed: dict[str, Any] = {}
    choices: dict[str, list[Any]] = {}
    absent: str = ""


class OnDataset(Strict):
    """What differs on one dataset."""

    model: dict[str, Search] = {}


class Budget(Strict):
    """Models and the numbers of folds, trials and seeds; time and memory are safety nets only.

    `halving` and `save_every` concern the models that can stop at a step and go on later (`bench
    models NAME`). `startup`: configurations that TPE draws at random before it learns from the
    others; by default the library's own number. `bag`: the chosen configuration of a study is
    fitted so many times, each time without one part of the rows for training and validation, in
    place of the evaluation seeds; with `validation = "cv"`, so is every configuration of the
    search. `study_s`: CPU seconds of its tuning trials after
    which a study searches no further, if it has not run `trials` before. `time_limit_s`: wall
    seconds after which a fit of such a model ends with the best steps so far. With either of the
    two the tables depend on the machine.
    """

    note: str = ""
    models: list[str] = Field(min_length=1)
    folds: int = Field(ge=1)
    trials: int = Field(ge=1)
    sampler: Sampler = "tpe"
    space: str = "default"
    start_with_default: bool = True
    seeds: int = Field(default=1, ge=1)
    lag: int = Field(default=1, ge=1)
    startup: int | None = Field(default=None, ge=1)
    halving: Halve | None = None
    save_every: int | None = Field(default=None, ge=1)
    bag: int | None = Field(default=None, ge=2)
    validation: Literal["holdout", "cv"] = "holdout"
    study_s: float | None = Field(default=None, gt=0)
    time_limit_s: float | None = Field(default=None, gt=0)
    timeout_s: float = Field(default=3600.0, gt=0)
    memory_mb: float = Field(default=8192.0, gt=0)
    model: dict[str, Search] = {}
    dataset: dict[str, OnDataset] = {}

    def asked(self, model: str) -> str:
        """The registry's name of a model of this budget."""
        search = self.model.get(model)
        return search.of if search is not None and search.of else model

    def search(self, model: str, dataset: str | None = None) -> Search:
        """Model settings, overridden per dataset; both override those of the model that this one is
        a variant of."""
        there = self.dataset[dataset].model if dataset in self.dataset else {}
        search = Search()
        for name in dict.fromkeys((self.asked(model), model)):
            for table in (self.model, there):
                if name in table:
                    search = _over(search, table[name])
        return search


def _over(below: Search, above: Search) -> Search:
    """`below`, overridden by what `above` sets. None and "" set nothing: the record of a plan
    states every setting, and means the same search as the file that it was read from."""
    choices = {k: v for k, v in below.choices.items() if k not in above.fixed}
    fixed = {k: v for k, v in below.fixed.items() if k not in above.choices}
    stated = {name: getattr(above, name) for name in above.model_fields_set}
    given = {name: value for name, value in stated.items() if value not in (None, "")}
    given |= {"fixed": fixed | above.fixed, "choices": choices | above.choices}
    return below.model_copy(update=given)


class File(Strict):
    """A dataset in a file of the user's, as `bench data add` takes it: the path, from the folder of
    the suite's file, and how its columns are read (`datasets/reading/columns.py: Reading`)."""

    path: str = Field(min_length=1)
    target: str
    task: Literal["binary", "multiclass", "classification", "regression"] | None = None
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    drop: list[str] = []
    missing: list[str] = []
    categorical: list[str] = []
    numeric: list[str] = []
    date: list[str] = []
    join: list[str] = []
    text: list[str] = []
    day_first: bool | None = None
    drop_missing_target: bool = False
    positive: str | None = None
    costs: list[str] = []

    @property
    def protocol(self) -> str:
        """The usual protocol of such a dataset."""
        return "grouped" if self.group else "temporal" if self.time else "kfold"


class Suite(Strict):
    """Datasets x models x protocol x budgets, and the metric that selects and heads the tables.

    `transductive`: models that can do so see the features of the rows to predict while they train.
    `official`: where a dataset `<official>-<name>` was added (`bench data add`), it is used with
    its own split in place of the dataset `<name>`. `file`: datasets in files, which need not be
    among `datasets`. `names`: what a paper calls a model or dataset. `sizes`: training rows that
    are drawn of every dataset in place of its protocol, `draws` times each (`datasets/protocols.py:
    nested`).
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    title: str
    note: str = ""
    datasets: list[str] = Field(min_length=1)
    file: dict[str, File] = {}
    offline: list[str] = []
    offline_below: int = Field(default=3, ge=0)
    protocol: dict[str, Protocol] = {}
    sizes: list[int] = []
    draws: list[int] = []
    official: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9-]{0,31})?$")
    folds_mean: str = ""
    names: dict[str, str] = {}
    metric: dict[Task, str] = {}
    transductive: bool = False
    default_budget: str = "quick"
    budgets: dict[str, Budget] = Field(min_length=1)

    def budget(self, name: str | None) -> tuple[str, Budget]:
        """(name, budget); SuiteError with the known names otherwise."""
        name = name or self.default_budget
        if name not in self.budgets:
            raise SuiteError(
                f"suite {self.name!r} has no budget {name!r}; {suggest(name, self.budgets)}"
            )
        return name, self.budgets[name]


def files() -> dict[str, Path]:
    """{name: file} of every suite: those of no paper, and those in the papers' folders."""
    paths = [*FOLDER.glob("*.toml"), *PAPERS.glob("*/suites/*.toml")]
    return {path.stem: path for path in sorted(paths, key=lambda path: path.stem)}


def files_in(paper: Path) -> dict[str, Path]:
    """{name: file} of every suite in a paper's folder."""
    return {path.stem: path for path in sorted((paper / "suites").glob("*.toml"))}


def load(name_or_path: str) -> Suite:
    """The suite of that name, or in that file. Raises SuiteError."""
    path = Path(name_or_path)
    if "/" not in name_or_path and path.suffix not in (".toml", ".json"):
        known = files()
        if name_or_path not in known:
            raise SuiteError(f"unknown suite {name_or_path!r}; {suggest(name_or_path, known)}")
        path = known[name_or_path]
    data, lines = toml_file.read(path, "suite", SuiteError)
    _take_others(data, str(path))
    suite = parse(data, str(path), lines)
    beside = {
        name: file.model_copy(
            update={"path": str(path.absolute().parent / Path(file.path).expanduser())}
        )
        for name, file in suite.file.items()
    }
    return suite.model_copy(update={"file": beside})


def _take_others(data: Any, where: str) -> None:
    """Fill the keys that a budget lacks from the budget of the same name in another suite, which
    the key `like` names. Raises SuiteError."""
    given = data.get("budgets") if isinstance(data, dict) else None
    budgets = given if isinstance(given, dict) else {}
    for name, budget in budgets.items():
        if not isinstance(budget, dict) or "like" not in budget:
            continue
        like = budget.pop("like")
        known = load(str(like)).budgets if like in files() else {}
        if name not in known:
            raise SuiteError(
                f"{where}: budgets.{name}.like: no suite {like!r} has a budget {name!r}"
            )
        other = known[name].model_dump(exclude_unset=True)
        models = dict(other.get("model", {}))
        for model, search in budget.get("model", {}).items():
            models[model] = {**models.get(model, {}), **search}
        budgets[name] = {**other, **budget, "model": models}


# ---------------------------------------------------------------------- from data to a suite


def parse(data: Any, where: str, lines: Mapping[KeyPath, int] | None = None) -> Suite:
    """A suite from plain data; one error that names the key (and its line) for the first fault."""
    if not isinstance(data, dict):
        raise SuiteError(f"{where}: a suite is a table of keys, not {toml_file.kind_of(data)}")
    files = data.get("file")
    listed = data.get("datasets", [])
    if isinstance(files, dict) and isinstance(listed, list):
        data = {**data, "datasets": [*listed, *(name for name in files if name not in listed)]}
    return toml_file.checked(Suite, data, where, lines or {}, SuiteError, _faults)


def _faults(suite: Suite) -> Iterator[toml_file.Fault]:
    """What types cannot say: names that must be known elsewhere in the file, and duplicates."""
    if suite.default_budget not in suite.budgets:
        yield (
            ("default_budget",),
            f"no budget {suite.default_budget!r}; {suggest(suite.default_budget, suite.budgets)}",
        )
    datasets = [*suite.datasets, *suite.offline]
    for name, file in suite.file.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
            law = "a dataset's name is lower-case letters, digits and '-', at most 64"
            yield ("file", name), law
        if file.group and file.time:
            yield ("file", name, "time"), "a group and a time column exclude each other"
        asked = suite.protocol.get(name, file.protocol)
        for protocol, key in (("grouped", file.group), ("temporal", file.time)):
            if (asked == protocol) != bool(key):
                column = {"grouped": "group", "temporal": "time"}[protocol]
                yield (
                    ("protocol", name),
                    f"{asked!r} does not go with file.{name}: {column} = {key!r}",
                )
    if suite.sizes or suite.draws:
        from ...datasets.protocols import nested  # slow to import

        try:
            nested(suite.sizes, suite.draws)
        except ValueError as error:
            yield ("draws" if suite.draws else "sizes",), str(error)
        if suite.protocol:
            yield ("protocol",), "does not go with sizes, which are drawn in its place"
    for name in suite.protocol:
        if name not in datasets:
            yield ("protocol", name), f"no dataset of the suite; {suggest(name, datasets)}"
    for budget, numbers in suite.budgets.items():
        for name, there in numbers.dataset.items():
            path: KeyPath = ("budgets", budget, "dataset", name)
            if name not in datasets:
                yield path, f"no dataset of the suite; {suggest(name, datasets)}"
            for model, search in there.model.items():
                if search.of:
                    yield (*path, "model", model, "of"), "belongs into the budget's own model table"
                known = {*numbers.models, *numbers.model, *map(numbers.asked, numbers.model)}
                if model not in known:
                    yield (
                        (*path, "model", model),
                        f"no model of the budget; {suggest(model, known)}",
                    )
    lists: dict[KeyPath, list[str]] = {("datasets",): suite.datasets}
    lists[("offline",)] = suite.offline
    lists |= {("budgets", name, "models"): b.models for name, b in suite.budgets.items()}
    for path, values in lists.items():
        for name, n in Counter(values).items():
            if n > 1:
                yield path, f"{name!r} is there {n} times"
