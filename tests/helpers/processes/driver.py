"""`bench`, with an execution log of its trials: for tests that kill it.

python driver.py LOG PAUSE_S BENCH-ARGUMENTS...

A line: start or finish, the trial, the process, its host, the time; of an asynchronous trial also
its index and the step that this piece of the fit stops at. With HOLD_LAST_PIECE in the environment
the first trial that comes to its last piece is held there, once: the file LOG.held says so.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from functools import partial


def logged_trial(log, pause_s, trial, *given):
    """The product's trial function between two lines of the log; the pause gives kills a target."""
    from tabsweep.benchmark.running.run_trial import run_trial

    piece = trial.fidelity or {}

    def write(word: str) -> None:
        line = f"{word} {trial.id} {os.getpid()} {socket.gethostname()} {time.time():.3f}"
        line += f" {piece.get('index', '-')} {piece.get('stop', '-')}\n"
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    write("start")
    time.sleep(pause_s)
    if "HOLD_LAST_PIECE" in os.environ and "index" in piece and piece["stop"] == piece["length"]:
        with suppress(FileExistsError):
            open(f"{log}.held", "x").close()
            time.sleep(1000)
    result = run_trial(trial, *given)
    write("finish")
    return result


def main() -> None:
    log, pause_s, *arguments = sys.argv[1:]
    from tabsweep.benchmark import cli
    from tabsweep.benchmark.commands import sweep

    run_trial = partial(logged_trial, log, float(pause_s))
    sweep.Request = partial(sweep.Request, run_trial=run_trial)  # type: ignore
    cli.main(arguments, prog_name="bench")


if __name__ == "__main__":
    main()
