"""A night: its steps one after the other, and the verdict."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from ...common.files import write_atomically
from ..planning.environment import cpu_model
from .ab_test import ab_test
from .checkout import SHORT, remove_worktrees
from .context import NightContext
from .screen import screen
from .step_result import NO_DATA, Night, StepResult


def run_night(context: NightContext) -> Night:
    """Run the steps one after the other, and write night.json. Against the baseline the A/B test
    judges the models that the screen finds changed; against a commit (`context.against`) it is
    alone, and judges all whose ids differ.

    A step that raises is one that could not be judged; its traceback is in logs/. What the runs of
    this night hold already is not fitted again.
    """
    context.night.mkdir(parents=True, exist_ok=True)
    started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    steps: list[StepResult] = []
    if context.against is None:
        steps.append(_run(context, "screen", screen))
    steps.append(_run(context, "ab-test", partial(ab_test, screened=next(iter(steps), None))))
    here = context.checkout
    night = Night(
        commit=here.commit + here.label[SHORT:],
        baseline=context.accepted,
        started=started,
        host={"cpu": cpu_model(), "cores": os.cpu_count() or 1},
        steps=steps,
    )
    text = json.dumps(night.to_data(), indent=1, sort_keys=True)
    write_atomically(context.night / "night.json", text.encode() + b"\n")
    kept = [context.baseline["commit"]] if context.baseline else []
    remove_worktrees(here.root, context.store, but=kept)
    return night


def _run(
    context: NightContext, name: str, step: Callable[[NightContext], StepResult]
) -> StepResult:
    """Run a step, with its time and the CPU time of this process and its children."""
    context.say(f"{name} ...")
    begin, before = time.monotonic(), os.times()
    try:
        found = step(context)
    except Exception as error:
        folder = context.night / "logs"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.log").write_text(traceback.format_exc(), encoding="utf-8")
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        found = StepResult(
            name, NO_DATA, "the step itself failed", reason=f"{reason} (logs/{name}.log)"
        )
    cpu_s = sum(os.times()[:4]) - sum(before[:4])
    found = replace(found, seconds=round(time.monotonic() - begin, 1), cpu_s=round(cpu_s, 1))
    context.say(f"{found.name}: {found.verdict.upper()}: {found.told}")
    return found


def name_of(date: str, label: str, against: str | None) -> str:
    """The folder name of a nightly check: date, commit and, if named, the commit compared with."""
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in against or "")
    return f"{date}-{label}" + (f"-against-{plain[:40]}" if against else "")
