"""The parts of Ray that a sweep's own Ray starts without: nobody asks them anything.

Even where no dashboard is wanted, Ray starts a server for its usage statistics and waits until that
has come up; and beside it a monitor for an autoscaler, and one that carries the output of workers
to the driver. Each is a process of Python that imports Ray: half a second to one second of CPU, at
the very moment at which workers and driver need it. What is listed here is not part of Ray's public
interface: a version that lacks a name starts that part as usual.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

# The parameters of Ray's node, as `ray start --no-monitor --include-log-monitor=false` sets them.
LEFT_OUT = {"no_monitor": True, "include_log_monitor": False}
# Nobody can listen there. Where no server has left its address, Ray's agent asks for it each second
# and writes that into its log; where one that serves nothing has, the agent sends events, with the
# cluster's token, to whoever listens on that port.
NOWHERE = b"127.0.0.1:0"


@contextmanager
def fewer_parts() -> Iterator[None]:
    """For the start of a Ray on this machine: without dashboard server, autoscaler monitor and log
    monitor, and with the small agent of a Ray that was installed without extras, which opens no
    HTTP server. Ray's modules are as before afterwards."""
    changes = [change for change in _changes() if hasattr(change[0], change[1])]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
        _answer_agent()
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
    # what it returns where the server could not be started, which Ray takes for no reason to end
    yield services, "start_api_server", lambda *args, **options: (None, None)
    # the answer decides which agent is started; to find it Ray imports all that a dashboard needs
    yield utils, "get_dashboard_dependency_error", lambda: ImportError("no dashboard is wanted")


def _answer_agent() -> None:
    """Leave the address of a dashboard server that the agent looks for."""
    from ray._private import ray_constants
    from ray.experimental import internal_kv

    internal_kv._internal_kv_put(
        ray_constants.DASHBOARD_ADDRESS,
        NOWHERE,
        overwrite=True,
        namespace=ray_constants.KV_NAMESPACE_DASHBOARD,
    )
