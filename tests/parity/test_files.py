"""Every file of official numbers is opened by a test, or listed with the reason why not."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase
from pathlib import Path

from parity import folder

NOT_BUILT = {
    "mnca_*": "ModernNCA is no model of this package yet",
    "ple_*": "piecewise-linear embeddings of numbers are not built yet",
    "plr_*": "periodic embeddings of numbers are not built yet",
    "tabm_*": "TabM is no model of this package yet",
    "tabr_*": "TabR is no model of this package yet",
}


def opened() -> set[str]:
    """Names and patterns that tests give to `case` and `names`, read from their sources."""
    found = set()
    for path in Path(__file__).resolve().parents[1].rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in ("case", "names"):
                    values = [a.value for a in node.args if isinstance(a, ast.Constant)]
                    found |= {value for value in values if isinstance(value, str)}
    return found


def test_every_file_is_opened_or_has_a_reason_and_every_pattern_has_a_file():
    files = sorted(path.stem for path in folder().glob("*.npz"))
    tested = opened()
    assert files and not [p for p in tested | set(NOT_BUILT) if not _matches(files, p)]
    unread = [name for name in files if not any(fnmatchcase(name, p) for p in tested)]
    assert [name for name in unread if not any(fnmatchcase(name, p) for p in NOT_BUILT)] == []
    built = [p for p in NOT_BUILT if not set(_matches(files, p)) <= set(unread)]
    assert built == [], "remove the models that tests now read"


def _matches(files: list[str], pattern: str) -> list[str]:
    return [name for name in files if fnmatchcase(name, pattern)]
