"""`bench`, with an execution log of its trials: for tests that kill it.

python driver.py LOG PAUSE_S BENCH-ARGUMENTS...
"""

from __future__ import annotations

import os
import socket
import sys
import time
from functools import partial


def logged_trial(log, pause_s, trial, *given):
    """The product's trial function between two lines of the log; the pause gives kills a target."""
    from tabsweep.benchmark.running.run_trial import run_trial

    def write(word: str) -> None:
        line = f"{word} {trial.id} {os.getpid()} {socket.gethostname()} {time.time():.3f}\n"
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    write("start")
    time.sleep(pause_s)
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
