"""`bench`, with an execution log of the steps of asynchronous trials: for tests that kill it.

python tune_driver.py LOG BENCH-ARGUMENTS...

A line: start or finish, the configuration's index (- for a trial of the engine's), the step that
this piece of the fit stops at, the process. The first trial that comes to its last piece is held
there, once: the file LOG.held says so.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial


def logged_trial(log, trial, *given):
    """The product's trial function between two lines of the log."""
    from tabsweep.benchmark.running.run_trial import run_trial

    fidelity = trial.fidelity or {}

    def write(word: str) -> None:
        line = f"{word} {fidelity.get('index', '-')} {fidelity.get('stop', '-')} {os.getpid()}\n"
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    write("start")
    if "index" in fidelity and fidelity["stop"] == fidelity["length"]:
        try:
            open(f"{log}.held", "x").close()
            time.sleep(1000)
        except FileExistsError:
            pass
    result = run_trial(trial, *given)
    write("finish")
    return result


def main() -> None:
    """Run `bench` with the logged trial function."""
    log, *arguments = sys.argv[1:]
    from tabsweep.benchmark import cli
    from tabsweep.benchmark.commands import sweep

    run_trial = partial(logged_trial, log)
    sweep.Request = partial(sweep.Request, run_trial=run_trial)  # type: ignore
    cli.main(arguments, prog_name="bench")


if __name__ == "__main__":
    main()
