"""What a sweep does when one of its processes gets a signal: every kind, signal and moment.

python test_kill_matrix.py OUT.jsonl [--hosts] [--kind K,..] [--signal S,..] [--moment M,..]

Appends one JSON line a case to OUT.jsonl and prints it; `--table` prints the file as Markdown. With
`--hosts` the sweep is one of a Ray cluster: the driver runs on its head, trials on two other hosts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path += [str(Path(__file__).parents[1] / "helpers" / part) for part in ("", "processes")]
import hosts
from chaos import Sweep, alive
from cluster import Cluster
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.xdist_group("ray-faults")

OPTIONS = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--model", "linear"]
OPTIONS += ["--folds", "2", "--trials", "4", "--tracking-uri", "none"]
N_TRIALS, PAUSE_S = 16, 0.5
STOPPED_PAUSE_S = 3.0  # what is stopped counts as lost after 15 s, in which no sweep may end
KINDS = {  # pattern in the command line of such a process of a local sweep
    "command": r"driver\.py",
    "driver": r"driver\.py",  # the child of the command, in which Ray's library lives
    "worker": "ray::TrialWorker",
    "idle worker": "ray::IDLE",
    "dashboard agent": r"ray::DashboardAgent|dashboard/agent\.py",  # with which Ray ends the raylet
    "runtime-env agent": r"ray::RuntimeEnvAgent|runtime_env/agent/main\.py",
    "raylet": "/raylet/raylet",
    "gcs": "/gcs/gcs_server",
    "all": "",
}
ON_HOSTS = ["command", "driver", "head: gcs", "head: raylet", "host: worker", "host: raylet"]
ON_HOSTS += ["host: dashboard agent", "host: runtime-env agent", "host: all"]
MOMENTS = {"start": 0, "middle": 3, "report": N_TRIALS}  # trials that have ended
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


def found(kind: str, sweep: Sweep, cluster: Cluster | None = None) -> list[psutil.Process]:
    """The processes of a kind; "host: raylet" is the raylet of the last host of the cluster."""
    assert sweep.driver is not None
    place, _, part = kind.rpartition(": ")
    if cluster is None or not place:
        there = [one for one in family(sweep.driver.pid) if "nsenter" not in words_of(one)]
        there = there[1:] if part == "driver" else there
    else:
        there = cluster.processes(cluster.head if place == "head" else cluster.workers[-1])
    hit = [process for process in there if re.search(KINDS[part], words_of(process))]
    return hit if part == "all" else hit[:1]


def victims(
    sweep: Sweep, kind: str, moment: str, cluster: Cluster | None = None
) -> list[psutil.Process]:
    """The processes to hit, as soon as the moment has come; [] where it never comes."""
    driver = sweep.driver
    assert driver is not None
    end = time.monotonic() + 400
    while driver.poll() is None and time.monotonic() < end:
        begun = planned(sweep) if cluster else found("gcs", sweep)
        if begun and len(sweep.results()) >= MOMENTS[moment]:
            at_work = (kind, moment) == ("worker", "middle")
            hit = youngest(sweep) if at_work else found(kind, sweep, cluster)
            if hit or not (at_work or moment == "start" or kind == "idle worker"):
                return hit
        time.sleep(0.02)
    return []


def planned(sweep: Sweep) -> bool:
    """Whether there is something to resume."""
    log = sweep.run / "ledger" / "log.jsonl"
    return log.exists() and any(Ledger(sweep.run).records("plan"))


def youngest(sweep: Sweep) -> list[psutil.Process]:
    """The worker whose trial began last, which is the last to end it."""
    with suppress(psutil.NoSuchProcess):
        running = sorted(sweep.running(), key=lambda line: line.time)
        return [psutil.Process(line.pid) for line in running[-1:]]
    return []


def watch(sweep: Sweep, resume_at: float, stopped: Iterable[psutil.Process]) -> dict[str, Any]:
    """Seconds from now to the first line and to the end, the longest silence, and the exit code
    (None where the driver had not ended after PATIENCE_S)."""
    began = last = time.monotonic()
    first, silent, size = None, 0.0, len(sweep.whole_output())
    assert sweep.driver is not None
    while (code := sweep.driver.poll()) is None and time.monotonic() - began < PATIENCE_S:
        now = time.monotonic()
        if now - began > resume_at:
            for process in (*stopped, *family(sweep.driver.pid)):
                with suppress(psutil.Error):
                    process.resume()
            resume_at = PATIENCE_S
        if (grown := len(sweep.whole_output())) != size:
            size, last = grown, now
            first = first or now - began
        silent = max(silent, now - last)
        time.sleep(0.05)
    took = time.monotonic() - began
    lines = sweep.output().strip().splitlines() or [""]
    return {
        "code": code,
        "first_s": first and round(first, 1),
        "end_s": round(took, 1),
        "silent_s": round(silent, 1),
        "last": lines[-1].replace(str(sweep.run.parent.parent), "..."),
    }


def tried(
    folder: Path, kind: str, name: str, moment: str, calm: dict[str, bytes], on_hosts: bool = False
) -> dict[str, Any]:
    """One sweep, one hit, and what came of it; finished with `bench resume` where it ended."""
    if not on_hosts:
        return struck(Sweep(folder, *OPTIONS, "--workers", 2), kind, name, moment, calm)
    with tempfile.TemporaryDirectory(prefix="hosts-", dir="/tmp") as short:  # for Ray's sockets
        cluster = Cluster(Path(short))
        try:
            cluster.have(2)
            at_head = {"host": cluster.head, "env": cluster.env}
            sweep = Sweep(folder, *OPTIONS, "--address", cluster.address, **at_head)
            return struck(sweep, kind, name, moment, calm, cluster)
        finally:
            cluster.off()


def struck(
    sweep: Sweep,
    kind: str,
    name: str,
    moment: str,
    calm: dict[str, bytes],
    cluster: Cluster | None = None,
) -> dict[str, Any]:
    """What comes of a signal to a sweep of this machine, or of a cluster."""
    about: dict[str, Any] = {"kind": kind, "signal": name, "moment": moment}
    sweep.start(pause_s=STOPPED_PAUSE_S if name in (RELEASED, FOREVER) else PAUSE_S)
    assert sweep.driver is not None
    there: list[psutil.Process] = []
    try:
        hit = victims(sweep, kind, moment, cluster)
        about |= {"hit": len(hit), "load": round(os.getloadavg()[0])}
        if not hit:
            return about
        there = family(sweep.driver.pid)
        pids = {process.pid for process in hit}
        begun = {line.trial for line in sweep.running() if line.pid in pids}
        for process in hit:
            with suppress(psutil.Error):
                process.send_signal(getattr(signal, name.split()[0]))
        about |= watch(sweep, RELEASE_S if name == RELEASED else PATIENCE_S, hit[::-1])
        about["left"] = left(there)
    finally:
        sweep.off()
        for process in there:
            with suppress(psutil.Error):
                process.kill()
    about["printed"] = sweep.output()[-1500:] if about["code"] not in (0, 3, 130) else ""
    about["traceback"] = "Traceback" in sweep.whole_output()
    if about["code"] != 0:
        sweep.resume()
    lost = cluster.workers[-1].name if cluster and kind.startswith("host: ") else ""
    sweep.check_nothing_twice(cut_off=(lost,))
    started = Counter(line.trial for line in sweep.lines() if line.word == "start")
    about["starts"] = [started[trial] for trial in begun]  # of the trials of whom was hit
    about["failed"] = sum(r["status"] != "done" for r in sweep.results())
    about["deaths"] = len(list(Ledger(sweep.run).records("death")))
    about["same"] = len(sweep.results()) == N_TRIALS and sweep.tables() == calm
    return about


def left(there: list[psutil.Process]) -> int:
    """How many processes of the sweep are left ten seconds after its end."""
    end = time.monotonic() + 10
    while (n := sum(alive(process.pid) for process in there)) and time.monotonic() < end:
        time.sleep(0.1)
    return n


def calm_tables(folder: Path) -> dict[str, bytes]:
    """The tables of an undisturbed sweep."""
    calm = Sweep(folder, *OPTIONS)
    calm.finish("--workers", 0)
    return calm.tables()


def table(path: Path) -> str:
    """The cases of a file as Markdown: a row for each process and signal."""
    cells: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    some = [one for one in map(json.loads, path.read_text().splitlines()) if one["hit"]]
    moments = [moment for moment in MOMENTS if any(one["moment"] == moment for one in some)]
    for one in sorted(some, key=lambda one: (place([*KINDS, *ON_HOSTS], one), place(SIGNALS, one))):
        row = cells.setdefault((one["kind"], one["signal"]), {moment: [] for moment in moments})
        row[one["moment"]].append(one)
    told = [f"| process | signal | {' | '.join(moments)} |", "|" + " --- |" * (2 + len(moments))]
    for (kind, name), row in cells.items():
        told.append(f"| {kind} | {name} | {' | '.join(map(cell, row.values()))} |")
    harm = [sum(one["failed"] for one in some), sum(not one["same"] for one in some)]
    told.append(f"\n{len(some)} cases; failures recorded: {harm[0]}; other tables: {harm[1]}.")
    return "\n".join(told)


def place(known: Iterable[str], one: dict[str, Any]) -> int:
    return next(i for i, name in enumerate(known) if name in (one["kind"], one["signal"]))


def cell(some: list[dict[str, Any]]) -> str:
    """ "3 in 16 to 22 (5x, silent 21)": exit codes, seconds to the end, and how often."""
    if not some:
        return ""
    codes = ", ".join(sorted({str(one["code"]) for one in some})).replace("None", "stands")
    ends = sorted(round(one["end_s"]) for one in some)
    more = [f"{len(some)}x"] if len(some) > 1 else []
    silent = round(max(one["silent_s"] for one in some))
    more += [f"silent {silent}"] if silent > 20 else []
    span = f"{ends[0]}" if ends[0] == ends[-1] else f"{ends[0]} to {ends[-1]}"
    return f"{codes} in {span}" + (f" ({', '.join(more)})" if more else "")


# ---------------------------------------------------------------------- the laws

# Who is stopped says nothing; nobody but the one who stopped them wakes or ends them.
MUTE = ("command", "driver", "all")
RAY_IS_LOST = {  # in the middle of a sweep
    "driver": ("SIGKILL",),
    "dashboard agent": ("SIGTERM", "SIGKILL"),
    "runtime-env agent": ("SIGKILL",),
    "raylet": ("SIGTERM", "SIGKILL", RELEASED, FOREVER),
    "gcs": ("SIGTERM", "SIGKILL", RELEASED, FOREVER),
    "head: raylet": ("SIGTERM", "SIGKILL", FOREVER),
    "head: gcs": (
        "SIGTERM",
        "SIGKILL",
        FOREVER,
    ),  # the wait for another machine is longer than 30 s
}
RESUMES = "bench resume .../runs/reduced"
OFTEN = {("all", "SIGTERM"): 4}  # as a scheduler ends a job


def check(one: dict[str, Any]) -> None:
    """Nothing is lost, and the last line says how to go on."""
    kind, name, moment = one["kind"], one["signal"], one["moment"]
    assert one["failed"] == 0 and one["same"] and not one["traceback"], one
    assert one["deaths"] == 0 or (kind, name) in (
        ("worker", "SIGKILL"),
        ("host: worker", "SIGKILL"),
    )
    stands = name == FOREVER and kind in (*MUTE, "host: worker")  # until its trial's limit
    killed = name == "SIGKILL" and kind in ("command", "all")
    codes = {None} if stands else {-9} if killed else {0, 3, 130}
    if moment == "middle" and name in RAY_IS_LOST.get(kind, ()):
        codes = {3}
    elif kind == "worker" or kind.startswith("host: ") and not stands:
        codes = {0}
    elif (kind, name) == ("all", "SIGTERM"):
        codes = {0, 130}
    assert one["code"] in codes | ({0} if moment == "report" else set()), one
    if one["code"] in (3, 130) and moment != "start":
        assert one["last"].endswith(RESUMES), one
    assert one["code"] != 3 or "error BENCH-E021: " in one["last"], one
    assert stands or (kind, name) == ("command", "SIGKILL") or one["left"] == 0, one
    if (kind, name, moment) == ("worker", FOREVER, "middle"):
        assert one["starts"] == [2], one
    assert one["silent_s"] <= 20 or (kind in MUTE and name in (RELEASED, FOREVER)), one


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return calm_tables(tmp_path_factory.mktemp("calm") / "calm")


@pytest.mark.fault(30, 35, 36)
@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [("dashboard agent", "SIGKILL", 3), ("gcs", FOREVER, 3), ("all", "SIGTERM", 130)],
)
def test_a_sweep_that_is_struck_in_the_middle_ends_with_the_line_that_resumes_it(
    tmp_path: Path, kind: str, name: str, code: int, calm: dict[str, bytes]
) -> None:
    one = tried(tmp_path / "struck", kind, name, "middle", calm)
    assert one["hit"] and one["code"] == code, one
    check(one)


on_hosts = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())


@pytest.mark.nightly
@pytest.mark.timeout(10_000)
@pytest.mark.fault(2, 30, 35, 36)
@pytest.mark.parametrize(
    ("kind", "on_hosts"),
    [
        *((kind, False) for kind in KINDS),
        *(pytest.param(kind, True, marks=on_hosts) for kind in ON_HOSTS),
    ],
)
def test_whatever_is_done_to_a_process_nothing_is_lost(
    tmp_path: Path, kind: str, on_hosts: bool, calm: dict[str, bytes]
) -> None:
    for name, moment in itertools.product(SIGNALS, ["middle"] if on_hosts else MOMENTS):
        for number in range(OFTEN.get((kind, name), 1)):
            folder = tmp_path / f"{name} {moment} {number}"
            one = tried(folder, kind, name, moment, calm, on_hosts)
            assert one["hit"] or moment != "middle" or kind == "idle worker", one
            if one["hit"]:
                check(one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    for name, known in (("kind", []), ("signal", SIGNALS), ("moment", MOMENTS)):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=[*known])
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    kinds = given.kind or (ON_HOSTS if given.hosts else KINDS)
    if given.table:
        print(table(given.out))
        return
    with tempfile.TemporaryDirectory() as name:
        tables = calm_tables(Path(name) / "calm")
        cases = itertools.product(kinds, given.signal, given.moment)
        for number, (_, (kind, sent, moment)) in enumerate(
            itertools.product(range(given.times), [*cases])
        ):
            for attempt in range(ATTEMPTS):  # the process may have ended before it was hit
                folder = Path(name) / f"{number}-{attempt}"
                one = tried(folder, kind, sent, moment, tables, given.hosts)
                if one["hit"] or moment == "report":
                    break
            with open(given.out, "a", encoding="utf-8") as out:
                out.write(json.dumps(one) + "\n")
            print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
