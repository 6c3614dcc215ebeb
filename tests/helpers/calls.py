"""`bench` called in this process, with its output and exit code."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from tabsweep.benchmark.cli import main


class Ran(NamedTuple):
    """The exit code, standard output and standard error of a call."""

    code: int
    out: str
    err: str


def bench(*args: object) -> Ran:
    """One call of the command in this process."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def answer(*args: object, code: int = 0) -> Any:
    """What a call says with `--json`."""
    found = bench(*args, "--json")
    assert found.code == code, found
    return json.loads(found.out)


def contents(folder: Path) -> dict[str, bytes]:
    """{path: bytes} of every file below a folder."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def replace_sleep(patch: pytest.MonkeyPatch, instead: Callable[[float], None]) -> None:
    """`time.sleep` of this thread alone: others of the process, such as the clock of a worker pool
    that an earlier test made, go on as they are."""
    real, here = time.sleep, threading.get_ident()

    def sleep(seconds: float) -> None:
        (instead if threading.get_ident() == here else real)(seconds)

    patch.setattr(time, "sleep", sleep)


@contextmanager
def without_reports() -> Iterator[None]:
    """Sweeps of this process write no report, which takes most of the time of a small one."""
    nothing = [], 0, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabsweep.benchmark.commands.sweep.report_of", lambda *given: nothing)
        yield


@contextmanager
def working_in(folder: Path) -> Iterator[Path]:
    """A working directory without a mirror; what is imported from it goes with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", sys.path.copy())
        patch.delenv("TABSWEEP_MIRROR", raising=False)
        try:
            yield folder
        finally:
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
                    del sys.modules[name]
