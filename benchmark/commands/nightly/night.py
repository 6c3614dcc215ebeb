"""`bench nightly`: judge this checkout against its accepted baseline."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....sweeps.store.run_lock import RunLock
from ...console import OK, REGRESSION, Console, count, duration
from ...nightly.baseline import read
from ...nightly.checkout import BASELINE, Checkout, checkout_of
from ...nightly.context import NightContext
from ...nightly.night import name_of, run_night
from ...nightly.step_result import NOT_RUN
from ...nightly.summary import write_summary
from ...planning.environment import ROOT
from ...planning.suite import SuiteError, load


def nightly_command(console: Console, **given: Any) -> int:
    """`bench nightly`: exit code 4 where a step is a regression or could not be judged."""
    checkout = checkout_of(ROOT)
    context = context_of(console, checkout, **given)
    console.say(f"{checkout.label} against {_against(context)}; {context.night}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: children end, too
    # The store, too: one run at a time moves its worktrees.
    with RunLock(context.night, note=console.say), RunLock(context.store, note=console.say):
        night = run_night(context)
        page = write_summary(night, context)
    console.data({"folder": str(context.night), "summary": str(page), **night.to_data()})
    run = [step for step in night.steps if step.verdict != NOT_RUN]
    wall, cpu = sum(s.seconds for s in run), sum(s.cpu_s for s in run)
    took = f"{duration(wall)}, {duration(cpu)} of CPU"
    console.say(f"{night.verdict.upper()}: {count(len(run), 'step')}, {took}")
    console.say(str(page))
    return REGRESSION if night.red else OK


def context_of(
    console: Console,
    checkout: Checkout,
    *,
    out: Path,
    baseline: Path | None,
    against: str | None,
    workers: int,
    suite: str,
    models: Sequence[str] = (),
    night: str | None = None,
) -> NightContext:
    """The circumstances of a night. Raises BaselineError, and SuiteError for a suite with files of
    its own, which the processes of both commits do not read."""
    if files := load(suite).file:
        raise SuiteError(
            f"{suite}: bench nightly reads no files of a suite ({', '.join(files)}): add them by "
            "bench data add, and name them in the suite's datasets"
        )
    nights = out.resolve()
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    folder = nights / (night or name_of(today, checkout.label, against))
    file = (baseline or checkout.root / BASELINE).resolve()
    for name in ("TABSWEEP_MIRROR", "TABSWEEP_CACHE"):  # its processes work elsewhere
        if (place := os.environ.get(name)) and "://" not in place:
            os.environ[name] = os.path.abspath(place)
    return NightContext(
        checkout=checkout,
        night=folder,
        store=nights / "store",
        workers=workers,
        baseline=read(file),
        baseline_file=file,
        against=against,
        suite=os.path.abspath(suite) if suite.endswith(".toml") else suite,
        models=tuple(models),
        say=console.say,
    )


def _against(context: NightContext) -> str:
    if context.against:
        return context.against
    if context.baseline is None:
        return "no baseline"
    return f"the baseline {context.baseline['commit'][:10]} of {context.baseline['accepted']}"
