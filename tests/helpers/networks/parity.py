"""Files with the numbers of official implementations, in the folder that TABSWEEP_PARITY names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

VARIABLE = "TABSWEEP_PARITY"
TOLERANCE = 1e-9


@cache
def _loaded(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


READ: dict[Path, set[str]] = {}  # file: its arrays that were read in this process


class Arrays(Mapping[str, np.ndarray]):
    """Arrays of one file by the rest of their names; what is taken out is written down as read."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self._path, self._prefix = path, prefix
        self._found = _loaded(path)
        self._read = READ.setdefault(path, set())

    def __getitem__(self, name: str) -> np.ndarray:
        value = self._found[self._prefix + name].copy()
        self._read.add(self._prefix + name)
        return value

    def __contains__(self, name: object) -> bool:
        return f"{self._prefix}{name}" in self._found

    def __iter__(self) -> Iterator[str]:
        for name in self._found:
            if name.startswith(self._prefix):
                yield name.removeprefix(self._prefix)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Case(Arrays):
    """One file: arrays by name (a copy), `meta`, and groups of arrays by prefix."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        facts = self["meta" if "meta" in self else "config"]
        self.meta: dict[str, Any] = json.loads(str(facts))

    def tensor(self, name: str) -> torch.Tensor:
        """An array as a tensor."""
        return torch.from_numpy(self[name])

    def under(self, prefix: str) -> Arrays:
        """{rest of the name: array} of all names below `prefix`."""
        return Arrays(self._path, prefix)


def folder() -> Path:
    """The folder with the official numbers; skips the test where there is none."""
    found = os.environ.get(VARIABLE)
    if not found:
        pytest.skip(f"{VARIABLE} names no folder with the official modules' numbers")
    path = Path(found)
    if not path.is_absolute():
        path = Path(__file__).resolve().parents[3] / path
    if not path.is_dir():
        pytest.fail(f"{VARIABLE}={found}: there is no such folder")
    return path


def case(name: str) -> Case:
    """One file of the folder."""
    return Case(folder() / f"{name}.npz")


def names(*patterns: str) -> list[str]:
    """Names of the files that match one of the patterns; the patterns where there is no folder."""
    try:
        stems = sorted(path.stem for path in folder().glob("*.npz"))
    except pytest.skip.Exception:
        return list(patterns)
    return [stem for stem in stems if any(fnmatchcase(stem, pattern) for pattern in patterns)]


def difference(ours: Any, theirs: Any) -> float:
    """max|a - b| / max(1, max|b|)."""
    a = ours.detach().numpy() if isinstance(ours, torch.Tensor) else np.asarray(ours)
    b = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    if not b.size:
        return 0.0
    return float(np.abs(a - b).max() / max(1.0, np.abs(b).max()))


def assert_same(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> None:
    """Equal to the tolerance that the numbers are promised to."""
    assert difference(ours, theirs) <= tolerance


def assert_same_gradients(
    module: torch.nn.Module, theirs: Mapping[str, np.ndarray], ours: Callable[[str], str] = str
) -> None:
    """Every parameter has the official gradient; `ours` is our name of one of theirs."""
    found = dict(module.named_parameters())
    assert {ours(name) for name in theirs} == set(found)
    for name in theirs:
        assert_same(found[ours(name)].grad, theirs[name])


def assert_same_step(task: Any, given: Case, mode: str) -> None:
    """The first loss of a task and what it is taken of are those of the file; its gradients are
    made."""
    outputs, criterion = [], task.criterion
    task.criterion = lambda out, y: outputs.append(out) or criterion(out, y)
    loss = task.loss(0)
    assert_same(outputs[0], given[f"out/{mode}/logits"])
    assert_same(loss, given[f"out/{mode}/loss"])
    loss.backward()


def renamed(name: str, table: Iterable[tuple[str, str]]) -> str:
    """The name by the first pattern of (pattern, ours) that is all of it, or as it is."""
    for theirs, ours in table:
        if re.fullmatch(theirs, name):
            return re.sub(theirs, ours, name)
    return name
