"""A single decision tree (CART) of scikit-learn."""

from __future__ import annotations

from typing import Any

from .base import COUNT, Number
from .policy import Policy
from .weighted import WeightedSklearnEstimator


class DecisionTree(WeightedSklearnEstimator):
    """CART on unscaled features; categories one-hot, missing values native.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    max_depth : int, default 0, in [0, 1000]
        Depth of the deepest leaf; 0 for no limit.
    min_samples_leaf : int, default 1, in [1, 100000]
        Fewest training rows in a leaf.
    ccp_alpha : float, default 0.0, at least 0
        Cost-complexity pruning, in units of impurity (regression: variance of the standardised
        target).

    Examples
    --------
    >>> from tabsweep.models.decision_tree import DecisionTree
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = DecisionTree(task="binary").fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Breiman et al. 1984, Classification and Regression Trees.
    """

    rules = {
        "max_depth": Number(0, 1000, whole=True),
        "min_samples_leaf": COUNT,
        "ccp_alpha": Number(0.0),
    }
    policy = Policy(numeric="shift", categorical="one-hot", missing="native", target="standard")

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        max_depth: int = 0,
        min_samples_leaf: int = 1,
        ccp_alpha: float = 0.0,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.ccp_alpha = ccp_alpha

    def _build(self, n_rows: int) -> Any:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind = DecisionTreeRegressor if self.task == "regression" else DecisionTreeClassifier
        return kind(
            max_depth=self.max_depth or None,
            min_samples_leaf=self.min_samples_leaf,
            ccp_alpha=self.ccp_alpha,
            random_state=self.seed,
        )
