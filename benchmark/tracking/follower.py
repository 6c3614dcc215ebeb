"""The process beside a sweep that brings its studies into MLflow as they end.

python -m tabsweep.benchmark.tracking.follower RUN    until its standard input ends
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...sweeps.machine import process_tree
from ...sweeps.store.ledger import LedgerError
from ..console import duration
from ..errors import command_on
from .store import Refused, TrackingError, check, default_uri, is_server, redact
from .sync import sync
from .ui import store_option

URI_VARIABLE = "TABSWEEP_TRACKING_URI"  # how it is told the address: a command line is public
NICENESS = 5  # trials go first
INTERVAL_S = 5.0  # between two looks at the ledger
PATIENCE_S = 30.0  # the last pass waits so long for a server that does not answer
RETRY_S = 3.0
LAST_PASS_S = 240.0  # for the last pass with its wait
SILENT_S = 1.0  # a driver says what it waits for after this


class Syncer:
    """A process beside the driver that keeps a store up to date.

    It makes one last pass when `stop` is called or the driver is gone.
    """

    def __init__(self, run: Path, *, uri: str | None = None) -> None:
        """Start the process. Raises TrackingError where the address may not be used."""
        self.run = Path(run)
        self.uri = check(uri or default_uri(self.run))
        self.log = self.run / "tracking" / "log.txt"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        module = __spec__.name if __spec__ else __name__
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, str(self.run)],
                stdin=subprocess.PIPE,  # closed by `stop`, and by the kernel when the driver dies
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
                env={**os.environ, URI_VARIABLE: self.uri},
                process_group=0,  # Ctrl-C is the driver's affair
            )
        process_tree.ASIDE.add(self.process.pid)

    def stop(
        self, timeout: float = LAST_PASS_S, *, say: Callable[[str], None] = lambda text: None
    ) -> str | None:
        """Let it finish; returns None for a complete store, else a line for the user.

        say: called once if the wait is long; Ctrl-C ends the wait.
        """
        silent = min(SILENT_S, timeout)
        try:
            try:
                said, _ = self.process.communicate(timeout=silent)  # closes its standard input
            except subprocess.TimeoutExpired:
                rest = timeout - silent
                say(
                    f"the results above are complete; MLflow ({redact(self.uri)}) is still being "
                    f"written, at most {duration(rest)} (Ctrl-C leaves it for later)"
                )
                said, _ = self.process.communicate(timeout=rest)
        except KeyboardInterrupt:
            error = "the last pass was interrupted"
        except subprocess.TimeoutExpired:
            error = f"{redact(self.uri)} took longer than {timeout:.0f} s"
        else:
            if self.process.returncode == 0:
                return None
            error = f"the sync process ended with {self.process.returncode}, see {self.log}"
            if self.process.returncode == 3:
                error = said.splitlines()[-1]
        self.process.kill()
        self.process.wait()
        again = command_on(self.run, "track sync", *store_option(self.run, self.uri))
        return f"MLflow is behind: {error}. Results are safe in the ledger; run `{again}`"


def follow(run: Path, uri: str) -> str | None:
    """Sync ended studies whenever the ledger has grown, and everything once standard input ends.
    Returns the error of the last pass, or None.

    The last pass is tried again while a server does not answer: it may be on its way up.
    """
    seen = 0
    wait = 0.0
    while not select.select([0], [], [], wait)[0]:  # nobody writes to standard input
        now, wait = _log_bytes(run), INTERVAL_S
        if now != seen:
            began = time.monotonic()
            with suppress(TrackingError, LedgerError):  # the last pass says what is wrong
                sync(run, uri=uri)
                seen = now
            # At most a tenth of the time is spent here, however large the ledger has become.
            wait = max(INTERVAL_S, 10 * (time.monotonic() - began))
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            sync(run, uri=uri)
            return None
        except (Refused, LedgerError) as problem:  # which waiting does not change
            return str(problem)
        except TrackingError as problem:
            if not is_server(uri) or time.monotonic() > until:
                return str(problem)
        time.sleep(RETRY_S)


def _log_bytes(run: Path) -> int:
    """The size of the ledger's log; 0 without one."""
    try:
        return (run / "ledger" / "log.jsonl").stat().st_size
    except OSError:
        return 0


def main() -> int:
    """The process behind `Syncer`: 0, or 3 and one line that says why the store is behind."""
    os.nice(NICENESS)
    error = follow(Path(sys.argv[1]), os.environ[URI_VARIABLE])
    if error:
        print(error)
    return 3 if error else 0


if __name__ == "__main__":
    sys.exit(main())
