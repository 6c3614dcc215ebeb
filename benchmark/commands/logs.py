"""`bench logs`: the output of trials and the events of a run, found in its log files."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from ..arguments import RUN
from ..console import NOTHING, OK, Console, common, printable
from ..errors import check_run

Line = dict[str, Any]


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
    n_wanted = 0
    shown: deque[Line] = deque(maxlen=last or None)
    for line in filter(wanted, _lines(path)):
        n_wanted += 1
        shown.append(line)
    console.data({"lines": list(shown), "found": n_wanted})
    if n_wanted > len(shown):
        console.say(f"({n_wanted - len(shown)} before these: --last 0 shows all)\n")
    for line in shown:
        console.say(show(line))
    if not n_wanted:
        what = "event" if events else "output of a trial"
        if failed and not (study or trial or worker):
            what = "warning or error" if events else "trial that failed or lost its worker"
            console.say(f"{path}: no {what}; nothing to show")
        else:
            matches = " that matches" if path.exists() else ": nothing was written"
            console.say(f"{path}: no {what}{matches}")
        return NOTHING
    return OK


def is_failure(line: Mapping[str, Any]) -> bool:
    """A trial without a score, or one that lost its worker; an event that warns or worse."""
    if "event" in line:
        return line.get("level") in ("warning", "error")
    return line.get("status") in ("failed", "died")


def _lines(path: Path) -> Iterator[Line]:
    """The readable lines of a log, oldest first: the rotated file `<name>.1`, then the log."""
    for part in (path.with_name(f"{path.name}.1"), path):
        if part.exists():
            for raw in part.read_bytes().splitlines():
                with suppress(ValueError):
                    line = json.loads(raw)
                    if isinstance(line, dict):
                        yield line


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
