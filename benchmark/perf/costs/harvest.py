"""The shipped table of costs, made from ledgers: `benchmark/planning/costs/table.json`.

    bench sweep --suite benchmark/perf/costs/costs.toml --workers 1 --runs RUNS
    python benchmark/perf/costs/harvest.py RUNS/costs-default [RUN ...]
    python benchmark/perf/costs/harvest.py --add RUN [RUN ...]
    python benchmark/perf/costs/harvest.py --check RUN [RUN ...]

The first command measures, the second writes the table, the third adds what other runs measured to
the table that is there, the fourth prints what the table says of the trials of a run beside what
they took. Any run will do; more runs cover more settings and shapes.
They belong on one kind of machine, the one that this is called on: the table keeps its processor.
A model has at most `--most` costs in the table, which lie far apart.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tabsweep.benchmark.planning.costs.history import costs_in
from tabsweep.benchmark.planning.costs.measured import (
    FILE,
    Cost,
    CostTable,
    Lookup,
    read_table,
    settings_of,
)
from tabsweep.benchmark.planning.environment import capture
from tabsweep.models import registry
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.run_folder import is_run


def main() -> None:
    """Write the table, or check it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--most", type=int, default=24)
    parser.add_argument("--add", action="store_true", help="keep what the table has besides")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        for run in given.runs:
            check(run, given.out)
        return
    if strangers := [str(run) for run in given.runs if not is_run(run)]:
        parser.error(f"not the folder of a run: {', '.join(strangers)}")
    found: dict[str, list[Cost]] = defaultdict(list)
    for run in given.runs:
        for (model, gpu), costs in costs_in(Ledger(run), defaults).items():
            if model in registry.MODELS and not gpu:
                found[model] += costs
    if given.add:
        found = joined(read_table(given.out), found)
    few = {model: thinned(costs, given.most) for model, costs in found.items()}
    write(few, given.out)
    missing = sorted(set(registry.MODELS) - set(found))
    print(f"{given.out}: {len(found)} models; without a cost: {', '.join(missing) or 'none'}")


@cache
def defaults(model: str) -> dict[str, float]:
    """The settings of a registered model's defaults that decide its cost."""
    return settings_of({}, registry.defaults(model)) if model in registry.MODELS else {}


def joined(table: CostTable, found: Mapping[str, Sequence[Cost]]) -> dict[str, list[Cost]]:
    """The costs of a table with those found, which replace those of almost the same settings and
    shape; and costs that say nothing of a setting that now counts are left out.

    Raises SystemExit where the table was measured on another processor than this machine's.
    """
    if table.machine["cpu"] != (here := capture()["cpu"]):
        raise SystemExit(f"the table was measured on {table.machine['cpu']}, this is {here}")
    all_of: dict[str, list[Cost]] = {}
    for model in {*table.costs, *found} & registry.MODELS.keys():
        new = list(found.get(model, ()))
        again = {place(cost) for cost in new}
        needed = defaults(model).keys()
        kept = [
            cost
            for cost in table.costs.get(model, ())
            if place(cost) not in again and needed <= cost.work.settings.keys()
        ]
        all_of[model] = [*kept, *new]
    return {model: costs for model, costs in all_of.items() if costs}


def place(cost: Cost) -> tuple[float, ...]:
    """What costs of almost the same settings and shape have in common."""
    return tuple(round(4 * value) for value in cost.work.logs())


def thinned(costs: Sequence[Cost], most: int) -> list[Cost]:
    """At most `most` costs that lie far apart; of those in one place the one of most fits."""
    costs = list({place(cost): cost for cost in sorted(costs, key=lambda cost: cost.fits)}.values())
    logs = [cost.work.logs() for cost in costs]
    chosen = [len(costs) - 1] if costs else []
    while len(chosen) < min(most, len(costs)):
        away = [min(math.dist(one, logs[c]) for c in chosen) for one in logs]
        chosen.append(away.index(max(away)))
    return [costs[i] for i in chosen]


def write(costs: dict[str, list[Cost]], file: Path) -> None:
    """The table as JSON, a line a cost."""
    here = capture()
    machine = {
        "cpu": here["cpu"],
        "measured": datetime.now(tz=UTC).date().isoformat(),
        "libraries": {
            name: here["libraries"][name]
            for name in ("scikit-learn", "torch", "lightgbm", "xgboost", "catboost")
        },
    }
    lines = ["{", f'"machine": {json.dumps(machine)},']
    columns = ["rows", "features", "classes", "fits", "seconds", "settings"]
    lines += [f'"columns": {json.dumps(columns)},', '"models": {']
    models = sorted(costs)
    for model in models:
        lines += [f'"{model}": {{"defaults": {json.dumps(defaults(model))}, "costs": [']
        rows = sorted(costs[model], key=lambda cost: cost.work.logs())
        lines += [
            line + ("," if number < len(rows) - 1 else "")
            for number, line in enumerate(map(_line, rows))
        ]
        lines += ["]}" + ("," if model != models[-1] else "")]
    file.write_text("\n".join([*lines, "}}"]) + "\n", encoding="utf-8")


def _line(cost: Cost) -> str:
    work = cost.work
    settings = {name: float(f"{value:.4g}") for name, value in work.settings.items()}
    seconds = float(f"{cost.seconds:.3g}")
    row = [work.rows, work.features, work.classes, cost.fits, seconds, settings]
    return json.dumps(row)


def check(run: Path, file: Path) -> None:
    """Print, for each model of a run, its measured CPU seconds beside those of the table."""
    table = read_table(file)
    total = expected = 0.0
    print(f"{run}\n{'model':24} {'fits':>5} {'measured':>9} {'table':>9} {'ratio':>6}")
    for (model, _), costs in sorted(costs_in(Ledger(run), defaults).items()):
        if model not in table.costs:
            print(f"{model:24} has no cost in the table")
            continue
        seconds, _ = Lookup(table.costs[model])([cost.work for cost in costs])
        measured = sum(cost.fits * cost.seconds for cost in costs)
        told = float(sum(cost.fits * s for cost, s in zip(costs, seconds, strict=True)))
        fits = sum(cost.fits for cost in costs)
        total, expected = total + measured, expected + told
        print(f"{model:24} {fits:5} {measured:9.1f} {told:9.1f} {told / max(measured, 1e-3):6.2f}")
    print(f"{'all':24} {'':5} {total:9.1f} {expected:9.1f} {expected / max(total, 1e-3):6.2f}")


if __name__ == "__main__":
    main()
