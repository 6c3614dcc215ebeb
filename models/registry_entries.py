"""The registered models, as data: one `ModelSpec` each.

A model's class is imported when the model is made, never here. To add a model: an entry here, its
module `models/<module>.py` and its file `models/spaces/<name>.toml`, which says in a line what the
model is, and names its paper.
"""

from __future__ import annotations

from typing import Any

from .model_spec import SKLEARN, ModelSpec
from .policy import Policy


def _own(name: str, target: str, policy: Policy, **rest: Any) -> ModelSpec:
    return ModelSpec(name, f"tabsweep.models.{target}", preprocessing=policy, **rest)


_SCALED = Policy("standard", "one-hot", "impute", "standard")
_SCALED_X = Policy("standard", "one-hot", "impute", "none")
_TREE = Policy("shift", "one-hot", "native", "shift")
_ONE_HOT = Policy("shift", "one-hot", "native", "standard")
_IMPUTED = Policy("shift", "one-hot", "impute", "standard")
_NATIVE = Policy("shift", "native", "native", "standard")
_CELLS = Policy("standard", "native", "native", "standard")
_UNUSED = Policy("none", "ordinal", "native")
_CLASSES = ("binary", "multiclass")
_GBDT: dict[str, Any] = {"family": "gbdt", "resource": "n_estimators", "sample_weight": True}
_GBDT_GPU: dict[str, Any] = {**_GBDT, "gpu_mb": 1500.0, "gpu_bytes_per_cell": 16.0}
_ROWS = Policy("quantile", "ordinal", "impute", "standard")
_STANDARD_ROWS = Policy("standard", "ordinal", "impute", "standard")
_FEATURES: dict[str, Any] = {
    "family": "feature network",
    "resource": "epochs",
    "libraries": ("torch", "numpy", "pandas", "scikit-learn"),
    "memory_bytes_per_cell": 200.0,
    "gpu_mb": 2000.0,
}
_EMBEDDED: dict[str, Any] = {  # numbers may become vectors
    **_FEATURES,
    "libraries": ("torch", "rtdl_num_embeddings", "numpy", "pandas", "scikit-learn"),
}
_SAINT = {  # 12 weights for each pair of a row's numbers, 8 a column; seven times in all
    **_FEATURES,
    "family": "row attention",
    "memory_bytes_per_column_pair": 7 * 4 * 12 * 8**2,
}
_NETWORK: dict[str, Any] = {
    "resource": "steps",
    "libraries": ("torch", "numpy", "pandas", "scikit-learn"),
    "memory_bytes_per_cell": 5000.0,  # of `quick` 1,000; the defaults take up to 50,000
}

MODELS: dict[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        _own("adaboost", "adaboost:AdaBoost", _IMPUTED, sample_weight=True),
        _own("autoint", "autoint:AutoInt", _ROWS, **_FEATURES),
        _own("bagging", "bagging:Bagging", _TREE, sample_weight=True),
        _own(
            "catboost", "catboost:CatBoost", _NATIVE, libraries=("catboost", *SKLEARN), **_GBDT_GPU
        ),
        _own("constant", "constant:Constant", _UNUSED, family="baseline", sample_weight=True),
        _own("dcn-v2", "dcn_v2:DCNV2", _ROWS, **_EMBEDDED),
        _own("decision-tree", "decision_tree:DecisionTree", _ONE_HOT, sample_weight=True),
        _own(
            "discriminant-analysis",
            "discriminant_analysis:DiscriminantAnalysis",
            _SCALED_X,
            tasks=_CLASSES,
            memory_bytes_per_column_pair=64.0,
        ),
        _own("ebm", "ebm:EBM", _NATIVE, libraries=("interpret-core", *SKLEARN)),
        _own("elastic-net", "elastic_net:ElasticNet", _SCALED, sample_weight=True),
        _own("extra-trees", "extra_trees:ExtraTrees", _TREE, sample_weight=True),
        _own("feed-forward", "feed_forward:FeedForward", _SCALED, **_FEATURES),
        _own("ft-transformer", "ft_transformer:FTTransformer", _ROWS, **_EMBEDDED),
        _own(
            "gaussian-process",
            "gaussian_process:GaussianProcess",
            _SCALED,
            max_rows=2000,
            max_classes=10,
            memory_bytes_per_pair=64.0,
        ),
        _own("gradient-boosting", "gradient_boosting:GradientBoosting", _IMPUTED, **_GBDT),
        _own("grownet", "grownet:GrowNet", _ROWS, tasks=("binary", "regression"), **_FEATURES),
        _own(
            "hist-gradient-boosting",
            "hist_gradient_boosting:HistGradientBoosting",
            _NATIVE,
            **_GBDT,
        ),
        _own(
            "hopular",
            "hopular.estimator:Hopular",
            _CELLS,
            family="row attention",
            **_NETWORK,
            gpu_mb=4000.0,
        ),
        _own("knn", "knn:KNN", _SCALED_X, max_rows=1_000_000),
        _own(
            "lightgbm",
            "lightgbm:LightGBM",
            _NATIVE,
            libraries=("lightgbm", *SKLEARN),
            gpu_device="tabsweep.models.boosting_devices:lightgbm_device",
            **_GBDT_GPU,
        ),
        _own("linear", "linear:Linear", _SCALED, sample_weight=True),
        _own("met", "met:MET", _STANDARD_ROWS, **_FEATURES),
        _own("met-cheatt", "met:METCheAtt", _STANDARD_ROWS, **_FEATURES),
        _own("mlp", "mlp:MLP", _ROWS, **_EMBEDDED),
        _own("mlp-sklearn", "mlp_sklearn:MLPSklearn", _SCALED),
        _own("modern-nca", "modern_nca:ModernNCA", _STANDARD_ROWS, **_EMBEDDED),
        _own(
            "naive-bayes",
            "naive_bayes:NaiveBayes",
            Policy("standard", "ordinal", "impute", "none"),
            tasks=_CLASSES,
        ),
        _own("nearest-centroid", "nearest_centroid:NearestCentroid", _SCALED_X, tasks=_CLASSES),
        _own("node", "node:NODE", _ROWS, **_FEATURES),
        _own("npt", "npt.estimator:NPT", _CELLS, family="row attention", **_NETWORK, gpu_mb=4000.0),
        _own("pls", "pls:PLS", _SCALED),
        _own("random-forest", "random_forest:RandomForest", _TREE, sample_weight=True),
        _own(
            "realmlp",
            "realmlp:RealMLP",
            Policy("shift", "native", "impute", "shift"),
            family="feature network",
            libraries=("pytabkit", "torch", "numpy", "pandas", "scikit-learn"),
            memory_bytes_per_cell=200.0,
        ),
        _own("resnet", "resnet:ResNet", _ROWS, **_EMBEDDED),
        _own(
            "rule-list",
            "rule_list:RuleList",
            Policy("shift", "one-hot", "impute", "none"),
            tasks=_CLASSES,
        ),
        _own("saint", "saint.estimator:SAINT", _STANDARD_ROWS, **_SAINT),
        _own("saint-cheatt", "saint.estimator:SAINTCheAtt", _STANDARD_ROWS, **_SAINT),
        _own("snn", "snn:SNN", _ROWS, **_EMBEDDED),
        _own("stacking", "stacking:Stacking", _SCALED),
        _own("svm", "svm:SVM", _SCALED, max_rows=20_000),
        _own(
            "tabm",
            "tabm:TabM",
            _ROWS,
            **_EMBEDDED | {"libraries": ("tabm", *_EMBEDDED["libraries"])},
        ),
        _own("tabnet", "tabnet:TabNet", _ROWS, **_FEATURES),
        _own("tabr", "tabr:TabR", _ROWS, **_EMBEDDED),
        _own("tabtransformer", "tabtransformer:TabTransformer", _STANDARD_ROWS, **_FEATURES),
        _own(
            "tabtransformer-cheatt",
            "tabtransformer:TabTransformerCheAtt",
            _STANDARD_ROWS,
            **_FEATURES,
        ),
        _own("vime", "vime:VIME", Policy("min-max", "one-hot", "impute", "standard"), **_FEATURES),
        _own("xgboost", "xgboost:XGBoost", _ONE_HOT, libraries=("xgboost", *SKLEARN), **_GBDT_GPU),
        _own(
            "xrfm",
            "xrfm:XRFM",
            _SCALED,
            libraries=("xrfm", "torch", "numpy", "pandas", "scikit-learn"),
            memory_bytes_per_cell=2000.0,
        ),
    )
}
