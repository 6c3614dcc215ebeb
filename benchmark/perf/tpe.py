"""CPU of a TPE proposal after 100 to 5,000 trials, beside Optuna's own sampler in the same run.

    python benchmark/perf/tpe.py [--trials 100 1000 5000] [--model xgboost lightgbm]

Both get the same trials; every proposal is asked of both and must be the same. Compare the columns
of one line: the machine may be busy.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState, create_trial
from tabsweep.benchmark.perf.measuring import verdict
from tabsweep.models import registry
from tabsweep.sweeps.search.json_values import identity
from tabsweep.sweeps.search.optuna_tpe import OptunaTPE, distribution_of
from tabsweep.sweeps.search.space import Axis, Space


class PlainTPE:
    """Optuna's own sampler on Optuna's own study, with the interface of `OptunaTPE`."""

    def __init__(self, space: Space) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._distributions = {axis.label: distribution_of(axis) for axis in space.axes}
        labels = sorted(axis.label for axis in space.joint_axes)
        self._joint = {label: self._distributions[label] for label in labels}
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(study_name="study", storage=self._storage)

    def add(self, index: int, config: Mapping[str, Any], loss: float | None) -> None:
        """Append a finished trial."""
        numbers = self._space.encode(config)
        self._study.add_trial(
            create_trial(
                state=TrialState.FAIL if loss is None else TrialState.COMPLETE,
                value=loss,
                params=dict(numbers),
                distributions={label: self._distributions[label] for label in numbers},
            )
        )

    def propose(self, index: int, seed: int) -> dict[str, Any]:
        """The next configuration."""
        study = optuna.load_study(study_name="study", storage=self._storage)
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=False)
        trial = create_trial(state=TrialState.RUNNING)
        drawn = sampler.sample_relative(study, trial, self._joint)

        def draw(axis: Axis) -> float:
            if axis.label in drawn:
                return drawn[axis.label]
            distribution = self._distributions[axis.label]
            return sampler.sample_independent(study, trial, axis.label, distribution)

        return self._space.decode(draw)


def loss_of(space: Space, config: Mapping[str, Any], noise: float) -> float:
    """A bowl in the numbers of a configuration, with noise: good trials crowd in a region."""
    numbers = space.encode(config)
    found = noise
    for axis in space.axes:
        if axis.label in numbers:
            low, high, x = axis.low, axis.high, float(numbers[axis.label])
            if axis.log:
                low, high, x = np.log([low, high, x])
            found += ((x - low) / (high - low or 1.0) - 0.3) ** 2
    return float(found)


def compare(space: Space, sizes: list[int], times: int) -> list[tuple[float, float]]:
    """(our ms, Optuna's ms) a proposal after each number of trials; prints a line for each. Raises
    AssertionError where a proposal differs."""
    rng = np.random.default_rng(0)
    ours, theirs = OptunaTPE(space), PlainTPE(space)
    told, found = 0, []
    for n in sizes:
        while told < n:
            config = space.sample(rng)
            failed = rng.random() < 0.03
            loss = None if failed else loss_of(space, config, 0.05 * rng.normal())
            for sampler in (ours, theirs):
                sampler.add(told, config, loss)
            told += 1
        used: tuple[list[float], list[float]] = ([], [])
        for seed in range(times):
            proposals = []
            for sampler, seconds in zip((ours, theirs), used, strict=True):
                start = time.process_time()
                proposals.append(sampler.propose(n, seed))
                seconds.append(time.process_time() - start)
            assert identity(proposals[0]) == identity(proposals[1]), (n, seed, proposals)
        mine, optunas = (1000 * median(seconds) for seconds in used)
        print(
            f"  {n:5} trials: {mine:6.2f} ms, Optuna {optunas:7.2f} ms, "
            f"{optunas / mine:5.1f} times; {times} proposals equal",
            flush=True,
        )
        found.append((mine, optunas))
    return found


def main() -> int:
    """Measure and compare with the targets; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 250, 500, 1000, 2000, 5000])
    parser.add_argument("--model", nargs="+", default=["xgboost", "lightgbm", "ft-transformer"])
    parser.add_argument("--times", type=int, default=15, help="proposals after each number")
    options = parser.parse_args()
    good = []
    for name in options.model:
        space = Space.parse(registry.spaces(name, "regression")["default"])
        print(f"{name}: {len(space.axes)} numbers, {len(space.joint_axes)} of them in every trial")
        curve = compare(space, sorted(options.trials), options.times)
        at = dict(zip(sorted(options.trials), curve, strict=True))
        if 1000 in at:
            good.append(verdict(f"{name}: ms a proposal at 1,000 trials", at[1000][0], 5.0))
        if 1000 in at and 5000 in at:
            growth = at[5000][0] / at[1000][0]
            good.append(verdict(f"{name}: 5,000 trials over 1,000", growth, 3.0))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
