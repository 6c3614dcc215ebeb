"""docker-compose.yml as docker reads it; a test compares the two where docker is there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from repo import ROOT

# Nobody else's identity or server may get into a service that is tested.
FOREIGN = ("MLFLOW_", "TABSWEEP_", "RAY_", "PG", "SLURM_")


def env_example() -> dict[str, str]:
    """The variables of .env.example with their defaults."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """
    >>> interpolate("${A:-${B:-c}} $$HOME ${D:-}", {"B": "x"})
    'x $HOME '
    """
    out, at = "", 0
    while (found := text.find("$", at)) >= 0:
        out += text[at:found]
        if text[found : found + 2] == "$$":
            out, at = out + "$", found + 2
            continue
        start = re.compile(r"\$\{(\w+)(:-)?").match(text, found)
        assert start is not None, text[found : found + 40]
        depth, end = 1, start.end()
        while depth:
            depth += {"}": -1, "{": 1}.get(text[end], 0)
            end += 1
        name, rest = start[1], text[start.end() : end - 1]
        out += variables.get(name, "") or interpolate(rest, variables)
        at = end
    return out + text[at:]


def filled(node: Any, variables: Mapping[str, str]) -> Any:
    """A part of the compose file with its variables filled in."""
    if isinstance(node, str):
        return interpolate(node, variables)
    if isinstance(node, dict):
        return {key: filled(value, variables) for key, value in node.items()}
    return [filled(item, variables) for item in node] if isinstance(node, list) else node


def raw() -> dict[str, Any]:
    """The compose file as it is written."""
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
