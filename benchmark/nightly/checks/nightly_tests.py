"""The tests with the mark `nightly`: slow studies that no change waits for."""

from __future__ import annotations

from ..context import NightContext
from ..step_result import NOT_RUN, StepResult
from .pytest_runs import run_tests

LIMIT_S = 6 * 3600.0


def nightly_tests(context: NightContext) -> StepResult:
    """Run `pytest -m nightly`, with `bench nightly --tests` only: it takes hours."""
    if not context.tests:
        return StepResult(
            "nightly-tests", NOT_RUN, "not asked for", reason="runs with --tests; it takes hours"
        )
    return run_tests(context, "nightly-tests", ["-m", "nightly"], limit_s=LIMIT_S)
