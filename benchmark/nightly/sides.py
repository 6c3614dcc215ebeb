"""The two versions of an A/B test: a checkout with an interpreter each, and fits in either."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...common.errors import ENVIRONMENT, Error
from .checkout import worktree
from .context import NightContext
from .libraries import interpreter

PROBE = Path(__file__).with_name("probe.py")
START_S, FIT_S = 900.0, 120.0  # limits of a call: to start, and for each fit
Row = dict[str, Any]


class SideError(Error, OSError):
    """A version that cannot be asked or fitted, with the last line of its process's output."""

    id = "BENCH-E016"
    exit_code = ENVIRONMENT


@dataclass(frozen=True)
class Side:
    """One version: "base" or "head", its commit, the folder of its package, its interpreter.

    added: {library: pin} of what its interpreter has otherwise than the running one. changed: a
    hash of what its files have otherwise than the commit.
    """

    name: str
    commit: str
    root: Path
    python: Path
    added: Mapping[str, str]
    changed: str = ""

    def environment(self) -> dict[str, str]:
        """Environment variables of its processes: its package first on the import path, one thread,
        no bytecode written (a worktree may move within a second)."""
        found = dict(os.environ)
        if self.root.name == "tabsweep":
            rest = [p for p in found.get("PYTHONPATH", "").split(os.pathsep) if p]
            found["PYTHONPATH"] = os.pathsep.join([str(self.root.parent), *rest])
        found |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
        for name in ("TABSWEEP_RUNS", "TABSWEEP_TRACKING_URI"):
            found.pop(name, None)
        return found


def head_of(context: NightContext) -> Side:
    """The checkout that is judged, with the libraries of its own lock file."""
    here = context.checkout
    known = lock_of(here.root)
    python, added = interpreter(known, known, context.store)
    return Side("head", here.commit, here.root, python, added, here.changed)


def side_of(context: NightContext, commit: str) -> Side:
    """A commit in a worktree, with the libraries of its own lock file: the side "base". Raises
    NoEnvironment."""
    root = worktree(context.checkout.root, commit, context.store)
    python, added = interpreter(lock_of(root), lock_of(context.checkout.root), context.store)
    return Side("base", commit, root, python, added)


def lock_of(root: Path) -> str:
    """The text of a checkout's lock file, "" without one."""
    path = root / "requirements.lock"
    return path.read_text(encoding="utf-8") if path.exists() else ""


# ---------------------------------------------------------------------- what a version is asked


def ids(context: NightContext, side: Side, *, models: Iterable[str] = ()) -> dict[str, Any]:
    """What `probe.ids_of` finds in a version: the ids of the suite's cells; nothing is fitted."""
    words = [word for model in models for word in ("--model", model)]
    found: dict[str, Any] = json.loads(_ask(context, side, "ids", words, START_S))
    return found


def fit(
    context: NightContext,
    side: Side,
    cells: Mapping[str, Sequence[str]],
    *,
    seeds: Mapping[str, int],
    runs: Path,
) -> list[Row]:
    """Fit {model: datasets} in a version, one trial each with each seed; the rows of the runs.

    seeds: {name of a run: its seed}. Each is a sweep of that version in the run folder `runs`/name:
    one that was killed goes on. A row is {model, dataset, fold, seed, id, status, cause, message,
    error, sha256, cpu_s} (see `probe.rows_of`). Raises SideError.
    """
    words = ["--cells", json.dumps(cells), "--runs", str(runs), "--workers", str(context.workers)]
    words += [word for name, seed in seeds.items() for word in ("--run", f"{seed}:{name}")]
    n_fits = len(seeds) * sum(map(len, cells.values()))
    rows: list[Row] = json.loads(_ask(context, side, "fit", words, START_S + FIT_S * n_fits))
    return [row for row in rows if row["dataset"] in cells.get(row["model"], ())]


def suite_file(context: NightContext, side: Side) -> Path:
    """The night's suite as a version has it; a version that has none takes the judged one's."""
    if context.suite.endswith(".toml"):
        return Path(context.suite)
    inside = f"benchmark/suites/{context.suite}.toml"
    return next(p for p in (side.root / inside, context.checkout.root / inside) if p.exists())


def _ask(context: NightContext, side: Side, what: str, words: Sequence[str], limit_s: float) -> str:
    """What a version answers. The suite that it took stays in suites/ of the night."""
    (context.night / "suites").mkdir(exist_ok=True)
    taken = context.night / "suites" / f"{side.name}-{what}.json"
    asked = [what, str(suite_file(context, side)), "--taken", str(taken)]
    asked += ["--complete"] if context.suite == "nightly" else []
    # -P: the folder of the script, with its modules' names, stays off the import path.
    lines = _call(context, side, ["-P", str(PROBE), *asked, *words], limit_s).splitlines()
    if not lines:
        raise SideError(f"{side.name} {side.commit[:10]}: ended well and said nothing")
    return lines[-1]  # libraries may print before the answer


def _call(context: NightContext, side: Side, words: list[str], limit_s: float) -> str:
    process = subprocess.Popen(
        [str(side.python), *words],
        cwd=context.night,
        env=side.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # so that its workers end with it
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException as error:
        _end(process)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise SideError(f"{side.name} {side.commit[:10]}: no end after {limit_s:.0f} s") from None
    if process.returncode:
        said = [line for line in err.splitlines() if line.strip()]
        last = said[-1].strip() if said else f"exit code {process.returncode}"
        last = re.sub(r"^error (BENCH-E\d+): ", r"\1 ", last)
        raise SideError(f"{side.name} {side.commit[:10]}: {last}")
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and its descendants, with SIGTERM first so that a sweep closes its ledger."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
            return
