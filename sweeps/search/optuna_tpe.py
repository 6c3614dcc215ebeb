"""Optuna's TPE as a backend of the samplers: finished trials in, one configuration out.

The Optuna study in memory holds finished trials only, and every suggestion comes from a freshly
seeded sampler: it depends on the trials and the seed, not on earlier suggestions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .space import Axis, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


class OptunaTPE:
    """One Optuna study, kept in memory. Configurations must lie inside `space`."""

    def __init__(self, space: Space) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)  # no line for each study and trial
        self._space = space
        self._distributions = {axis.label: _distribution(axis) for axis in space.axes}
        # DIFF(Optuna 5 defaults): Optuna looks through the old trials for the parameters that they
        # have in common, again for each suggestion; the space knows which these are. Same
        # suggestions, a fifth of the time less; conditional parameters are drawn one by one.
        labels = sorted(axis.label for axis in space.joint_axes)
        self._joint = {label: self._distributions[label] for label in labels}
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(study_name="study", storage=self._storage)

    def add(self, index: int, config: Mapping[str, Any], loss: float | None) -> None:
        """Append a finished trial; trials are added in the order of their index."""
        from optuna.trial import TrialState, create_trial

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
        """The next configuration, given the trials so far; `seed` below 2**32."""
        import optuna

        # `Study.ask` would leave a running trial behind, and a study remembers the trials that it
        # read last until `ask`: so a new handle on the same storage for each question.
        study = optuna.load_study(study_name="study", storage=self._storage)
        # DIFF(Optuna 5 defaults): no constant liar. It only concerns running trials (none here),
        # and it would want to write to one.
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=False)
        trial = optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING)
        drawn = sampler.sample_relative(study, trial, self._joint)

        def draw(axis: Axis) -> float:
            if axis.label in drawn:
                return drawn[axis.label]
            distribution = self._distributions[axis.label]
            return sampler.sample_independent(study, trial, axis.label, distribution)

        return self._space.decode(draw)


def _distribution(axis: Axis) -> BaseDistribution:
    from optuna import distributions

    low, high = axis.low, axis.high
    if axis.kind == "index":  # by number: values may be lists, and True == 1 is no trap
        return distributions.CategoricalDistribution(range(int(high) + 1))
    if axis.kind == "int":
        return distributions.IntDistribution(int(low), int(high), log=axis.log)
    return distributions.FloatDistribution(low, high, log=axis.log)
