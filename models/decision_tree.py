"""A single decision tree (CART) of scikit-learn."""

from __future__ import annotations

from typing import Any

from .base import of_sklearn
from .hyperparameters import COUNT, DEPTH, PENALTY, hyper
from .policy import Policy
from .weighted import WeightedSklearnEstimator


class DecisionTree(WeightedSklearnEstimator):
    """CART on unscaled features; categories one-hot, missing values native.

    References
    ----------
    Breiman et al. 1984, Classification and Regression Trees.
    """

    example = ""
    policy = Policy(numeric="shift", categorical="one-hot", missing="native", target="standard")

    max_depth: int = hyper(0, DEPTH, "Depth of the deepest leaf; 0 for no limit.")
    min_samples_leaf: int = hyper(1, COUNT, "Fewest training rows in a leaf.")
    ccp_alpha: float = hyper(
        0.0,
        PENALTY,
        "Cost-complexity pruning, in units of impurity (regression: variance of the "
        "standardised target).",
    )

    def _build(self, n_rows: int) -> Any:
        return of_sklearn("tree", "DecisionTree", self.task)(
            max_depth=self.max_depth or None,
            min_samples_leaf=self.min_samples_leaf,
            ccp_alpha=self.ccp_alpha,
            random_state=self.seed,
        )
