"""Regularised discriminant analysis: linear, quadratic, and all between (Friedman 1989)."""

from __future__ import annotations

import numpy as np

from .base import Estimator, softmax
from .hyperparameters import CLASSES, PROBABILITY, hyper, required
from .policy import Policy

LEAST = 1e-6  # least variance in any direction, as a share of the mean variance of a feature


class DiscriminantAnalysis(Estimator):
    """Normal distributions in each class, with covariances pooled over classes and shrunk.

    Notes
    -----
    Covariances are mixed in proportion to their rows, as in the reference. A class of one row, or
    features that depend on each other, leave directions without variance: it is raised to a
    millionth of the mean variance.

    References
    ----------
    Friedman 1989, doi:10.1080/01621459.1989.10478752.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute")
    uses_pools = True

    task: str = required(CLASSES)
    pooling: float = hyper(
        1.0,
        PROBABILITY,
        "Weight of the common covariance: 1 for linear, 0 for quadratic discriminant analysis.",
    )
    shrinkage: float = hyper(
        0.1, PROBABILITY, "Weight of a multiple of the identity with the same mean variance."
    )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        n, (n_rows, n_features) = np.bincount(y), x.shape
        means = np.array([x[y == k].mean(axis=0) for k in range(len(n))])
        centred = x - means[y]
        scatter = centred.T @ centred
        floor = LEAST * max(np.trace(scatter) / n_rows / n_features, LEAST)
        maps, logs = [], []
        for k in range(1 if self.pooling == 1.0 else len(n)):
            own = centred[y == k]
            mixed = (1 - self.pooling) * (own.T @ own) + self.pooling * scatter
            mixed /= (1 - self.pooling) * n[k] + self.pooling * n_rows
            even = np.trace(mixed) / n_features * np.eye(n_features)
            shrunk = (1 - self.shrinkage) * mixed + self.shrinkage * even
            variances, directions = np.linalg.eigh(shrunk)
            variances = np.maximum(variances, floor)
            maps.append(directions / np.sqrt(variances))  # x @ map has the identity as covariance
            logs.append(np.log(variances).sum())
        self.model_ = {
            "prior": np.log(n / n_rows),
            "means": means,  # (C, F)
            "maps": np.array(maps),  # (C, F, F), or (1, F, F) where all classes share it
            "log_determinants": np.array(logs),  # (C,) or (1,)
        }

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        model, log_p = self.model_, np.empty((len(x), len(self.classes_)))
        for k in range(log_p.shape[1]):
            which = k if len(model["maps"]) > 1 else 0
            distance = (((x - model["means"][k]) @ model["maps"][which]) ** 2).sum(axis=1)
            log_p[:, k] = model["prior"][k] - (distance + model["log_determinants"][which]) / 2
        return softmax(log_p)
