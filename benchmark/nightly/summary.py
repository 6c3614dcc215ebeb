"""The summary of a night in Markdown: the verdict, what broke, and what each step found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...common.files import write_atomically
from ...reports.output.escape import markdown
from ..console import count, duration
from .checkout import SHORT
from .context import NightContext
from .step_result import NO_DATA, NOT_RUN, OK, REGRESSION, Night, StepResult

SHOWN = 100  # rows of a table
SAID = {
    OK: "nothing broke",
    REGRESSION: "a regression",
    NO_DATA: "could not be judged",
    NOT_RUN: "not run",
}
# Verdicts of findings that make no step red.
FINE = {"", "ok", "equal", "harmless", "undecided", "changed", "new"}
# Keys of findings in the order of their columns; the others follow. Some have another heading.
KEYS = "model dataset verdict old new change interval cpu datasets message reason".split()
HEADINGS = {"interval": "bounds", "cpu": "CPU time"}
SHARES = {"change", "cpu"}  # relative changes: shown in per cent
NOT_SHOWN = {"lower", "upper", "kind", "command"}
Findings = Sequence[Mapping[str, Any]]


def write_summary(night: Night, context: NightContext) -> Path:
    """Write summary.md into the night's folder; returns its path."""
    path = context.night / "summary.md"
    text = summary(night, context.baseline)
    write_atomically(path, text.encode())
    return path


def summary(night: Night, baseline: Mapping[str, Any] | None) -> str:
    """The text of summary.md."""
    judged = [step for step in night.steps if step.verdict != NOT_RUN]
    told = [step for step in judged if step.red]
    lines = [f"## {markdown(verdict_line(night))}", ""]
    lines += [f"* {markdown(f'{step.name}: {step.told}')}" for step in told]
    for verdict, title in ((REGRESSION, "What broke"), (NO_DATA, "What could not be judged")):
        for step in (step for step in judged if step.verdict == verdict):
            lines += ["", f"### {title}: {markdown(step.name)}: {markdown(step.headline)}", ""]
            lines += [f"{markdown(step.reason)}\n"] if step.reason else []
            lines += _table(bad(step) or step.findings)
    for step in judged:
        if step.name == "ab-test" and (
            rest := [row for row in step.findings if row not in bad(step)]
        ):
            lines += ["", "### What else the A/B test compared", "", *_table(rest)]
    lines += ["", "### Steps", "", *_table([_row(step) for step in judged])]
    lines += [""] + [
        f"* not run: {step.name}: {markdown(step.reason or step.headline)}"
        for step in night.steps
        if step.verdict == NOT_RUN
    ]
    return "\n".join([*lines, "", markdown(_facts(night, baseline)), ""])


def verdict_line(night: Night) -> str:
    """The verdict in one sentence.

    >>> step = StepResult("screen", REGRESSION, "not deterministic: knn")
    >>> verdict_line(Night("a" * 40, "b" * 40, "2026-11-22T02:17:00Z", {}, [step]))
    'Red: 1 step found a regression.'
    """
    n = {kind: sum(step.verdict == kind for step in night.steps) for kind in SAID}
    if night.red:
        parts = []
        if n[REGRESSION]:
            parts.append(f"{count(n[REGRESSION], 'step')} found a regression")
        if n[NO_DATA]:
            parts.append(f"{count(n[NO_DATA], 'step')} could not judge")
        return f"Red: {', '.join(parts)}."
    return "Nothing broke."


def bad(step: StepResult) -> list[dict[str, Any]]:
    """The findings of a red step that made it red; of another step, none."""
    return [row for row in step.findings if step.red and str(row.get("verdict") or "") not in FINE]


def _facts(night: Night, baseline: Mapping[str, Any] | None) -> str:
    accepted = baseline or {}
    day = f", accepted {accepted['accepted']}" if accepted.get("commit") == night.baseline else ""
    changed = ", with changes that are not committed" if "-changed-" in night.commit else ""
    return (
        f"Commit {night.commit[:SHORT]}{changed}; compared with "
        f"{night.baseline[:SHORT] or 'nothing'}{day}; started {night.started}; "
        f"{night.host.get('cpu', 'unknown')}, {count(int(night.host.get('cores', 0)), 'core')}; "
        f"{duration(sum(step.seconds for step in night.steps))}, "
        f"{duration(sum(step.cpu_s for step in night.steps))} of CPU"
    )


def _row(step: StepResult) -> dict[str, str]:
    return {
        **{"step": step.name, "verdict": SAID[step.verdict], "found": step.headline},
        **{"time": f"{step.seconds:.0f} s", "CPU time": f"{step.cpu_s:.0f} s"},
    }


# ---------------------------------------------------------------------- findings as tables


def _table(findings: Findings) -> list[str]:
    """Findings as the lines of a Markdown table: every column that is not empty, commands last."""
    if not findings:
        return []
    rows = [
        {key: text_of(key, value) for key, value in {**row, "interval": interval(row)}.items()}
        for row in findings
    ]
    others = [key for row in rows for key in row if key not in {*KEYS, *NOT_SHOWN}]
    every = dict.fromkeys((*KEYS, *others, "command"))
    keys = [key for key in every if any(row.get(key) for row in rows)]
    lines = [[HEADINGS.get(key, key.replace("_", " ")) for key in keys], ["---"] * len(keys)]
    lines += [[_cell(key, row.get(key, "")) for key in keys] for row in rows[:SHOWN]]
    left = len(rows) - SHOWN
    more = ["", f"and {left} more: see night.json"] if left > 0 else []
    return [f"| {' | '.join(cells)} |" for cells in lines] + more


def _cell(key: str, text: str) -> str:
    """A cell's text; a command as code, where it can be that in a table."""
    if key == "command" and text and not re.search(r"[`|\n<>&]", text):
        return f"`{text}`"
    return markdown(text)


def text_of(key: str, value: Any) -> str:
    """A value of a finding as a reader sees it.

    >>> text_of("change", 0.0314), text_of("old", 0.123456789), text_of("datasets", ["a", "b"])
    ('+3.1 %', '0.1235', 'a, b')
    """
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(text_of(key, item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in SHARES:
        return percent(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def percent(share: float) -> str:
    """A relative change.

    >>> percent(0.0314), percent(-0.2)
    ('+3.1 %', '−20.0 %')
    """
    return f"{100 * share:+.1f} %".replace("-", "−")


def interval(row: Mapping[str, Any]) -> str:
    """The bounds of a finding's change, where it has both.

    >>> interval({"lower": -0.01, "upper": 0.02}), interval({"lower": None, "upper": 0.02})
    ('−1.0 % to +2.0 %', '')
    """
    lower, upper = row.get("lower"), row.get("upper")
    if lower is None or upper is None:
        return ""
    return f"{percent(lower)} to {percent(upper)}"
