"""What is to be compared with what? A suite file, strictly parsed into plain values."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FOLDER = Path(__file__).parent / "suites"

Task = Literal["binary", "multiclass", "regression"]
SAMPLERS = ("grid", "random", "tpe", "hyperopt")


class SuiteError(Exception):
    """A suite that cannot be read, with the file, the key and what would be right."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Search(Strict):
    """How one model is tuned; what is None comes from the budget."""

    space: str | None = None
    sampler: Literal["grid", "random", "tpe", "hyperopt"] | None = None
    trials: int | None = Field(default=None, ge=1)
    lag: int | None = Field(default=None, ge=1)
    fixed: dict[str, Any] = {}
    choices: dict[str, list[Any]] = {}


class Budget(Strict):
    """Models and the numbers of folds, trials and seeds; time and memory are safety nets only."""

    note: str = ""
    models: list[str] = Field(min_length=1)
    folds: int = Field(ge=1)
    trials: int = Field(ge=1)
    sampler: Literal["grid", "random", "tpe", "hyperopt"] = "tpe"
    space: str = "default"
    start_with_default: bool = True
    seeds: int = Field(default=1, ge=1)
    lag: int = Field(default=1, ge=1)
    timeout_s: float = Field(default=3600.0, gt=0)
    memory_mb: float = Field(default=8192.0, gt=0)
    model: dict[str, Search] = {}


class Suite(Strict):
    """Datasets x models x protocol x budgets, and the metric that selects and heads the tables."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    title: str
    note: str = ""
    datasets: list[str] = Field(min_length=1)
    offline: list[str] = []
    offline_below: int = Field(default=3, ge=0)
    protocol: dict[str, Literal["kfold", "holdout", "official"]] = {}
    folds_mean: str = ""
    metric: dict[Task, str] = {}
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


DEFAULT_METRIC = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}


def suggest(name: str, known: Iterable[str]) -> str:
    """ "did you mean 'x'?" where something is close, and all that is known."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(known)}"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name_or_path: str) -> Suite:
    """The suite of that name, or in that file. Raises SuiteError."""
    path = Path(name_or_path)
    if "/" not in name_or_path and path.suffix not in (".toml", ".yaml", ".yml"):
        if name_or_path not in names():
            raise SuiteError(f"unknown suite {name_or_path!r}; {suggest(name_or_path, names())}")
        path = FOLDER / f"{name_or_path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"cannot read the suite {path}: {error}") from None
    data = _read_yaml(text, path) if path.suffix in (".yaml", ".yml") else _read_toml(text, path)
    return parse(data, str(path), text)


def _read_toml(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SuiteError(f"{path}: {error}") from None


def _read_yaml(text: str, path: Path) -> Any:
    import yaml

    if text.count("*") > 100:  # an alias bomb grows by aliases; no suite needs a hundred
        raise SuiteError(f"{path}: more than 100 aliases; write the values out")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SuiteError(f"{path}: {str(error).splitlines()[0]}") from None


def parse(data: Any, where: str, text: str = "") -> Suite:
    """A suite from plain data; one error that names the key (and its line) for the first fault."""
    if not isinstance(data, dict):
        raise SuiteError(f"{where}: a suite is a table of keys, not {type(data).__name__}")
    try:
        return Suite.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        location = [str(part) for part in first["loc"]]
        key = ".".join(location)
        message = first["msg"]
        if first["type"] == "extra_forbidden":
            message = f"unknown key; {suggest(location[-1], _keys_at(location[:-1]))}"
        raise SuiteError(f"{where}{_line_of(text, location)}: {key}: {message}") from None


def _keys_at(location: list[str]) -> Iterable[str]:
    if len(location) >= 4 and location[0] == "budgets" and location[2] == "model":
        return Search.model_fields
    if len(location) >= 2 and location[0] == "budgets":
        return Budget.model_fields
    return Suite.model_fields


def _line_of(text: str, location: list[str]) -> str:
    for number, line in enumerate(text.splitlines(), start=1):
        if location and line.strip().partition("=")[0].partition(":")[0].strip() == location[-1]:
            return f":{number}"
    return ""
