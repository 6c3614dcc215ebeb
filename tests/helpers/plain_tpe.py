"""Optuna's own TPE sampler with the interface of `OptunaTPE`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.trial import TrialState, create_trial
from tabsweep.sweeps.search.optuna_tpe import distribution_of
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
