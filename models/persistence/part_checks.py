"""Parts of scikit-learn's models, compared before its compiled code follows their numbers.

Boosters are compared by their libraries; what these let through ends the process that reads a file
first (`trial_prediction.check_apart`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .allowlist import NotPlain

State = Mapping[str, Any]  # the attributes of an object of scikit-learn


def _need(fits: Any, what: str) -> None:
    if not fits:
        raise NotPlain(what)


def _check_nodes(left: np.ndarray, right: np.ndarray, inner: np.ndarray) -> None:
    """The nodes of one tree, (n_nodes,) each. A walk down the tree ends inside it: the children of
    an inner node come after it and exist."""
    _need(len(inner) > 0, "a tree without nodes")
    at = np.flatnonzero(inner)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        _need(((child > at) & (child < len(inner))).all(), "a tree with a child that is not there")


def _length(indices: np.ndarray) -> int:
    """The least length of an array that has these indices; NotPlain for one below 0."""
    indices = indices.astype(np.int64)
    _need(indices.min(initial=0) >= 0, "an index below 0, which is not there")
    return int(indices.max(initial=-1)) + 1


def check_tree(state: State, n_features: int) -> int:
    """NotPlain where a `sklearn.tree._tree.Tree` on so many features points beyond its nodes or
    features, or says another size or depth than it has; returns n_features."""
    nodes, values = state["nodes"], state["values"]
    _need(state["node_count"] == len(nodes) == len(values), "a tree of another size than it says")
    left, right = nodes["left_child"], nodes["right_child"]
    _check_nodes(left, right, left != -1)
    asked = _length(nodes["feature"][left != -1])
    _need(asked <= n_features, "a tree that asks for a feature which is not there")
    depth, level = 0, np.array([0])
    while len(level := level[left[level] != -1]):
        depth, level = depth + 1, np.unique([left[level], right[level]])
    _need(depth == state["max_depth"], f"a tree of depth {depth} that says {state['max_depth']}")
    return n_features


def _check_predictor(state: State) -> int:
    """A tree of histogram boosting, which splits on sets of categories, too."""
    nodes, bits = state["nodes"], state["raw_left_cat_bitsets"]
    inner = nodes["is_leaf"] == 0
    _check_nodes(nodes["left"], nodes["right"], inner)
    _need(bits.ndim == 2 and bits.shape[1] in (0, 8), "categories that are no 256 bits")
    sets = nodes["bitset_idx"][inner & (nodes["is_categorical"] != 0)]
    _need(_length(sets) <= len(bits), "a tree that asks for categories which are not there")
    return _length(nodes["feature_idx"][inner])


def _check_histograms(state: State) -> int:
    """Histogram boosting, whose own preprocessing keeps the width of a row."""
    width, made = state["n_features_in_"], state["_preprocessor"]
    row = made.transform(np.zeros((1, width))) if made else np.zeros((1, width))
    fits = np.shape(row) == (1, len(state["_bin_mapper"].is_categorical_)) == (1, width)
    _need(fits, "a boosting model whose parts do not fit together")
    return width


def _check_rounds(state: State) -> int:
    """Gradient boosting, which has a tree for each round and output."""
    fits = state["estimators_"].shape[1:] == (state["n_trees_per_iteration_"],)
    _need(fits, "a boosting model whose parts do not fit together")
    return 0


def _check_machine(state: State) -> int:
    """A support vector machine, whose shapes libsvm does not compare."""
    vectors, counts = state["support_vectors_"], np.asarray(state["_n_support"])
    n_classes = len(state["classes_"]) if "classes_" in state else 2
    pairs = n_classes * (n_classes - 1) // 2
    used = counts.sum() if "classes_" in state else counts[0]
    fits = (
        vectors.ndim == 2
        and vectors.shape[1] == state["n_features_in_"]
        and (counts >= 0).all()
        and used == len(vectors) == len(state["support_"])
        and len(counts) == n_classes
        and len(state["_probA"]) in (0, pairs)
        and state["_dual_coef_"].shape == (n_classes - 1, len(vectors))
        and state["_intercept_"].shape == (pairs,)
    )
    _need(fits, "a support vector machine whose parts do not fit together")
    return state["n_features_in_"]


def _check_neighbours(state: State) -> int:
    """The rows of a neighbour search and their answers."""
    rows, answers = state["_fit_X"], np.asarray(state["_y"])
    fits = rows.ndim == 2 and rows.shape == (len(answers), state["n_features_in_"])
    if "classes_" in state:
        fits = fits and answers.dtype.kind in "iu" and _length(answers) <= len(state["classes_"])
    _need(fits, "neighbours whose rows and answers do not fit together")
    return state["n_features_in_"]


MACHINES, NEIGHBOURS = ("SVC", "SVR"), ("KNeighborsClassifier", "KNeighborsRegressor")
EXACT = (*MACHINES, *NEIGHBOURS)
"""Classes whose compiled code reads rows of just the width of their own, without a comparison."""
CHECKS: dict[str, Callable[[State], int]] = {
    "TreePredictor": _check_predictor,
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), _check_rounds),
    "HistGradientBoostingClassifier": _check_histograms,
    "HistGradientBoostingRegressor": _check_histograms,
    **dict.fromkeys(MACHINES, _check_machine),
    **dict.fromkeys(NEIGHBOURS, _check_neighbours),
}
"""Class -> a check of its attributes: NotPlain where they do not fit together, else how many
features a row must have: at least, or exactly (EXACT)."""
