"""An ordered list of rules by separate and conquer, each the best leaf of a small tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Estimator
from .hyperparameters import CLASSES, COUNT, LAYERS, hyper, required
from .policy import Policy


def leaves(tree: Any, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(L,) node numbers of a fitted tree's leaves, and their boxes: a row belongs to the leaf with
    low < row <= high in every feature, (L, F) each."""
    nodes: list[int] = []
    boxes: list[tuple[np.ndarray, np.ndarray]] = []
    todo = [(0, np.full(n_features, -np.inf), np.full(n_features, np.inf))]
    while todo:
        at, low, high = todo.pop()
        if tree.children_left[at] < 0:
            nodes.append(at)
            boxes.append((low, high))
            continue
        feature, threshold = tree.feature[at], tree.threshold[at]
        left, right = high.copy(), low.copy()
        left[feature] = min(left[feature], threshold)
        right[feature] = max(right[feature], threshold)
        todo += [(tree.children_right[at], right, high), (tree.children_left[at], low, left)]
    return np.array(nodes), np.array([b[0] for b in boxes]), np.array([b[1] for b in boxes])


class RuleList(Estimator):
    """Rules that are asked one after the other; the first that covers a row answers.

    For each rule, a small tree is grown on the training rows that no earlier rule covers; its leaf
    with the best Laplace estimate, (rows of the commonest class + 1) / (rows + classes), becomes
    the rule. What no rule covers gets the frequencies of the rows that are left.

    Notes
    -----
    Probabilities are the frequencies of the covered training rows, with one row added to every
    class. DIFF(Frank and Witten 1998): PART expands a partial C4.5 tree and takes its leaf with the
    most rows; here it is scikit-learn's tree, of limited depth, and CN2's estimate (Clark and
    Boswell 1991) that chooses.

    References
    ----------
    Frank and Witten 1998, Generating accurate rule sets without global optimization (ICML); Clark
    and Boswell 1991, doi:10.1007/BFb0017011.
    """

    example = ""
    policy = Policy(numeric="shift", categorical="one-hot", missing="impute")

    task: str = required(CLASSES)
    max_rules: int = hyper(50, COUNT, "Rules, at most.")
    max_conditions: int = hyper(4, LAYERS, "Depth of the trees: conditions of a rule, at most.")
    min_rows: int = hyper(5, COUNT, "Fewest training rows that a rule covers.")

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        x = x.astype(np.float32)  # as the trees see it, so that a rule covers what its leaf held
        n_classes = len(self.classes_)
        lows: list[np.ndarray] = []
        highs: list[np.ndarray] = []
        counts = []
        left = np.arange(len(x))
        while len(lows) < self.max_rules and len(np.unique(y[left])) > 1:
            rule = self._rule(x[left], y[left])
            if rule is None:  # no feature tells the rows that are left apart
                break
            low, high = rule
            covered = ((x[left] > low) & (x[left] <= high)).all(axis=1)
            lows.append(low)
            highs.append(high)
            counts.append(np.bincount(y[left[covered]], minlength=n_classes))
            left = left[~covered]
        counts.append(np.bincount(y[left], minlength=n_classes))
        shape = (len(lows), x.shape[1])
        smoothed = np.array(counts) + 1.0
        self.model_ = {
            "low": np.array(lows).reshape(shape),
            "high": np.array(highs).reshape(shape),
            "p": smoothed / smoothed.sum(axis=1, keepdims=True),  # (rules + 1, C)
        }

    def _rule(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The box of the best leaf of a tree on these rows; None where it has no split."""
        from sklearn.tree import DecisionTreeClassifier

        grown = DecisionTreeClassifier(
            max_depth=self.max_conditions, min_samples_leaf=self.min_rows, random_state=self.seed
        ).fit(x, y)
        nodes, low, high = leaves(grown.tree_, x.shape[1])
        if len(nodes) == 1:
            return None
        n = grown.tree_.n_node_samples[nodes]
        commonest = grown.tree_.value[nodes, 0].max(axis=1) * n  # `value` holds shares
        best = int(np.argmax((commonest + 1) / (n + len(self.classes_))))
        return low[best], high[best]

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        x, model = x.astype(np.float32), self.model_
        which = np.full(len(x), len(model["low"]))
        for rule in reversed(range(len(model["low"]))):
            covered = ((x > model["low"][rule]) & (x <= model["high"][rule])).all(axis=1)
            which[covered] = rule
        return model["p"][which]
