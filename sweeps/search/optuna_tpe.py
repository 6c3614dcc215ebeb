"""Optuna's TPE as a backend of the samplers: finished trials in, one configuration out.

The history holds finished trials only, and the sampler is seeded anew for every suggestion: it
depends on the trials and the seed, not on earlier suggestions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .space import Axis, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


class OptunaTPE:
    """Optuna's sampler on a study kept in memory. Configurations must lie inside `space`."""

    def __init__(self, space: Space, startup: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space, self._startup = space, startup
        self._distributions = {axis.label: distribution_of(axis) for axis in space.axes}
        # DIFF(Optuna 5 defaults): Optuna looks through the old trials for the parameters that they
        # have in common, again for each suggestion; the space knows which these are. Same
        # suggestions; conditional parameters are drawn one by one.
        labels = sorted(axis.label for axis in space.joint_axes)
        self._joint = {label: self._distributions[label] for label in labels}
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(study_name="study", storage=self._storage)

    def add(self, index: int, config: Mapping[str, Any], loss: float | None) -> None:
        """Append a finished trial; trials are added in the order of their index."""
        if loss is None:  # Optuna's TPE looks at no failed trial
            return
        from optuna.trial import create_trial

        numbers = self._space.encode(config)
        distributions = {label: self._distributions[label] for label in numbers}
        trial = create_trial(value=loss, params=dict(numbers), distributions=distributions)
        self._study.add_trial(trial)

    def propose(self, index: int, seed: int) -> dict[str, Any]:
        """The next configuration, given the trials so far; `seed` below 2**32."""
        from optuna import load_study
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState, create_trial

        # DIFF(Optuna 5 defaults): no constant liar. It only concerns running trials (none here).
        sampler = TPESampler(seed=seed, n_startup_trials=self._startup, constant_liar=False)
        # A study that has been looked at once does not see later trials.
        study = load_study(study_name="study", storage=self._storage)
        trial = create_trial(state=TrialState.RUNNING)
        drawn = sampler.sample_relative(study, trial, self._joint)

        def draw(axis: Axis) -> float:
            if axis.label in drawn:
                return drawn[axis.label]
            distribution = self._distributions[axis.label]
            return sampler.sample_independent(study, trial, axis.label, distribution)

        return self._space.decode(draw)


def distribution_of(axis: Axis) -> BaseDistribution:
    """The parameter of an axis, in Optuna's words."""
    from optuna import distributions

    low, high = axis.low, axis.high
    if axis.kind == "index":  # by number: values may be lists, and True == 1 is no trap
        return distributions.CategoricalDistribution(range(int(high) + 1))
    if axis.kind == "int":
        return distributions.IntDistribution(int(low), int(high), log=axis.log)
    return distributions.FloatDistribution(low, high, log=axis.log)
