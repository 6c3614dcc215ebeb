"""What a local sweep does when one of its processes gets a signal: every kind, signal and moment.

python test_kill_matrix.py OUT.jsonl [--kind K,..] [--signal S,..] [--moment M,..] [--times N]

Appends one JSON line a case to OUT.jsonl and prints it; `--table` prints the file as Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path += [str(Path(__file__).parents[2] / "helpers" / "processes")]
from chaos import Sweep
from tabsweep.sweeps.store.ledger import Ledger

OPTIONS = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--model", "linear"]
OPTIONS += ["--folds", 2, "--trials", 4, "--workers", 2, "--tracking-uri", "none"]
N_TRIALS, PAUSE_S = 16, 0.5
WORDS = {  # part of the command line of a process of this kind
    "worker": "ray::TrialWorker",
    "idle worker": "ray::IDLE",
    "dashboard agent": "ray::DashboardAgent",
    "runtime-env agent": "ray::RuntimeEnvAgent",
    "raylet": "/raylet/raylet",
    "gcs": "/gcs/gcs_server",
    "log monitor": "log_monitor",
}
KINDS = ["command", "driver", *WORDS, "all"]
MOMENTS = ["start", "middle", "report"]
RELEASED, FOREVER = "SIGSTOP 30 s", "SIGSTOP"
SIGNALS = ["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", RELEASED, FOREVER]
RELEASE_S, PATIENCE_S, ATTEMPTS = 30.0, 150.0, 5


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it, those that were started first in front."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def words_of(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def found(kind: str, pid: int) -> list[psutil.Process]:
    """The processes of a kind of the sweep whose command has this process id."""
    there = family(pid)
    if kind in ("command", "all"):
        return there[:1] if kind == "command" else there
    if kind == "driver":  # the process in which Ray's library lives
        return [p for p in there[1:] if "driver.py" in words_of(p)][:1]
    return [p for p in there if WORDS[kind] in words_of(p)][:1]


def victims(sweep: Sweep, kind: str, moment: str) -> list[psutil.Process]:
    """The processes to hit, as soon as the moment has come; [] where it never comes."""
    driver = sweep.driver
    assert driver is not None
    end = time.monotonic() + 400
    while driver.poll() is None and time.monotonic() < end:
        n = len(sweep.results())
        come = {
            "start": kind not in ("command", "driver", "all") or found("gcs", driver.pid),
            "middle": n >= 3,
            "report": n >= N_TRIALS,
        }[moment]
        if come and (hit := found(kind, driver.pid)):
            return hit
        if come and moment != "start" and kind != "idle worker":
            return []
        time.sleep(0.02)
    return []


def watch(
    sweep: Sweep, size: int, resume_at: float, stopped: list[psutil.Process]
) -> dict[str, Any]:
    """Seconds from now to the first line and to the end, the longest silence, and the exit code
    (None where the driver had not ended after PATIENCE_S)."""
    began = last = time.monotonic()
    first, silent = None, 0.0
    assert sweep.driver is not None
    while (code := sweep.driver.poll()) is None and time.monotonic() - began < PATIENCE_S:
        now = time.monotonic()
        if stopped and now - began > resume_at:
            for process in reversed(stopped):
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGCONT)
            stopped = []
        if (grown := sweep._output.stat().st_size) != size:
            size, last = grown, now
            first = first or now - began
        silent = max(silent, now - last)
        time.sleep(0.05)
    took = time.monotonic() - began
    lines = sweep.output().strip().splitlines() or [""]
    return {
        "code": code,
        "first_s": None if first is None else round(first, 1),
        "end_s": round(took, 1),
        "silent_s": round(silent, 1),
        "last": lines[-1].replace(str(sweep.run.parent.parent), "..."),
    }


def case(
    folder: Path, kind: str, name: str, moment: str, calm: dict[str, bytes], resume: bool = True
) -> dict[str, Any]:
    """One sweep, one hit, and what came of it; finished with `bench resume` where it ended."""
    sweep = Sweep(folder, *OPTIONS)
    about: dict[str, Any] = {"kind": kind, "signal": name, "moment": moment}
    began = time.monotonic()
    sweep.start(pause_s=PAUSE_S)
    assert sweep.driver is not None
    there: list[psutil.Process] = []
    try:
        hit = victims(sweep, kind, moment)
        if not hit:
            return {**about, "hit": 0}
        there = family(sweep.driver.pid)
        about |= {"hit": len(hit), "at_s": round(time.monotonic() - began, 1)}
        size = sweep._output.stat().st_size
        for process in hit:
            with suppress(psutil.Error):
                process.send_signal(getattr(signal, name.split()[0]))
        stopped = hit if name.startswith("SIGSTOP") else []
        about |= watch(sweep, size, RELEASE_S if name == RELEASED else 1e9, stopped)
        about["left"] = left(there)
    finally:
        sweep.off()
        for process in there:
            with suppress(psutil.Error):
                process.kill()
    about["printed"] = sweep.output()[-1500:] if about["code"] not in (0, 3, 130) else ""
    about["traceback"] = "Traceback" in sweep.whole_output()
    if resume and about["code"] != 0:
        sweep.finish("--workers", 0)
    if resume:
        about["failed"] = sum(r["status"] != "done" for r in sweep.results())
        about["deaths"] = len(list(Ledger(sweep.run).records("death")))
        about["same"] = len(sweep.results()) == N_TRIALS and sweep.tables() == calm
    return about


def left(there: list[psutil.Process]) -> int:
    """How many processes of the sweep are left ten seconds after its end."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        alive = []
        for process in there:
            with suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
        if not alive:
            return 0
        time.sleep(0.1)
    return len(alive)


def cases(given: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    for _ in range(given.times):
        yield from itertools.product(given.kind, given.signal, given.moment)


def table(path: Path) -> str:
    """The cases of a file as Markdown, several of one kind in a row."""
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        one = json.loads(line)
        rows.setdefault((one["kind"], one["signal"], one["moment"]), []).append(one)
    told = [
        "| process | signal | moment | tries | exit codes | first line, s | end, s "
        "| longest silence, s | failures | deaths | same tables |",
        "|" + " --- |" * 11,
    ]
    for (kind, name, moment), some in rows.items():
        some = [one for one in some if one["hit"]]
        if not some:
            continue
        codes = ", ".join(sorted({"none" if o["code"] is None else str(o["code"]) for o in some}))
        figures = [
            span([one[key] for one in some if one[key] is not None])
            for key in ("first_s", "end_s", "silent_s")
        ]
        counts = [sum(one.get(key, 0) for one in some) for key in ("failed", "deaths")]
        same = "yes" if all(one.get("same", False) for one in some) else "no"
        cells = [kind, name, moment, len(some), codes, *figures, *counts, same]
        told.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(told)


def span(values: list[float]) -> str:
    if not values:
        return "none"
    low, high = min(values), max(values)
    return f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"


# ---------------------------------------------------------------------- the laws

ENDED_BY = {("command", "SIGKILL"): -9}
# Who is stopped for good stands for good; nobody else ends it.
STANDS = {(kind, FOREVER) for kind in ("command", "driver", "all")}
MUTE = {(kind, name) for kind in ("command", "driver", "all") for name in (RELEASED, FOREVER)}


@pytest.mark.nightly
@pytest.mark.timeout(10_000)
@pytest.mark.fault(30, 35, 36)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_done_to_a_process_nothing_is_lost_and_the_last_line_says_how_to_go_on(
    tmp_path: Path, kind: str
) -> None:
    calm = Sweep(tmp_path / "calm", *OPTIONS)
    calm.finish("--workers", 0)
    for name, moment in itertools.product(SIGNALS, MOMENTS):
        one = case(tmp_path / f"{name} {moment}", kind, name, moment, calm.tables())
        if not one["hit"]:
            continue
        assert one["failed"] == 0 and one["same"] and not one["traceback"], one
        assert (one["code"] is None) <= ((kind, name) in STANDS), one
        assert one["code"] in (0, 3, 130, None, ENDED_BY.get((kind, name))), one
        assert one["code"] not in (3, 130) or "bench " in one["last"] or moment == "start", one
        assert one["silent_s"] <= 20 or (kind, name) in MUTE, one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    for name, known in (("kind", KINDS), ("signal", SIGNALS), ("moment", MOMENTS)):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=known)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(given.out))
        return
    with tempfile.TemporaryDirectory() as name:
        calm = Sweep(Path(name) / "calm", *OPTIONS)
        calm.finish("--workers", 0)
        for number, (kind, sent, moment) in enumerate(cases(given)):
            for attempt in range(ATTEMPTS):  # on a busy machine Ray may not even start
                folder = Path(name) / f"{number}-{attempt}"
                one = case(folder, kind, sent, moment, calm.tables())
                if one["hit"] or moment == "report":
                    break
            with open(given.out, "a", encoding="utf-8") as out:
                out.write(json.dumps(one) + "\n")
            print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
