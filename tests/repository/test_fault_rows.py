"""Rows of docs/faults.md and marks `fault(n)` of tests: each has the other."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from repo import tree

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "docs" / "faults.md"


def rows() -> dict[int, set[str]]:
    """{number of a row: the files of tests that it names}"""
    found: dict[int, set[str]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if number := re.match(r"\| (\d+) \|", line):
            cells = re.split(r"(?<!\\)\|", line)
            assert len(cells) == 6 and all(cell.strip() for cell in cells[1:-1]), line
            assert int(number[1]) not in found, f"two rows {number[1]}"
            found[int(number[1])] = set(re.findall(r"`([\w/]+)`", cells[4]))
    return found


def marks() -> dict[int, set[str]]:
    """{number of a row: the files with a test that is marked with it}, from their text alone."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(tree(path)):
            for mark in getattr(node, "decorator_list", []):
                if not ast.unparse(mark).startswith("pytest.mark.fault"):
                    continue
                where = f"{path.name}:{mark.lineno}"
                assert isinstance(mark, ast.Call) and mark.args, f"{where}: fault of which row?"
                assert isinstance(node, ast.FunctionDef) and node.name.startswith("test_"), where
                for number in mark.args:
                    assert isinstance(number, ast.Constant) and type(number.value) is int, where
                    name = path.parent.relative_to(TESTS) / path.stem.removeprefix("test_")
                    found[number.value].add(name.as_posix())
    return dict(found)


def test_every_row_has_a_test_and_every_mark_a_row():
    listed, marked = rows(), marks()
    assert sorted(listed) == list(range(1, len(listed) + 1)) and len(listed) >= 34
    assert marked == listed, {
        number: (marked.get(number), listed.get(number))
        for number in marked.keys() | listed.keys()
        if marked.get(number) != listed.get(number)
    }
