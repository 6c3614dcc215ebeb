"""Allowlist of the classes in model files, and checks of arrays that compiled code relies on.

scikit-learn's trees and libsvm read memory at positions that arrays name: such arrays from a file
are checked here before the libraries see them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_OWN = "tabsweep.models"


class NotPlain(Exception):
    """A value cannot be written as plain data, or plain data was not written by `save_model`."""


CLASSES = frozenset(
    {
        f"{_OWN}.policy:Policy",
        f"{_OWN}.preprocessing:Policy",  # its place in older files
        f"{_OWN}.preprocessing:Preprocessor",
        f"{_OWN}.preprocessing:_Categories",
        f"{_OWN}.preprocessing:_Numbers",
        "sklearn.compose._column_transformer:ColumnTransformer",
        "sklearn.dummy:DummyClassifier",
        "sklearn.dummy:DummyRegressor",
        "sklearn.ensemble._bagging:BaggingClassifier",
        "sklearn.ensemble._bagging:BaggingRegressor",
        "sklearn.ensemble._forest:ExtraTreesClassifier",
        "sklearn.ensemble._forest:ExtraTreesRegressor",
        "sklearn.ensemble._forest:RandomForestClassifier",
        "sklearn.ensemble._forest:RandomForestRegressor",
        "sklearn.ensemble._gb:GradientBoostingClassifier",
        "sklearn.ensemble._gb:GradientBoostingRegressor",
        "sklearn.ensemble._hist_gradient_boosting.binning:_BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting:HistGradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting:HistGradientBoostingRegressor",
        "sklearn.ensemble._hist_gradient_boosting.predictor:TreePredictor",
        "sklearn.ensemble._weight_boosting:AdaBoostClassifier",
        "sklearn.ensemble._weight_boosting:AdaBoostRegressor",
        "sklearn.gaussian_process._gpc:GaussianProcessClassifier",
        "sklearn.gaussian_process._gpc:_BinaryGaussianProcessClassifierLaplace",
        "sklearn.gaussian_process._gpr:GaussianProcessRegressor",
        "sklearn.gaussian_process.kernels:ConstantKernel",
        "sklearn.gaussian_process.kernels:Matern",
        "sklearn.gaussian_process.kernels:Product",
        "sklearn.gaussian_process.kernels:RBF",
        "sklearn.gaussian_process.kernels:Sum",
        "sklearn.gaussian_process.kernels:WhiteKernel",
        "sklearn.linear_model._coordinate_descent:ElasticNet",
        "sklearn.linear_model._logistic:LogisticRegression",
        "sklearn.linear_model._ridge:Ridge",
        "sklearn.multiclass:OneVsRestClassifier",
        "sklearn.multiclass:_ConstantPredictor",
        "sklearn.naive_bayes:CategoricalNB",
        "sklearn.naive_bayes:GaussianNB",
        "sklearn.neighbors._classification:KNeighborsClassifier",
        "sklearn.neighbors._regression:KNeighborsRegressor",
        "sklearn.neural_network._multilayer_perceptron:MLPClassifier",
        "sklearn.neural_network._multilayer_perceptron:MLPRegressor",
        "sklearn.preprocessing._data:QuantileTransformer",
        "sklearn.preprocessing._encoders:OrdinalEncoder",
        "sklearn.preprocessing._function_transformer:FunctionTransformer",
        "sklearn.preprocessing._label:LabelBinarizer",
        "sklearn.preprocessing._label:LabelEncoder",
        "sklearn.svm._classes:SVC",
        "sklearn.svm._classes:SVR",
        "sklearn.tree._classes:DecisionTreeClassifier",
        "sklearn.tree._classes:DecisionTreeRegressor",
        "sklearn.tree._classes:ExtraTreeClassifier",
        "sklearn.tree._classes:ExtraTreeRegressor",
    }
)
"""Classes that are saved as their attributes and created again without running their code."""

LOSSES = ("HalfBinomialLoss", "HalfMultinomialLoss", "HalfSquaredError")
TYPES: dict[str, type] = {
    t.__name__: t for t in (np.float64, np.float32, np.int64, np.int32, bool, int, float, str)
}
DROPPED = frozenset(
    {
        "numpy.random.mtrand:RandomState",
        "numpy.random._generator:Generator",
        "sklearn.neural_network._stochastic_optimizers:AdamOptimizer",
    }
)
"""Classes of fitted attributes that no prediction reads; they come back as None."""


def check_children(left: np.ndarray, right: np.ndarray, inner: np.ndarray) -> None:
    """Children come after their parent and exist, so a walk down the tree ends inside it."""
    at = np.flatnonzero(inner)
    for child in (left.astype(np.int64), right.astype(np.int64)):
        if ((child <= at) | (child >= len(inner))).any():
            raise NotPlain("a tree with a child that is not there")


def check_predictor(predictor: Any, width: int) -> None:
    """A histogram tree splits on the `width` features and on category sets that exist."""
    nodes, bits = predictor.nodes, predictor.raw_left_cat_bitsets
    inner = nodes["is_leaf"] == 0
    check_children(nodes["left"][inner], nodes["right"][inner], inner)
    if (nodes["feature_idx"][inner] >= width).any() or (nodes["feature_idx"][inner] < 0).any():
        raise NotPlain("a tree that asks for a feature which is not there")
    if bits.ndim != 2 or (len(bits) and bits.shape[1] != 8):
        raise NotPlain("categories that are no 256 bits")
    by_category = inner & (nodes["is_categorical"] != 0)
    if by_category.any() and nodes["bitset_idx"][by_category].max() >= len(bits):
        raise NotPlain("a tree that asks for categories which are not there")


def check_boosting(model: Any, width: int) -> None:
    """A boosting model has a tree per round and output; its preprocessing keeps the width."""
    rounds = model.n_trees_per_iteration_
    if hasattr(model, "_bin_mapper"):
        known = len(model._bin_mapper.is_categorical_) == width
        row = model._preprocessor.transform(np.zeros((1, width))) if model._preprocessor else None
        fits = known and (row is None or np.shape(row) == (1, width))
    else:
        first = model._raw_predict_init(np.zeros((1, width), dtype=np.float32))
        fits = model.estimators_.ndim == 2 and first.shape == (1, model.estimators_.shape[1])
        fits = fits and first.shape[1] == rounds
    if not fits:
        raise NotPlain("a boosting model whose parts do not fit together")


def check_machine(machine: Any, width: int) -> None:
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
    if not right:
        raise NotPlain("a support vector machine whose parts do not fit together")


def neighbour_tree(model: Any, width: int) -> Any:
    """The search tree over the training rows, rebuilt; None for a brute-force search."""
    from sklearn.neighbors import KDTree

    rows, answers = model._fit_X, np.asarray(model._y)
    fits = rows.ndim == 2 and rows.shape[1] == width and len(answers) == len(rows)
    if hasattr(model, "classes_"):
        codes = answers.dtype.kind in "iu" and 0 <= answers.min(initial=0)
        fits = fits and codes and answers.max(initial=0) < len(model.classes_)
    if not fits:
        raise NotPlain("neighbours whose rows and answers do not fit together")
    if model._fit_method == "brute":
        return None
    if model._fit_method != "kd_tree":
        raise NotPlain(f"a neighbour search by {model._fit_method!r}")
    options = model.effective_metric_params_ or {}
    return KDTree(rows, model.leaf_size, metric=model.effective_metric_, **options)
