"""Linear models: logistic regression and ridge regression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .hyperparameters import COUNT, POSITIVE, OneOf, hyper
from .policy import Policy
from .weighted import WeightedSklearnEstimator


class Linear(WeightedSklearnEstimator):
    """Logistic regression (multinomial, L2) or ridge regression on scaled, one-hot features.

    References
    ----------
    Hoerl and Kennard 1970, doi:10.2307/1267351 (ridge regression).
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    C: float = hyper(
        1.0,
        POSITIVE,
        "Inverse strength of the L2 penalty; ridge takes alpha = 1 / C on the standardised target.",
    )
    max_iter: int = hyper(500, COUNT, "Steps of the L-BFGS solver, at most (logistic regression).")

    numeric: str = hyper(
        "standard",
        OneOf(("standard", "squash")),
        "How numbers are scaled, see `Policy`; `squash` keeps far values from deciding.",
    )

    def _policy(self) -> Policy:
        return replace(self.policy, numeric=self.numeric)

    def _build(self, n_rows: int) -> Any:
        from sklearn.linear_model import LogisticRegression, Ridge

        if self.task == "regression":
            return Ridge(alpha=1.0 / self.C, solver="cholesky")
        return LogisticRegression(C=self.C, max_iter=self.max_iter, random_state=self.seed)
