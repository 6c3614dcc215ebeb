"""A straight line through the features: logistic regression, or ridge regression."""

from __future__ import annotations

from typing import Any

from .base import COUNT, Number, SklearnEstimator
from .preprocessing import Policy


class Linear(SklearnEstimator):
    """Logistic regression (multinomial, L2) or ridge regression on standardised, one-hot features.

    C: inverse strength of the penalty; ridge takes alpha = 1 / C on the standardised target.
    max_iter: steps of the L-BFGS solver (logistic regression).
    """

    rules = {"C": Number(0.0, low_open=True), "max_iter": COUNT}
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    def __init__(
        self, *, task: str, seed: int = 0, threads: int = 1, C: float = 1.0, max_iter: int = 500
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.C = C
        self.max_iter = max_iter

    def _build(self, n_rows: int) -> Any:
        from sklearn.linear_model import LogisticRegression, Ridge

        if self.task == "regression":
            return Ridge(alpha=1.0 / self.C, solver="cholesky")
        return LogisticRegression(C=self.C, max_iter=self.max_iter, random_state=self.seed)
