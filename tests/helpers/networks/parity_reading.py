"""The law that the tests of a module read every array of the official files that they open.

A plugin of pytest. The law holds for a module at its end, where all of its tests ran and passed in
this process; so it holds for each file by itself, in any order, under pytest-xdist by file, and
says nothing of `-k` or of a test that failed. A file is opened by one module alone, and every file
by some module (tests/parity/test_files.py); together no array of the folder stays unread.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

NOT_READ = {  # (file, array): why no test reads it
    ("*", "act/*"): "what a network computes on the way; its outputs and gradients depend on it",
    ("hopular_forward_*", "train/a*"): "likewise, and what blocks retrieve in training",
    ("hopular_forward_*", "eval/act/*"): "likewise",
    (
        "*_optim_lamb_*",
        "run_?/weight_norm/*",
    ): "what a step of LAMB is made of; its weights show it",
    ("*_optim_lamb_*", "run_?/adam_norm/*"): "likewise",
    ("*_optim_lamb_*", "run_?/trust_ratio/*"): "likewise",
    ("*_optim_lamb_*", "run_?/bias_factor"): "likewise",
    ("hopular_encode_*", "released/*"): "what the released code makes of missing cells, whose flags"
    " it never finds: a defect; the other arrays are what it was written to do",
    ("saint_pretraining", "*mlp1.layers.0.*"): "the head of [CLS] as a category, which is never in"
    " a loss; ours has none",
    ("node_*", "init/numpy_seed"): "of the official draws of levels, which the files hold, too",
    ("tabnet_ghost_batchnorm", "out/chunk_sizes"): "what is normed together shows in the outputs",
    ("tabtransformer_*", "commit"): "which version of the authors' code made the file",
}
_passed: set[str] = set()
_deselected: set[Path] = set()


def pytest_deselected(items: list[pytest.Item]) -> None:
    _deselected.update(item.path for item in items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _passed.add(report.nodeid)


@pytest.fixture(scope="module", autouse=True)
def official_files_are_read_whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the module whose tests leave an array of an official file unread."""
    yield
    if "parity" in sys.modules and ran_whole(request):
        left = unread(sys.modules["parity"].READ, opened(request.path))
        lines = [f"{stem}: {', '.join(arrays)}" for stem, arrays in left.items()]
        assert not left, "no test of this module read\n" + "\n".join(lines)


def ran_whole(request: pytest.FixtureRequest) -> bool:
    """Whether all tests of the module ran in this process and passed."""
    if request.path in _deselected:
        return False
    items: list[Any] = [item for item in request.session.items if item.path == request.path]
    there = {name for name in vars(request.module) if name.startswith("test_")}
    parts = any("::" in argument for argument in request.config.args)
    every = there <= {item.originalname for item in items} and not parts
    return every and {item.nodeid for item in items} <= _passed


def unread(read: dict[Path, set[str]], patterns: set[str]) -> dict[str, list[str]]:
    """{file: arrays that were not read}, of the files of the official folder that were opened by
    one of these names or patterns."""
    found = {}
    for path, names in read.items():
        if any(fnmatchcase(path.stem, pattern) for pattern in patterns):
            left = sorted(set(sys.modules["parity"]._loaded(path)) - names)
            left = [n for n in left if not excused(path.stem, n)]
            if left:
                found[path.stem] = left
    return found


def excused(stem: str, name: str) -> bool:
    """Whether NOT_READ has a reason for this array."""
    return any(fnmatchcase(stem, file) and fnmatchcase(name, array) for file, array in NOT_READ)


@cache
def opened(path: Path) -> set[str]:
    """Names and patterns that a test module gives to `case` and `names`, read from its source."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("case", "names"):
                values = [a.value for a in node.args if isinstance(a, ast.Constant)]
                found |= {value for value in values if isinstance(value, str)}
    return found
