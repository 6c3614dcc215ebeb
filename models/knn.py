"""k-nearest neighbours of scikit-learn."""

from __future__ import annotations

from typing import Any

from .base import SklearnEstimator, of_sklearn
from .hyperparameters import COUNT, OneOf, hyper
from .policy import Policy


class KNN(SklearnEstimator):
    """k-nearest neighbours on standardised numeric and one-hot categorical features.

    Notes
    -----
    How neighbours are searched (tree or brute force) does not change the predictions and is no
    hyperparameter.

    References
    ----------
    Cover and Hart 1967, doi:10.1109/TIT.1967.1053964.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute")
    uses_pools = True

    n_neighbors: int = hyper(5, COUNT, "k; more than there are training rows means all of them.")
    weights: str = hyper(
        "uniform", OneOf(("uniform", "distance")), "Equal weights, or the inverse of the distance."
    )
    p: int = hyper(2, OneOf((1, 2)), "1 for the Manhattan, 2 for the Euclidean distance.")

    def _build(self, n_rows: int) -> Any:
        return of_sklearn("neighbors", "KNeighbors", self.task)(
            n_neighbors=min(self.n_neighbors, n_rows),
            weights=self.weights,
            p=self.p,
            n_jobs=self.threads,
        )
