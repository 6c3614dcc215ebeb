"""Shared base of models that predict classes alone; not a model of its own."""

from __future__ import annotations

from .base import Estimator, InvalidConfig


class Classifier(Estimator):
    """An estimator without a regression form.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`; the task must be binary or multiclass.
    """

    def check(self) -> None:
        """As `Estimator.check`; the task must be a classification."""
        super().check()
        if self.task == "regression":
            name = type(self).__name__
            raise InvalidConfig(f"{name}: no regression form; tasks: binary, multiclass")
