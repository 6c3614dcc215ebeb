"""Every official output is read by a test, or listed with the reason why not.

Every file is opened by one module of tests (here), and at the end of each module no array of its
files is unread (tests/helpers/networks/parity_reading.py).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import parity_reading
from parity import folder

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


def _matches(files: list[str], pattern: str) -> list[str]:
    return [name for name in files if fnmatchcase(name, pattern)]
