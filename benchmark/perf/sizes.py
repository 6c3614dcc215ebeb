"""What rows and columns cost: reading, encoding, fits, predictions and the report.

    python benchmark/perf/sizes.py
    python benchmark/perf/sizes.py --rows 100000 --columns 30 --formats csv --against CHECKOUT

Made-up tables of two classes: four fifths of the columns are numbers, the others texts of 3 to
1,000 levels (a twentieth of the rows at most). Sizes of more than `--cells` cells are left out. Of
each file, each part in a process of its own:

plain     pandas reads, LightGBM fits twice (64 % of the rows, 16 % to stop by), 20 % are predicted
read      `table_from_file` alone
table     as `plain` by the package's parts: `table_from_file`, the model's encoding, fit, predict
constant  the command `bench sweep --csv` with one trial of `constant`, which does nothing
sweep     the same with two trials of LightGBM, one on each of two folds
again     the same command once more: nothing is left to run
report    `bench report` of that run (of `constant` where there is no `sweep`)

CPU seconds and MB are of all processes of a command together (`largest`: of the one with most);
memory is the largest sum of proportional set sizes (PSS) seen. `first`: from the start to the first
result in the ledger. On a busy machine the ratios to `plain` of one call are what counts. With
`--against` the commands run with another checkout's package as well, in turn. At the end: by which
power of the rows, and of the columns, each figure grows from one size to the next.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[2]
LEVELS = (3, 10, 100, 1000)
TARGET = "y"
QUICK = ("--tracking-uri", "none", "--workers", "1", "--bag", "0", "--quiet")
SWEEPS = {
    "constant": ("--model", "constant", "--folds", "1"),
    "sweep": ("--model", "lightgbm", "--folds", "2", "--trials", "1"),
}


def write_table(path: Path, n_rows: int, n_columns: int) -> None:
    """A table with as many features, and a target that a few of them tell."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    score = rng.standard_normal(n_rows)
    for j in range(n_columns):
        if j % 5 < 4:
            values = rng.standard_normal(n_rows).round(4)
            columns[f"x{j}"] = values
            score += values if j < 10 else 0.0
        else:
            size = min(LEVELS[j // 5 % len(LEVELS)], max(3, n_rows // 20))  # fewer than of a text
            codes = pa.array(rng.integers(0, size, n_rows))
            levels = pa.array([f"v{k}" for k in range(size)])
            columns[f"x{j}"] = levels.take(codes)
    columns[TARGET] = np.where(score > 0, "yes", "no")
    table = pa.table(columns)
    write = pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table
    write(table, path)


# -- in a process of its own ----------------------------------------------------------------------


def parts_of(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to train, validate and test."""
    order = np.random.default_rng(0).permutation(n)
    return np.split(order, [int(0.64 * n), int(0.8 * n)])  # type: ignore[return-value]


def plain(path: Path, params: dict[str, Any], lap: Any) -> None:
    """Plain use of pandas and LightGBM."""
    import pandas as pd
    from lightgbm import Dataset, early_stopping, train

    lap("imports")
    frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    lap("read")
    texts = [name for name in frame.columns[:-1] if frame[name].dtype.kind not in "fiu"]
    frame[texts] = frame[texts].astype("category")
    y, x = pd.factorize(frame.pop(TARGET))[0], frame
    lap("encode")
    fitted, stopped, tested = parts_of(len(y))
    n_rounds, patience = params.pop("n_estimators"), params.pop("early_stopping_rounds")
    for _ in range(2):
        data = Dataset(x.iloc[fitted], y[fitted], params=params)
        valid = Dataset(x.iloc[stopped], y[stopped], reference=data)
        model = train(
            params, data, n_rounds, [valid], callbacks=[early_stopping(patience, verbose=False)]
        )
        lap("fit")
        for part in (stopped, tested):
            model.predict(x.iloc[part], num_threads=1)
        lap("predict")


def table(path: Path, params: dict[str, Any], lap: Any) -> None:
    """The package's own parts, without a sweep."""
    from tabsweep.datasets.infer import Reading, table_from_file
    from tabsweep.models.registry import make_model

    make_model("lightgbm", task="binary")
    lap("imports")
    read = table_from_file(path, Reading(target=TARGET))
    lap("read")
    y = read.target
    fitted, stopped, tested = parts_of(len(y))
    for _ in range(2):
        model = make_model("lightgbm", task="binary")
        x = read.rows(fitted), read.rows(stopped)
        model._prepare(x[0], y[fitted])
        lap("encode")
        model.fit(x[0], y[fitted], x[1], y[stopped])
        lap("fit, with encode")
        for part in (stopped, tested):
            model.predict_proba(read.rows(part))
        lap("predict")


def read(path: Path, params: dict[str, Any], lap: Any) -> None:
    """The package's table of the file."""
    from tabsweep.datasets.infer import Reading, table_from_file

    lap("imports")
    table_from_file(path, Reading(target=TARGET))
    lap("read")


def inside(which: str, path: Path) -> dict[str, float]:
    """CPU seconds of each part of `plain`, `read` or `table`."""
    began, found = time.process_time(), dict[str, float]()

    def lap(part: str) -> None:
        nonlocal began
        found[part] = found.get(part, 0.0) + time.process_time() - began
        began = time.process_time()

    params = {
        "objective": "binary",
        "num_threads": 1,
        "verbosity": -1,
        "n_estimators": 300,
        "early_stopping_rounds": 30,
    }
    {"plain": plain, "read": read, "table": table}[which](path, params, lap)
    return found


# -- side by side ---------------------------------------------------------------------------------


def commands(path: Path, runs: Path) -> dict[str, tuple[str, ...]]:
    """The commands of the package in their order."""
    of_file = ("sweep", "--csv", str(path), "--target", TARGET, "--runs", str(runs), *QUICK)
    sweeps = {name: (*of_file, "--name", name, *how) for name, how in SWEEPS.items()}
    swept = runs / ("sweep" if (runs / "sweep").exists() else "constant")
    return {
        **sweeps,
        "again": sweeps["sweep"],
        "report": ("report", str(swept), "--out", str(runs / "out"), "--quiet"),
    }


def measured(words: tuple[str, ...], checkout: Path, ledger: Path | None = None) -> dict[str, Any]:
    """The figures of a command of Python's, and what it printed as JSON, if anything."""
    from tabsweep.benchmark.perf.measuring import Family, importable

    with importable(checkout) as folder:
        process = subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        family = Family(process.pid)
        found: dict[str, Any] = {}
        began = time.monotonic()
        while process.poll() is None:
            family.look()
            if ledger is not None and "first_s" not in found and _has_result(ledger):
                found |= {"first_s": time.monotonic() - began, "first_cpu_s": family.cpu_s}
            time.sleep(0.1)
        out, err = (stream.read().decode() for stream in (process.stdout, process.stderr) if stream)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} in {checkout}: {err[-2000:]}")
    found |= {"wall_s": time.monotonic() - began}
    found |= {key: getattr(family, key) for key in ("cpu_s", "largest_cpu_s", "mb", "largest_mb")}
    return found | (json.loads(out) if words[0] == __file__ else {})


def _has_result(ledger: Path) -> bool:
    return any(b'"kind":"result"' in file.read_bytes() for file in ledger.glob("*.jsonl"))


def of_file(path: Path, sides: dict[str, Path], asked: list[str]) -> dict[str, dict[str, Any]]:
    """{what, side: figures} of one file, printed as they come."""
    bench = ("-c", "from tabsweep.benchmark.cli import main; main()")
    found = {}
    for which in asked:
        for side, checkout in sides.items():
            if which == "plain" and side != "this":
                continue
            if which in ("plain", "read", "table"):
                figures = measured((__file__, "--inside", which, str(path)), checkout)
            else:
                runs = path.parent / f"runs-{path.name}-{side}"
                if which in SWEEPS:
                    shutil.rmtree(runs / which, ignore_errors=True)
                words = (*bench, *commands(path, runs)[which])
                ledger = runs / which / "ledger" if which in SWEEPS else None
                figures = measured(words, checkout, ledger)
            name = which if side == "this" else f"{which}, {side}"
            found[name] = figures
            base = found.get("plain", {}).get("cpu_s", math.nan)
            shown = {k: v for k, v in figures.items() if k not in ("cpu_s", "mb")}
            more = ", ".join(f"{key} {value:.1f}" for key, value in shown.items())
            print(
                f"  {name:16}{figures['cpu_s']:8.1f} CPU-s{figures['cpu_s'] / base:7.2f} x plain"
                f"{figures['mb']:8.0f} MB   {more}",
                flush=True,
            )
    return found


def growth(figures: dict[tuple[int, int, str], dict[str, dict[str, Any]]]) -> None:
    """By which power of rows and columns CPU seconds and memory grow."""
    for axis, name in enumerate(("rows", "columns")):
        for size, here in sorted(figures.items(), key=lambda one: one[0][::-1]):
            n, same = size[:2][axis], (size[:2][1 - axis], size[2])
            others = {s[:2][axis]: s for s in figures if (s[:2][1 - axis], s[2]) == same}
            less = max((m for m in others if m < n), default=None)
            if less is None:
                continue
            below, step = others[less], math.log(n / less)
            powers = [
                f"{what} {math.log(here[what]['cpu_s'] / before['cpu_s']) / step:.2f}"
                f" ({math.log(here[what]['mb'] / before['mb']) / step:.2f})"
                for what, before in figures[below].items()
                if what in here
            ]
            shown = f"{size[2]}, {less:,} to {n:,} {name}"
            print(f"{shown}: power of CPU-s (of MB): {', '.join(powers)}")


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    every = ["plain", "read", "table", "constant", "sweep", "again", "report"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--columns", type=int, nargs="+", default=[30, 300, 2000, 10_000])
    parser.add_argument("--formats", nargs="+", default=["csv", "parquet"])
    parser.add_argument("--parts", nargs="+", default=every, choices=every)
    parser.add_argument("--cells", type=float, default=3e7)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--keep", type=Path, help="make the files here, or find them here")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(inside(given.inside[0], Path(given.inside[1]))))
        return 0
    from tabsweep.benchmark.perf.measuring import folder_of
    from tabsweep.benchmark.planning.environment import cpu_model

    sides = {"this": HERE} | ({"other": given.against} if given.against else {})
    print(f"{cpu_model()}; load {os.getloadavg()[0]:.1f}")
    sizes = [
        (n_rows, n_columns, form)
        for n_columns in given.columns
        for n_rows in given.rows
        for form in given.formats
        if n_rows * n_columns <= given.cells
    ]
    figures = {}
    with folder_of(given.keep) as folder:
        for n_rows, n_columns, form in sizes:
            path = folder / f"t{n_rows}x{n_columns}.{form}"
            if not path.exists():
                write_table(path, n_rows, n_columns)
            size = path.stat().st_size / 1e6
            print(f"{n_rows:,} x {n_columns:,}, {form}, {size:.1f} MB", flush=True)
            figures[n_rows, n_columns, form] = of_file(path, sides, given.parts)
    growth(figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
