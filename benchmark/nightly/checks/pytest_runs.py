"""Tests of the checkout that is judged, run by pytest, and what its report says of each."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ...console import count
from ..context import NightContext
from ..step_result import NO_DATA, OK, REGRESSION, StepResult
from . import child

OUTCOMES = ("passed", "failed", "skipped")


@dataclass(frozen=True)
class TestCase:
    """One test: passed, failed (an error in its set-up, too) or skipped, and why."""

    __test__ = False  # for pytest, which collects classes of this name

    name: str
    outcome: str
    message: str
    seconds: float


def run_tests(
    context: NightContext, name: str, words: Sequence[str], *, limit_s: float
) -> StepResult:
    """The step `name`: pytest with these words in the checkout's root, one process.

    A failed test is a regression. No verdict (NO_DATA) where pytest could not run, did not end
    within `limit_s`, or where no test ran to its end.
    """
    folder = context.night / name
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "junit.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-p", "no:cacheprovider", f"--junitxml={report}")
    command = [str(context.python), "-m", "pytest", *options, *words]
    ended = child.run(
        context, command, log=folder / "output.txt", limit_s=limit_s, cwd=context.root
    )
    cases = read_cases(report) if report.is_file() else []
    rows = [*_rows(cases)]
    of = {outcome: [c for c in cases if c.outcome == outcome] for outcome in OUTCOMES}
    passed, failed, skipped = (len(of[outcome]) for outcome in OUTCOMES)
    if failed:
        names = ", ".join(case.name for case in of["failed"][:3])
        headline = f"{failed} of {count(len(cases), 'test')} failed: {names}"
        return StepResult(name, REGRESSION, headline, rows)
    if ended.code != 0 or not passed:
        why = "; ".join(sorted({case.message for case in of["skipped"]})) or f"pytest: {ended.how}"
        return StepResult(name, NO_DATA, "no test ran to its end", rows, reason=why)
    also = f", {skipped} skipped ({of['skipped'][0].message})" if skipped else ""
    return StepResult(name, OK, f"{count(passed, 'test')} passed{also}", rows)


def _rows(cases: Sequence[TestCase]) -> Iterator[dict[str, Any]]:
    """A row for each failed or skipped case, and one for all cases of a test that passed."""
    passed = Counter(case.name.partition("[")[0] for case in cases if case.outcome == "passed")
    for case in cases:
        if case.outcome != "passed":
            yield {
                "subject": case.name,
                "verdict": case.outcome,
                "message": case.message,
                "command": f"python -m pytest -m '' {shlex.quote(case.name)}",
            }
    for name, n in passed.items():
        yield {"subject": name, "verdict": "passed", "n": n}


def read_cases(report: Path) -> list[TestCase]:
    """The tests in a JUnit file of pytest, in their order."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").replace(".", "/")
        name = f"{module}.py::{case.get('name', '')}"
        seconds, outcome, message = float(case.get("time", 0)), "passed", ""
        for child_ in case:
            if child_.tag in ("failure", "error", "skipped"):
                outcome = "skipped" if child_.tag == "skipped" else "failed"
                message = " ".join((child_.get("message") or "").split())[:500]
        found.append(TestCase(name, outcome, message, seconds))
    return found
