"""Steps with matrix products by oneDNN beside those by MKL (`models.deep.matrix_products`).

python benchmark/perf/models/matrix_products.py [--steps 30] [--threads 1] [--only tabm]
       [--everywhere 1]

Every network of `zoo.py` on its table of Adult's size, and NPT, Hopular and SAINT, which see all
rows at once, on 500 rows of ten numbers: the same network takes its steps in turn with the one and
the other, so that the ratio is of one run. Medians of CPU seconds, after two steps of each. Where
the change does not apply (docs/limits.md), both columns are MKL's, unless --everywhere 1 tries it
on a processor of another vendor, too.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
from tabsweep.benchmark.perf.models.networks import options_of, told_of
from tabsweep.benchmark.perf.models.zoo import NAMES, ROWS, training
from tabsweep.common import processor
from tabsweep.models.deep import matrix_products
from tabsweep.models.deep.trainer import Training, computing
from tabsweep.models.registry import make_model

LIMIT_S = 60.0  # CPU seconds of one model, after which its last step is timed
WHOLE = ["npt", "hopular", "saint"]


def whole(name: str) -> Training:
    """The training of a model that sees all rows at once."""
    rng = np.random.default_rng(0)
    frame, y = pd.DataFrame(rng.standard_normal((500, 10))), rng.integers(0, 2, 500)
    model: Any = make_model(name, task="binary")
    with model._others() if name == "npt" else nullcontext():
        return model._training(model._prepare(frame, y), None)


def measure(name: str, threads: int, steps: int) -> float:
    """Prints one line; returns MKL's time over oneDNN's."""
    times: dict[str, list[float]] = {}
    by = {"oneDNN": matrix_products.LARGE, "MKL": sys.maxsize}
    with computing(threads):
        ours = whole(name) if name in WHOLE else training(name)
        for n in range(steps + 2):
            for which, large in by.items():
                matrix_products.LARGE = large
                began = time.process_time()
                ours.run(ours.step + 1)
                if n >= 2:
                    times.setdefault(which, []).append(time.process_time() - began)
            if sum(map(sum, times.values())) > LIMIT_S:
                break
    matrix_products.LARGE = by["oneDNN"]
    onednn, mkl = (statistics.median(times[which]) for which in by)
    print(f"{name:15} {onednn * 1e3:9.1f} {mkl * 1e3:9.1f} {mkl / onednn:7.2f}", flush=True)
    return mkl / onednn


def main() -> None:
    """Parse the options and measure."""
    given = options_of(__doc__, of="models", steps=30, threads=1, everywhere=0)
    if given.everywhere:
        found = processor.described() | {"vendor_id": "AuthenticAMD"}
        processor.described = lambda: found
    print(told_of(given.threads))
    print(f"{ROWS:,} rows ({', '.join(WHOLE)}: 500); CPU ms a step, medians of {given.steps}")
    print(f"{'model':15} {'oneDNN':>9} {'MKL':>9} {'ratio':>7}")
    names = [name for name in [*NAMES, *WHOLE] if name.startswith(given.only)]
    if not names:
        raise SystemExit(f"no network begins with {given.only!r}: {', '.join([*NAMES, *WHOLE])}")
    ratios = [measure(name, given.threads, given.steps) for name in names]
    print(f"{'median':15} {'':9} {'':9} {statistics.median(ratios):7.2f}")


if __name__ == "__main__":
    main()
