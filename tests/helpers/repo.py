"""The repository: its root, its documents, its product modules and their syntax trees."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELPERS = [
    str(ROOT / "tests" / "helpers" / name) for name in ("", "cases", "networks", "processes")
]
ROOMS = ("benchmark", "common", "datasets", "models", "reports", "sweeps")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)


@cache
def modules() -> tuple[Path, ...]:
    """The product's modules, room by room."""
    return tuple(path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a document that are in this language."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [block[3] for block in FENCE.finditer(text) if block[2] == language]


@cache
def errors() -> tuple[type, ...]:
    """Every class of the product that is a `tabsweep.Error`."""
    for path in modules():
        if " Error\n" in path.read_text(encoding="utf-8"):  # the end of its import
            import_module(".".join(("tabsweep", *path.relative_to(ROOT).with_suffix("").parts)))
    found = [import_module("tabsweep.common.errors").Error]
    for cls in found:
        found += [each for each in cls.__subclasses__() if each not in found]
    return tuple(cls for cls in found if cls.__module__.startswith("tabsweep."))


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def dotted(node: ast.expr) -> str:
    """What a call names: "a.b.c"; "?" stands for anything but names and attributes.

    >>> [dotted(ast.parse(text).body[0].value) for text in ("os.fork", "open", "f(x).load")]
    ['os.fork', 'open', '?.load']
    """
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
