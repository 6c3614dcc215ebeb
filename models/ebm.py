"""Explainable boosting machine: a sum of curves of features and pairs (Lou et al. 2013)."""

from __future__ import annotations

from typing import Any

from .base import SklearnEstimator
from .hyperparameters import COUNT, PATIENCE, PENALTY, RATE, ROUNDS, Number, hyper
from .optional import optional
from .policy import Policy

PAIRS = tuple(f"{n}x" for n in (0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25))


class EBM(SklearnEstimator):
    """Explainable boosting machine of the library `interpret-core` (extra `ebm`).

    Categories and missing values are the library's own. It stops early on rows that it sets aside
    from the training rows, other ones in each bag; validation rows are not used. Learning rate,
    smoothing and least Hessian are those that TabArena starts from, the same for all tasks; the
    library's own differ from task to task.

    Examples
    --------
    >>> from tabsweep.models.ebm import EBM
    >>> EBM(task="regression", outer_bags=2).outer_bags
    2

    References
    ----------
    Lou et al. 2013, doi:10.1145/2487575.2487579; Nori et al. 2019, arXiv:1909.09223.
    """

    policy = Policy("shift", "native", "native", "standard")

    max_bins: int = hyper(1024, Number(2, 100_000, whole=True), "Bins of a number.")
    max_leaves: int = hyper(2, Number(2, 100_000, whole=True), "Leaves of a step for one feature.")
    interactions: str | int = hyper(
        "5x",
        Number(0, 100_000, whole=True, words=PAIRS),
        "How many pairs have a curve, or how many for each feature ('5x').",
    )
    learning_rate: float = hyper(0.02, RATE, "Factor of each step.")
    max_rounds: int = hyper(50_000, ROUNDS, "Rounds at most, each a step for every feature.")
    early_stopping_rounds: int = hyper(
        100, PATIENCE, "Rounds without a lower loss on the rows set aside that end a bag."
    )
    smoothing_rounds: int = hyper(
        200, PATIENCE, "First rounds with random splits, for smooth curves."
    )
    interaction_smoothing_rounds: int = hyper(90, PATIENCE, "The same for pairs.")
    min_samples_leaf: int = hyper(4, COUNT, "Least rows of a leaf.")
    min_hessian: float = hyper(1e-4, PENALTY, "Least sum of the Hessian in a leaf.")
    validation_size: float = hyper(
        0.15,
        Number(0.0, 1.0, low_open=True, high_open=True),
        "Share of the training rows that a bag sets aside.",
    )
    outer_bags: int = hyper(
        14, COUNT, "Bags, whose curves are averaged; the time of a fit grows with them."
    )

    def _early_stopping(self) -> bool:
        return False

    def _build(self, n_rows: int) -> Any:
        library = optional("interpret.glassbox", model="ebm", extra="ebm")
        kind = "Regressor" if self.task == "regression" else "Classifier"
        codes = self.preprocessor_.categorical_
        return getattr(library, f"ExplainableBoosting{kind}")(
            feature_types=["nominal" if code else "continuous" for code in codes],
            random_state=self.seed,
            n_jobs=self.threads,
            **self._own_params(),
        )
