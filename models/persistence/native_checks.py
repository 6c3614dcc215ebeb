"""Structure of what compiled code reads from model files: trees, boosters, machines, neighbours.

XGBoost, LightGBM, CatBoost and scikit-learn follow the numbers in a file to places in memory. Here
these numbers are compared with the sizes of what they point into. The libraries read the file
before, and may crash: so all this runs in a process of its own (`checking_process.py`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .allowlist import CLASSES, NotPlain
from .serialization import name_of

MAX_DEPTH = 16  # of CatBoost's symmetric trees


def check_native(model: Any, width: int) -> None:
    """Raises NotPlain where a part of a loaded model points beyond its own nodes, the `width`
    features of a row, or the outputs of the model."""
    for part in _parts(vars(model)):
        name = name_of(part)
        check = CHECKS.get(name) or CHECKS.get(name.partition(":")[2])
        if check is not None:
            check(part, width)


def _parts(value: Any) -> Iterator[Any]:
    """A value, and all that it consists of."""
    yield value
    if isinstance(value, dict):
        inside: Any = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    elif isinstance(value, np.ndarray):
        inside = value.ravel() if value.dtype == object else ()
    else:
        inside = vars(value).values() if name_of(value) in CLASSES else ()
    for one in inside:
        yield from _parts(one)


def _need(fits: Any, what: str) -> None:
    if not fits:
        raise NotPlain(what)


def _inside(values: np.ndarray, end: int, what: str) -> None:
    """Indices from 0 on and below `end`."""
    if len(values) and (values.min() < 0 or values.max() >= end):
        raise NotPlain(f"a tree that asks for {what} which is not there")


def check_nodes(
    left: np.ndarray, right: np.ndarray, features: np.ndarray, inner: np.ndarray, width: int
) -> None:
    """The nodes of one tree, (n_nodes,) each. A walk down the tree ends inside it: the children of
    an inner node come after it and exist, and it splits on one of `width` features."""
    _need(len(inner) > 0, "a tree without nodes")
    at = np.flatnonzero(inner)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        _need(((child > at) & (child < len(inner))).all(), "a tree with a child that is not there")
    _inside(features[inner], width, "a feature")


# -- scikit-learn ---------------------------------------------------------------------------------


def _tree(tree: Any, width: int) -> None:
    state = tree.__reduce__()[2]
    nodes, values = state["nodes"], state["values"]
    _need(
        state["node_count"] == len(nodes) == len(values) and tree.n_features == width,
        "a tree of another size than it says",
    )
    left, right = nodes["left_child"], nodes["right_child"]
    check_nodes(left, right, nodes["feature"], left != -1, width)
    depth, level = 0, np.array([0])
    while len(level := level[left[level] != -1]):
        depth, level = depth + 1, np.unique([left[level], right[level]])
    _need(depth == state["max_depth"], f"a tree of depth {depth} that says {state['max_depth']}")


def _predictor(predictor: Any, width: int) -> None:
    """A histogram tree splits on category sets that exist, too."""
    nodes, bits = predictor.nodes, predictor.raw_left_cat_bitsets
    inner = nodes["is_leaf"] == 0
    check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], inner, width)
    _need(bits.ndim == 2 and bits.shape[1] in (0, 8), "categories that are no 256 bits")
    by_category = inner & (nodes["is_categorical"] != 0)
    _inside(nodes["bitset_idx"][by_category], len(bits), "categories")


def _boosting(model: Any, width: int) -> None:
    """A boosting model has a tree per round and output; its preprocessing keeps the width."""
    if hasattr(model, "_bin_mapper"):
        row = model._preprocessor.transform(np.zeros((1, width))) if model._preprocessor else None
        fits = len(model._bin_mapper.is_categorical_) == width
        fits = fits and (row is None or np.shape(row) == (1, width))
    else:
        first = model._raw_predict_init(np.zeros((1, width), dtype=np.float32))
        outputs = model.n_trees_per_iteration_
        fits = model.estimators_.ndim == 2 and first.shape == (1, outputs)
        fits = fits and model.estimators_.shape[1] == outputs
    _need(fits, "a boosting model whose parts do not fit together")


def _machine(machine: Any, width: int) -> None:
    """The shapes of a support vector machine, which libsvm does not check."""
    vectors, counts = machine.support_vectors_, np.asarray(machine._n_support)
    n_classes = len(machine.classes_) if hasattr(machine, "classes_") else 2
    pairs = n_classes * (n_classes - 1) // 2
    used = counts.sum() if type(machine).__name__ == "SVC" else counts[0]
    right = (
        vectors.ndim == 2
        and vectors.shape[1] == width
        and len(machine._probA) in (0, pairs)
        and (counts >= 0).all()
        and used == len(vectors) == len(machine.support_)
        and machine._dual_coef_.shape == (n_classes - 1, len(vectors))
        and machine._intercept_.shape == (pairs,)
        and (type(machine).__name__ == "SVR" or len(counts) == n_classes)
    )
    _need(right, "a support vector machine whose parts do not fit together")


def _neighbours(model: Any, width: int) -> None:
    """The rows of a neighbour search and their answers."""
    rows, answers = model._fit_X, np.asarray(model._y)
    fits = rows.ndim == 2 and rows.shape[1] == width and len(answers) == len(rows)
    if hasattr(model, "classes_"):
        codes = answers.dtype.kind in "iu" and 0 <= answers.min(initial=0)
        fits = fits and codes and answers.max(initial=0) < len(model.classes_)
    _need(fits, "neighbours whose rows and answers do not fit together")


# -- XGBoost --------------------------------------------------------------------------------------


def _xgboost(booster: Any, width: int) -> None:
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    params, kind = learner["learner_model_param"], learner["gradient_booster"]
    model = kind["gbtree"]["model"] if kind["name"] == "dart" else kind["model"]
    outputs = max(1, int(params["num_class"])) * int(params.get("num_target", 1))
    _need(int(params["num_feature"]) == width, f"{params['num_feature']} features, not {width}")
    _need(len(model["tree_info"]) == len(model["trees"]), "trees of no output")
    _need(all(0 <= out < outputs for out in model["tree_info"]), "a tree of an output too many")
    for tree in model["trees"]:
        left = np.asarray(tree["left_children"], dtype=np.int64)
        right = np.asarray(tree["right_children"], dtype=np.int64)
        n = len(left)
        for name in ("split_indices", "split_conditions", "base_weights", "default_left"):
            _need(len(tree[name]) == n, f"{len(tree[name])} {name} for {n} nodes")
        _need(len(right) == n, "nodes without children")
        check_nodes(left, right, np.asarray(tree["split_indices"]), left != -1, width)
        _inside(np.asarray(tree["categories_nodes"]), n, "a node")
        ends = np.add(tree["categories_segments"], tree["categories_sizes"])
        _inside(ends - 1, len(tree["categories"]), "a category")


# -- LightGBM -------------------------------------------------------------------------------------


def _lightgbm(booster: Any, width: int) -> None:
    check_lightgbm_text(booster.model_to_string(num_iteration=-1), width)


def check_lightgbm_text(text: str, width: int) -> None:
    """Raises NotPlain where a LightGBM model, as text, is not one of trees on `width` features."""
    head, *trees = _blocks(text)
    outputs = int(head["num_tree_per_iteration"])
    _need(int(head["max_feature_idx"]) + 1 == width, "another number of features")
    _need(outputs >= 1 and len(trees) % outputs == 0, f"{len(trees)} trees for {outputs} outputs")
    for tree in trees:
        leaves, n_sets = int(tree["num_leaves"]), int(tree["num_cat"])
        _need(leaves >= 1 and int(tree.get("is_linear", "0")) == 0, "a tree that is none of ours")
        _need(len(_numbers(tree, "leaf_value")) == leaves, "leaves without a value")
        if leaves == 1:
            continue
        features, left, right, kinds, limits = (
            _numbers(tree, name, leaves - 1)
            for name in ("split_feature", "left_child", "right_child", "decision_type", "threshold")
        )
        _inside(features, width, "a feature")
        for child in (left, right):  # below 0 they are leaves, from -1 on
            _need((child >= -leaves).all(), "a leaf that is not there")
            check_nodes(child, child, features, child >= 0, width)
        by_set = (kinds.astype(np.int64) & 1) == 1
        _inside(limits[by_set], n_sets, "categories")
        if n_sets:
            ends = _numbers(tree, "cat_boundaries", n_sets + 1)
            _need(ends[0] == 0 and (np.diff(ends) > 0).all(), "sets of categories out of order")
            _need(ends[-1] <= len(_numbers(tree, "cat_threshold")), "categories beyond the end")


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """The head of a LightGBM model, then its trees, as {key: value}."""
    part: dict[str, str] = {}
    for line in text.split("\nend of trees")[0].splitlines():
        key, _, value = line.partition("=")
        if key == "Tree":
            yield part
            part = {}
        part[key] = value
    yield part


def _numbers(tree: Mapping[str, str], key: str, n: int | None = None) -> np.ndarray:
    values = np.array(tree[key].split(), dtype=np.float64)
    _need(n is None or len(values) == n, f"{len(values)} values of {key}, not {n}")
    return values


# -- CatBoost -------------------------------------------------------------------------------------


def _catboost(booster: Any, width: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        booster.save_model(str(path), format="json")
        model = json.loads(path.read_bytes())
    features = model["features_info"]
    numeric, native = (features.get(f"{kind}_features", []) for kind in ("float", "categorical"))
    columns = sorted(int(f["flat_feature_index"]) for f in [*numeric, *native])
    _need(columns == list(range(width)), f"{len(columns)} features, not {width}")
    _need("trees" not in model, "trees that are not symmetric")
    _, bias = model["scale_and_bias"]
    outputs = len(bias)
    for tree in model["oblivious_trees"]:
        splits: Sequence[Any] = tree["splits"] or []
        leaves = 2 ** min(len(splits), MAX_DEPTH + 1)
        _need(len(splits) <= MAX_DEPTH, f"a tree of depth {len(splits)}")
        _need(len(tree["leaf_values"]) == leaves * outputs, "a tree with leaves too many or few")
        for split in splits:
            if split["split_type"] == "FloatFeature":
                _inside(np.array([split["float_feature_index"]]), len(numeric), "a feature")
            elif split["split_type"] == "OneHotFeature":
                _inside(np.array([split["cat_feature_index"]]), len(native), "a feature")


CHECKS: dict[str, Callable[[Any, int], None]] = {
    "Tree": _tree,
    "TreePredictor": _predictor,
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), _boosting),
    **dict.fromkeys(("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), _boosting),
    **dict.fromkeys(("SVC", "SVR"), _machine),
    **dict.fromkeys(("KNeighborsClassifier", "KNeighborsRegressor"), _neighbours),
    "xgboost.core:Booster": _xgboost,
    "lightgbm.basic:Booster": _lightgbm,
    "catboost.core:CatBoost": _catboost,
}
"""Of the classes whose parts are compared, by name; of boosters with their module."""
