"""MLflow's own page for a run: its address, and `bench ui`, which serves it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from ..errors import command_on
from .experiments import VIEW
from .store import TrackingError, check, default_uri, is_server, redact, sqlite_path
from .sync import last_sync, sync

ANSWER_S = 3.0  # for one answer of the server
ENDING_S = 10.0  # for the server to end by itself


def place_of(run: Path, uri: str | None = None) -> str:
    """Where to look at a run in MLflow: an address, or the command that serves its page."""
    uri = uri or default_uri(run)
    if is_server(uri):
        server = redact(uri).replace("***@", "").partition("?")[0].rstrip("/")
        return server + _page(run, uri)
    return command_on(run, "ui", *store_option(run, uri))


def store_option(run: Path, uri: str) -> list[str]:
    """The option that names an MLflow store; none for the run's own."""
    return [] if uri == default_uri(run) else ["--tracking-uri", redact(uri)]


def _page(run: Path, uri: str) -> str:
    """The part of an address that opens the runs of the run's experiment in its view."""
    id = last_sync(run, uri=uri).get("experiment_id")
    view = f"runs?workflowType=machine_learning&viewStateShareKey={VIEW}"
    return f"/#/experiments/{id}/{view}" if id else ""


def ui_command(run: Path, uri: str | None = None, port: int = 5000) -> list[str]:
    """The command that shows a run's store on this machine alone.

    Raises TrackingError for a server, which has its own page, and for a store that is not there.
    """
    uri = check(uri or default_uri(run))
    if is_server(uri):
        raise TrackingError(f"{redact(uri)} is a server with its own page: open it in a browser")
    path = sqlite_path(uri)
    if not path.exists():
        raise TrackingError(f"{path} is not there yet: run `{command_on(run, 'track sync')}` first")
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--allowed-hosts", f"127.0.0.1:{port},localhost:{port}"]
    command += ["--artifacts-destination", str(run.resolve() / "mlartifacts")]
    return [*command, "--backend-store-uri", uri]


def serve_ui(run: Path, uri: str | None, port: int, *, say: Callable[[str], None]) -> bool:
    """Serve the MLflow UI of a run until Ctrl-C; the run's own store is brought up to date first.
    `say` is told the address once the server answers.

    SIGTERM and SIGHUP do the same as Ctrl-C: the server ends with all its processes. Returns
    whether it ended well. To be called in the main thread, at the end of a process. Raises
    TrackingError as `ui_command`.
    """
    if uri is None:
        sync(run)
    command = ui_command(run, uri, port)
    address = f"http://127.0.0.1:{port}"
    quietly = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda number, frame: ended.append(number))
    say(f"MLflow is starting (port {port}) ...")
    # A session of its own: its workers end with it, and Ctrl-C reaches it through this process.
    server = subprocess.Popen(command, env={**os.environ, **quietly}, start_new_session=True)
    told = False
    try:
        while not ended and server.poll() is None:
            if not told and _answers(port):
                told = True
                page = _page(run, uri or default_uri(run))
                say(f"MLflow UI: {address}{page}  (Ctrl-C stops it)")
            time.sleep(0.1)
        return bool(ended) or server.returncode == 0
    finally:
        _end_group(server)


def _answers(port: int) -> bool:
    """Whether MLflow answers at a port of this machine."""
    with (
        suppress(OSError, HTTPException),
        closing(HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)) as link,
    ):
        link.request("GET", "/health")
        return link.getresponse().status == 200
    return False


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and the group: SIGTERM, after ENDING_S SIGKILL."""
    until = time.monotonic() + ENDING_S
    with suppress(ProcessLookupError):  # the group is empty
        while True:
            late = time.monotonic() >= until
            os.killpg(leader.pid, signal.SIGKILL if late else signal.SIGTERM)
            leader.poll()  # else it stays in its group
            time.sleep(0.1)
