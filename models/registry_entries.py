"""The registered models, as data: one `ModelSpec` each.

A model's class is imported when the model is made, never here. To add a model: an entry here, its
module `models/<module>.py` and its space file `models/spaces/<name>.toml`.
"""

from __future__ import annotations

from typing import Any

from .model_spec import SKLEARN, ModelSpec
from .policy import Policy


def _own(
    name: str, target: str, summary: str, paper: str, policy: Policy, **rest: Any
) -> ModelSpec:
    return ModelSpec(
        name,
        f"tabsweep.models.{target}",
        summary=summary,
        paper=paper,
        preprocessing=policy,
        **rest,
    )


_SCALED = Policy("standard", "one-hot", "impute", "standard")
_SCALED_X = Policy("standard", "one-hot", "impute", "none")
_TREE = Policy("shift", "one-hot", "native", "shift")
_ONE_HOT = Policy("shift", "one-hot", "native", "standard")
_IMPUTED = Policy("shift", "one-hot", "impute", "standard")
_NATIVE = Policy("shift", "native", "native", "standard")
_CELLS = Policy("standard", "native", "native", "standard")
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
# What the preset "quick" of the library sets.
_SHORT: dict[str, Any] = {"epochs": 100, "patience": 16, "stop_on": "loss", "batch_size": 128}
_PRETRAINED: dict[str, Any] = {**_SHORT, "epochs": 60, "pretrain_epochs": 10}
_TOKENS: dict[str, Any] = {"width": 32, "n_layers": 2, "lr": 3e-3}
_PERCEPTRON: dict[str, Any] = {"width_first": 128, "width_middle": 128, "width_last": 128}

MODELS: dict[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        _own(
            "adaboost",
            "adaboost:AdaBoost",
            "small trees on rows that are weighted anew in every round",
            "Freund and Schapire 1997, doi:10.1006/jcss.1997.1504",
            _IMPUTED,
            sample_weight=True,
        ),
        _own(
            "autoint",
            "autoint:AutoInt",
            "attention between features, all of which are read",
            "Song et al. 2019, arXiv:1810.11921; Gorishniy et al. 2021, F.10",
            _ROWS,
            **_FEATURES,
            quick={**_SHORT, **_TOKENS},
        ),
        _own(
            "bagging",
            "bagging:Bagging",
            "trees on bootstrap samples, all features at every split",
            "Breiman 1996, doi:10.1007/BF00058655",
            _TREE,
            sample_weight=True,
        ),
        _own(
            "catboost",
            "catboost:CatBoost",
            "boosting of symmetric trees, at home with categories",
            "Prokhorenkova et al. 2018, arXiv:1706.09516",
            _NATIVE,
            libraries=("catboost", *SKLEARN),
            **_GBDT_GPU,
        ),
        _own(
            "constant",
            "constant:Constant",
            "class frequencies, or the target's mean",
            "",
            Policy(),
            family="baseline",
            sample_weight=True,
        ),
        _own(
            "dcn-v2",
            "dcn_v2:DCNV2",
            "crossed features beside a multi-layer perceptron",
            "Wang et al. 2021, arXiv:2008.13535; Gorishniy et al. 2021, F.9",
            _ROWS,
            **_EMBEDDED,
            quick={**_SHORT, "lr": 3e-3, "width": 128},
        ),
        _own(
            "decision-tree",
            "decision_tree:DecisionTree",
            "a single pruned tree",
            "Breiman et al. 1984, Classification and Regression Trees",
            _ONE_HOT,
            sample_weight=True,
            title="Decision tree",
        ),
        _own(
            "discriminant-analysis",
            "discriminant_analysis:DiscriminantAnalysis",
            "linear and quadratic discriminant analysis, regularised",
            "Friedman 1989, doi:10.1080/01621459.1989.10478752",
            _SCALED_X,
            tasks=_CLASSES,
            memory_bytes_per_column_pair=64.0,
            title="Discriminant analysis",
        ),
        _own(
            "ebm",
            "ebm:EBM",
            "a sum of curves of single features and of pairs (extra `ebm`)",
            "Lou et al. 2013, doi:10.1145/2487575.2487579",
            _NATIVE,
            libraries=("interpret-core", *SKLEARN),
        ),
        _own(
            "elastic-net",
            "elastic_net:ElasticNet",
            "logistic or linear regression with L1 and L2 penalties",
            "Zou and Hastie 2005, doi:10.1111/j.1467-9868.2005.00503.x",
            _SCALED,
            sample_weight=True,
            title="Elastic net",
        ),
        _own(
            "extra-trees",
            "extra_trees:ExtraTrees",
            "many trees with random thresholds",
            "Geurts et al. 2006, doi:10.1007/s10994-006-6226-1",
            _TREE,
            sample_weight=True,
            title="Extra trees",
        ),
        _own(
            "feed-forward",
            "feed_forward:FeedForward",
            "plain, normalised, highway, residual or self-normalising layers",
            "Klambauer et al. 2017, arXiv:1706.02515",
            _SCALED,
            **_FEATURES,
            title="Feed-forward",
        ),
        _own(
            "ft-transformer",
            "ft_transformer:FTTransformer",
            "attention between features, read from one token",
            "Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.3",
            _ROWS,
            **_EMBEDDED,
            title="FT-Transformer",
        ),
        _own(
            "gaussian-process",
            "gaussian_process:GaussianProcess",
            "exact Gaussian process, small data only",
            "Rasmussen and Williams 2006, Gaussian Processes for Machine Learning",
            _SCALED,
            max_rows=2000,
            max_classes=10,
            memory_bytes_per_pair=64.0,
            title="Gaussian process",
        ),
        _own(
            "gradient-boosting",
            "gradient_boosting:GradientBoosting",
            "exact gradient boosting of scikit-learn",
            "Friedman 2001, doi:10.1214/aos/1013203451",
            _IMPUTED,
            **_GBDT,
            title="Gradient boosting",
        ),
        _own(
            "grownet",
            "grownet:GrowNet",
            "boosting of small networks, corrected together",
            "Badirli et al. 2020, arXiv:2002.07971; Gorishniy et al. 2021, F.8",
            _ROWS,
            tasks=("binary", "regression"),
            **_FEATURES,
            quick={"epochs": 20, "hidden": 32, "lr": 5e-3},
        ),
        _own(
            "hist-gradient-boosting",
            "hist_gradient_boosting:HistGradientBoosting",
            "histogram gradient boosting of scikit-learn",
            "Ke et al. 2017 (LightGBM), which it follows",
            _NATIVE,
            **_GBDT,
            title="Hist. gradient boosting",
        ),
        _own(
            "hopular",
            "hopular.estimator:Hopular",
            "Hopfield networks that look up the training rows in every block",
            "Schaefl et al. 2022, arXiv:2206.00664",
            _CELLS,
            family="row attention",
            **_NETWORK,
            gpu_mb=4000.0,
        ),
        _own(
            "knn",
            "knn:KNN",
            "k-nearest neighbours",
            "Cover and Hart 1967, doi:10.1109/TIT.1967.1053964",
            _SCALED_X,
            max_rows=1_000_000,
            title="k-NN",
        ),
        _own(
            "lightgbm",
            "lightgbm:LightGBM",
            "leaf-wise boosting on binned features",
            "Ke et al. 2017, LightGBM (NeurIPS)",
            _NATIVE,
            libraries=("lightgbm", *SKLEARN),
            gpu_device="tabsweep.models.boosting_devices:lightgbm_device",
            **_GBDT_GPU,
        ),
        _own(
            "linear",
            "linear:Linear",
            "logistic or ridge regression",
            "Hoerl and Kennard 1970, doi:10.2307/1267351",
            _SCALED,
            sample_weight=True,
        ),
        _own(
            "met",
            "met:MET",
            "a masked autoencoder of columns, trained on as a classifier",
            "Majmundar et al. 2022, arXiv:2206.08564; Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
            quick={**_PRETRAINED, "lr": 3e-3},
        ),
        _own(
            "met-cheatt",
            "met:METCheAtt",
            "MET with Chebyshev polynomials of its attention",
            "Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
            quick={**_PRETRAINED, "lr": 3e-3},
            title="MET-CheAtt",
        ),
        _own(
            "mlp",
            "mlp:MLP",
            "multi-layer perceptron with embedded categories",
            "Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.1",
            _ROWS,
            **_EMBEDDED,
            quick={**_SHORT, **_PERCEPTRON, "lr": 3e-3},
        ),
        _own(
            "mlp-sklearn",
            "mlp_sklearn:MLPSklearn",
            "scikit-learn's multi-layer perceptron",
            "Rumelhart et al. 1986, doi:10.1038/323533a0",
            _SCALED,
            title="MLP (scikit-learn)",
        ),
        _own(
            "modern-nca",
            "modern_nca:ModernNCA",
            "softly nearest training rows under a learned distance",
            "Ye et al. 2025, arXiv:2407.03257",
            _STANDARD_ROWS,
            **_EMBEDDED,
        ),
        _own(
            "naive-bayes",
            "naive_bayes:NaiveBayes",
            "features that are independent within a class",
            "John and Langley 1995 (UAI)",
            Policy("standard", "ordinal", "impute", "none"),
            tasks=_CLASSES,
            title="Naive Bayes",
        ),
        _own(
            "nearest-centroid",
            "nearest_centroid:NearestCentroid",
            "nearest shrunken mean of a class",
            "Tibshirani et al. 2002, doi:10.1073/pnas.082099299",
            _SCALED_X,
            tasks=_CLASSES,
        ),
        _own(
            "node",
            "node:NODE",
            "ensembles of differentiable oblivious trees",
            "Popov et al. 2020, arXiv:1909.06312; Gorishniy et al. 2021, F.6",
            _ROWS,
            **_FEATURES,
            quick={**_SHORT, "n_trees": 256, "depth": 5, "lr": 1e-2},
        ),
        _own(
            "npt",
            "npt.estimator:NPT",
            "attention between datapoints and between attributes",
            "Kossen et al. 2021, arXiv:2106.02584",
            _CELLS,
            family="row attention",
            **_NETWORK,
            gpu_mb=4000.0,
        ),
        _own(
            "pls",
            "pls:PLS",
            "partial least squares",
            "Wold et al. 1984, doi:10.1137/0905052",
            _SCALED,
        ),
        _own(
            "random-forest",
            "random_forest:RandomForest",
            "many trees on bootstrap samples",
            "Breiman 2001, doi:10.1023/A:1010933404324",
            _TREE,
            sample_weight=True,
            title="Random forest",
        ),
        _own(
            "realmlp",
            "realmlp:RealMLP",
            "a perceptron with many tuned details (extra `realmlp`)",
            "Holzmüller et al. 2024, arXiv:2407.04491",
            Policy("shift", "native", "impute", "shift"),
            family="feature network",
            libraries=("pytabkit", "torch", "numpy", "pandas", "scikit-learn"),
            memory_bytes_per_cell=200.0,
        ),
        _own(
            "resnet",
            "resnet:ResNet",
            "residual network of single rows",
            "Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.2",
            _ROWS,
            **_EMBEDDED,
        ),
        _own(
            "rule-list",
            "rule_list:RuleList",
            "an ordered list of rules, each the best leaf of a small tree",
            "Frank and Witten 1998 (ICML)",
            Policy("shift", "one-hot", "impute", "none"),
            tasks=_CLASSES,
            title="Rule list",
        ),
        _own(
            "saint",
            "saint.estimator:SAINT",
            "attention between features and between rows, pre-trained on damaged rows",
            "Somepalli et al. 2021, arXiv:2106.01342; Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_SAINT,
            quick={**_PRETRAINED, "hidden": 64, "lr": 3e-3},
        ),
        _own(
            "saint-cheatt",
            "saint.estimator:SAINTCheAtt",
            "SAINT with Chebyshev polynomials of its attention",
            "Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_SAINT,
            quick={**_PRETRAINED, "hidden": 64, "lr": 3e-3},
            title="SAINT-CheAtt",
        ),
        _own(
            "snn",
            "snn:SNN",
            "self-normalising multi-layer perceptron",
            "Klambauer et al. 2017, arXiv:1706.02515",
            _ROWS,
            **_EMBEDDED,
            quick={**_SHORT, **_PERCEPTRON, "lr": 3e-3},
        ),
        _own(
            "stacking",
            "stacking:Stacking",
            "a linear model of other models' out-of-fold predictions",
            "Wolpert 1992, doi:10.1016/S0893-6080(05)80023-1",
            _SCALED,
        ),
        _own(
            "svm",
            "svm:SVM",
            "support vector machine, RBF kernel",
            "Cortes and Vapnik 1995, doi:10.1007/BF00994018",
            _SCALED,
            max_rows=20_000,
        ),
        _own(
            "tabm",
            "tabm:TabM",
            "an ensemble of perceptrons that share most weights",
            "Gorishniy et al. 2025, arXiv:2410.24210",
            _ROWS,
            **_EMBEDDED | {"libraries": ("tabm", *_EMBEDDED["libraries"])},
        ),
        _own(
            "tabnet",
            "tabnet:TabNet",
            "steps that look at few features of a row through masks",
            "Arik and Pfister 2021, arXiv:1908.07442; Gorishniy et al. 2021, F.7",
            _ROWS,
            **_FEATURES,
            quick={**_SHORT, "lr": 2e-2},
        ),
        _own(
            "tabr",
            "tabr:TabR",
            "a network that reads the nearest training rows beside its own",
            "Gorishniy et al. 2024, arXiv:2307.14338",
            _ROWS,
            **_EMBEDDED,
        ),
        _own(
            "tabtransformer",
            "tabtransformer:TabTransformer",
            "attention between features, pre-trained by hiding cells",
            "Huang et al. 2020, arXiv:2012.06678; Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
            quick={**_PRETRAINED, "lr": 3e-3},
        ),
        _own(
            "tabtransformer-cheatt",
            "tabtransformer:TabTransformerCheAtt",
            "TabTransformer with Chebyshev polynomials of its attention",
            "Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
            title="TabTransformer-CheAtt",
        ),
        _own(
            "vime",
            "vime:VIME",
            "an encoder that learned which values were exchanged, and a predictor",
            "Yoon et al. 2020, NeurIPS",
            Policy("min-max", "one-hot", "impute", "standard"),
            **_FEATURES,
            quick={**_PRETRAINED, "lr": 3e-3},
        ),
        _own(
            "xgboost",
            "xgboost:XGBoost",
            "regularised boosting on binned features",
            "Chen and Guestrin 2016, arXiv:1603.02754",
            _ONE_HOT,
            libraries=("xgboost", *SKLEARN),
            **_GBDT_GPU,
        ),
        _own(
            "xrfm",
            "xrfm:XRFM",
            "a tree of kernel machines that learn which features matter (extra `xrfm`)",
            "Beaglehole et al. 2025, arXiv:2508.10053",
            _SCALED,
            libraries=("xrfm", "torch", "numpy", "pandas", "scikit-learn"),
            memory_bytes_per_cell=2000.0,
            title="xRFM",
        ),
    )
}
