"""No code outside of a paper's folder names a table, experiment or suite of that paper."""

from __future__ import annotations

import ast
from pathlib import Path

from tabsweep.benchmark.papers import catalog
from tabsweep.benchmark.planning import suite as suites

ROOT = Path(__file__).parents[3]
ROOMS = ("benchmark", "reports", "sweeps", "models", "datasets", "common")


def texts(path: Path) -> set[str]:
    """The string constants of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is str}


def test_no_code_outside_of_a_papers_folder_names_its_tables_experiments_or_suites():
    owners = {}
    for paper in catalog.papers():
        # a model may have its paper's name, and so may a paper's only suite
        own = {*paper.file.entries, *paper.file.experiment, *suites.files_in(paper.folder)}
        owners |= dict.fromkeys(own - {paper.name}, paper.folder)
    wrong = [
        f"{path.relative_to(ROOT)} names {name}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for name in sorted(texts(path) & set(owners))
        if not path.is_relative_to(owners[name])
    ]
    assert not wrong


def test_papers_import_no_command():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(catalog.FOLDER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and "commands" in (node.module or "").split(".")
    ]
    assert not wrong
