"""Structure of boosters from files: their libraries check too little of what they read.

XGBoost, LightGBM and CatBoost follow the numbers in a file to places in memory. Here these numbers
are compared with the sizes of what they point into, for every tree.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .allowlist import NotPlain, check_children

MAX_DEPTH = 16  # of CatBoost's symmetric trees


def check_booster(booster: Any, width: int) -> None:
    """Raises NotPlain where a tree of a booster points beyond its own nodes, the `width` features
    of a row, or the outputs of the model. The library may crash: call it where that is no harm."""
    kind = type(booster).__module__.partition(".")[0]
    {"xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}[kind](booster, width)


def _need(fits: Any, what: str) -> None:
    if not fits:
        raise NotPlain(f"a booster with {what}")


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
        left, right = (np.asarray(tree[f"{side}_children"], dtype=np.int64) for side in _SIDES)
        n = len(left)
        for name in ("split_indices", "split_conditions", "base_weights", "default_left"):
            _need(len(tree[name]) == n, f"{len(tree[name])} {name} for {n} nodes")
        _need(n > 0 and len(right) == n, "nodes without children")
        inner = left != -1
        check_children(left[inner], right[inner], inner)
        _inside(np.asarray(tree["split_indices"])[inner], width, "a feature")
        _inside(np.asarray(tree["categories_nodes"]), n, "a node")
        ends = np.add(tree["categories_segments"], tree["categories_sizes"])
        _inside(ends - 1, len(tree["categories"]), "a category")


_SIDES = ("left", "right")


def _inside(values: np.ndarray, end: int, what: str) -> None:
    """Indices from 0 on and below `end`."""
    if len(values) and (values.min() < 0 or values.max() >= end):
        raise NotPlain(f"a booster that asks for {what} which is not there")


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
        at = np.arange(leaves - 1)
        for child in (left, right):
            _need((child >= -leaves).all(), "a leaf that is not there")
            down = child >= 0
            _need(((child > at) & (child < leaves - 1))[down].all(), "a child that is not there")
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
