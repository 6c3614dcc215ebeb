"""How do tests call the command line? In this process, with what it printed kept apart."""

from __future__ import annotations

from typing import NamedTuple

from click.testing import CliRunner
from tabsweep.benchmark.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def bench(*args: object) -> Ran:
    """One call of the command in this process."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)
