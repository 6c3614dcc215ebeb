"""CPU seconds of this process with the processes that it started, in which a fit may work.

joblib's and torch's worker processes may stay alive after a fit: nobody has waited for them, so the
kernel has not yet added their time to that of their parent.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

ASIDE: set[int] = set()  # the ids of processes that work for no trial, such as MLflow's follower


def started() -> list[Any]:
    """The living processes below this one (psutil.Process) but for those in ASIDE. Not among them
    are processes that left the tree (daemons)."""
    try:  # cheap, as most fits start none; nothing is waited for
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    import psutil

    return [one for one in psutil.Process().children(recursive=True) if one.pid not in ASIDE]


def living_cpu_s() -> float:
    """CPU seconds of the living processes below this one, with those that they have waited for."""
    import psutil

    total = 0.0
    for process in started():
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])  # user, system, and both of its ended children
    return total


def tree_cpu_s() -> float:
    """CPU seconds of this process and of all that it started, ended ones included."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system + living_cpu_s()


def kill_started() -> None:
    """Kill the processes below this one, which is about to end."""
    import psutil

    for process in started():
        with suppress(psutil.Error):
            process.kill()
