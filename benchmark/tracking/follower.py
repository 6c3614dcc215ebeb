"""A run in MLflow: brought there by a process beside the sweep, and after it.

python -m tabsweep.benchmark.tracking.follower RUN [--uri URI]            one pass
python -m tabsweep.benchmark.tracking.follower RUN --follow --parent PID  until the parent ends
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import Any

from ...sweeps.store.ledger import LedgerError
from ..console import duration
from ..errors import command_on
from .store import (
    Refused,
    TrackingError,
    Unreachable,
    check,
    default_uri,
    has_secret,
    redact,
    scheme_of,
    sqlite_path,
)
from .sync import SyncReport, last_sync, sync

URI_VARIABLE = "TABSWEEP_TRACKING_URI"  # how a follower is told: a command line is public
NICENESS = 15
LOWEST = 19  # of Unix
RESTART_S = 90.0  # the last pass waits so long for a server that has answered during the sweep
NEVER_SEEN_S = 15.0  # and so long for one that has not
RETRY_S = 3.0
LAST_PASS_S = 240.0  # for the last pass with its wait
LONGEST_WAIT_S = 60.0
ENDING_S = 10.0  # for the server of `bench ui` to end by itself
AUTOGROUP_S = 1.0  # how long a change of a session's priority is tried again
SILENT_S = 1.0  # a driver says what it waits for after this


class Syncer:
    """A process beside the driver that keeps a store up to date, at low priority.

    It ends when `stop` is called or its parent is gone, in both cases after one last pass.
    """

    def __init__(self, run: Path, *, uri: str | None = None, interval_s: float = 5.0) -> None:
        """Raises TrackingError where the address may not be used."""
        self.run = Path(run)
        self.uri = check(uri or default_uri(self.run))
        self.interval_s = interval_s
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Syncer:
        """Start the process; returns self."""
        folder = self.run / "tracking"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, str(self.run)]
        command += ["--follow", "--parent", str(os.getpid()), "--interval", str(self.interval_s)]
        with open(folder / "log.txt", "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # closed by `stop`, and by the kernel when the driver dies
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, URI_VARIABLE: self.uri},
                start_new_session=True,  # Ctrl-C is the driver's affair
            )
        # at once: it imports MLflow while the first workers import what they need
        _set_niceness(self._process.pid, NICENESS)
        return self

    def stop(
        self,
        timeout: float = LAST_PASS_S,
        *,
        say: Callable[[str], None] = lambda text: None,
    ) -> str | None:
        """Let it finish; None when the store is complete, else one line for the user.

        `say` is told once when it takes long; Ctrl-C ends the wait.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        _set_niceness(process.pid, 0)  # the workers are done, and the user waits for this alone
        began, until, told = time.monotonic(), time.monotonic() + timeout, False
        while True:
            try:
                out, _ = process.communicate(timeout=0.5)  # closes its standard input
                break
            except KeyboardInterrupt:
                process.kill()
                process.communicate()
                return self._warning("the last pass was interrupted")
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if now >= until:
                    process.kill()
                    process.communicate()
                    return self._warning(f"{redact(self.uri)} took longer than {now - began:.0f} s")
                if not told and now - began > SILENT_S:
                    told = True
                    say(
                        f"waiting for MLflow ({redact(self.uri)}), at most "
                        f"{duration(until - now)} (Ctrl-C ends the wait)"
                    )
        try:
            error = json.loads(out.splitlines()[-1])["error"]
        except (IndexError, ValueError, KeyError, TypeError):
            log = self.run / "tracking" / "log.txt"
            error = f"the sync process ended with {process.returncode}, see {log}"
        return self._warning(error) if error else None

    @property
    def place(self) -> str:
        """Where to look at the run in MLflow."""
        return place_of(self.run, self.uri)

    def _warning(self, error: str) -> str:
        again = command_on(self.run, "track sync", *_elsewhere(self.run, self.uri))
        return f"MLflow is behind: {error}. Results are safe in the ledger; run `{again}`"


def _set_niceness(pid: int, more: int) -> None:
    """Let a child, which leads a session of its own, be so much nicer than this process.

    At NICENESS it has what time of the processors this process and its workers leave.
    """
    with suppress(OSError):  # it has ended already, or to be less nice again needs a privilege
        mine = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, pid, min(mine + more, LOWEST))
    # Linux shares time between sessions first, where it was built so: a process's own priority
    # then counts only inside of its session. This is the session's, and to raise that back needs no
    # privilege. From a process without privileges Linux takes one change in a tenth of a second,
    # of all sessions together, and answers EAGAIN to others.
    group = Path(f"/proc/{pid}/autogroup")
    until = time.monotonic() + AUTOGROUP_S
    while True:
        try:
            group.write_text(f"{more}")
        except OSError as error:
            if error.errno == errno.EAGAIN and time.monotonic() < until:
                time.sleep(AUTOGROUP_S / 20)
                continue
        return


def follow(run: Path, *, uri: str, parent: int, interval_s: float, stdin: RawIOBase) -> str | None:
    """Sync the studies that have ended whenever the ledger has grown, and everything when the
    parent ends; the last pass's error or None.

    The last pass is tried again while a server does not answer: it may be on its way up.
    """
    error: str | None = None
    reached = False
    seen: object = None
    wait = 0.0
    while not _parent_ended(stdin, parent, wait):
        now = _ledger_state(run)
        wait = interval_s
        if now is None or now == seen:
            continue
        started = time.monotonic()
        try:
            sync(run, uri=uri, live=True, finished_only=True, retries=0 if error else 2)
        except LedgerError:
            continue  # nothing planned yet
        except TrackingError as problem:
            error = str(problem)
            wait = min(LONGEST_WAIT_S, 2 * max(wait, time.monotonic() - started))
            continue
        error, reached, seen = None, True, now
        # At most a tenth of the time is spent here, however large the ledger has become.
        wait = max(interval_s, 10 * (time.monotonic() - started))
    _set_niceness(os.getpid(), 0)  # as the driver does at its end, which a killed one has not done
    patience = RESTART_S if reached else NEVER_SEEN_S
    until = time.monotonic() + patience
    while True:
        try:
            sync(run, uri=uri, live=False, retries=0)
            return None
        except Refused as problem:  # which waiting does not change
            return str(problem)
        except TrackingError as problem:
            if scheme_of(uri) == "sqlite":
                return str(problem)
            if time.monotonic() > until:
                return f"{problem}; gave up after {patience:g} s"
        except LedgerError as problem:
            return str(problem)
        time.sleep(RETRY_S)


def _parent_ended(stdin: RawIOBase, parent: int, wait: float) -> bool:
    """Wait, at most so long, for the end of the parent or of its wish."""
    readable, _, _ = select.select([stdin], [], [], wait)
    if readable and not stdin.read(1):
        return True
    return os.getppid() != parent


def _ledger_state(run: Path) -> object:
    """Something that differs once records were added; None without a ledger."""
    folder = run / "ledger"
    try:
        return sorted((p.name, p.stat().st_size) for p in folder.iterdir())
    except OSError:
        return None


# ---------------------------------------------------------------------- looking at it


def ui_command(run: Path, uri: str | None = None, port: int = 5000) -> list[str]:
    """The command that shows a run's store on this machine alone; run it in `ui_environment`.

    Raises TrackingError for a server, which has its own page, and for a store that is not there.
    """
    run = Path(run)
    uri = check(uri or default_uri(run))
    if scheme_of(uri) in ("http", "https"):
        raise TrackingError(f"{redact(uri)} is a server with its own page: open it in a browser")
    path = sqlite_path(uri) if scheme_of(uri) == "sqlite" else None
    if path is not None and not path.exists():
        raise TrackingError(f"{path} is not there yet: run `{command_on(run, 'track sync')}` first")
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--allowed-hosts", f"127.0.0.1:{port},localhost:{port}"]
    command += ["--artifacts-destination", str(run.resolve() / "mlartifacts")]
    if not has_secret(uri):
        command += ["--backend-store-uri", uri]
    return command


def ui_environment(run: Path, uri: str | None = None) -> dict[str, str]:
    """The environment of `ui_command`: the store's address (it may be secret), no telemetry."""
    return {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": uri or default_uri(Path(run)),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def ui_url(run: Path, uri: str | None = None, port: int = 5000) -> str:
    """The page of the run's experiment (its table of runs) in the interface of `ui_command`."""
    known = last_sync(Path(run), uri=uri) or {}
    id = known.get("experiment_id")
    page = f"#/experiments/{id}/runs?workflowType=machine_learning" if id else ""
    return f"http://127.0.0.1:{port}/{page}"


def _elsewhere(run: Path, uri: str) -> list[str]:
    """The option that names an MLflow store; none for the run's own."""
    return [] if uri == default_uri(run) else ["--tracking-uri", redact(uri)]


def place_of(run: Path, uri: str | None = None) -> str:
    """Where to look at a run in MLflow: an address, or the command that serves its page."""
    uri = uri or default_uri(run)
    if scheme_of(uri) not in ("http", "https"):
        return command_on(run, "ui", *_elsewhere(run, uri))
    known = last_sync(Path(run), uri=uri) or {}
    id = known.get("experiment_id")
    page = f"/#/experiments/{id}/runs?workflowType=machine_learning" if id else ""
    return f"{redact(uri).replace('***@', '').partition('?')[0].rstrip('/')}{page}"


def serve_ui(run: Path, uri: str | None, port: int, *, say: Callable[[str], None]) -> bool:
    """Serve the MLflow UI of a run until Ctrl-C; the default store is brought up to date first.

    SIGTERM and SIGHUP do the same as Ctrl-C: the server ends with all its processes. Returns
    whether it ended well. To be called in the main thread. Raises TrackingError as `ui_command`.
    """
    if uri is None:
        sync(run)
    command, environment = ui_command(run, uri, port), ui_environment(run, uri)
    say(f"MLflow UI: {ui_url(run, uri, port)}  (Ctrl-C stops it)")
    ending = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    early: list[int] = []  # signals while the server is being started: heard when it can be ended
    before = {
        number: signal.signal(number, lambda number, frame: early.append(number))
        for number in (signal.SIGINT, *ending)
    }
    # A session of its own: its workers end with it, and Ctrl-C reaches it through this process.
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        for number in before:
            signal.signal(number, signal.default_int_handler)
        return True if early else server.wait() == 0
    except KeyboardInterrupt:
        return True
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        _end_group(server)
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and the group: SIGTERM, after ENDING_S SIGKILL."""
    until = time.monotonic() + ENDING_S
    number = signal.SIGTERM
    with suppress(ProcessLookupError):  # the group is empty
        while number != signal.SIGKILL:
            if time.monotonic() >= until:
                number = signal.SIGKILL
            os.killpg(leader.pid, number)
            leader.poll()  # else it stays in its group
            time.sleep(0.1)
    leader.wait()


def main(argv: list[str] | None = None) -> int:
    """The process behind `Syncer`: its last line on standard output is a JSON object."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m tabsweep.benchmark.tracking.follower")
    parser.add_argument("run", type=Path)
    parser.add_argument("--uri", default=None, help=f"or in {URI_VARIABLE}")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--parent", type=int, default=None)
    parser.add_argument("--interval", type=float, default=5.0)
    options = parser.parse_args(argv)
    out = os.fdopen(os.dup(1), "w")  # whatever a library prints goes to standard error
    os.dup2(2, 1)
    answer: dict[str, Any] = {"error": None}
    try:
        uri = check(options.uri or os.environ.get(URI_VARIABLE) or default_uri(options.run))
        if options.follow:
            answer["error"] = follow(
                options.run,
                uri=uri,
                parent=options.parent or os.getppid(),
                interval_s=options.interval,
                stdin=os.fdopen(0, "rb", buffering=0),
            )
        else:
            answer.update(sync(options.run, uri=uri).to_data())
    except (TrackingError, LedgerError) as error:
        answer["error"] = str(error)
    print(json.dumps(answer), file=out, flush=True)
    return 3 if answer["error"] else 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = [
    "SyncReport",
    "Syncer",
    "TrackingError",
    "Unreachable",
    "default_uri",
    "last_sync",
    "place_of",
    "serve_ui",
    "sync",
    "ui_command",
    "ui_environment",
    "ui_url",
]
