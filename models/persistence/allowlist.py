"""The classes that model files may hold, and those of which nothing is kept."""

from __future__ import annotations

import numpy as np

_OWN = "tabsweep.models"


class NotPlain(Exception):
    """A value cannot be written as plain data, or plain data was not written by `save_model`."""


_SKLEARN = {
    "compose._column_transformer": "ColumnTransformer",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "ensemble._forest": "ExtraTreesClassifier ExtraTreesRegressor "
    "RandomForestClassifier RandomForestRegressor",
    "ensemble._gb": "GradientBoostingClassifier GradientBoostingRegressor",
    "ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier "
    "HistGradientBoostingRegressor",
    "ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
    "gaussian_process._gpc": "GaussianProcessClassifier _BinaryGaussianProcessClassifierLaplace",
    "gaussian_process._gpr": "GaussianProcessRegressor",
    "gaussian_process.kernels": "ConstantKernel Matern Product RBF Sum WhiteKernel",
    "linear_model._coordinate_descent": "ElasticNet",
    "linear_model._logistic": "LogisticRegression",
    "linear_model._ridge": "Ridge",
    "multiclass": "OneVsRestClassifier _ConstantPredictor",
    "naive_bayes": "CategoricalNB GaussianNB",
    "neighbors._classification": "KNeighborsClassifier",
    "neighbors._regression": "KNeighborsRegressor",
    "neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "preprocessing._data": "QuantileTransformer",
    "preprocessing._encoders": "OrdinalEncoder",
    "preprocessing._function_transformer": "FunctionTransformer",
    "preprocessing._label": "LabelBinarizer LabelEncoder",
    "svm._classes": "SVC SVR",
    "tree._classes": "DecisionTreeClassifier DecisionTreeRegressor "
    "ExtraTreeClassifier ExtraTreeRegressor",
}
CLASSES = frozenset(
    {
        f"{_OWN}.policy:Policy",
        *(f"{_OWN}.preprocessing:{name}" for name in ("Preprocessor", "_Categories", "_Numbers")),
        *(f"sklearn.{module}:{n}" for module, names in _SKLEARN.items() for n in names.split()),
    }
)
"""Classes that are saved as their attributes and created again without running their code."""
NATIVE = tuple(f"sklearn.{module}." for module in ("ensemble", "neighbors", "svm", "tree"))
"""Modules whose compiled code reads memory at positions that attributes name."""

LOSSES: dict[str, tuple[str, ...]] = {
    "HalfBinomialLoss": (),
    "HalfMultinomialLoss": ("n_classes",),
    "HalfSquaredError": (),
    "PinballLoss": ("quantile",),
}
"""Losses of scikit-learn that predictions read, with the arguments that make them again."""
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
