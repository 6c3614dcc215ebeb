"""The start of Ray on this machine, seen from outside: its progress, and what a failed one left."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

SERVERS = ("gcs_server", "raylet")  # of Ray, in the order of their start
# Bytes of the folder's name: a socket may have 107, and what comes after the folder has 63:
# /session_2026-01-31_23-59-59_123456_1234567/sockets/plasma_store
LONGEST = 107 - 64
NO_PROCESS = ["X"]  # as the system's state of a process
KILL_S = 10.0  # how long killed processes may take to be gone
PATIENCE = "TABSWEEP_RAY_START_S"  # seconds without a step forward that end an attempt


def patience_s() -> float:
    """Seconds without a step forward after which a start of Ray has failed. Raises ValueError."""
    text = os.environ.get(PATIENCE, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise ValueError(f"{PATIENCE}={text!r} must be a number of seconds above 0")
    return seconds


def own_folder(temporary: str) -> Path:
    """The folder "tabsweep-UID" in a folder for temporary files; only this user may read it. Raises
    PermissionError where another user has made one of that name."""
    folder = Path(temporary, f"tabsweep-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        return folder
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise PermissionError(
            f"{folder} is no folder of this user: remove it, or set TMPDIR to a folder of your own"
        )
    folder.chmod(0o700)
    return folder


def ray_folder() -> str:
    """The folder below which Ray keeps the files, sockets and logs of its sessions."""
    return os.path.join(os.environ.get("RAY_TMPDIR", os.environ.get("TMPDIR", "/tmp")), "ray")


def shorten_ray_folder() -> None:
    """Give Ray a folder with a short name where that of TMPDIR is too long for its sockets, such as
    the folder of a job of SLURM, or is relative, which its processes understand differently. A
    RAY_TMPDIR that is set stays."""
    if "RAY_TMPDIR" in os.environ:
        return
    if len(os.fsencode(ray_folder())) > LONGEST or not os.path.isabs(ray_folder()):
        os.environ["RAY_TMPDIR"] = str(own_folder("/tmp"))


def below() -> list[tuple[Any, str, list[str]]]:
    """Ray's processes among the descendants of this process, oldest first: (psutil.Process, name,
    command line). One that has ended since is none of them."""
    import psutil

    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            name, words = process.name(), process.cmdline()
            if name in SERVERS or any(is_rays(word) for word in words):
                found.append((process, name, words))
    return found


def is_rays(word: str) -> bool:
    """Whether a word of a command line is that of a process of Ray: a title, or a path in it."""
    return word.startswith("ray::") or "/site-packages/ray/" in word or "/ray/session_" in word


def stage_of_start(address: str, *, connected: bool) -> str:
    """What a start of Ray waits for now, in words."""
    if "ray" not in sys.modules:
        return "the import of Ray"
    if address != "local":
        return f"the cluster at {address}"
    if connected:
        return "a worker process of Ray"
    return server_awaited()


def server_awaited() -> str:
    """What a start of Ray below this process waits for, as its processes show from outside."""
    names = {name for _, name, _ in below()}
    missing = [name for name in SERVERS if name not in names]
    return f"Ray's process {missing[0]}" if missing else "the connection to Ray's process raylet"


def logs_of_ray() -> str:
    """Where the newest session of Ray on this machine writes its logs."""
    return f"logs: {ray_folder()}/session_latest/logs"


def check_worker(over: threading.Event) -> None:
    """Wait until a worker process has answered. Raises what Ray raises where none can, and
    GetTimeoutError once nobody waits for it any more (`over`)."""
    import ray
    from ray.exceptions import GetTimeoutError

    def answer() -> int:
        return os.getpid()

    remote: Any = ray.remote(answer)
    ref = remote.options(num_cpus=0, max_retries=3).remote()
    while True:
        try:
            ray.get(ref, timeout=0.5)
            return
        except GetTimeoutError:
            if over.is_set():
                raise


def kill_ray_below() -> None:
    """Kill Ray's processes below this one, stopped ones too, and wait until they are gone."""
    import psutil

    end = time.monotonic() + KILL_S
    while (left := [process for process, *_ in below()]) and time.monotonic() < end:
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1.0)


def daemons_below(names: Sequence[str] = SERVERS) -> list[int]:
    """The ids of the processes of these names among Ray's that this process started."""
    return [process.pid for process, name, _ in below() if name in names]


def workers_below() -> list[int]:
    """The ids of the worker processes of the Ray that this process started, idle ones too."""
    titles = ("ray::IDLE", "ray::TrialWorker")
    return [
        process.pid for process, _, words in below() if any(w.startswith(titles) for w in words)
    ]


def cpu_s_of(pid: int) -> float | None:
    """CPU seconds that a process has used; None where there is none."""
    ticks = stat_of(pid)[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") if ticks else None


def stat_of(pid: int) -> list[str]:
    """What Linux tells of a process from its state on (R, S, T, ...); NO_PROCESS for none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return NO_PROCESS
