"""Multi-layer perceptron of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import COUNT, RATE, ListOf, Number, OneOf, SklearnEstimator
from .policy import Policy


class MLPSklearn(SklearnEstimator):
    """Multi-layer perceptron (ReLU, Adam) on standardised, one-hot features.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    hidden_layer_sizes : list of int, default (100,), each in [1, 100000]
        Widths of the hidden layers.
    alpha : float, default 0.0001, at least 0
        L2 penalty of the weights.
    batch_size : int, default 200, in [1, 100000]
        Rows in a step, at most the rows there are.
    learning_rate_init : float, default 0.001, in (0, 10]
        Learning rate of Adam.
    max_iter : int, default 200, in [1, 100000]
        Epochs, at most.
    early_stopping : bool, default False
        The library's own early stopping, on a tenth of the training rows (off where that tenth
        would be too small); the validation rows are not used.

    Examples
    --------
    >>> from tabsweep.models.mlp_sklearn import MLPSklearn
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = MLPSklearn(task="binary", learning_rate_init=0.1).fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Rumelhart et al. 1986, doi:10.1038/323533a0.
    """

    rules = {
        "hidden_layer_sizes": ListOf(COUNT),
        "alpha": Number(0.0),
        "batch_size": COUNT,
        "learning_rate_init": RATE,
        "max_iter": COUNT,
        "early_stopping": OneOf((True, False)),
    }
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        hidden_layer_sizes: Any = (100,),
        alpha: float = 1e-4,
        batch_size: int = 200,
        learning_rate_init: float = 1e-3,
        max_iter: int = 200,
        early_stopping: bool = False,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.hidden_layer_sizes = hidden_layer_sizes
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.early_stopping = early_stopping

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        regression = self.task == "regression"
        rarest = len(y) if regression else int(np.bincount(y).min())
        stop = self.early_stopping and len(x) >= 20 and rarest >= 2
        self.model_ = (MLPRegressor if regression else MLPClassifier)(
            hidden_layer_sizes=tuple(self.hidden_layer_sizes),
            alpha=self.alpha,
            batch_size=min(self.batch_size, len(x) - (len(x) // 10 + 1 if stop else 0)),
            learning_rate_init=self.learning_rate_init,
            max_iter=self.max_iter,
            early_stopping=stop,
            random_state=self.seed,
        ).fit(x, y)
        self.n_iter_ = int(self.model_.n_iter_)
