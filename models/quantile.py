"""Base of the models that can be trained on a quantile of the target instead of its mean."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .base import Estimator
from .hyperparameters import Number, hyper


class QuantileEstimator(Estimator):
    """An estimator whose loss in regression may be the pinball loss (Koenker and Bassett 1978).

    A sweep that is ranked by a pinball loss sets `quantile` in every model that takes it.
    """

    of_regression: ClassVar[tuple[str, ...]] = (*Estimator.of_regression, "quantile")

    quantile: float | None = hyper(
        None,
        Number(0.0, 1.0, low_open=True, high_open=True, words=(None,)),
        "Quantile of the target that is predicted (regression alone), by its pinball loss; None "
        "for the mean, by squared error.",
    )

    def _constant_answer(self, x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        """As `Estimator._constant_answer`, with the quantile in place of the mean."""
        answer = super()._constant_answer(x, target)
        if answer is None or self.quantile is None:
            return answer
        weights = getattr(self, "_weights", None)
        how = {} if weights is None else {"weights": weights, "method": "inverted_cdf"}
        value = np.quantile(target, self.quantile, **how)
        return self._in_units(np.array([value]))
