"""Progress of a running sweep on standard error: a bar on a terminal, else a line per 30 s."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...sweeps.trial import DONE
from ..console import count, duration, printable
from ..planning.plan_record import planned_slots

EVERY_S = 30.0


class Progress:
    """Counts results and shows them; `listen` is a listener of the engine."""

    def __init__(self, *, quiet: bool, color: bool, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.states: Counter[str] = Counter()
        self.failures: list[str] = []
        self.total = 0
        self._live: Any = None
        self._task: Any = None
        self._began = self._spoke = time.monotonic()
        self._ran = 0
        self._known = 0
        self._best = ""
        self._terminal = sys.stderr.isatty() and not quiet
        self._color = color

    # ------------------------------------------------------------------ life

    def begin(self, total: int, title: str, *, known: int = 0) -> None:
        """Start to show. `known` of the `total` trials ended in earlier calls."""
        self.total = total
        self._known = known
        if self.quiet:
            return
        if not self._terminal:
            before = f", {known} of them finished" if known else ""
            self._say(f"{title}: {count(total, 'trial')} planned{before}")
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._live = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True, no_color=not self._color),
            transient=True,
        )
        self._task = self._live.add_task(title, total=total, completed=known, note="")
        self._live.start()

    def end(self) -> None:
        """Remove the bar from the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    # ------------------------------------------------------------------ events

    def listen(self, event: str, details: Mapping[str, Any]) -> None:
        """Count and show an event of the engine."""
        if event in ("result", "reused"):
            result, slot = details["result"], details["slot"]
            self.states[result.status] += 1
            self._ran += event == "result"
            if result.cause and result.cause != "unsupported":
                self.failures.append(f"{slot.key}: {result.cause}: {result.message}")
                self._say(
                    f"failed: {slot.study} trial {slot.index}: {result.cause}: {result.message}"
                )
            self._advance()
        elif event == "retry":
            trial = details["trial"]
            self._say(f"retry: {trial.dataset}/{trial.fold}/{trial.model} after {details['cause']}")
        elif event == "study":
            study = details["study"]
            if "n_seeds" in study.meta:  # failures may have left fewer slots than were planned
                self.total += study.n_slots - planned_slots(dict(study.meta))
            loss = study.best_loss()
            metric = study.meta.get("metric", "loss")
            self._best = f"{study.name}: " + (
                f"best val {metric} {abs(loss):.4g}" if loss is not None else "no score"
            )
            if self.verbose:
                self._say(self._best)
        elif event == "warning":
            self._say(f"warning: {details['message']}")
        elif event == "waiting":
            self._wait_for(details["for"])
        elif event == "lost node":
            self._say(f"lost node {details['host']}; its trials run elsewhere")
        elif event == "node":
            self._say(f"node {details['host']} has joined")

    def _wait_for(self, what: str) -> None:
        """Before the first result: what the sweep waits for, on a terminal or with --verbose."""
        if self._live is not None:
            self._live.update(self._task, note=f"waiting for {what}")
        elif self.verbose or self._terminal:
            self._say(f"waiting for {what}")

    @property
    def _ended(self) -> int:
        return self._known + sum(self.states.values())

    def _advance(self) -> None:
        if self._live is not None:
            failed = sum(n for state, n in self.states.items() if state != DONE)
            note = f"{failed} without score  {self._best}" if failed else self._best
            ended = self._ended
            self._live.update(self._task, completed=ended, total=self.total, note=note[:70])
        elif not self.quiet and time.monotonic() - self._spoke > EVERY_S:
            self._spoke = time.monotonic()
            ended = self._ended
            best = f"; {self._best}" if self._best else ""
            self._say(f"{ended} of {self.total} trials, ETA {self._eta(ended)}{best}")

    def _eta(self, ended: int) -> str:
        if not self._ran:
            return "unknown"
        return duration((self.total - ended) * (time.monotonic() - self._began) / self._ran)

    def _say(self, text: str) -> None:
        if self.quiet:
            return
        text = printable(text)  # a model's message may hold control characters
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
