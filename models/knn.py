"""What do the nearest training rows say? k-nearest neighbours."""

from __future__ import annotations

from typing import Any

from .base import COUNT, OneOf, SklearnEstimator
from .preprocessing import Policy


class KNN(SklearnEstimator):
    """k-nearest neighbours on standardised numeric and one-hot categorical features.

    n_neighbors: k; more than there are training rows means all of them. weights: `uniform` or
    `distance`. p: 1 for the Manhattan, 2 for the Euclidean distance. How neighbours are searched
    (tree or brute force) does not change the answer and is no hyperparameter.
    """

    rules = {
        "n_neighbors": COUNT,
        "weights": OneOf(("uniform", "distance")),
        "p": OneOf((1, 2)),
    }
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute")
    uses_pools = True

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        n_neighbors: int = 5,
        weights: str = "uniform",
        p: int = 2,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.p = p

    def _build(self, n_rows: int) -> Any:
        from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

        kind = KNeighborsRegressor if self.task == "regression" else KNeighborsClassifier
        return kind(
            n_neighbors=min(self.n_neighbors, n_rows),
            weights=self.weights,
            p=self.p,
            n_jobs=self.threads,
        )
