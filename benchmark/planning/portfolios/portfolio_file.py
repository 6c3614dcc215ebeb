"""Portfolio files: configurations learned on other datasets, with which a sweep may begin."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from ....common.text import one_line, toml_string
from ....sweeps.trial import canonical, digest
from ..suite import MAX_BYTES, Strict, SuiteError, explain, line_of, says_less, toml_lines

Config = dict[str, Any]

ALL, EACH = "all models", "each model"


class Entry(Strict):
    """A configuration of a portfolio file.

    `config`: the hyperparameters as JSON. `without`: the dataset whose results (and those of
    datasets that share rows with it) were not used for this choice; empty: all were used. `regret`:
    mean normalised validation regret of the portfolio up to here, `alone` of this configuration,
    over `measured` datasets on which it ran and `estimated` ones.
    """

    model: str = Field(min_length=1)
    config: str
    without: str = ""
    regret: float = math.nan
    alone: float = math.nan
    measured: int = Field(default=0, ge=0)
    estimated: int = Field(default=0, ge=0)


class _File(Strict):
    version: int = Field(ge=1, le=1)
    scope: str = ALL
    size: int = Field(ge=1)
    learned_on: dict[str, str]
    configuration: list[Entry] = Field(min_length=1)


@dataclass(frozen=True)
class Portfolio:
    """A portfolio. `name`: of its file; `learned_on`: {dataset: sha256 of its data}; `chosen`:
    (model, configuration as canonical JSON, `without` as in `Entry`) in the order of choice."""

    name: str
    learned_on: Mapping[str, str]
    chosen: tuple[tuple[str, str, str], ...]

    @property
    def id(self) -> str:
        """A hash of what a sweep can take from it."""
        return digest([list(map(list, self.chosen)), dict(self.learned_on)], length=16)

    def of(self, model: str, dataset: str) -> list[Config]:
        """The model's configurations for a dataset: those chosen without it, where there are."""
        held_out = {without for _, _, without in self.chosen}
        wanted = dataset if dataset in held_out else ""
        return [
            json.loads(config)
            for name, config, without in self.chosen
            if name == model and without == wanted
        ]

    def seen(self, data: Mapping[str, str]) -> list[str]:
        """The datasets, of {name: sha256}, that the configurations for them were learned on."""
        held_out = {without for _, _, without in self.chosen}
        known = set(self.learned_on.values())
        return sorted(
            name
            for name, sha in data.items()
            if name not in held_out and (sha in known or name in self.learned_on)
        )

    def to_data(self) -> dict[str, Any]:
        """Plain data, as the plan of a run keeps it."""
        return {
            "name": self.name,
            "learned_on": dict(self.learned_on),
            "chosen": [list(one) for one in self.chosen],
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Portfolio:
        """The inverse of `to_data`."""
        chosen = tuple((str(m), str(c), str(w)) for m, c, w in data["chosen"])
        return cls(str(data["name"]), dict(data["learned_on"]), chosen)


def load(path: Path) -> Portfolio:
    """The portfolio in a file of `bench portfolio learn`. Raises SuiteError, which names the key
    and its line, for any other file."""
    try:
        if path.stat().st_size > 10 * MAX_BYTES:
            raise SuiteError(f"{path} is larger than {MAX_BYTES // 100_000} MB: it is no portfolio")
        text = path.read_text(encoding="utf-8-sig")
        data = tomllib.loads(text)
    except FileNotFoundError:
        raise SuiteError(
            f"there is no portfolio {path}: bench portfolio learn RUN --out {path} makes one"
        ) from None
    except (OSError, ValueError) as error:
        raise SuiteError(one_line(f"cannot read the portfolio {path}: {error}", 500)) from None
    try:
        found = _File.model_validate(data)
    except ValidationError as error:
        faults = sorted(error.errors(), key=says_less)
        where, message = explain(dict(faults[0]), _keys_at)
        line = line_of(toml_lines(text), where)
        raise SuiteError(
            f"{path}{line}: {'.'.join(where)}: {message}; a portfolio is written by "
            "bench portfolio learn RUN... --out FILE"
        ) from None
    chosen = []
    for number, entry in enumerate(found.configuration, start=1):
        config = _config(entry.config)
        if config is None:
            raise SuiteError(
                f"{path}: configuration {number} ({entry.model}): config must be a JSON object "
                f"without NaN, not {one_line(entry.config, 60)!r}"
            )
        if entry.without and entry.without not in found.learned_on:
            raise SuiteError(
                f"{path}: configuration {number} ({entry.model}): without = {entry.without!r} "
                "is none of the datasets of learned_on"
            )
        chosen.append((entry.model, canonical(config), entry.without))
    return Portfolio(path.name, found.learned_on, tuple(chosen))


def _config(text: str) -> Config | None:
    """The configuration in a JSON text, None where it is none."""
    try:
        found = json.loads(text)
        canonical(found)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _keys_at(path: tuple[str, ...]) -> Iterable[str]:
    return Entry.model_fields if path[:1] == ("configuration",) else _File.model_fields


def to_toml(
    entries: Iterable[Entry],
    learned_on: Mapping[str, str],
    *,
    scope: str,
    size: int,
    comments: Iterable[str] = (),
) -> str:
    """The text of a portfolio file, which `load` reads."""
    lines = [f"# {line}".rstrip() for line in comments]
    lines += ["version = 1", f"scope = {toml_string(scope)}", f"size = {size}", "", "[learned_on]"]
    lines += [
        f"{toml_string(name)} = {toml_string(sha)}" for name, sha in sorted(learned_on.items())
    ]
    for entry in entries:
        lines += ["", "[[configuration]]", f"model = {toml_string(entry.model)}"]
        lines += [f"config = {toml_string(entry.config)}"]
        lines += [f"without = {toml_string(entry.without)}"] if entry.without else []
        if entry.regret == entry.regret:  # known
            lines += [f"regret = {entry.regret:.6f}", f"alone = {entry.alone:.6f}"]
            lines += [f"measured = {entry.measured}", f"estimated = {entry.estimated}"]
    return "\n".join(lines) + "\n"
