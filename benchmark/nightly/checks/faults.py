"""Five tests of the faults in docs/faults.md, other ones each night."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from ..context import NightContext
from ..step_result import NO_DATA, StepResult
from .pytest_runs import run_tests

TESTS = "tests/faults"
A_NIGHT = 5
LIMIT_S = 1800.0


def faults(context: NightContext) -> StepResult:
    """Run the tests of five faults: over the nights every fault has its turn, and where a fault has
    several tests, each of them. The nightly-marked ones run with `--tests` only. In a tiny night,
    one of the faults that need no worker."""
    known = fault_tests(context.root, "test_bad_input.py" if context.tiny else "test_*.py")
    if not known:
        return StepResult(
            "faults",
            NO_DATA,
            "no tests of faults",
            reason=f"{context.root} has no test with the mark fault in {TESTS}",
        )
    chosen = of_the_night(known, date.fromisoformat(context.date), 1 if context.tiny else A_NIGHT)
    names = [name for _, name in chosen]
    found = run_tests(context, "faults", [*dict.fromkeys(names)], limit_s=LIMIT_S)
    numbers = ", ".join(str(number) for number, _ in chosen)
    return StepResult(
        found.name,
        found.verdict,
        f"faults {numbers}: {found.headline}",
        found.findings,
        reason=found.reason,
    )


def fault_tests(root: Path, files: str = "test_*.py") -> dict[int, list[str]]:
    """{number of a fault: node ids of its tests that are not nightly}, from the tests' text."""
    found: dict[int, list[str]] = {}
    for path in sorted((root / TESTS).glob(files)):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if "pytest.mark.nightly" in _module_marks(tree):
            continue
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef):
                continue
            marks = [*node.decorator_list]
            if any(ast.unparse(mark) == "pytest.mark.nightly" for mark in marks):
                continue
            for number in _numbers(marks):
                name = f"{path.relative_to(root).as_posix()}::{node.name}"
                found.setdefault(number, []).append(name)
    return dict(sorted(found.items()))


def _module_marks(tree: ast.Module) -> set[str]:
    """The marks that a module gives all its tests, as text."""
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(ast.unparse(target) == "pytestmark" for target in node.targets)
    ]
    parts = [part for v in values for part in (v.elts if isinstance(v, ast.List) else [v])]
    return {ast.unparse(part) for part in parts}


def _numbers(marks: list[ast.expr]) -> Iterator[int]:
    """The rows of docs/faults.md that decorators name."""
    for mark in marks:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
            for number in mark.args:
                if isinstance(number, ast.Constant) and isinstance(number.value, int):
                    yield number.value


def of_the_night(known: dict[int, list[str]], day: date, n: int) -> list[tuple[int, str]]:
    """n (fault, test) pairs: the next n faults of a ring, and of a fault the test after the last.

    >>> known = {1: ["a"], 2: ["b", "c"], 3: ["d"]}
    >>> [of_the_night(known, date(2026, 1, night), 2) for night in (1, 2, 3)]
    [[(1, 'a'), (2, 'b')], [(3, 'd'), (1, 'a')], [(2, 'c'), (3, 'd')]]
    """
    numbers = list(known)
    first = (day.toordinal() - date(2026, 1, 1).toordinal()) * n
    found = []
    for place in range(first, first + min(n, len(numbers))):
        number, turn = numbers[place % len(numbers)], place // len(numbers)
        found.append((number, known[number][turn % len(known[number])]))
    return found
