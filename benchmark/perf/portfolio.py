"""What a CPU second of each model is worth on one's own table, and the order that follows.

    bench sweep --suite benchmark/perf/portfolio.toml --workers 1 --runs RUNS --name portfolio
    python -m tabsweep.benchmark.perf.portfolio RUNS/portfolio [RUN ...] [--order linear,lightgbm*2]

The first command fits every configuration as a bag and keeps its out-of-fold predictions; it may be
split by `--dataset` and `--model` into several runs. The second reads them. A slot is one
configuration of a model. An ensemble of slots is weighted by the out-of-fold predictions alone, and
scored on test rows; errors are 1 - ROC AUC, 1 - accuracy or RMSE, divided by that of LightGBM's
default on the same table, and averaged over tables as a geometric mean.

Printed are the models one by one, and for each class of sizes the order in which slots lower the
error most for a CPU second, with what the ensemble, and the one best slot, have reached when the
money is 10, 30, 60, 120 or 300 CPU seconds. With `--order` an order that is given is looked at
instead; `--left-out` takes each table's order from the other tables of its class.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tabsweep.benchmark.results.stored_predictions import Block, blocks_of
from tabsweep.reports.analyses import ensemble_selection
from tabsweep.reports.metrics import DEFAULT_METRIC, METRICS, Metric
from tabsweep.sweeps.study_state import TUNE

BUDGETS_S = (10, 30, 60, 120, 300)
CLASSES = ((3_000, "up to 3,000 rows"), (30_000, "up to 30,000 rows"), (10**9, "above"))
MEMBERS = 8  # of an ensemble, at most
ROWS = 3_000  # out-of-fold rows that an ensemble is weighted by here, at most
OVERHEAD_S = 0.5  # CPU seconds of a trial beside its fits, so that no slot is free
REFERENCE = ("lightgbm", 0)


class Slot(NamedTuple):
    """A configuration of a model: 0 is its default at the suite's size."""

    model: str
    number: int

    def __str__(self) -> str:
        return f"{self.model} {self.number}"


@dataclass(frozen=True)
class Bag:
    """A fitted slot: predictions out of fold and of the test rows, CPU seconds of all members."""

    val: np.ndarray
    test: np.ndarray
    cpu_s: float


@dataclass
class Measured:
    """A table with its bags."""

    block: Block
    metric: Metric
    bags: dict[Slot, Bag]
    known: dict[frozenset[Slot], tuple[float, float]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows for training and validation, and test rows."""
        return len(self.block.y["val"]) + len(self.block.y["test"])

    @cached_property
    def thin(self) -> np.ndarray:
        """The out-of-fold rows that weigh ensembles here: all, or evenly spread ones."""
        n = len(self.block.y["val"])
        return np.unique(np.linspace(0, n - 1, min(n, ROWS)).astype(int))

    def loss(self, prediction: np.ndarray) -> float | None:
        """The metric's loss of predictions of the `thin` rows; None where it is undefined."""
        value = self.metric.value(self.block.y["val"][self.thin], prediction)
        return None if value is None else self.metric.loss(value)

    def error(self, prediction: np.ndarray) -> float:
        """The metric's error of predictions of the test rows, at least .0001."""
        value = self.metric.value(self.block.y["test"], prediction)
        assert value is not None
        return max(self.metric.error(value), 1e-4)

    @cached_property
    def reference(self) -> float:
        """The error of LightGBM's default."""
        return self.error(self.bags[Slot(*REFERENCE)].test)

    @cached_property
    def nothing(self) -> float:
        """The error of the mean, or of the class frequencies, over the reference's."""
        y, n = self.block.y["val"], len(self.block.y["test"])
        if self.block.task == "regression":
            return self.error(np.full(n, y.mean())) / self.reference
        shares = np.bincount(y.astype(int), minlength=self.block.n_classes) / len(y)
        return self.error(np.tile(shares, (n, 1))) / self.reference

    def errors(self, slots: Iterable[Slot]) -> tuple[float, float]:
        """(of the ensemble, of the one best slot by out-of-fold predictions) over the reference."""
        mine = sorted(set(slots) & set(self.bags))
        if not mine:
            return self.nothing, self.nothing
        key = frozenset(mine)
        if key not in self.known:
            val = np.stack([self.bags[slot].val[self.thin] for slot in mine])
            test = np.stack([self.bags[slot].test for slot in mine])
            chosen = ensemble_selection.greedy(val, self.loss)
            assert chosen is not None
            both = self.error(chosen.predict(test)), self.error(test[chosen.members[0]])
            self.known[key] = (both[0] / self.reference, both[1] / self.reference)
        return self.known[key]

    def cost(self, slot: Slot) -> float:
        """CPU seconds; 0 where the model does not take this table."""
        return self.bags[slot].cpu_s + OVERHEAD_S if slot in self.bags else 0.0

    def affordable(self, order: Sequence[Slot], seconds: float) -> list[Slot]:
        """The slots of an order that fit into the seconds, the earlier ones first."""
        taken, spent = [], 0.0
        for slot in order:
            if spent + self.cost(slot) <= seconds:
                taken.append(slot)
                spent += self.cost(slot)
        return taken


def measured(runs: Sequence[Path]) -> list[Measured]:
    """The tables of runs with their bags, the smallest first."""
    blocks, left_out = blocks_of(runs, stage=TUNE)
    for name, why in left_out.items():
        print(f"without {name}: {why}")
    found = []
    for block in blocks:
        bags = {}
        for trial in block.trials:
            parts, costs = trial.arrays(), trial.ledger.at(trial.position)["costs"]
            val, test = (np.clip(parts[part], *block.bounds) for part in ("val", "test"))
            bags[Slot(trial.model, trial.index)] = Bag(val, test, costs["cpu_s"])
        if block.bag and Slot(*REFERENCE) in bags:
            found.append(Measured(block, METRICS[DEFAULT_METRIC[block.task]], bags))
        else:
            print(f"without {block.dataset}: no bag of LightGBM's default")
    return sorted(found, key=lambda table: table.n_rows)


def mean_log(values: Iterable[float]) -> float:
    """The mean logarithm."""
    return float(np.mean(np.log(list(values))))


def best_order(tables: Sequence[Measured]) -> list[Slot]:
    """The slots that lower the mean error of the ensemble, each time that which does so most for a
    CPU second; the configurations of a model in their order."""
    order: list[Slot] = []
    left = sorted({slot for table in tables for slot in table.bags})
    now = mean_log(table.nothing for table in tables)
    while left:
        ready = [s for s in left if s.number == 0 or Slot(s.model, s.number - 1) in order]
        worth = {}
        for slot in ready:
            after = mean_log(table.errors([*order, slot])[0] for table in tables)
            seconds = float(np.mean([table.cost(slot) for table in tables]))
            worth[slot] = (now - after) / max(seconds, OVERHEAD_S), after
        best = max(ready, key=lambda slot: worth[slot][0])
        if worth[best][0] <= 0:
            break
        order.append(best)
        left.remove(best)
        now = worth[best][1]
    return order


def reached(tables: Sequence[Measured], orders: Mapping[str, Sequence[Slot]]) -> str:
    """Lines with what orders ({dataset: order}) reach for each number of seconds."""
    lines = []
    for seconds in BUDGETS_S:
        taken = {t.block.dataset: t.affordable(orders[t.block.dataset], seconds) for t in tables}
        pairs = [t.errors(taken[t.block.dataset]) for t in tables]
        ensemble, single = (np.exp(mean_log(p[i] for p in pairs)) for i in (0, 1))
        spent = np.mean([sum(map(t.cost, taken[t.block.dataset])) for t in tables])
        each = " ".join(f"{p[0]:.3f}" for p in pairs)
        lines.append(
            f"{seconds:>5} CPU s: ensemble {ensemble:.3f}, best slot {single:.3f}, "
            f"{spent:.0f} s spent; ensembles: {each}"
        )
    return "\n".join(lines)


def print_models(tables: Sequence[Measured]) -> None:
    """Error and CPU seconds of each model's default, by table."""
    models = sorted({slot.model for table in tables for slot in table.bags})
    print("error of the default over LightGBM's (CPU seconds of the bag)\n")
    names = [table.block.dataset for table in tables]
    print(f"{'':24}" + "".join(f"{name[:15]:>17}" for name in names) + f"{'mean':>8}")
    print(f"{'rows':24}" + "".join(f"{table.n_rows:>17,}" for table in tables))
    for model in models:
        slot = Slot(model, 0)
        cells, ratios = [], []
        for table in tables:
            if slot not in table.bags:
                cells.append(f"{'-':>17}")
                continue
            ratios.append(table.errors([slot])[1])
            cells.append(f"{ratios[-1]:>9.3f} {f'({table.bags[slot].cpu_s:.1f})':>7}")
        print(f"{model:24}" + "".join(cells) + f"{np.exp(mean_log(ratios)):>8.3f}")


def print_class(name: str, tables: Sequence[Measured], order: list[Slot], left_out: bool) -> None:
    """An order of slots on the tables of a class, and what it reaches."""
    print(f"\n{name}: {', '.join(table.block.dataset for table in tables)}")
    given = bool(order)
    order = order or best_order(tables)
    spent = 0.0
    for n, slot in enumerate(order, start=1):
        spent += float(np.mean([table.cost(slot) for table in tables]))
        pairs = [table.errors(order[:n]) for table in tables]
        ensemble, single = (np.exp(mean_log(p[i] for p in pairs)) for i in (0, 1))
        print(f"  {n:>2} {slot!s:28} {spent:>7.1f} s  ensemble {ensemble:.3f}  best {single:.3f}")
    print(reached(tables, {table.block.dataset: order for table in tables}))
    if left_out and not given and len(tables) > 1:
        orders = {}
        for table in tables:
            orders[table.block.dataset] = best_order([t for t in tables if t is not table])
        print("each table by the order of the others")
        print(reached(tables, orders))


def read_order(text: str) -> list[Slot]:
    """Slots from text.

    >>> [str(slot) for slot in read_order("lightgbm,linear,lightgbm*2")]
    ['lightgbm 0', 'linear 0', 'lightgbm 1']
    """
    order = []
    for word in filter(None, text.split(",")):
        model, _, times = word.partition("*")
        order += [Slot(model, number) for number in range(int(times or 1))]
    return list(dict.fromkeys(order))


def main() -> None:
    """Read the runs and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--order", default="")
    parser.add_argument("--left-out", action="store_true")
    given = parser.parse_args()
    ensemble_selection.ROUNDS = MEMBERS
    tables = measured(given.runs)
    print_models(tables)
    lower = 0
    for upper, name in CLASSES:
        mine = [table for table in tables if lower < table.n_rows <= upper]
        lower = upper
        if mine:
            print_class(name, mine, read_order(given.order), given.left_out)


if __name__ == "__main__":
    main()
