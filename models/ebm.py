"""Explainable boosting machine: a sum of curves of features and pairs (Lou et al. 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import COUNT, PATIENCE, RATE, ROUNDS, Estimator, Number
from .optional import optional
from .policy import Policy

PAIRS = tuple(f"{n}x" for n in (0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25))


class EBM(Estimator):
    """Explainable boosting machine of the library `interpret-core` (extra `ebm`).

    Categories and missing values are the library's own. It stops early on rows that it sets aside
    from the training rows, other ones in each bag; validation rows are not used. Learning rate,
    smoothing and least Hessian are those that TabArena starts from, the same for all tasks; the
    library's own differ from task to task.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    max_bins : int, default 1024, in [2, 100000]
        Bins of a number.
    max_leaves : int, default 2, in [2, 100000]
        Leaves of a step for one feature.
    interactions : str or int, default '5x', in [0, 100000] or one of '0.5x', ..., '25x'
        How many pairs have a curve, or how many for each feature ('5x').
    learning_rate : float, default 0.02, in (0, 10]
        Factor of each step.
    max_rounds : int, default 50000, in [1, 100000]
        Rounds at most, each a step for every feature.
    early_stopping_rounds : int, default 100, in [0, 100000]
        Rounds without a lower loss on the rows set aside that end a bag.
    smoothing_rounds : int, default 200, in [0, 100000]
        First rounds with random splits, for smooth curves.
    interaction_smoothing_rounds : int, default 90, in [0, 100000]
        The same for pairs.
    min_samples_leaf : int, default 4, in [1, 100000]
        Least rows of a leaf.
    min_hessian : float, default 0.0001, at least 0
        Least sum of the Hessian in a leaf.
    validation_size : float, default 0.15, in (0, 1)
        Share of the training rows that a bag sets aside.
    outer_bags : int, default 14, in [1, 100000]
        Bags, whose curves are averaged; the time of a fit grows with them.

    Examples
    --------
    >>> from tabsweep.models.ebm import EBM
    >>> EBM(task="regression", outer_bags=2).outer_bags
    2

    References
    ----------
    Lou et al. 2013, doi:10.1145/2487575.2487579; Nori et al. 2019, arXiv:1909.09223.
    """

    rules = {
        "max_bins": Number(2, 100_000, whole=True),
        "max_leaves": Number(2, 100_000, whole=True),
        "interactions": Number(0, 100_000, whole=True, words=PAIRS),
        "learning_rate": RATE,
        "max_rounds": ROUNDS,
        "early_stopping_rounds": PATIENCE,
        "smoothing_rounds": PATIENCE,
        "interaction_smoothing_rounds": PATIENCE,
        "min_samples_leaf": COUNT,
        "min_hessian": Number(0.0),
        "validation_size": Number(0.0, 1.0, low_open=True, high_open=True),
        "outer_bags": COUNT,
    }
    policy = Policy("shift", "native", "native", "standard")

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        max_bins: int = 1024,
        max_leaves: int = 2,
        interactions: str | int = "5x",
        learning_rate: float = 0.02,
        max_rounds: int = 50_000,
        early_stopping_rounds: int = 100,
        smoothing_rounds: int = 200,
        interaction_smoothing_rounds: int = 90,
        min_samples_leaf: int = 4,
        min_hessian: float = 1e-4,
        validation_size: float = 0.15,
        outer_bags: int = 14,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.max_bins = max_bins
        self.max_leaves = max_leaves
        self.interactions = interactions
        self.learning_rate = learning_rate
        self.max_rounds = max_rounds
        self.early_stopping_rounds = early_stopping_rounds
        self.smoothing_rounds = smoothing_rounds
        self.interaction_smoothing_rounds = interaction_smoothing_rounds
        self.min_samples_leaf = min_samples_leaf
        self.min_hessian = min_hessian
        self.validation_size = validation_size
        self.outer_bags = outer_bags

    def _early_stopping(self) -> bool:
        return False

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        library = optional("interpret.glassbox", model="ebm", extra="ebm")
        kind = "Regressor" if self.task == "regression" else "Classifier"
        settings: dict[str, Any] = {name: getattr(self, name) for name in self.rules}
        codes = self.preprocessor_.categorical_
        self.model_ = getattr(library, f"ExplainableBoosting{kind}")(
            feature_types=["nominal" if code else "continuous" for code in codes],
            random_state=self.seed,
            n_jobs=self.threads,
            **settings,
        ).fit(x, y)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(x)
