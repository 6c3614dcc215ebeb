"""k-nearest neighbours of scikit-learn."""

from __future__ import annotations

from typing import Any

from .base import COUNT, OneOf, SklearnEstimator
from .policy import Policy


class KNN(SklearnEstimator):
    """k-nearest neighbours on standardised numeric and one-hot categorical features.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    n_neighbors : int, default 5, in [1, 100000]
        k; more than there are training rows means all of them.
    weights : {"uniform", "distance"}, default "uniform"
        Equal weights, or the inverse of the distance.
    p : {1, 2}, default 2
        1 for the Manhattan, 2 for the Euclidean distance.

    Notes
    -----
    How neighbours are searched (tree or brute force) does not change the predictions and is no
    hyperparameter.

    Examples
    --------
    >>> from tabsweep.models.knn import KNN
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = KNN(task="binary").fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Cover and Hart 1967, doi:10.1109/TIT.1967.1053964.
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
