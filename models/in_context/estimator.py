"""What adapters of pretrained in-context models share: their checkpoint, and quiet fits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import Estimator
from ..hyperparameters import InvalidConfig, Number, hyper
from ..optional import undisturbed
from ..policy import Policy
from .checkpoint_file import SHA256, CheckpointFile, checkpoint_of


@dataclass(kw_only=True, eq=False, repr=False)
class InContextEstimator(Estimator):
    """Base of adapters whose fit keeps the training rows and whose weights are a checkpoint.

    Parameters
    ----------
    checkpoint : str, default ""
        The sha256 that the user's file must have; "" for any. A sweep sets it, so that the
        checkpoint is part of every trial's identity.
    n_estimators
        Passes with other orders of the columns.
    softmax_temperature
        Temperature of the probabilities.
    """

    model = ""
    computes_in = "float32"
    policy = Policy("none", "ordinal", "impute", "standard")

    checkpoint: str = ""
    n_estimators: int = hyper(8, Number(1, 256, whole=True))
    softmax_temperature: float = hyper(0.9, Number(0.0, 10.0, low_open=True))

    @staticmethod
    def spaces() -> dict[str, Any]:
        """The default configuration alone, and it on four passes."""
        return {
            "default": {"params": {}, "note": "no training: the default is the only trial"},
            "quick": {
                "params": {"n_estimators": {"kind": "fixed", "value": 4}},
                "note": "four passes",
                "search": {"strategy": "grid", "n_configs": 1},
            },
        }

    def check(self) -> None:
        """Raises `InvalidConfig` where a parameter is outside what the model accepts."""
        super().check()
        if self.checkpoint and not SHA256.fullmatch(str(self.checkpoint)):
            raise InvalidConfig(
                f"{type(self).__name__}: checkpoint must be the sha256 of a file (64 hex digits), "
                f"got {self.checkpoint!r}; its path is an environment variable"
            )

    def _file(self) -> CheckpointFile:
        return checkpoint_of(self.model, self.task, self.checkpoint)

    def _made(self) -> Any:
        """The library's estimator, not fitted."""
        raise NotImplementedError

    def _quiet(self) -> AbstractContextManager[None]:
        """A block in which the library downloads nothing."""
        raise NotImplementedError

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        made = self._made()
        with self._quiet():
            self.model_ = made.fit(x, y)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        with self._quiet():
            return np.asarray(self.model_.predict(x), dtype=np.float64)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        with self._quiet():
            p = np.asarray(self.model_.predict_proba(x), dtype=np.float64)
        return p / p.sum(axis=1, keepdims=True)

    def _limits(self) -> AbstractContextManager[None]:
        return undisturbed(self.seed, self.threads)
