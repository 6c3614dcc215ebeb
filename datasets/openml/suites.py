"""Suites of OpenML by name, number or alias: their tasks."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ...common.text import one_line, suggest
from ..errors import UnknownDataset
from .api import Server

FILE = Path(__file__).with_name("suites.toml")
ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@cache
def named() -> dict[str, dict[str, Any]]:
    """The suites of `suites.toml`: name -> title and either `tasks` or `studies`."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def tasks_of(wanted: str, server: Server) -> tuple[int, ...]:
    """The tasks of a suite: a name of `suites.toml`, or a number or an alias that the server knows.

    The server is asked for no suite whose tasks the file lists. Raises UnknownDataset, and what
    `Server.suite` raises.
    """
    if wanted in named():
        suite = named()[wanted]
        studies = [server.suite(str(number)) for number in suite.get("studies", ())]
        return tuple(dict.fromkeys([*suite.get("tasks", ()), *(t for s in studies for t in s)]))
    if not ALIAS.fullmatch(wanted):
        raise UnknownDataset(
            f"{one_line(wanted, 60)!r} is no suite of OpenML: give its number or its alias; "
            f"{suggest(wanted, named())}"
        )
    return server.suite(wanted)
