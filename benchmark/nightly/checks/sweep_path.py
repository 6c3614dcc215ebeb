"""A sweep on two Ray workers whose driver is killed and that is resumed, against a serial one."""

from __future__ import annotations

import hashlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ....sweeps.store.ledger import Ledger, LedgerError
from ..context import NightContext
from ..step_result import NO_DATA, OK, REGRESSION, StepResult
from . import child

NAME = "sweep-path"
TABLES = ("scores", "ranks", "tests", "folds", "leaderboard", "look-first")
ENDINGS = ("tex", "md", "csv")
LIMIT_S = 900.0  # of each command
QUIETLY = ("--tracking-uri", "none", "--quiet")  # MLflow behind a slow machine is no regression
ATTEMPTS = 3  # at hitting the driver while it works
SUITES = {
    "full": ("--suite", "smoke", "--folds", 3),
    "tiny": (*("--suite", "smoke", "--dataset", "iris", "--dataset", "wine"), "--model", "knn")
    + ("--model", "linear", "--model", "lightgbm"),
}


def sweep_path(context: NightContext) -> StepResult:
    """The tables of the killed and resumed sweep must be those of the serial one, to the byte; no
    finished trial may run again, and none may be lost.

    The driver is killed, with all processes below it, after a number of finished trials that is
    drawn from the commit and the date. Without a kill that hit, or where a command did not end
    within its limit, there is no verdict (NO_DATA).
    """
    folder = context.night / NAME
    shutil.rmtree(folder, ignore_errors=True)  # the half of a night that was killed itself
    folder.mkdir(parents=True)
    options = (*SUITES["tiny" if context.tiny else "full"], *QUIETLY)
    serial = _Run(context, folder, "serial", options)
    ended = serial.to_its_end("sweep", 0)
    if ended.code != 0:
        return _failed("the serial sweep", ended)
    planned = len(serial.finished())

    chance = random.Random(hashlib.sha256(f"{context.commit} {context.date}".encode()).digest())
    for attempt in range(ATTEMPTS):
        killed = _Run(context, folder, f"killed-{attempt + 1}", options)
        moment = chance.randrange(1, max(2, planned // 2**attempt // 2))
        if killed.kill_after(moment):
            break
        if killed.code != 0:
            return _failed("the sweep on two workers", killed.ended())
    else:
        reason = f"{ATTEMPTS} sweeps ended before their driver was killed"
        return StepResult(NAME, NO_DATA, "no kill hit the sweep", reason=reason)
    durable = Counter(killed.records())
    ended = killed.to_its_end("resume", 2)
    if ended.code != 0:
        return _failed("bench resume after the kill", ended)

    return judged(
        serial.finished(), durable, Counter(killed.records()), serial.tables(), killed.tables()
    )


def judged(
    planned: Collection[str],
    before: Mapping[str, int],
    after: Mapping[str, int],
    serial: dict[str, bytes],
    resumed: dict[str, bytes],
) -> StepResult:
    """The verdict, from the trials of the serial sweep, {trial: its results} of the other one at
    the kill and at the end, and the tables of both. Subjects hold nothing that is drawn: an issue
    is named after them."""
    note = f"killed after {len(before)} of {len(planned)} trials"
    common = {"subject": "trials", "note": note}
    rows: list[dict[str, Any]] = []
    again = sorted(id for id, n in after.items() if n > 1)
    lost = sorted({*before, *planned} - {*after})
    for ids, verdict in ((again, "ran twice"), (lost, "lost")):
        rows += [{**common, "verdict": verdict, "trial": id} for id in ids]
    rows += [
        {**common, "subject": name, "verdict": "other bytes", "old": a, "new": b}
        for name, a, b in differences(serial, resumed)
    ]
    if not serial and not resumed:
        rows.append({**common, "subject": "tables", "verdict": "not written"})
    if rows:
        kinds = ", ".join(
            f"{n} {verdict}" for verdict, n in Counter(row["verdict"] for row in rows).items()
        )
        headline = f"a killed and resumed sweep differs from a serial one: {kinds}"
        if not serial and not resumed:
            headline = f"neither sweep wrote a table: {kinds}"
        return StepResult(NAME, REGRESSION, headline, rows)
    headline = f"driver {note} and resumed: {len(serial)} tables equal to the serial sweep's"
    return StepResult(NAME, OK, headline, [{**common, "verdict": "ok"}])


class _Run:
    """One of the sweeps: its commands, and what its ledger holds.

    `path` is the run's own folder, alone in a folder of runs, so that it reuses no other's trials.
    `code` is the exit code of a sweep that ended before it could be killed.
    """

    def __init__(
        self, context: NightContext, folder: Path, name: str, options: tuple[object, ...]
    ) -> None:
        self.path = folder / name / NAME
        self.code: int | None = None
        self._context, self._folder, self._options = context, folder, options
        self._log = folder / f"{name}.txt"

    def command(self, verb: str, workers: int) -> list[str]:
        """`bench sweep` or `bench resume` for this run."""
        if verb == "resume":
            words: tuple[object, ...] = (self.path, *QUIETLY)
        else:
            words = (*self._options, "--runs", self.path.parent, "--name", self.path.name)
        return child.bench(self._context, verb, *words, "--workers", workers)

    def to_its_end(self, verb: str, workers: int) -> child.Ended:
        """Run a command until it ends."""
        command = self.command(verb, workers)
        return child.run(self._context, command, log=self._log, limit_s=LIMIT_S, cwd=self._folder)

    def kill_after(self, n: int) -> bool:
        """Start the sweep on two workers; SIGKILL once n trials have finished. Whether that came
        before the end; if not, `code` is the sweep's exit code."""
        command = self.command("sweep", 2)
        process = child.start(self._context, command, log=self._log, cwd=self._folder)
        limit = time.monotonic() + LIMIT_S
        try:
            while process.poll() is None and time.monotonic() < limit:
                if self._n_finished_so_far() >= n:
                    break
                time.sleep(0.02)
        finally:
            hit = child.kill(process)
        self.code = None if hit else process.returncode
        return hit and len(self.finished()) >= n

    def ended(self) -> child.Ended:
        """How the sweep that was to be killed ended by itself."""
        return child.Ended(self.code, 0.0, child.end_of(self._log))

    def records(self) -> list[str]:
        """The trial id of every result in the ledger."""
        return [record["id"] for record in Ledger(self.path).records("result")]

    def finished(self) -> set[str]:
        """The trials with a result."""
        return {*self.records()}

    def _n_finished_so_far(self) -> int:
        """As `finished`, of a sweep that runs: 0 before there is a ledger, and where its reader
        came between two of the writer's steps."""
        try:
            return len(self.finished())
        except (LedgerError, OSError):
            return 0

    def tables(self) -> dict[str, bytes]:
        """The bytes of the tables that do not depend on time or machine, by file name."""
        names = [f"{table}.{ending}" for table in TABLES for ending in ENDINGS]
        paths = [self.path / "report" / name for name in names]
        return {path.name: path.read_bytes() for path in paths if path.is_file()}


def differences(a: dict[str, bytes], b: dict[str, bytes]) -> list[tuple[str, str, str]]:
    """(file, first line that differs in a, in b) of each file that differs or is in one alone."""
    found = []
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            found.append((name, *("there" if name in side else "no such file" for side in (a, b))))
        elif a[name] != b[name]:
            lines = [side[name].decode("utf-8").splitlines() for side in (a, b)]
            first = next(
                (i for i, (x, y) in enumerate(zip(*lines, strict=False)) if x != y),
                min(map(len, lines)),
            )
            found.append((name, *(side[first] if first < len(side) else "" for side in lines)))
    return found  # type: ignore[return-value]


def _failed(what: str, ended: child.Ended) -> StepResult:
    """A command that failed is a regression; one that did not end in time cannot be judged."""
    headline = f"{what} failed: {ended.how}"
    row = {"subject": what, "verdict": "failed", "message": ended.how}
    if ended.code is None:
        return StepResult(NAME, NO_DATA, headline, [row], reason=ended.how)
    return StepResult(NAME, REGRESSION, headline, [row])
