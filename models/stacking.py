"""Stacked generalisation: a linear model of the out-of-fold predictions of four others."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Estimator
from .hyperparameters import COUNT, POSITIVE, Number, hyper
from .out_of_fold import parts
from .policy import Policy


class Stacking(Estimator):
    """Linear model, nearest neighbours, tree and naive Bayes below a linear model.

    The upper model learns from predictions of the lower ones for rows that they did not see; then
    these are fitted on all rows.

    Notes
    -----
    A class that is not among the rows of a fit has probability 0 there. Naive Bayes is Gaussian,
    with one-hot categories; it is left out in regression.

    References
    ----------
    Wolpert 1992, doi:10.1016/S0893-6080(05)80023-1; Ting and Witten 1999 (probabilities),
    doi:10.1613/jair.594.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    n_parts: int = hyper(
        5,
        Number(2, 1000, whole=True),
        "Parts of the training rows for the out-of-fold predictions.",
    )
    C: float = hyper(
        1.0, POSITIVE, "Inverse strength of the upper model's L2 penalty, as of `linear`."
    )
    n_neighbors: int = hyper(
        10, COUNT, "Neighbours; more than there are training rows means all of them."
    )
    min_samples_leaf: int = hyper(5, COUNT, "Fewest training rows in a leaf of the tree.")

    def _linear(self, strength: float) -> Any:
        from sklearn.linear_model import LogisticRegression, Ridge

        if self.task == "regression":
            return Ridge(alpha=1.0 / strength, solver="cholesky")
        return LogisticRegression(C=strength, max_iter=500, random_state=self.seed)

    def _bases(self, n_rows: int) -> list[Any]:
        """The lower models, unfitted."""
        from sklearn.naive_bayes import GaussianNB
        from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        regression = self.task == "regression"
        near = KNeighborsRegressor if regression else KNeighborsClassifier
        tree = DecisionTreeRegressor if regression else DecisionTreeClassifier
        return [
            self._linear(1.0),
            near(n_neighbors=min(self.n_neighbors, n_rows), n_jobs=self.threads),
            tree(min_samples_leaf=self.min_samples_leaf, random_state=self.seed),
            *([] if regression else [GaussianNB(var_smoothing=1e-3)]),
        ]

    def _fitted(self, x: np.ndarray, y: np.ndarray) -> list[Any]:
        """The lower models on these rows; none where they hold one class alone."""
        if self.task != "regression" and len(np.unique(y)) < 2:
            return []
        return [base.fit(x, y) for base in self._bases(len(x))]

    def _lower(self, bases: list[Any], x: np.ndarray) -> np.ndarray:  # (N, F) -> (N, inputs)
        """What the upper model sees: values, or probabilities of every class but the first."""
        if self.task == "regression":
            return np.column_stack([base.predict(x) for base in bases])
        columns = []
        for base in bases:
            p = np.zeros((len(x), len(self.classes_)))
            p[:, base.classes_] = base.predict_proba(x)
            columns.append(p[:, 1:])  # they sum to one
        return np.column_stack(columns)

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        part = parts(y if self.task != "regression" else np.zeros(len(y)), self.n_parts, self.seed)
        seen: list[np.ndarray] = []
        rows: list[np.ndarray] = []
        for k in np.unique(part):
            bases = self._fitted(x[part != k], y[part != k])
            if bases:
                rows.append(np.flatnonzero(part == k))
                seen.append(self._lower(bases, x[rows[-1]]))
        bases = self._fitted(x, y)
        learned = np.concatenate(rows) if rows else np.arange(len(x))
        if self.task != "regression" and len(np.unique(y[learned])) < 2:
            rows = []  # too few rows for predictions that the lower models did not learn from
        if not rows:
            seen, learned = [self._lower(bases, x)], np.arange(len(x))
        upper = self._linear(self.C).fit(np.concatenate(seen), y[learned])
        self.model_ = {"lower": bases, "upper": upper}

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_["upper"].predict(self._lower(self.model_["lower"], x))

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = np.zeros((len(x), len(self.classes_)))
        upper = self.model_["upper"]
        p[:, upper.classes_] = upper.predict_proba(self._lower(self.model_["lower"], x))
        return p
