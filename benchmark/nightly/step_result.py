"""What a step of a night found, and the night as a whole, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

OK = "ok"
REGRESSION = "regression"
NO_DATA = "no-data"  # could not be judged: as red as a regression
NOT_RUN = "not-run"


@dataclass(frozen=True)
class StepResult:
    """How one step of a night ended.

    headline: one plain sentence. findings: rows for tables, JSON values only ({model, dataset, old,
    new, change, lower, upper, verdict, command, ...}, as far as the step has them). reason:
    why a step was not run, or has no data.
    """

    name: str
    verdict: str
    headline: str
    findings: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    cpu_s: float = 0.0
    reason: str = ""

    @property
    def red(self) -> bool:
        """Whether the night ends with exit code 4 for it."""
        return self.verdict in (REGRESSION, NO_DATA)

    @property
    def told(self) -> str:
        """The headline, and the reason where there is one."""
        return self.headline + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True)
class Night:
    """One nightly check: the two commits that it compared, its machine, and its steps in order.

    commit, baseline: of the checkout and of the accepted baseline ("" without one). started: UTC.
    host: {"cpu": processor name, "cores": n}.
    """

    commit: str
    baseline: str
    started: str
    host: Mapping[str, Any]
    steps: list[StepResult]

    @property
    def verdict(self) -> str:
        """regression or no-data where a step says so, else ok."""
        found = {step.verdict for step in self.steps}
        return next((v for v in (REGRESSION, NO_DATA) if v in found), OK)

    @property
    def red(self) -> bool:
        """Whether a step is a regression or could not be judged."""
        return self.verdict != OK

    def to_data(self) -> dict[str, Any]:
        """The fields and the verdict, as night.json has them."""
        return {**asdict(self), "verdict": self.verdict}
