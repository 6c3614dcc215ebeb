"""A sweep in a process of its own, whose trials write an execution log: for tests that kill it.

python driver.py SUITE.toml RUNS NAME WORKERS LOG PAUSE
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

PAUSE = "TABSWEEP_TEST_PAUSE"
LOG = "TABSWEEP_TEST_LOG"


def logged_trial(trial, data):
    """The product's trial function between two lines of the log; the pause gives kills a target."""
    from tabsweep.benchmark.worker import run_trial

    def write(word: str) -> None:
        line = f"{word} {trial.id} {os.getpid()}\n"
        descriptor = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    write("start")
    time.sleep(float(os.environ[PAUSE]))
    result = run_trial(trial, data)
    write("finish")
    return result


def main() -> None:
    suite, runs, name, workers, log, pause = sys.argv[1:]
    os.environ[LOG], os.environ[PAUSE] = log, pause
    from tabsweep.benchmark import suite as suites
    from tabsweep.benchmark import sweep
    from tabsweep.benchmark.plan import Options
    from tabsweep.benchmark.runs import write_report

    request = sweep.Request(
        suite=suites.load(suite),
        options=Options(),
        runs=Path(runs),
        name=name,
        workers=int(workers),
        run_trial=logged_trial,
    )
    outcome = sweep.run(request)
    write_report([outcome.folder], None)
    tally = outcome.tally
    print(f"ran {tally.ran} reused {tally.reused} interrupted {tally.interrupted}")


if __name__ == "__main__":
    main()
