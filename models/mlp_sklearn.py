"""Multi-layer perceptron of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import SklearnEstimator, of_sklearn
from .hyperparameters import COUNT, PENALTY, RATE, SWITCH, ListOf, hyper
from .policy import Policy


class MLPSklearn(SklearnEstimator):
    """Multi-layer perceptron (ReLU, Adam) on standardised, one-hot features.

    References
    ----------
    Rumelhart et al. 1986, doi:10.1038/323533a0.
    """

    example = "learning_rate_init=0.1"
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    hidden_layer_sizes: Sequence[int] = hyper((100,), ListOf(COUNT), "Widths of the hidden layers.")
    alpha: float = hyper(1e-4, PENALTY, "L2 penalty of the weights.")
    batch_size: int = hyper(200, COUNT, "Rows in a step, at most the rows there are.")
    learning_rate_init: float = hyper(1e-3, RATE, "Learning rate of Adam.")
    max_iter: int = hyper(200, COUNT, "Epochs, at most.")
    early_stopping: bool = hyper(
        False,
        SWITCH,
        "The library's own early stopping, on a tenth of the training rows (off where that "
        "tenth would be too small); the validation rows are not used.",
    )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        rarest = len(y) if self.task == "regression" else int(np.bincount(y).min())
        stop = self.early_stopping and len(x) >= 20 and rarest >= 2
        self.model_ = of_sklearn("neural_network", "MLP", self.task)(
            hidden_layer_sizes=tuple(self.hidden_layer_sizes),
            alpha=self.alpha,
            batch_size=min(self.batch_size, len(x) - (len(x) // 10 + 1 if stop else 0)),
            learning_rate_init=self.learning_rate_init,
            max_iter=self.max_iter,
            early_stopping=stop,
            random_state=self.seed,
        ).fit(x, y)
        self.n_iter_ = int(self.model_.n_iter_)
