"""Nearest shrunken centroids (Tibshirani et al. 2002)."""

from __future__ import annotations

import numpy as np

from .base import Estimator, softmax
from .hyperparameters import CLASSES, PENALTY, hyper, required
from .policy import Policy

ROUNDING = 1e-9  # a standard deviation below it is rounding alone: features have one of about 1


class NearestCentroid(Estimator):
    """The class whose mean is nearest, after means were drawn towards the common one.

    Notes
    -----
    A feature's distance is divided by its standard deviation within classes plus the median of
    those over features; features that are constant within all classes, with a median of 0, by 1.

    References
    ----------
    Tibshirani et al. 2002, doi:10.1073/pnas.082099299.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute")

    task: str = required(CLASSES)
    shrinkage: float = hyper(
        0.0,
        PENALTY,
        "What a class's deviation from the common mean loses in every feature, in its standard "
        "errors; features that lose all of it in every class no longer count.",
    )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        n, common = np.bincount(y), x.mean(axis=0)
        means = np.array([x[y == k].mean(axis=0) for k in range(len(n))])
        free = max(len(x) - len(n), 1)  # degrees of freedom
        std = np.sqrt(((x - means[y]) ** 2).sum(axis=0) / free)
        scale = std + np.median(std)
        scale[scale < ROUNDING] = 1.0
        unit = np.sqrt(1.0 / n - 1.0 / len(x))[:, None] * scale  # (C, F) standard errors
        gap = (means - common) / unit
        kept = np.sign(gap) * np.maximum(np.abs(gap) - self.shrinkage, 0.0)
        self.model_ = {
            "prior": np.log(n / len(x)),
            "centroids": common + unit * kept,  # (C, F)
            "scale": scale,  # (F,)
        }

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        model, log_p = self.model_, np.empty((len(x), len(self.classes_)))
        for k, centre in enumerate(model["centroids"]):
            distance = (((x - centre) / model["scale"]) ** 2).sum(axis=1)
            log_p[:, k] = model["prior"][k] - distance / 2
        return softmax(log_p)
