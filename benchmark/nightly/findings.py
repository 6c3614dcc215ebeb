"""Findings of a night's steps as tables of text, and which of them are bad."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .step_result import ADVISORY, StepResult

# Verdicts of rows that make no step red.
FINE = {"", "ok", "passed", "skipped", "equal", "harmless", "undecided", "unchanged", "changed"}
FINE |= {"dearer", "dearer, two nights", "slow", "new", "same", "rerun", "better"}

# Key of a finding -> the heading of its column; the others follow under their own names.
TITLES = {
    "subject": "what",
    "model": "model",
    "measure": "measure",
    "dataset": "dataset",
    "fold": "fold",
    "seed": "seed",
    "verdict": "verdict",
    "old": "old",
    "new": "new",
    "change": "change",
    "interval": "bounds",
    "worst": "largest",
    "worst_dataset": "on",
    "since": "commits that may have done it",
    "datasets": "datasets",
    "message": "message",
    "reason": "reason",
}
SHARES = {"change", "lower", "upper", "worst", "worst_lower"}  # relative changes: shown in per cent
WORDS = {"message", "reason", "note", "since", "datasets"}
NOT_SHOWN = {"lower", "upper", "worst_lower", "kind"}


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its rows' values, its heading, and how it is set."""

    key: str
    title: str
    numeric: bool = False
    words: bool = False


@dataclass(frozen=True)
class Rows:
    """A table of texts under a title: what is said before it, and the command that repeats it."""

    title: str
    columns: list[Column]
    rows: list[dict[str, str]]
    lines: tuple[str, ...] = ()
    command: str = ""


def bad(step: StepResult) -> list[dict[str, Any]]:
    """The findings of a red step that made it red; of another step, none."""
    return [row for row in step.findings if step.red and str(row.get("verdict") or "") not in FINE]


def subject_of(row: Mapping[str, Any]) -> str:
    """What a finding is about: a model, a dataset, a file, a test.

    >>> subject_of({"model": "knn", "dataset": "iris"}), subject_of({"subject": "scores.tex"})
    ('knn', 'scores.tex')
    """
    return str(next((row[k] for k in ("model", "subject", "dataset") if row.get(k)), ""))


def table(
    title: str,
    findings: Sequence[Mapping[str, Any]],
    *,
    lines: Iterable[str] = (),
    command: str = "",
) -> Rows:
    """Findings as a table: the columns that one of them has, commands last."""
    shown = [{**row, "interval": interval(row)} for row in findings]
    has = {key for row in shown for key, value in row.items() if value not in (None, "", [])}
    others = sorted(has - TITLES.keys() - NOT_SHOWN - {"command"})
    keys = [key for key in TITLES if key in has] + others + ["command"] * ("command" in has)
    columns = [
        Column(
            key,
            TITLES.get(key, key.replace("_", " ")),
            numeric=key == "interval" or all(_is_number(row.get(key)) for row in shown),
            words=key in WORDS,
        )
        for key in keys
    ]
    texts = [{key: text_of(key, row.get(key)) for key in keys} for row in shown]
    return Rows(title, columns, texts, tuple(line for line in lines if line), command)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


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
    if not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return "n/a"
    if key in SHARES:
        return percent(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def percent(share: float) -> str:
    """A relative change.

    >>> percent(0.0314), percent(-0.2)
    ('+3.1 %', '−20.0 %')
    """
    return f"{100 * share:+.1f} %".replace("-", "−")


def interval(row: Mapping[str, Any]) -> str:
    """The bounds of a finding's change, as far as it has them.

    >>> interval({"lower": 0.019}), interval({"lower": -0.01, "upper": 0.02}), interval({})
    ('at least +1.9 %', '−1.0 % to +2.0 %', '')
    """
    bounds = [row.get("lower"), row.get("upper")]
    known = [isinstance(bound, int | float) and math.isfinite(bound) for bound in bounds]
    if all(known):
        return f"{percent(bounds[0])} to {percent(bounds[1])}"  # type: ignore[arg-type]
    if known[0]:
        return f"at least {percent(bounds[0])}"  # type: ignore[arg-type]
    return f"at most {percent(bounds[1])}" if known[1] else ""  # type: ignore[arg-type]


def command_of(step: StepResult, options: str = "") -> str:
    """The command that runs a step again, in a folder of its own, since a night keeps the results
    of its steps; "" where the findings that matter have commands of their own. options: of the
    night, each after a blank."""
    matter = bad(step) or step.findings
    if step.name in ("ab-test", "cost") and any(row.get("command") for row in matter):
        return ""
    first = "screen,ab-test," if step.name == "cost" else "screen,"
    only = (first if step.name in ("ab-test", "cost") else "") + step.name
    return f'bench nightly --only {only}{options} --out "$(mktemp -d)"'


def is_advisory(step: StepResult) -> bool:
    """Whether a step is shown on top and makes nothing red."""
    return step.verdict == ADVISORY
