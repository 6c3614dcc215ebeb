"""Partial least squares of scikit-learn, for classes by regression on their indicators."""

from __future__ import annotations

import numpy as np

from .base import Estimator
from .hyperparameters import COUNT, hyper
from .policy import Policy

LEAST = 1e-9  # an indicator's prediction below it is raised to it before it is a probability


class PLS(Estimator):
    """Linear regression on a few components of the features that covary with the target.

    Notes
    -----
    For classification, 0/1 indicators of the classes are the targets; their predictions sum to one
    in every row. The largest one is the predicted class. Probabilities are the predictions, with
    negative ones set to zero, divided by their sum.

    References
    ----------
    Wold et al. 1984, doi:10.1137/0905052; Barker and Rayens 2003 (classes), doi:10.1002/cem.785.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    n_components: int = hyper(
        2, COUNT, "Components; more than the rank of the centred features means as many as that."
    )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        from sklearn.cross_decomposition import PLSRegression

        target = y if self.task == "regression" else np.eye(len(self.classes_))[y]
        # Components beyond the rank, as of the one-hot columns of a category, are rounding noise.
        rank = int(np.linalg.matrix_rank(x - x.mean(axis=0)))
        n_components = min(self.n_components, max(rank, 1))
        library = PLSRegression(n_components=n_components).fit(x, target)
        self.model_ = {  # all that a prediction needs
            "centre": x.mean(axis=0),
            "coef": library.coef_.T.copy(),  # (F, outputs)
            "intercept": np.atleast_1d(library.intercept_),
        }

    def _outputs(self, x: np.ndarray) -> np.ndarray:  # (N, F) -> (N, outputs)
        return (x - self.model_["centre"]) @ self.model_["coef"] + self.model_["intercept"]

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self._outputs(x)[:, 0]

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = np.maximum(self._outputs(x), LEAST)
        return p / p.sum(axis=1, keepdims=True)
