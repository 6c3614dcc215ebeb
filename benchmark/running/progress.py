"""Progress of a running sweep on standard error: a bar on a terminal and in a notebook, else a line
at least every 15 s, whatever is waited for."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...sweeps.events import (
    Beat,
    NodeJoined,
    NodeLost,
    StudyEnded,
    TrialEnded,
    TrialLost,
    Warned,
)
from ...sweeps.scheduling.estimates import seconds_of
from ...sweeps.trial import DONE
from ..console import Console, count, duration, printable
from ..planning.costs.estimate import TRIAL_S
from .events import SweepEvent, Waiting

if TYPE_CHECKING:
    from ...sweeps.study import Study

EVERY_S = 14.0  # of silence, then a line: a busy machine has a second to print it within 15 s
WIDTH = 24  # of the bar in a notebook
TRUST_S = 10.0  # seconds of trials after which their pace weighs as much as the estimate's


def bar(at: int, total: int) -> str:
    """How much of `total` is done, as a bar of text.

    >>> bar(3, 4)
    '██████████████████░░░░░░'
    """
    done = round(WIDTH * min(1.0, at / max(1, total)))
    return "█" * done + "░" * (WIDTH - done)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows a carriage return as one."""
    return "ipykernel" in sys.modules


class Pace:
    """Seconds that a sweep still takes: the estimate of what is left, corrected by what the trials
    that ended took against theirs.

    expected: {study: seconds of one of its trials}; those of other studies take the mean. rest:
    {study whose search ends by CPU seconds: seconds that it takes yet}, however many trials these
    are. workers: None for all that a cluster has, which `found` says later. start_s: seconds before
    the first trial.
    """

    def __init__(
        self,
        expected: Mapping[str, float],
        workers: int | None,
        rest: Mapping[str, float] | None = None,
        start_s: float = 0.0,
    ) -> None:
        self._expected = expected
        self._rest = dict(rest or {})
        self._timed = frozenset(self._rest)
        self.start_s = start_s
        self._workers, self.asked = workers or 1, workers is not None
        mean = sum(expected.values()) / len(expected) if expected else 1.0
        self._mean = max(mean, 1e-3)
        self._told = self._took = 0.0

    def seconds(self, study: str) -> float:
        """The expected seconds of one of a study's trials; 0 where `rest` has the study."""
        return 0.0 if study in self._timed else self._expected.get(study, self._mean)

    def observe(self, study: str, took: float) -> None:
        """Take in the seconds of a trial that has ended."""
        if study in self._timed:
            self._rest[study] = max(0.0, self._rest.get(study, 0.0) - took)
            return
        self._told += self.seconds(study)
        self._took += took

    def end(self, study: str) -> None:
        """A study has ended: it takes no more."""
        self._rest.pop(study, None)

    def found(self, workers: int) -> None:
        """So many workers are there, where nobody asked for a number."""
        if not self.asked:
            self._workers = max(1, workers)

    def left_s(self, work: float) -> float:
        """Seconds on the clock for trials that are expected to take `work` seconds, and for the
        studies of `rest`."""
        ratio = (self._took + TRUST_S) / (self._told + TRUST_S)
        return (work * ratio + sum(self._rest.values())) / self._workers


def score_of(loss: float, metric: str) -> float:
    """The value of a metric from its loss, which has the other sign where larger is better.

    >>> score_of(6.25, "r2"), score_of(6.25, "rmse"), score_of(-0.5, "roc_auc")
    (-6.25, 6.25, 0.5)
    """
    from ...reports.metrics import METRICS

    return METRICS[metric].loss(loss) + 0.0 if metric in METRICS else loss  # 0.0, not -0.0


@contextmanager
def waiting(console: Console) -> Iterator[None]:
    """Says every EVERY_S seconds that the data is waited for."""
    progress = Progress(quiet=console.quiet or console.json, color=console.color)
    try:
        yield
    finally:
        progress.end()


class Progress:
    """Counts results and shows them; `listen` is a listener of the engine.

    From its making to its `end` a thread prints a line wherever nothing was printed for `every_s`
    seconds, but beside the bar of a terminal, which moves by itself.
    """

    def __init__(
        self, *, quiet: bool, color: bool, verbose: bool = False, every_s: float = EVERY_S
    ) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.states: Counter[str] = Counter()
        self.total = 0
        self._live: Any = None
        self._task: Any = None
        self._every_s = every_s
        self._spoke = time.monotonic()
        self._waits = "the data"  # what is waited for; "" while trials run
        self._over = threading.Event()
        self._pace = Pace({}, 1)
        self._work = 0.0  # expected seconds of the trials that are left
        self._left = 0.0, time.monotonic()  # seconds to go, and when that was said
        self._known = 0
        self._best = ""
        self._leaders: dict[str, tuple[float, str, str]] = {}  # of each dataset: loss, model, rows
        self._terminal = sys.stderr.isatty() and not quiet
        self._notebook = in_notebook() and not quiet and not self._terminal
        self._line = ""  # the bar that stands in a notebook
        self._color = color
        self._thread = threading.Thread(target=self._look, daemon=True, name="progress")
        if not quiet:
            self._thread.start()

    def _look(self) -> None:
        due = self._spoke + self._every_s
        while not self._over.wait(max(0.0, due - time.monotonic())):
            if self._live is not None:
                self._spoke = time.monotonic()
            elif time.monotonic() >= self._spoke + self._every_s:
                self._say_where_it_is()
            due = self._spoke + self._every_s

    # ------------------------------------------------------------------ life

    def begin(
        self,
        total: int,
        title: str,
        *,
        known: int = 0,
        pace: Pace | None = None,
        work: float | None = None,
    ) -> None:
        """Start to show. `known` of the `total` trials ended in earlier calls; `work` are the
        seconds that the others are expected to take, by the estimate behind `pace`."""
        self.total = total
        self._known = known
        self._pace = pace or self._pace
        self._work = float(total - known) if work is None else work
        self._left = self._pace.start_s + self._pace.left_s(self._work), time.monotonic()
        if self.quiet:
            return
        if not self._terminal:
            before = f", {known} of them finished" if known else ""
            told = pace is not None and pace.asked and total > known
            about = f", about {duration(self._left[0])}" if told else ""
            self._say(f"{title}: {count(total, 'trial')} planned{before}{about}")
            return
        from rich.console import Console as Terminal
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.progress import Progress as Bar

        self._live = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA {task.fields[eta]}"),
            TextColumn("{task.fields[note]}"),
            console=Terminal(stderr=True, no_color=not self._color),
            transient=True,
        )
        self._task = self._live.add_task(
            title, total=total, completed=known, note="", eta=self._eta()
        )
        self._live.start()

    def end(self, then: str = "") -> None:
        """Remove the bar from the terminal; in a notebook it stays. then: what is waited for next;
        where nothing is, no more is printed."""
        self._waits = then
        if not then:
            self._over.set()
            if self._thread.is_alive():
                self._thread.join()
        sys.stderr.write(self._line_left())
        if self._live is not None:
            self._live.stop()
            self._spoke, self._live = time.monotonic(), None

    # ------------------------------------------------------------------ events

    def listen(self, event: SweepEvent) -> None:
        """Count and show an event of the engine."""
        match event:
            case TrialEnded(slot=slot, result=result):
                self._waits = ""
                self.states[result.status] += 1
                self._count_down(slot.study, None if event.reused else result)
                if result.cause and result.cause != "unsupported":
                    place = f"{slot.study} trial {slot.index}"
                    self._say(f"failed: {place}: {result.cause}: {result.message}")
                self._advance()
            case TrialLost(trial, cause):
                self._say(f"retry: {trial.place} after {cause}")
            case StudyEnded(study):
                self._end_study(study)
            case Warned(message):
                self._say(f"warning: {message}")
            case Beat(workers):
                self._pace.found(len(workers))
                if self._waits and any(w.get("trial") and not w.get("starting") for w in workers):
                    self._wait_for("")
            case Waiting(what):
                self._wait_for(what)
            case NodeLost(host):
                self._say(f"lost node {host}; its trials run elsewhere")
            case NodeJoined(host):
                self._say(f"node {host} has joined")
        if self._live is not None:
            self._live.update(self._task, eta=self._eta())

    def _end_study(self, study: Study) -> None:
        self._pace.end(study.name)
        # failures may have left fewer slots than were planned
        spared = study.state.shape.n_slots - study.state.n_slots
        self.total -= spared
        self._work = max(0.0, self._work - spared * self._pace.seconds(study.name))
        loss, metric = study.state.best_loss, study.metric
        scored = "no score" if loss is None else f"best val {metric} {score_of(loss, metric):.4g}"
        own = f"{study.name}: {scored}"
        if self.verbose:
            self._say(own)
        self._best = self._leading(study) or own

    def _leading(self, study: Study) -> str:
        """Which model leads on the study's dataset, by what score of how many rows; "" where
        nothing has a score."""
        dataset, metric = study.data_key, study.metric
        if (loss := study.judged_loss) is not None:
            here = loss, study.model, study.judged_by
            self._leaders[dataset] = min(here, self._leaders.get(dataset, here))
        if dataset not in self._leaders:
            return ""
        least, model, by = self._leaders[dataset]
        return f"best on {dataset} so far: {model}, {metric} {score_of(least, metric):.4g} {by}"

    def _count_down(self, study: str, result: Any) -> None:
        """Count one trial as done. `result` is None if its result was there already."""
        self._work = max(0.0, self._work - self._pace.seconds(study))
        if result is not None:
            self._pace.observe(study, seconds_of(result) + TRIAL_S)
        self._left = self._pace.left_s(self._work), time.monotonic()

    def _wait_for(self, what: str) -> None:
        """Before the first trial runs: what the sweep waits for, on a terminal or with --verbose;
        said elsewhere where it lasts. "" for nothing any more."""
        self._waits = what
        if self._live is not None:
            self._live.update(self._task, note=what and f"waiting for {what}")
        elif what and (self.verbose or self._terminal):
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
        elif self._notebook:
            before, ended = len(self._line), self._ended
            best = f"; {self._best}" if self._best else ""
            self._line = f"{bar(ended, self.total)} {ended}/{self.total}, ETA {self._eta()}{best}"
            sys.stderr.write(f"\r{printable(self._line).ljust(before)}")
            sys.stderr.flush()
            self._spoke = time.monotonic()

    def _say_where_it_is(self) -> None:
        parts = [f"waiting for {self._waits}"] if self._waits else []
        if self.total:
            eta = f", ETA {self._eta()}" if self._ended < self.total else ""
            parts.insert(0, f"{self._ended} of {count(self.total, 'trial')}{eta}")
        self._say("; ".join(filter(None, [*parts, self._best])))

    def _line_left(self) -> str:
        """A line break if a notebook's bar is still open, so that the next text stands below it."""
        left, self._line = "\n" if self._line else "", ""
        return left

    def left_s(self) -> float:
        """Seconds to go, but for the report."""
        left, said = self._left
        # before the first trial has ended only the start can have been waited for
        least = 0.0 if self.states else self._pace.left_s(self._work)
        return max(least, left - (time.monotonic() - said))

    def _eta(self) -> str:
        return duration(self.left_s())

    def _say(self, text: str) -> None:
        if self.quiet:
            return
        self._spoke = time.monotonic()
        text = printable(text)  # a model's message may hold control characters
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            # in one piece: the thread and the sweep may print at the same moment
            sys.stderr.write(f"{self._line_left()}{text}\n")
            sys.stderr.flush()
