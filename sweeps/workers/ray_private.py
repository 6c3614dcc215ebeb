"""All that is used of Ray and is no part of its public interface; tested with TESTED_WITH.

A sweep's own Ray is confined to this machine: loopback addresses, a random token, no metrics.
Whoever can talk to Ray can run code as its user. By default Ray's processes listen on all network
interfaces, and the token that they ask for lies in the home folder for all of the user's clusters.
"""

from __future__ import annotations

import inspect
import ipaddress
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from .ray_thread import bounded

TESTED_WITH = "2.60.0"
# Ray's name for "this Ray may have other machines"; without it all of Ray binds to the loopback
# address, as it does by default on Windows and macOS.
OTHER_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
TOKEN_BYTES = 32


def settings() -> dict[str, str]:
    """Environment of the processes of a confined Ray; the token is a new one at each call."""
    return {
        OTHER_MACHINES: "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(TOKEN_BYTES),
        "RAY_enable_metrics_collection": "0",
    }


@contextmanager
def confined() -> Iterator[None]:
    """For the start of a Ray: its processes inherit `settings`, and none that others set.

    The environment is as before afterwards, so that no other child of this process gets the token,
    and a cluster of the user is joined with the user's own. Raises RuntimeError, with Ray shut
    down, where this machine has an address for Ray that is not the loopback one.
    """
    import ray
    from ray._private import ray_constants

    before = dict(os.environ)
    several = ray_constants.ENABLE_RAY_CLUSTER
    os.environ.pop("RAY_AUTH_TOKEN_PATH", None)
    os.environ.update(settings())
    ray_constants.ENABLE_RAY_CLUSTER = False  # read from the environment when Ray was imported
    try:
        reread_token()
        yield
        address = ray.util.get_node_ip_address()
        if not ipaddress.ip_address(address).is_loopback:
            ray.shutdown()
            raise RuntimeError(
                f"Ray {ray.__version__} listens on {address}, which other machines may reach; a "
                "sweep's own Ray must listen on the loopback address alone: install the version in "
                "requirements.lock, or run without Ray (--address none)"
            )
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = several
        for name in (*settings(), "RAY_AUTH_TOKEN_PATH"):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


def reread_token() -> None:
    """Let Ray look at the environment again: it keeps mode and token from its first look, so a
    process in which a confined Ray has run would join another one with that token."""
    raylet: Any = import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


# ---------------------------------------------------------------------- parts nobody asks

# Even where no dashboard is wanted, Ray starts a server for its usage statistics and waits until
# that has come up; and beside it a monitor for an autoscaler, and one that carries the output of
# workers to the driver: two seconds of CPU together, at the very moment at which workers and driver
# need it. A version that lacks a name below starts that part as usual.

# The parameters of Ray's node, as `ray start --no-monitor --include-log-monitor=false` sets them.
LEFT_OUT = {"no_monitor": True, "include_log_monitor": False}
# The ports that the small agent does not have, for which Ray's daemon waits all the same.
NO_PORTS = ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN")
ASKED = ("session_dir", "node_id", "runtime_env_agent_port")  # of `start_raylet`
# Nobody can listen there. Where no server has left its address, Ray's agent asks for it each second
# and writes that into its log; where one that serves nothing has, the agent sends events, with the
# cluster's token, to whoever listens on that port.
NOWHERE = b"127.0.0.1:0"


@contextmanager
def fewer_parts() -> Iterator[None]:
    """For the start of a Ray on this machine: without dashboard server, autoscaler monitor and log
    monitor, and with the small agent of a Ray that was installed without extras, which opens no
    HTTP server. `ray start` has both monitors all the same, by its own options. Ray's modules are
    as before afterwards."""
    changes = [change for change in _changes() if hasattr(change[0], change[1])]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _changes() -> Iterator[tuple[Any, str, Any]]:
    """(module, name, what Ray's start finds there)."""
    parameter, services, utils = (
        import_module(f"ray._private.{name}") for name in ("parameter", "services", "utils")
    )
    known = inspect.signature(parameter.RayParams).parameters
    left_out = {name: value for name, value in LEFT_OUT.items() if name in known}
    yield parameter, "RayParams", partial(parameter.RayParams, **left_out)
    raylet: Any = import_module("ray._raylet")
    start, persist = getattr(services, "start_raylet", None), getattr(raylet, "persist_port", None)
    ports = [getattr(raylet, f"{name}_PORT_NAME", None) for name in NO_PORTS]
    if start and persist and all(ports) and {*ASKED} <= {*inspect.signature(start).parameters}:
        yield services, "start_raylet", partial(_start_raylet, start, persist, ports)
    # what it returns where the server could not be started, which Ray takes for no reason to end
    yield services, "start_api_server", lambda *args, **options: (None, None)
    # the answer decides which agent is started; to find it Ray imports all that a dashboard needs
    yield utils, "get_dashboard_dependency_error", lambda: ImportError("no dashboard is wanted")


def _start_raylet(
    start: Callable[..., Any],
    persist_port: Callable[..., None],
    ports: list[Any],
    *args: Any,
    **options: Any,
) -> Any:
    """Start Ray's daemon with the ports of its agents: it would wait until they have started and
    written them, and abort after 15 s, which they take on a busy machine."""
    asked = inspect.signature(start).bind(*args, **options).arguments
    for name in ports:
        persist_port(asked["session_dir"], asked["node_id"], name, -1)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        asked["runtime_env_agent_port"] = one.getsockname()[1]
    return start(**asked)


def answer_agents() -> None:
    """Leave the address of a dashboard server that the agents of a Ray of our own look for."""
    from ray._private import ray_constants
    from ray.experimental import internal_kv

    internal_kv._internal_kv_put(
        ray_constants.DASHBOARD_ADDRESS,
        NOWHERE,
        overwrite=False,
        namespace=ray_constants.KV_NAMESPACE_DASHBOARD,
    )


# ---------------------------------------------------------------------- small things


def draining() -> set[str]:
    """The ids of the nodes that Ray lets end what runs there and gives nothing more: their machine
    is about to go, or `docker stop` was called."""
    from ray._private.state import state

    return set(state.get_draining_nodes())


def say_deaths_of_workers(say: bool) -> None:
    """Whether Ray prints, in colour, that a worker died: the sweep says so itself, of its trial."""
    from ray._private import worker

    worker._worker_logs_enabled = say


def dashboard_address() -> str:
    """host:port of the dashboard of the cluster that this process has joined; "" without one."""
    from ray._private import worker

    node = worker.global_worker.node
    assert node is not None  # it has joined one
    return node.address_info["webui_url"] or ""


def available_memory_mb() -> float:
    """The memory that processes here may use, in MB: the machine's, or a container's limit."""
    from ray._common.utils import get_system_memory

    return get_system_memory() / 2**20


def report_crash_cause(worker: str, cause: str, **facts: Any) -> None:
    """Tell the driver why this process is about to end itself (see `take_crash_cause`)."""
    from ray.experimental import internal_kv

    value = json.dumps({"cause": cause, **facts})
    internal_kv._internal_kv_put(f"tabsweep/{worker}", value, overwrite=True)


@bounded
def take_crash_cause(worker: str) -> dict[str, Any]:
    """{"cause", and what more it said} of a worker that ended itself, once; {} where it did not."""
    from ray.experimental import internal_kv

    try:
        value = internal_kv._internal_kv_get(f"tabsweep/{worker}")
        internal_kv._internal_kv_del(f"tabsweep/{worker}")
    except Exception:
        return {}
    return json.loads(value) if value else {}
