"""Every official array is read by a test, or listed with the reason why not.

Every file is opened by one module of tests (here), and at the end of each module no array of its
files is unread (tests/helpers/networks/parity_reading.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import parity_reading
from parity import VARIABLE, folder

TESTS = Path(__file__).resolve().parents[1]
NOT_BUILT: dict[str, str] = {}


def modules() -> dict[str, set[str]]:
    """{test module: names and patterns of the files that it opens}."""
    found = {
        str(path.relative_to(TESTS)): parity_reading.opened(path)
        for path in TESTS.rglob("test_*.py")
    }
    return {module: patterns for module, patterns in found.items() if patterns}


def test_every_file_is_opened_by_one_module_or_has_a_reason_and_every_pattern_has_a_file():
    files = sorted(path.stem for path in folder().glob("*.npz"))
    patterns = modules()
    tested = set().union(*patterns.values())
    assert files and not [p for p in tested | set(NOT_BUILT) if not _matches(files, p)]
    by = {
        name: [m for m, ps in patterns.items() if any(fnmatchcase(name, p) for p in ps)]
        for name in files
    }
    unopened = [name for name in files if not by[name]]
    assert [name for name in unopened if not any(fnmatchcase(name, p) for p in NOT_BUILT)] == []
    assert {name: m for name, m in by.items() if len(m) > 1} == {}, "a file has one module"
    built = [p for p in NOT_BUILT if not set(_matches(files, p)) <= set(unopened)]
    assert built == [], "remove the models that tests now read"


def test_every_reason_for_an_unread_array_is_of_an_array_that_there_is():
    arrays = [
        (path.stem, array) for path in folder().glob("*.npz") for array in np.load(path).files
    ]
    for file, array in parity_reading.NOT_READ:
        assert [a for a in arrays if fnmatchcase(a[0], file) and fnmatchcase(a[1], array)], array


READING = """
from parity import case

def test_reads_a_part():
    given = case("{name}")
    assert given["in/x"].sum() == 3 and "out/y" in given
    assert list(given.under("out/")) == ["y"] and {more}

def test_passes():
    pass
"""


def test_a_module_that_leaves_an_array_unread_fails_and_one_that_ran_in_part_does_not(tmp_path):
    for name, more in (("whole", "given['out/y'].any()"), ("partly", "True")):
        arrays = {"in/x": np.ones(3), "out/y": np.ones(2)}
        np.savez(tmp_path / f"{name}.npz", meta="{}", **arrays)
        text = READING.replace("{name}", name).replace("{more}", more)
        (tmp_path / f"test_{name}.py").write_text(text)
    options = ["-p", "parity_reading", "-p", "no:cacheprovider", "-q", "-rA", str(tmp_path)]
    place = {VARIABLE: str(tmp_path), "PYTHONPATH": str(TESTS / "helpers" / "networks")}
    found = []
    for choice in ([], ["-k", "reads"]):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *choice],
            cwd=tmp_path,
            env=os.environ | place,
            capture_output=True,
            text=True,
        )
        assert "test_whole.py::test_reads_a_part" in done.stdout
        found.append((done.returncode, "partly: out/y" in done.stdout, "whole: " in done.stdout))
    assert found == [(1, True, False), (0, False, False)]


def _matches(files: list[str], pattern: str) -> list[str]:
    return [name for name in files if fnmatchcase(name, pattern)]
