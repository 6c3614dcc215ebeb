"""`bench status`: the progress of a run, once or with --watch until it ends."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ...sweeps.store.ledger import LedgerError
from ...sweeps.store.run_lock import owner_of
from ..arguments import RUN
from ..console import OK, Console, common, count, duration, printable
from ..errors import check_run, command_on
from ..planning.plan_record import by_reason
from ..results.run_status import RunStatus, status_of
from ..running.heartbeat import RUNNING, read_live

SILENT_S = 20.0  # a heartbeat that stands still so long is reported
SHARE = 0.1  # of the time, at most, goes into looking


@dataclass(frozen=True)
class View:
    """The state of a run at one moment. `silent_s`: seconds since its heartbeat last changed, by
    the clock of the process that watches; None for a run without a driver or a heartbeat."""

    status: RunStatus
    workers: list[dict[str, Any]]
    queue: dict[str, Any]
    state: str
    silent_s: float | None

    def to_data(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return {
            **self.status.to_data(),
            "workers": self.workers,
            "queue": self.queue,
            "state": self.state,
            "silent_s": None if self.silent_s is None else round(self.silent_s, 1),
        }


class Watcher:
    """Reads the state of a run repeatedly."""

    def __init__(self, run: Path) -> None:
        self.run = Path(run)
        self._beat: tuple[Any, Any] | None = None
        self._moved = time.monotonic()

    def look(self) -> View:
        """Raises LedgerError."""
        status = status_of(self.run)
        live = read_live(self.run) or {}
        now = time.monotonic()
        beat = live.get("pid"), live.get("beat")
        if beat != self._beat:
            self._beat, self._moved = beat, now
        working = status.owner is not None and live.get("state") == RUNNING
        if working and isinstance(live.get("left_s"), int | float):  # one estimate, the driver's
            status.eta_s = float(live["left_s"])
        since = now - self._moved
        workers = []
        for worker in live.get("workers", []) if working else []:
            waited = since if worker.get("trial") else 0.0
            workers.append({**worker, "since_s": round(worker["since_s"] + waited, 1)})
        return View(
            status=status,
            workers=workers,
            queue=live.get("queue", {}) if working else {},
            state="running" if status.owner else "ended" if status.finished else "stopped",
            silent_s=since if working else None,
        )


# ---------------------------------------------------------------------- words


def progress_line(status: RunStatus) -> str:
    """One line that says it all."""
    causes = ", ".join(f"{n} {cause}" for cause, n in status.failed.items())
    parts = [
        f"{status.done} of {count(status.planned, 'trial')} done",
        f"{sum(status.failed.values())} failed" + (f" ({causes})" if causes else ""),
        f"{status.running} running",
        f"{status.left} to go",
    ]
    if status.left and status.per_minute:
        parts.append(f"{status.per_minute:.3g} a minute")
    if status.left and status.eta_s:
        parts.append(f"ETA {duration(status.eta_s)}")
    return ", ".join(parts)


def trouble(view: View, run: Path) -> str | None:
    """A sentence if no driver works on the run or its driver gives no heartbeat; else None."""
    if view.state == "stopped":
        return f"not running; resume with: {command_on(run, 'resume')}"
    if view.silent_s is not None and view.silent_s > SILENT_S:
        return (
            f"no heartbeat for {duration(view.silent_s)}: its driver hangs, is very busy, or its "
            "machine is out of reach"
        )
    return None


def worker_lines(view: View) -> list[str]:
    """Host, worker, what it runs and for how long: a line each, the longest at work first on each
    host."""
    workers = sorted(view.workers, key=lambda w: (_text(w, "host"), -w["since_s"]))
    lines = []
    for worker in workers:
        busy = bool(worker.get("trial"))
        idle = "starting" if worker.get("starting") else "idle"
        what = _text(worker, "trial") if busy else idle
        since = duration(worker["since_s"]) if busy else ""
        lines.append(f"{_text(worker, 'host'):<16} {_text(worker, 'name'):<10} {what:<40} {since}")
    return lines


def _text(worker: dict[str, Any], name: str) -> str:
    return str(worker.get(name) or "?")[:60]


def hosts_line(view: View) -> str:
    """One line with the busy and all workers of each host, and what waits."""
    hosts = Counter(_text(worker, "host") for worker in view.workers)
    busy = Counter(_text(worker, "host") for worker in view.workers if worker.get("trial"))
    text = ", ".join(f"{host} {busy[host]}/{n}" for host, n in sorted(hosts.items()))
    waiting = ", ".join(f"{n} {what}" for what, n in view.queue.items())
    return f"workers busy: {text or 'none yet'}" + (f"; {waiting}" if waiting else "")


def line_of(view: View, run: Path) -> str:
    """A view as one line, for a terminal that is none."""
    warning = trouble(view, run)
    return progress_line(view.status) + (f"; WARNING: {warning}" if warning else "")


def screen_of(view: View, run: Path, height: int) -> Any:
    """A view as something that rich draws, at most `height` lines of it."""
    from rich.text import Text

    warning = trouble(view, run)
    lines = [
        f"{view.status.suite} ({view.status.budget})  {run}",
        progress_line(view.status),
        hosts_line(view),
        *([f"WARNING: {warning}"] if warning else []),
    ]
    workers, room = worker_lines(view), max(3, height - len(lines) - 2)
    lines += workers[:room]
    if len(workers) > room:
        lines.append(f"and {count(len(workers) - room, 'worker')} more")
    text = "\n".join(printable(line).replace("\n", " ") for line in lines)
    return Text(text, no_wrap=True, overflow="ellipsis")


# ---------------------------------------------------------------------- the command


@click.command()
@RUN
@click.option("--watch", is_flag=True, help="Until the run ends: workers and queue, too.")
@common
def status(console: Console, run: Path, watch: bool) -> int:
    """Show a run's progress: trials planned, done, failed by cause, running, and time to go.

    With --watch until the run ends or Ctrl-C: one line per update where standard output is not a
    terminal, one JSON object per line with --json.
    """
    check_run(run)
    if watch:
        return watch_command(console, run)
    now = status_of(run)
    console.data(now.to_data())
    console.say(
        f"{now.suite} ({now.budget}): {count(now.datasets, 'dataset')}, "
        f"{count(now.models, 'model')}, {now.fits}"
    )
    console.say(progress_line(now))
    if now.unsupported_studies:
        n = count(now.unsupported_studies, "study")
        console.say(f"{n} not supported by their models: see report/coverage.md")
    for line in by_reason(now.left_out):
        console.say(f"left out: {line}")
    if now.left and not now.owner:
        console.say(f"not running; resume with: {command_on(run, 'resume')}")
    return OK


def watch_command(console: Console, run: Path) -> int:
    """`bench status --watch`: until the run ends, or Ctrl-C."""
    from rich.console import Console as Terminal
    from rich.live import Live as Screen

    watcher = Watcher(run)
    try:
        if sys.stdout.isatty() and not (console.json or console.quiet):
            terminal = Terminal(no_color=not console.color, highlight=False)
            with Screen(console=terminal, auto_refresh=False) as screen:
                for view in views(watcher, 2.0):
                    height = shutil.get_terminal_size().lines
                    screen.update(screen_of(view, run, height), refresh=True)
        else:
            for view in views(watcher, 30.0):
                console.line(view.to_data())
                line = printable(line_of(view, run)).replace("\n", " ")
                console.say(f"{time.strftime('%H:%M:%S')} {line}")
    except KeyboardInterrupt:
        return OK
    if view.state == "stopped" and not console.json:
        console.say(str(trouble(view, run)))
    return OK


def views(watcher: Watcher, every_s: float) -> Iterator[View]:
    """The state of the run every `every_s` seconds; the last one when no driver works on it any
    more. Raises LedgerError for a run in which nothing was ever started.
    """
    while True:
        began = time.monotonic()
        try:
            view = watcher.look()
        except LedgerError:
            if owner_of(watcher.run) is None:
                raise
        else:
            yield view
            if view.state != "running":
                return
        took_s = time.monotonic() - began
        time.sleep(max(every_s - took_s, took_s * (1 / SHARE - 1)))
