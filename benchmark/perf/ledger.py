"""Cost of a large ledger: opened, reported, queried and resumed; against another checkout.

    python benchmark/perf/ledger.py --records 1000000 --against ../old

Each figure is the CPU time of a process of its own, so that other work on the machine changes it
little. `--against` runs this file with the environment of another checkout, on a run of its own
that holds the same records, and prints the ratios.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabsweep.sweeps.scheduling.trial_records import TrialRecords
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import latest_results, slot_places

SCORES = ("accuracy", "balanced_accuracy", "log_loss", "roc_auc")
PLACE = {"file": "000000.bin", "shape": [16, 2], "dtype": "<f8"}
AT_ONCE = 5000


def record(number: int) -> dict[str, Any]:
    """A result of 1.3 kB as a sweep of 1,000 studies writes it."""
    study, index = number % 1000, number // 1000
    names = {"dataset": f"d{study % 50}", "fold": study % 10, "model": f"m{study % 20}"}
    scores = dict.fromkeys(SCORES, 0.5 + number % 1009 / 3000)
    place = {**PLACE, "offset": 256 * number, "sha256": f"{number:064x}"}
    return {
        "kind": "result",
        "id": f"{number:032x}",
        "study": "/".join(map(str, names.values())) + f"-{study}",
        "stage": "tune",
        "index": index,
        **names,
        "config": {"lr": 0.001 * (1 + number % 977), "depth": number % 13, "layers": [8, 16]},
        "seed": number,
        "fidelity": None,
        **{"status": "done", "cause": None, "message": "", "log": ""},
        "val": scores,
        "test": scores,
        "costs": {"fit_s": 0.1 * (number % 37), "predict_s": 0.01, "cpu_s": 0.2},
        "info": {"cpu": "AMD EPYC (family 26, model 2)", "n_iter": 300},
        "predictions": {"val": place, "test": place},
        "attempt": 1,
        "time": "2030-01-01T00:00:00.000Z",
    }


def fill(run: Path, n: int) -> None:
    """Write a run of so many records."""
    ledger = Ledger(run, write=True)
    for start in range(0, n, AT_ONCE):
        ledger.append(map(record, range(start, min(n, start + AT_ONCE))), sync=False)
    ledger.close()


def without_columns(run: Path) -> None:
    """Remove what was derived from the records."""
    for name in ("columns.bin", "facts-*"):
        for path in (run / "ledger").glob(name):
            path.unlink()


def query(ledger: Ledger) -> None:
    """What a resume and a report ask of all heads."""
    latest_results(ledger)
    slot_places(ledger)


PARTS: dict[str, Callable[[Path], object]] = {
    "open": Ledger,
    "report": lambda run: Ledger(run).columns(),
    "query": lambda run: query(Ledger(run)),
    "resume": lambda run: TrialRecords(Ledger(run), lambda record: False),
    "report without columns": lambda run: Ledger(run).columns(),
}


def measured(python: str, n: int, folder: Path) -> dict[str, float]:
    """{part: CPU seconds} with one environment."""
    found = {}
    for part in ("fill", *PARTS):
        words = [python, __file__, "--part", part, "--records", str(n), "--run", str(folder)]
        found[part] = float(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return found


def main() -> None:
    """Parse the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--against", type=Path, help="another checkout, with its .venv")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        if "without" in options.part:
            without_columns(options.run)
        began = time.process_time()
        if options.part == "fill":
            fill(options.run, options.records)
        else:
            PARTS[options.part](options.run)
        print(time.process_time() - began)
        return
    with tempfile.TemporaryDirectory() as folder:
        ours = measured(sys.executable, options.records, Path(folder, "ours"))
        other = {}
        if options.against:
            python = str(options.against / ".venv" / "bin" / "python")
            other = measured(python, options.records, Path(folder, "other"))
    for part, seconds in ours.items():
        ratio = f"{seconds / other[part]:6.2f} of {other[part]:.2f} s" if other else ""
        print(f"{part:24}{seconds:8.2f} s CPU  {ratio}")
    print(json.dumps({"records": options.records, "ours": ours, "other": other}))


if __name__ == "__main__":
    main()
