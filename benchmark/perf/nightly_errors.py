"""Error rates of the decision rule of `bench nightly`, simulated on pairs of real fits.

python benchmark/perf/nightly_errors.py RUN... [--nights 2000]

RUN: runs of the nightly suite with `seeds = 2` in its budget, each under another --seed: two fits
of every cell on the same rows that differ by chance alone. A night draws, for every model and
dataset, as many such pairs as the rule looks at, and turns each around at random: two versions that
are equally good. A planted regression makes the errors of one model larger by a factor.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tabsweep.benchmark.nightly.decision import RULE, Judge, Rule
from tabsweep.benchmark.nightly.probe import rows_of
from tabsweep.benchmark.perf.measuring import verdict
from tabsweep.benchmark.planning.suite import load
from tabsweep.reports.regression.verdicts import HARMLESS, UNDECIDED, WORSE, relative_changes
from tabsweep.reports.statistics.distributions import t_isf

FEWEST = 8  # pairs of a cell
MOST_ALARMS, LEAST_FOUND, PLANTED = 0.01, 0.95, 0.05
Errors = dict[str, dict[str, np.ndarray]]  # model -> dataset -> errors (n_runs, 2)


def main() -> int:
    """Simulate and print; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--nights", type=int, default=2000)
    given = parser.parse_args()
    errors = pairs_of(given.runs)
    sizes = [len(pairs) for sets in errors.values() for pairs in sets.values()]
    datasets = sorted({dataset for sets in errors.values() for dataset in sets})
    print(f"{len(errors)} models on {', '.join(datasets)}")
    print(f"{min(sizes)} to {max(sizes)} pairs of fits a cell")
    print(f"looks after {RULE.looks} seeds, alpha {RULE.spending}, sum {RULE.alpha:g}; ", end="")
    print(f"smallest effect {RULE.min_effect:g}; {given.nights} nights each, planted in turn\n")
    print("spread of one model's change over pairs, %: by model")
    for model, sets in sorted(errors.items()):
        spread = [100 * relative_changes(p[:, 0], p[:, 1]).std() for p in sets.values()]
        print(f"  {model:26} {np.median(spread):6.2f} median, {max(spread):6.2f} largest")
    print(f"\n{'night':24} {'false':>7} {'found':>7} {'undecided':>10} {'seeds':>6} {'fits':>6}")
    rng = np.random.default_rng(17)
    quiet = simulate(errors, given.nights, 0.0, rng)
    print(quiet.line("no model worse"))
    found = {}
    for effect in (0.02, 0.03, PLANTED, 0.10):
        night = simulate(errors, given.nights, effect, rng)
        found[effect] = night
        print(night.line(f"one model +{100 * effect:.0f} %"))
    five = found[PLANTED]
    print(f"\nfound at +{100 * PLANTED:.0f} %, by model")
    for model in sorted(errors):
        print(f"  {model:26} {100 * five.by_model[model] / max(1, five.planted[model]):6.1f} %")
    print("\nwithout further looks (the last look's alpha alone, plain t, no Holm), for comparison")
    naive = naive_alarms(errors, given.nights, rng)
    print(f"  nights with a false alarm at .01 a model: {100 * naive:.1f} %")
    met = verdict("nights with a false alarm, %", 100 * quiet.false_rate, 100 * MOST_ALARMS)
    least = 100 * LEAST_FOUND
    met &= verdict("found at +5 %, %", 100 * five.found_rate, least, at_least=True)
    return 0 if met else 1


def pairs_of(runs: Iterable[Path]) -> Errors:
    """The errors of both fits of every cell of the nightly suite with at least FEWEST pairs. Models
    whose fits never differ have no chance in them and are left out."""
    wanted = load("nightly").datasets
    found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        cells: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        for row in rows_of(run):
            if row["error"] is not None and row["dataset"] in wanted:
                cells[row["model"], row["dataset"]].append((row["seed"], row["error"]))
        for (model, dataset), both in cells.items():
            if len(both) == 2:
                first, second = (error for _, error in sorted(both))
                found[model][dataset].append((first, second))
    arrays = {
        model: {d: np.array(pairs) for d, pairs in sets.items() if len(pairs) >= FEWEST}
        for model, sets in found.items()
    }
    return {m: s for m, s in arrays.items() if any((p[:, 0] != p[:, 1]).any() for p in s.values())}


@dataclass
class Nights:
    """Counts over simulated nights."""

    n: int = 0
    alarms: int = 0
    found: int = 0
    n_planted: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    seeds: int = 0
    fits: int = 0
    by_model: Counter[str] = field(default_factory=Counter)
    planted: Counter[str] = field(default_factory=Counter)

    @property
    def false_rate(self) -> float:
        """Share of nights in which a model was called worse that was not."""
        return self.alarms / self.n

    @property
    def found_rate(self) -> float:
        """Share of planted regressions that were called worse; NaN without any."""
        return self.found / self.n_planted if self.n_planted else float("nan")

    def line(self, name: str) -> str:
        """A row of the table: rates in %, seeds a model and fits a night on average."""
        n_models = sum(self.verdicts.values())
        found = f"{100 * self.found_rate:7.2f}" if self.n_planted else f"{'-':>7}"
        share = 100 * self.verdicts[UNDECIDED] / n_models
        return (
            f"{name:24} {100 * self.false_rate:7.2f} {found} {share:10.1f} "
            f"{self.seeds / n_models:6.2f} {self.fits / self.n:6.0f}"
        )


def simulate(
    errors: Errors, n_nights: int, effect: float, rng: np.random.Generator, rule: Rule = RULE
) -> Nights:
    """Judge so many nights, in each of which one model's errors are larger by `effect`, each model
    in turn; 0 plants nothing."""
    count, models = Nights(), sorted(errors)
    for number in range(n_nights):
        worse = models[number % len(models)] if effect else None
        night = {
            model: drawn(errors[model], rule.looks[-1], effect if model == worse else 0.0, rng)
            for model in models
        }
        judge = Judge(models, rule)
        while judge.open:
            n = judge.wanted
            judge.look(
                {m: {d: (a[:n], b[:n]) for d, (a, b) in night[m].items()} for m in judge.open}
            )
        said = judge.verdicts
        count.n += 1
        count.alarms += any(said[model] == WORSE for model in models if model != worse)
        count.verdicts.update(said.values())
        count.seeds += sum(judge.n_seeds.values())
        count.fits += sum(2 * judge.n_seeds[model] * len(errors[model]) for model in models)
        if worse is not None:
            count.n_planted += 1
            count.planted[worse] += 1
            count.found += said[worse] == WORSE
            count.by_model[worse] += said[worse] == WORSE
    assert sum(count.verdicts[v] for v in (WORSE, HARMLESS, UNDECIDED)) <= n_nights * len(models)
    return count


def drawn(
    sets: Mapping[str, np.ndarray], n: int, effect: float, rng: np.random.Generator
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{dataset: (errors of base, errors of head)} of n pairs a dataset; with fewer real pairs than
    that, some are drawn twice."""
    found = {}
    for dataset, pairs in sets.items():
        chosen = rng.choice(len(pairs), size=n, replace=len(pairs) < n)
        turn = rng.integers(0, 2, size=n)
        base, head = pairs[chosen, turn], pairs[chosen, 1 - turn]
        found[dataset] = (base, head * (1.0 + effect))
    return found


def naive_alarms(errors: Errors, n_nights: int, rng: np.random.Generator) -> float:
    """Share of nights in which a plain paired t test of all pairs, at .01 one-sided for each model,
    calls a model worse that is not."""
    alarms = 0
    for _ in range(n_nights):
        hit = False
        for sets in errors.values():
            both = drawn(sets, RULE.looks[-1], 0.0, rng)
            d = np.concatenate([relative_changes(a, b) for a, b in both.values()])
            hit |= bool(d.mean() > t_isf(0.01, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d)))
        alarms += hit
    return alarms / n_nights


if __name__ == "__main__":
    sys.exit(main())
