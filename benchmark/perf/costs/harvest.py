"""The shipped table of costs, made from ledgers: `benchmark/planning/costs/table.json`.

    bench sweep --suite benchmark/perf/costs/costs.toml --workers 1 --runs RUNS
    python benchmark/perf/costs/harvest.py RUNS/costs-default [RUN ...]
    bench sweep --suite benchmark/perf/costs/costs-large.toml --workers 1 --runs RUNS
    python benchmark/perf/costs/harvest.py --add RUNS/costs-large-default [RUN ...]

The first command measures, the second writes the table, the last adds what other runs measured to
the table that is there, which keeps its processor. Any run will do; more runs cover more settings
and shapes. They belong on one kind of machine, the one that this is called on.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median

from tabsweep.benchmark.planning.costs.history import costs_in
from tabsweep.benchmark.planning.costs.measured import (
    FILE,
    Cost,
    CostTable,
    Settings,
    settings_of,
    shipped,
)
from tabsweep.benchmark.planning.environment import capture
from tabsweep.models import registry
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.run_folder import is_run

MOST = 32  # costs of a model in the table


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--add", action="store_true", help="keep what the table has besides")
    given = parser.parse_args()
    if strangers := [str(run) for run in given.runs if not is_run(run)]:
        parser.error(f"not the folder of a run: {', '.join(strangers)}")
    found: dict[str, list[Cost]] = defaultdict(list)
    for run in given.runs:
        for (model, gpu), costs in costs_in(Ledger(run), defaults).items():
            if model in registry.MODELS and not gpu:
                found[model] += costs
    cpu = capture()["cpu"]
    if given.add:
        found, cpu = joined(shipped(), found), shipped().machine["cpu"]
    write({model: thinned(costs) for model, costs in found.items()}, cpu)
    missing = sorted(set(registry.MODELS) - set(found))
    print(f"{FILE}: {len(found)} models; without a cost: {', '.join(missing) or 'none'}")


@cache
def defaults(model: str) -> Settings:
    """The settings of a registered model's defaults that decide its cost."""
    return settings_of({}, registry.defaults(model)) if model in registry.MODELS else {}


def joined(table: CostTable, found: Mapping[str, Sequence[Cost]]) -> dict[str, list[Cost]]:
    """The costs of a table with those found, which replace those of almost the same settings and
    shape; and costs that say nothing of a setting that now counts are left out.

    Costs of another processor than the table's are scaled to it, by the median ratio of the two
    where both measured. Raises SystemExit where there is no such place.
    """
    if not (here := capture()["cpu"]).startswith(table.machine["cpu"]):  # which may lack the model
        ratios = [
            old.seconds / new.seconds
            for model, costs in found.items()
            for new in costs
            for old in table.costs.get(model, ())
            if place(old) == place(new)
        ]
        if not ratios:
            raise SystemExit(f"no cost of these runs, measured on {here}, is in the table, too")
        ratio = median(ratios)
        found = {
            model: [replace(cost, seconds=ratio * cost.seconds) for cost in costs]
            for model, costs in found.items()
        }
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


def thinned(costs: Sequence[Cost]) -> list[Cost]:
    """At most MOST costs that lie far apart; of those in one place the one of most fits."""
    costs = list({place(cost): cost for cost in sorted(costs, key=lambda cost: cost.fits)}.values())
    logs = [cost.work.logs() for cost in costs]
    chosen = [len(costs) - 1] if costs else []
    while len(chosen) < min(MOST, len(costs)):
        away = [min(math.dist(one, logs[c]) for c in chosen) for one in logs]
        chosen.append(away.index(max(away)))
    return [costs[i] for i in chosen]


def write(costs: dict[str, list[Cost]], cpu: str) -> None:
    """The table as JSON, a line a cost; the seconds are those of the processor `cpu`."""
    libraries = capture()["libraries"]
    machine = {
        "cpu": cpu,
        "measured": datetime.now(tz=UTC).date().isoformat(),
        "libraries": {
            name: libraries[name]
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
    FILE.write_text("\n".join([*lines, "}}"]) + "\n", encoding="utf-8")


def _line(cost: Cost) -> str:
    work = cost.work
    settings = {
        name: value if isinstance(value, str) else float(f"{value:.4g}")
        for name, value in work.settings.items()
    }
    seconds = float(f"{cost.seconds:.3g}")
    row = [work.rows, work.features, work.classes, cost.fits, seconds, settings]
    return json.dumps(row)


if __name__ == "__main__":
    main()
