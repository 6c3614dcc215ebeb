"""The checks of a Ray cluster by `bench doctor`: small tasks that run on every node.

The tasks need no CPU of Ray's, so a busy cluster answers too.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...common.network import anonymous_status, is_loopback
from ...sweeps.workers.ray_cluster import Node, nodes, on_node, start_ray, stop_ray
from ...sweeps.workers.ray_private import available_memory_mb, dashboard_address
from ...sweeps.workers.trial_actor import differences
from ..console import OKAY, PROBLEM, WARNING, count
from ..planning.environment import LIBRARIES, ROOMS, cpu_model, rooms_sha256, version

ANSWER_S = 90.0  # for a node to start a worker process and answer
DISK_GB, SHM_SHARE = 2.0, 0.3  # the share of a node's memory that Ray keeps objects in

Step = Callable[[], tuple[str, str]]


def cluster_steps(address: str) -> Iterator[tuple[str, Step]]:
    """The checks of a cluster, in order; the first one joins it, and without it there is no other.
    Ray is left when the iterator ends or is closed."""
    cluster = Cluster(address)
    yield "cluster", cluster.join
    try:
        if cluster.nodes:
            yield "same everywhere", cluster.same
            yield "processors", cluster.processors
            yield "disk and /dev/shm of the nodes", cluster.room
            yield "dashboard", cluster.dashboard
    finally:
        cluster.leave()


# ---------------------------------------------------------------------- on a node


def describe_node() -> dict[str, Any]:
    """Host, versions, disk and shared memory of the machine that this runs on."""
    temp = Path(os.environ.get("RAY_TMPDIR") or "/tmp")
    shm = Path("/dev/shm")
    return {
        "host": socket.gethostname(),
        "versions": versions(),
        "cpu": cpu_model(),
        "disk_gb": shutil.disk_usage(temp).free / 2**30,
        "shm_mb": shutil.disk_usage(shm).total / 2**20 if shm.exists() else 0.0,
        "memory_mb": available_memory_mb(),
    }


def versions() -> dict[str, str]:
    """{what: version} of all that a trial's result may depend on."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    found |= {name: version(name) for name in LIBRARIES}
    found["tabsweep's source"] = rooms_sha256(*ROOMS)[:12]
    return found


# ---------------------------------------------------------------------- asking all of them


class Cluster:
    """A cluster that this process joins, and the answers of its nodes."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.nodes: dict[str, Node] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self._silent: dict[str, str] = {}
        self._joined = False

    def join(self) -> tuple[str, str]:
        """Join the cluster and count its nodes."""
        start_ray(slots=None, address=self.address)
        self._joined = True
        self.nodes = nodes()
        found = self.nodes.values()
        cpus, gpus = sum(node.cpus for node in found), sum(node.gpus for node in found)
        text = (
            f"{count(len(found), 'node')} ({', '.join(node.host for node in found)}), "
            f"{count(cpus, 'CPU')}, {count(gpus, 'GPU')}, "
            f"{sum(node.memory_mb for node in found) / 1024:.1f} GB"
        )
        if not cpus:
            return PROBLEM, f"{text}: no CPU to run a trial on; start nodes with --num-cpus"
        return OKAY, text

    def leave(self) -> None:
        """Leave the cluster, if it was joined."""
        if self._joined:
            stop_ray()

    def ask(self, question: Callable[[], Any], of: Iterable[str]) -> dict[str, Any]:
        """{node id: answer}; the reason of a node that gives none is kept in `_silent`."""
        import ray

        task: Any = ray.remote(question)
        asked = {
            id: task.options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(id)).remote()
            for id in of
        }
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_S)
        answers = {}
        for id, ref in asked.items():
            try:
                answers[id] = ray.get(ref, timeout=0)
            except Exception as error:
                lines = [line for line in str(error).splitlines() if "No module named" in line]
                self._silent[id] = lines[-1].strip() if lines else type(error).__name__
        return answers

    def same(self) -> tuple[str, str]:
        """Code and versions as here; a node that differs would be left out of a sweep."""
        self._answers = self.ask(describe_node, self.nodes)
        own = versions()
        wrong = [f"{self._host(id)}: no answer ({why})" for id, why in self._silent.items()]
        for id, found in self._answers.items():
            if wrong_there := differences(own, found["versions"]):
                wrong.append(f"{self._host(id)}: {wrong_there}")
        if wrong:
            return PROBLEM, "; ".join(wrong) + " (install the same lock file and code everywhere)"
        builds = Counter(found["versions"].get("torch", "") for found in self._answers.values())
        more = ", ".join(f"torch {build} on {n}" for build, n in sorted(builds.items()))
        return OKAY, (
            f"Python {own['python']}, Ray {own['ray']}, tabsweep {own['tabsweep']} and "
            f"{len(LIBRARIES) - 2} libraries on {count(len(self._answers), 'node')}"
            + (f"; {more}" if len(builds) > 1 else "")
        )

    def processors(self) -> tuple[str, str]:
        """The kinds of processors; several round differently."""
        kinds = Counter(found["cpu"] for found in self._answers.values())
        text = ", ".join(f"{count(n, 'node')} with {cpu}" for cpu, n in sorted(kinds.items()))
        if len(kinds) > 1:
            return WARNING, f"{text}: last digits may differ by node; bench sweep --portable"
        return OKAY, text or "no answer"

    def room(self) -> tuple[str, str]:
        """Free disk and shared memory of every node."""
        few = []
        for id, found in self._answers.items():
            if found["disk_gb"] < DISK_GB:
                few.append(f"{self._host(id)}: {found['disk_gb']:.1f} GB of disk, want {DISK_GB:g}")
            wanted = SHM_SHARE * found["memory_mb"]
            if found["shm_mb"] < 0.99 * wanted:
                few.append(
                    f"{self._host(id)}: {found['shm_mb']:.0f} MB in /dev/shm, want {wanted:.0f} "
                    f"({SHM_SHARE:.0%} of its memory), or Ray keeps objects on the slower disk"
                )
        if few:
            return WARNING, "; ".join(few)
        least = min((found["disk_gb"] for found in self._answers.values()), default=0.0)
        return OKAY, (
            f"at least {least:.1f} GB of disk free, and {SHM_SHARE:.0%} of the memory in /dev/shm "
            "on each"
        )

    def dashboard(self) -> tuple[str, str]:
        """A job runs any program: only this machine, or holders of a token, may submit one."""
        where = dashboard_address()
        return judge_dashboard(where) if where else (OKAY, "there is none")

    def _host(self, id: str) -> str:
        return self.nodes[id].host


def judge_dashboard(where: str) -> tuple[str, str]:
    """(state, detail) of the dashboard at host:port, by its answer to a request without token."""
    host = where.rpartition(":")[0].strip("[]")
    try:
        status = anonymous_status(f"http://{where}/api/jobs/")
    except OSError as error:
        if is_loopback(host):
            return OKAY, f"{where}, open to the head alone"
        return WARNING, f"{where} does not answer ({error})"
    if status in (401, 403):
        return OKAY, f"{where} asks for a token"
    if status >= 400:
        return WARNING, f"{where} answers {status}"
    if is_loopback(host):
        return OKAY, f"{where} asks for no token and is open to this machine alone"
    return PROBLEM, (
        f"{where} lets everybody who reaches it run programs here: start Ray with "
        "RAY_AUTH_MODE=token, or with --dashboard-host 127.0.0.1"
    )
