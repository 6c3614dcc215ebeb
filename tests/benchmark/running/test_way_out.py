"""The way out of a Ray that does not start, before and after there is a run to resume."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("work")

# The guard of a start of Ray, in a process that then freezes as Ray's library makes it freeze.
PROGRAM = """
import ctypes, sys
from pathlib import Path
from tabsweep.benchmark.running.ray_session import RayStart
ray = RayStart(1, "local", Path(sys.argv[1]))
ray._guard.begin()
ctypes.PyDLL(None).sleep(60)
"""


def last_words(run: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, run],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TABSWEEP_RAY_START_S": "1.5"},
    )
    assert done.returncode == 3 and "error BENCH-E021" in done.stderr, done
    return done.stderr.splitlines()[-1]


def test_a_start_that_freezes_advises_what_can_be_done(copy_run) -> None:
    """The run may have no plan yet, or one: the same command serves for both."""
    for found in (False, True):
        if found:
            copy_run("knn")
        said = last_words("runs/knn")
        assert "bench resume" not in said and "the same command with --workers 0" in said
