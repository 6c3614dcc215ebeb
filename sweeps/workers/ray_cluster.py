"""Starting or joining a Ray cluster, its nodes, and the meaning of Ray's errors."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...common.portable import PINS, pinned
from .ray_private import answer_agents, confined, fewer_parts, reread_token, say_deaths_of_workers
from .ray_start import daemons_below, shorten_ray_folder
from .ray_thread import ANSWER_S, RAY, bounded

# What Ray says of an actor that was no trial's victim.
LOST = ("its node has died", "the process receives a sigterm")


@dataclass(frozen=True)
class Node:
    """A machine of the cluster with its total resources; memory in MB."""

    id: str
    host: str
    cpus: int
    gpus: int
    memory_mb: float


@bounded
def nodes() -> dict[str, Node]:
    """{id: node} of the nodes that are alive now."""
    import ray

    found = {}
    for data in ray.nodes():
        if data["Alive"]:
            offers = data["Resources"]
            found[data["NodeID"]] = Node(
                id=data["NodeID"],
                host=data["NodeManagerHostname"],
                cpus=int(offers.get("CPU", 0)),
                gpus=int(offers.get("GPU", 0)),
                memory_mb=offers.get("memory", 0.0) / 2**20,
            )
    return found


@bounded
def daemons_here() -> list[int]:
    """The process ids of the daemons of Ray on this machine without which a sweep cannot go on: its
    own raylet, and the server of the cluster's state where this process started it. Elsewhere that
    server may be started again, and other raylets are other nodes."""
    import psutil
    import ray

    here = ray.get_runtime_context().get_node_id()
    socket_name = next(n["RayletSocketName"] for n in ray.nodes() if n["NodeID"] == here)
    # Other nodes on this machine have sockets "raylet.1", ...: the whole name is compared.
    own = f"--raylet_socket_name={socket_name}"
    raylets = [
        process.pid
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "raylet" and own in (process.info["cmdline"] or [])
    ]
    return [*raylets, *daemons_below(("gcs_server",))]


def on_node(node: str) -> Any:
    """A scheduling strategy of Ray: on this node, or not at all."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def end_of(error: Exception) -> str | None:
    """How an actor died, as `death_of` says, where the error means that its process has ended. None
    for any other error: a call came to nothing, or code around a trial raised."""
    from ray.exceptions import (
        ActorUnschedulableError,
        OutOfMemoryError,
        RayActorError,
        RayTaskError,
        WorkerCrashedError,
    )

    deaths = RayActorError | OutOfMemoryError | ActorUnschedulableError | WorkerCrashedError
    if isinstance(error, deaths) and not isinstance(error, RayTaskError):
        return death_of(error)
    return None


def death_of(error: Exception) -> str:
    """How an actor died, from Ray's error: 'killed', 'oom', or 'lost' with its node, its network or
    by SIGTERM, which somebody sent who ends processes in order.

    Ray's message about the death of a worker alone mentions nodes too: whole phrases are compared.
    """
    from ray.exceptions import ActorUnavailableError, ActorUnschedulableError, OutOfMemoryError

    text = str(error).lower()
    if isinstance(error, ActorUnavailableError | ActorUnschedulableError):
        return "lost"
    if getattr(error, "preempted", False) or any(words in text for words in LOST):
        return "lost"
    if isinstance(error, OutOfMemoryError) or "due to the node running low on memory" in text:
        return "oom"
    return "killed"


class NobodyAnswers(ConnectionError):
    """Nobody listens at the address of a cluster."""


@bounded
def ask_for_cpus(cpus: int) -> None:
    """Ask the cluster's autoscaler for machines with so many CPUs together; 0: idle ones may go.

    A cluster without an autoscaler stays as it is, and an error of Ray's is left alone: a sweep
    runs on the machines that are there.
    """
    from ray.autoscaler.sdk import request_resources
    from ray.exceptions import RayError

    with suppress(RayError, ConnectionError):
        request_resources(bundles=[{"CPU": 1}] * cpus)


def check_address(address: str) -> None:
    """Raises NobodyAnswers where nobody does at host:port: Ray itself would retry for ever."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10.0).close()
    except (OSError, OverflowError) as error:
        raise NobodyAnswers(
            f"no Ray cluster answers at {address} ({error}): start one with `ray start --head`, or "
            "leave --address out"
        ) from None


def one_thread() -> None:
    """Keep libraries that are not imported yet from starting more threads than they are told to:
    trials set their own numbers."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def start_ray(*, slots: int | None, address: str = "local") -> None:
    """Start Ray on this machine with `slots` CPUs, or join the cluster at `address`, with the
    product's settings. A Ray that is started here is confined to this machine."""
    one_thread()
    os.environ.setdefault("RAY_worker_niceness", "0")
    # A trial's own processes end with its worker; Ray's default, but not in every version.
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # The driver would wait inside of Ray, deaf to all, until so many workers have come up: one that
    # dies before it has would hold it up for ever.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    # Ray calls a worker whose death its state server has not reported within a second unavailable,
    # and does not say whether it died.
    os.environ.setdefault("RAY_timeout_ms_task_wait_for_death_info", f"{1000 * ANSWER_S:.0f}")
    # Errors of workers are handled here, also where their result is not fetched any more.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import logging

    check_address(address)
    import ray

    options: dict[str, Any] = {"address": address, "log_to_driver": False}
    options["logging_level"] = logging.ERROR
    if address == "local":
        options |= {
            "num_cpus": slots,
            "include_dashboard": False,
            "object_store_memory": 512 * 2**20,
        }
        shorten_ray_folder()
        with confined(), fewer_parts():
            ray.init(**options)
            answer_agents()
    else:
        if pinned():  # a local Ray inherits the variables
            options["runtime_env"] = {"env_vars": PINS}
        reread_token()
        ray.init(**options)
    say_deaths_of_workers(False)


@bounded
def stop_ray() -> None:
    """End what `start_ray` began, and forget its token: with it, a Ray that the same process joins
    later would end every actor at its start."""
    import ray

    RAY.watch(())  # its daemons end now
    ray.shutdown()
    reread_token()
    say_deaths_of_workers(True)


def take_back_sigterm() -> None:
    """Give SIGTERM back to its handler in Python, once Ray is up: Ray's crash handler takes the
    signal too, and aborts the process three seconds after one.

    Does nothing in other threads than the main one.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
