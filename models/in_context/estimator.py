"""What adapters of pretrained in-context models share: their checkpoint, and quiet fits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..base import Estimator
from ..hyperparameters import Checksum, Number, hyper
from ..optional import undisturbed
from ..policy import Policy
from .checkpoint_file import CheckpointFile, checkpoint_of


class InContextEstimator(Estimator):
    """Base of adapters whose fit keeps the training rows and whose weights are a checkpoint."""

    model = ""
    computes_in = "float32"
    policy = Policy("none", "ordinal", "impute", "standard")

    checkpoint: str = hyper(
        "",
        Checksum(),
        "The sha256 that the user's file must have, whose path is an environment variable; none "
        "for any. A sweep sets it, so that the checkpoint is part of every trial's identity.",
    )
    n_estimators: int = hyper(
        8, Number(1, 256, whole=True), "Passes with other orders of the columns."
    )
    softmax_temperature: float = hyper(
        0.9, Number(0.0, 10.0, low_open=True), "Temperature of the probabilities."
    )

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
