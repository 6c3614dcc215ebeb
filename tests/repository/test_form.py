"""Form of the source tree: sizes of folders and modules, module heads, docstrings."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from repo import ROOMS, ROOT, tree

LISTS = {"models", "datasets/cards", "models/spaces"}  # folders that are an index: one file a thing
MOST_MODULES, MOST_LINES = 15, 500


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    sizes = Counter(place(path.parent) for path in sources(*ROOMS, "tests"))
    large = {folder: n for folder, n in sizes.items() if n > MOST_MODULES and folder not in LISTS}
    assert not large


def test_no_module_is_longer_than_five_hundred_lines() -> None:
    lengths = {
        place(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(*ROOMS, "tests")
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def test_every_module_begins_with_a_statement_of_what_it_is() -> None:
    heads = {
        place(path): (ast.get_docstring(tree(path)) or "")
        for path in [ROOT / "__init__.py", *sources(*ROOMS, "tests")]
    }
    wrong = {name: head.partition("\n")[0] for name, head in heads.items() if not states(head)}
    assert not wrong, "\n".join(f"{name}: {head!r}" for name, head in wrong.items())


def states(head: str) -> bool:
    """Whether a docstring begins with a sentence that is no question."""
    first = head.partition("\n\n")[0].strip()
    return bool(first) and "?" not in first


def test_every_public_name_has_a_docstring() -> None:
    silent = [
        f"{place(path)}:{line}: {name}"
        for path in [ROOT / "__init__.py", *sources(*ROOMS)]
        for line, name in undocumented(tree(path))
    ]
    assert not silent, f"{len(silent)} names\n" + "\n".join(silent)


def undocumented(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[int, str]]:
    """(line, name) of each public function, class and method without a docstring.

    Overloads and setters are documented by the definition that they belong to.
    """
    for child in node.body:
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        marks = [ast.unparse(mark) for mark in child.decorator_list]
        if child.name.startswith("_") or any(m.endswith(("overload", ".setter")) for m in marks):
            continue
        if not ast.get_docstring(child):
            yield child.lineno, prefix + child.name
        if isinstance(child, ast.ClassDef):
            yield from undocumented(child, f"{prefix}{child.name}.")
