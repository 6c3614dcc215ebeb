"""Support vector machines with the RBF kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Estimator, softmax, two_columns
from .hyperparameters import PENALTY, POSITIVE, Number, hyper
from .out_of_fold import parts
from .policy import Policy

N_PARTS = 3  # parts of the training rows, for decision values that a machine did not see


def best_scale(decisions: np.ndarray, y: np.ndarray) -> float:  # (N, C), (N,)
    """The factor s for which softmax(s * decisions) has the least log loss at y."""
    from scipy.optimize import minimize_scalar

    rows = np.arange(len(y))

    def loss(log_s: float) -> float:
        p = softmax(np.exp(log_s) * decisions)[rows, y]
        return -float(np.log(np.maximum(p, 1e-12)).mean())

    best = minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-4})
    return float(np.exp(best.x))


class SVM(Estimator):
    """C-SVC or epsilon-SVR with the RBF kernel on standardised, one-hot features.

    Notes
    -----
    Labels are the machine's own (one-vs-rest decision values, largest first). Probabilities are a
    softmax of those values times one factor, which is fitted on out-of-fold decision values; so
    they never disagree with the labels. Platt's two-parameter sigmoid could.

    References
    ----------
    Cortes and Vapnik 1995, doi:10.1007/BF00994018.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")

    C: float = hyper(1.0, POSITIVE, "Penalty of a violation of the margin.")
    gamma: float | str = hyper(
        "scale",
        Number(0.0, low_open=True, words=("scale",)),
        'Inverse width of the kernel; "scale" for 1 / (n_features * var(X)).',
    )
    epsilon: float = hyper(
        0.1,
        PENALTY,
        "Half-width of the tube without loss, in standard deviations of the target (regression).",
    )

    def _machine(self, x: np.ndarray, y: np.ndarray) -> Any:
        from sklearn.svm import SVC

        return SVC(C=self.C, gamma=self.gamma).fit(x, y)

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        if self.task == "regression":
            from sklearn.svm import SVR

            self.model_ = SVR(C=self.C, gamma=self.gamma, epsilon=self.epsilon).fit(x, y)
            return
        self.model_ = self._machine(x, y)
        self.scale_ = best_scale(*self._out_of_fold(x, y))

    def _out_of_fold(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part = parts(y, N_PARTS, self.seed)
        decisions = np.empty((len(y), len(self.classes_)))
        usable = np.zeros(len(y), dtype=bool)
        for k in range(N_PARTS):
            held = part == k
            if held.any() and len(np.unique(y[~held])) > 1:
                decisions[held] = self._decide(self._machine(x[~held], y[~held]), x[held])
                usable |= held
        if not usable.any():
            return self._decide(self.model_, x), y
        return decisions[usable], y[usable]

    def _decide(self, machine: Any, x: np.ndarray) -> np.ndarray:  # (N, F) -> (N, C)
        """Decision values; a class that the machine never saw gets the row's least value less 1."""
        values = machine.decision_function(x)
        if values.ndim == 1:
            values = np.column_stack([-values, values]) / 2.0
        out = np.repeat(values.min(axis=1, keepdims=True) - 1.0, len(self.classes_), axis=1)
        out[:, machine.classes_] = values
        return out

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        values = self._decide(self.model_, x)
        if len(self.classes_) == 2:
            gap = np.clip(self.scale_ * (values[:, 1] - values[:, 0]), -500.0, 500.0)
            return two_columns(1.0 / (1.0 + np.exp(-gap)))
        return softmax(self.scale_ * values)
