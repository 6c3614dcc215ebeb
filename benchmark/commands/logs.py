"""`bench logs`: the output of trials and the events of a run, found in its log files."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

import click

from ..arguments import RUN
from ..console import NOTHING, OK, Console, common, printable
from ..errors import check_run

Line = dict[str, Any]

POLL_S = 0.5


@click.command()
@RUN
@click.option("--failed", is_flag=True, help="Only failed trials (with --events: warnings).")
@click.option("--study", help="Only this study: dataset/fold/model; * matches anything.")
@click.option("--trial", help="Only this trial: its id, or the beginning of it.")
@click.option("--worker", help="Only this worker, or the workers of this host.")
@click.option("--events", is_flag=True, help="The events of the run instead.")
@click.option(
    "--last",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of entries; 0: all.",
)
@click.option("--follow", "-f", is_flag=True, help="Show new entries too, until Ctrl-C.")
@common
def logs(
    console: Console,
    run: Path,
    *,
    events: bool,
    failed: bool,
    study: str | None,
    trial: str | None,
    worker: str | None,
    last: int,
    follow: bool,
) -> int:
    """Show the output of trials, also of those that failed or lost their worker."""
    check_run(run)
    path = run / "logs" / ("events.jsonl" if events else "trials.jsonl")

    def wanted(line: Line) -> bool:
        return (
            (not failed or is_failure(line))
            and (study is None or fnmatchcase(str(line.get("study")), study))
            and (trial is None or str(line.get("trial")).startswith(trial))
            and (worker is None or worker in (line.get("worker"), line.get("host")))
        )

    show = _event if events else _trial
    tail = Tail(path)
    found = 0
    shown: deque[Line] = deque(maxlen=last or None)
    for line in chain(read_lines(aside(path)), tail.lines()):
        if wanted(line):
            found += 1
            shown.append(line)
    if follow:
        return _follow(console, tail, list(shown), wanted, show)
    console.data({"lines": list(shown), "found": found})
    if found > len(shown):
        console.say(f"({found - len(shown)} before these: --last 0 shows all)\n")
    for line in shown:
        console.say(show(line))
    if not found:
        what = "event" if events else "output of a trial"
        if failed and not (study or trial or worker):
            what = "warning or error" if events else "trial that failed or lost its worker"
            console.say(f"{path}: no {what}; nothing to show")
        else:
            matches = " that matches" if path.exists() else ": nothing was written"
            console.say(f"{path}: no {what}{matches}")
        return NOTHING
    return OK


def _follow(
    console: Console,
    tail: Tail,
    shown: list[Line],
    wanted: Callable[[Line], bool],
    show: Callable[[Line], str],
) -> int:
    """Print what is there and what comes, until Ctrl-C."""
    try:
        while True:
            for line in shown:
                console.line(line)
                console.say(show(line))
            time.sleep(POLL_S)
            shown = [line for line in tail.lines() if wanted(line)]
    except KeyboardInterrupt:
        return OK


def is_failure(line: Mapping[str, Any]) -> bool:
    """A trial without a score, or one that lost its worker; an event that warns or worse."""
    if "event" in line:
        return line.get("level") in ("warning", "error")
    return line.get("status") in ("failed", "died")


# ---------------------------------------------------------------------- reading


class Tail:
    """Reads the new lines of a growing log; when the log is rotated (renamed, and started anew),
    reading continues with the rest of the old file and then with the new one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = 0
        self._file: tuple[int, int] | None = None

    def lines(self) -> Iterator[Line]:
        """The whole lines that came since the last call."""
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            return
        with file:
            stat = os.fstat(file.fileno())
            found = stat.st_dev, stat.st_ino
            if self._file not in (None, found):
                yield from read_lines(aside(self.path), start=self._place)
                self._place = 0
            self._file = found
            file.seek(self._place)
            for raw in file:
                if not raw.endswith(b"\n"):
                    break  # it is being written
                self._place += len(raw)
                line = _parse(raw)
                if line is not None:
                    yield line


def aside(path: Path) -> Path:
    """Where a log goes that has grown too large."""
    return path.with_name(f"{path.name}.1")


def read_lines(path: Path, start: int = 0) -> Iterator[Line]:
    """Every line that can be read; a torn one is left out."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            for raw in file:
                line = _parse(raw)
                if line is not None:
                    yield line
    except FileNotFoundError:
        return


def _parse(raw: bytes) -> Line | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


# ---------------------------------------------------------------------- showing


def _trial(line: Line) -> str:
    """A headline, then what was printed, indented."""
    place = " ".join(str(line[name]) for name in ("stage", "index") if line.get(name) is not None)
    how = ": ".join(str(line[k]) for k in ("cause", "message") if line.get(k))
    parts = [
        f"{line.get('time', '')} {line.get('study', '')} {place}".rstrip(),
        f"{line.get('status', '')}{f' ({how})' if how else ''}",
        f"trial {line.get('trial') or '?'}",
        *_where(line),
        *_warnings(line),
    ]
    output = printable(line.get("output") or "").rstrip("\n")
    body = "".join(f"\n    {text}" for text in output.split("\n")) if output else ""
    return printable(", ".join(parts)).replace("\n", " ") + body + "\n"


def _warnings(line: Line) -> Iterator[str]:
    warned = line.get("warnings")
    if isinstance(warned, dict):  # a log may come from others
        yield from (f"{name} {count}" for name, count in warned.items())


def _where(line: Line) -> Iterator[str]:
    if line.get("attempt"):
        yield f"attempt {line['attempt']}"
    if line.get("worker"):
        yield f"worker {line['worker']} on {line.get('host') or '?'}"


def _event(line: Line) -> str:
    known = {"time", "level", "event", "pid"}
    rest = " ".join(
        f"{name}={json.dumps(value, default=str)}"
        for name, value in line.items()
        if name not in known and value not in (None, "", {}, [])
    )
    head = f"{line.get('time', '')} {str(line.get('level', '')):<7} {line.get('event', '')}"
    return printable(f"{head} {rest}").replace("\n", " ")
