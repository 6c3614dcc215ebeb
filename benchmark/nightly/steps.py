"""The steps of a night in their order, each imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from .context import NightContext
from .step_result import StepResult

# A step is a function of the context; it lies below this package. Later steps may read the results
# of earlier ones (`context.result("screen")`).
STEPS: dict[str, str] = {
    "screen": "screen:screen",
    "ab-test": "ab_test:ab_test",
    "cost": "checks.cost:cost",
    "sweep-path": "checks.sweep_path:sweep_path",
    "golden-reports": "checks.golden_reports:golden_reports",
}


def step(name: str) -> Callable[[NightContext], StepResult]:
    """The function of a step. Raises KeyError for an unknown name."""
    module, _, function = STEPS[name].partition(":")
    found: Callable[[NightContext], StepResult] = getattr(
        import_module(f"{__package__}.{module}"), function
    )
    return found
