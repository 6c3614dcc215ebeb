"""The models' classes, which are made when they are first asked for, for type checkers and editors.

Made by `python tests/helpers/class_types.py`; `typing` and editors alone read this file.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

from .estimator import LibraryClassifier, LibraryEstimator, LibraryRegressor, Weighted

# fmt: off
class _Common(TypedDict, total=False):
    preset: Literal["quick", "paper"]
    validation_fraction: float
    categorical_features: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

class _AdaBoost(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., n_estimators: int = ..., learning_rate: float = ...,
        max_depth: int = ..., min_samples_leaf: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class AdaBoostClassifier(Weighted, _AdaBoost, LibraryClassifier): ...
class AdaBoostRegressor(Weighted, _AdaBoost, LibraryRegressor): ...

class _AutoInt(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., attention: str = ..., order: int = ..., n_layers: int = ...,
        width: int = ..., n_heads: int = ..., attention_dropout: float = ...,
        residual_dropout: float = ..., linformer: str = ..., linformer_ratio: float = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class AutoIntClassifier(_AutoInt, LibraryClassifier): ...
class AutoIntRegressor(_AutoInt, LibraryRegressor): ...

class _Bagging(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., n_estimators: int = ..., max_samples: float = ...,
        max_depth: int = ..., min_samples_leaf: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class BaggingClassifier(Weighted, _Bagging, LibraryClassifier): ...
class BaggingRegressor(Weighted, _Bagging, LibraryRegressor): ...

class _CatBoost(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., quantile: float | None = ..., n_estimators: int = ...,
        learning_rate: float | None = ..., early_stopping_rounds: int = ..., categorical: str = ...,
        device: str = ..., max_depth: int = ..., l2_leaf_reg: float = ...,
        random_strength: float = ..., leaf_estimation_iterations: int | None = ...,
        one_hot_max_size: int | None = ..., bagging_temperature: float | None = ...,
        od_pval: float | None = ..., **common: Unpack[_Common],
    ) -> None: ...
class CatBoostClassifier(Weighted, _CatBoost, LibraryClassifier): ...
class CatBoostRegressor(Weighted, _CatBoost, LibraryRegressor): ...

class _Constant(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., statistic: str = ..., **common: Unpack[_Common],
    ) -> None: ...
class ConstantClassifier(Weighted, _Constant, LibraryClassifier): ...
class ConstantRegressor(Weighted, _Constant, LibraryRegressor): ...

class _DCNV2(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        number_width: int = ..., n_cross_layers: int = ..., n_hidden_layers: int = ...,
        width: int = ..., structure: str = ..., hidden_dropout: float = ...,
        cross_dropout: float = ..., embedding: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class DCNV2Classifier(_DCNV2, LibraryClassifier): ...
class DCNV2Regressor(_DCNV2, LibraryRegressor): ...

class _DecisionTree(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., max_depth: int = ..., min_samples_leaf: int = ...,
        ccp_alpha: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class DecisionTreeClassifier(Weighted, _DecisionTree, LibraryClassifier): ...
class DecisionTreeRegressor(Weighted, _DecisionTree, LibraryRegressor): ...

class _DiscriminantAnalysis(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., pooling: float = ..., shrinkage: float = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class DiscriminantAnalysisClassifier(_DiscriminantAnalysis, LibraryClassifier): ...

class _EBM(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., max_bins: int = ..., max_leaves: int = ...,
        interactions: str | int = ..., learning_rate: float = ..., max_rounds: int = ...,
        early_stopping_rounds: int = ..., smoothing_rounds: int = ...,
        interaction_smoothing_rounds: int = ..., min_samples_leaf: int = ...,
        min_hessian: float = ..., validation_size: float = ..., outer_bags: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class EBMClassifier(_EBM, LibraryClassifier): ...
class EBMRegressor(_EBM, LibraryRegressor): ...

class _ElasticNet(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., alpha: float = ..., l1_ratio: float = ...,
        max_iter: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class ElasticNetClassifier(Weighted, _ElasticNet, LibraryClassifier): ...
class ElasticNetRegressor(Weighted, _ElasticNet, LibraryRegressor): ...

class _ExtraTrees(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., n_estimators: int = ..., criterion: str = ...,
        max_features: float | str = ..., max_depth: int = ..., min_samples_leaf: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class ExtraTreesClassifier(Weighted, _ExtraTrees, LibraryClassifier): ...
class ExtraTreesRegressor(Weighted, _ExtraTrees, LibraryRegressor): ...

class _FeedForward(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., block: str = ..., normalization: str = ..., activation: str = ...,
        init: str = ..., n_layers: int = ..., width: int = ..., shape: str = ...,
        dropout: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class FeedForwardClassifier(_FeedForward, LibraryClassifier): ...
class FeedForwardRegressor(_FeedForward, LibraryRegressor): ...

class _FTTransformer(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        attention: str = ..., order: int = ..., n_layers: int = ..., width: int = ...,
        n_heads: int = ..., attention_dropout: float = ..., residual_dropout: float = ...,
        linformer: str = ..., linformer_ratio: float = ..., ffn_factor: float = ...,
        activation: str = ..., ffn_dropout: float = ..., linformer_from: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class FTTransformerClassifier(_FTTransformer, LibraryClassifier): ...
class FTTransformerRegressor(_FTTransformer, LibraryRegressor): ...

class _GaussianProcess(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., kernel: str = ..., length_scale: float = ...,
        noise: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class GaussianProcessClassifier(_GaussianProcess, LibraryClassifier): ...
class GaussianProcessRegressor(_GaussianProcess, LibraryRegressor): ...

class _GradientBoosting(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., quantile: float | None = ..., n_estimators: int = ...,
        learning_rate: float = ..., early_stopping_rounds: int = ..., max_depth: int = ...,
        subsample: float = ..., min_samples_leaf: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class GradientBoostingClassifier(Weighted, _GradientBoosting, LibraryClassifier): ...
class GradientBoostingRegressor(Weighted, _GradientBoosting, LibraryRegressor): ...

class _GrowNet(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., epochs_per_stage: int = ..., correct_epochs: int = ...,
        hidden: int = ..., embedding: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class GrowNetClassifier(_GrowNet, LibraryClassifier): ...
class GrowNetRegressor(_GrowNet, LibraryRegressor): ...

class _HistGradientBoosting(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., quantile: float | None = ..., n_estimators: int = ...,
        learning_rate: float = ..., early_stopping_rounds: int = ..., categorical: str = ...,
        max_leaf_nodes: int = ..., max_depth: int = ..., min_samples_leaf: int = ...,
        l2_regularization: float = ..., max_features: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class HistGradientBoostingClassifier(Weighted, _HistGradientBoosting, LibraryClassifier): ...
class HistGradientBoostingRegressor(Weighted, _HistGradientBoosting, LibraryRegressor): ...

class _Hopular(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., steps: int = ..., eval_every: int = ..., patience: int = ...,
        lr: float = ..., batch_size: int = ..., width: int = ..., max_width: int = ...,
        n_blocks: int = ..., n_nets: int = ..., beta_scaling: float = ...,
        dropout_input: float = ..., dropout_hopfield: float = ..., dropout_output: float = ...,
        p_mask: float = ..., p_replace: float = ..., gamma: float = ..., schedule: str = ...,
        weight_decay: float = ..., average: float = ..., stop_on: str = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class HopularClassifier(_Hopular, LibraryClassifier): ...
class HopularRegressor(_Hopular, LibraryRegressor): ...

class _KNN(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., n_neighbors: int = ..., weights: str = ...,
        p: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class KNNClassifier(_KNN, LibraryClassifier): ...
class KNNRegressor(_KNN, LibraryRegressor): ...

class _LightGBM(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., quantile: float | None = ..., n_estimators: int = ...,
        learning_rate: float = ..., early_stopping_rounds: int = ..., categorical: str = ...,
        device: str = ..., num_leaves: int = ..., max_depth: int = ...,
        min_child_samples: int = ..., min_child_weight: float = ..., subsample: float = ...,
        subsample_freq: int = ..., colsample_bytree: float = ..., min_split_gain: float = ...,
        reg_alpha: float = ..., reg_lambda: float = ..., boosting_type: str = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class LightGBMClassifier(Weighted, _LightGBM, LibraryClassifier): ...
class LightGBMRegressor(Weighted, _LightGBM, LibraryRegressor): ...

class _Linear(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., C: float = ..., max_iter: int = ...,
        numeric: str = ..., **common: Unpack[_Common],
    ) -> None: ...
class LinearClassifier(Weighted, _Linear, LibraryClassifier): ...
class LinearRegressor(Weighted, _Linear, LibraryRegressor): ...

class _MET(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., pretrain_epochs: int = ..., pretrain_lr: float = ...,
        attention: str = ..., order: int = ..., embedding: int = ..., n_heads: int = ...,
        n_layers: int = ..., n_decoder_layers: int = ..., dropout: float = ...,
        mask_percent: float = ..., adversarial_from: int = ..., hidden: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class METClassifier(_MET, LibraryClassifier): ...
class METRegressor(_MET, LibraryRegressor): ...

class _METCheAtt(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., pretrain_epochs: int = ..., pretrain_lr: float = ...,
        attention: str = ..., order: int = ..., embedding: int = ..., n_heads: int = ...,
        n_layers: int = ..., n_decoder_layers: int = ..., dropout: float = ...,
        mask_percent: float = ..., adversarial_from: int = ..., hidden: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class METCheAttClassifier(_METCheAtt, LibraryClassifier): ...
class METCheAttRegressor(_METCheAtt, LibraryRegressor): ...

class _MLP(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        number_width: int = ..., n_layers: int = ..., width_first: int = ...,
        width_middle: int = ..., width_last: int = ..., dropout: float = ..., embedding: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class MLPClassifier(_MLP, LibraryClassifier): ...
class MLPRegressor(_MLP, LibraryRegressor): ...

class _MLPSklearn(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., hidden_layer_sizes: Sequence[int] = ...,
        alpha: float = ..., batch_size: int = ..., learning_rate_init: float = ...,
        max_iter: int = ..., early_stopping: bool = ..., **common: Unpack[_Common],
    ) -> None: ...
class MLPSklearnClassifier(_MLPSklearn, LibraryClassifier): ...
class MLPSklearnRegressor(_MLPSklearn, LibraryRegressor): ...

class _ModernNCA(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        number_width: int = ..., width: int = ..., n_blocks: int = ..., hidden: int = ...,
        dropout: float = ..., temperature: float = ..., sample_rate: float = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class ModernNCAClassifier(_ModernNCA, LibraryClassifier): ...
class ModernNCARegressor(_ModernNCA, LibraryRegressor): ...

class _NaiveBayes(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., var_smoothing: float = ..., alpha: float = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class NaiveBayesClassifier(_NaiveBayes, LibraryClassifier): ...

class _NearestCentroid(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., shrinkage: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class NearestCentroidClassifier(_NearestCentroid, LibraryClassifier): ...

class _NODE(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., n_layers: int = ..., n_trees: int = ..., depth: int = ...,
        tree_dim: int = ..., choice: str = ..., embedding: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class NODEClassifier(_NODE, LibraryClassifier): ...
class NODERegressor(_NODE, LibraryRegressor): ...

class _NPT(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., steps: int = ..., eval_every: int = ..., patience: int = ...,
        lr: float = ..., batch_size: int = ..., width: int = ..., max_width: int = ...,
        attention: str = ..., order: int = ..., schedule: str = ..., schedule_share: float = ...,
        lookahead: bool = ..., n_layers: int = ..., n_heads: int = ..., aba: bool = ...,
        dropout: float = ..., dropout_weights: float = ..., p_feature: float = ...,
        p_target: float = ..., tradeoff: float = ..., tradeoff_schedule: str = ...,
        balanced: bool = ..., transductive: bool = ..., val_in_context: bool = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class NPTClassifier(_NPT, LibraryClassifier): ...
class NPTRegressor(_NPT, LibraryRegressor): ...

class _PLS(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., n_components: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class PLSClassifier(_PLS, LibraryClassifier): ...
class PLSRegressor(_PLS, LibraryRegressor): ...

class _RandomForest(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., n_estimators: int = ..., criterion: str = ...,
        max_features: float | str = ..., max_depth: int = ..., min_samples_leaf: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class RandomForestClassifier(Weighted, _RandomForest, LibraryClassifier): ...
class RandomForestRegressor(Weighted, _RandomForest, LibraryRegressor): ...

class _RealMLP(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., quantile: float | None = ..., epochs: int = ...,
        batch_size: int = ..., n_layers: int = ..., width: int = ..., activation: str = ...,
        embedding: str = ..., sigma: float = ..., front_scale: bool = ..., lr: float = ...,
        dropout: float = ..., weight_decay: float = ..., smoothing: float | str = ...,
        stop_on: str = ..., **common: Unpack[_Common],
    ) -> None: ...
class RealMLPClassifier(_RealMLP, LibraryClassifier): ...
class RealMLPRegressor(_RealMLP, LibraryRegressor): ...

class _ResNet(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        number_width: int = ..., n_layers: int = ..., width: int = ..., hidden_factor: float = ...,
        hidden_dropout: float = ..., residual_dropout: float = ..., embedding: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class ResNetClassifier(_ResNet, LibraryClassifier): ...
class ResNetRegressor(_ResNet, LibraryRegressor): ...

class _RuleList(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., max_rules: int = ..., max_conditions: int = ...,
        min_rows: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class RuleListClassifier(_RuleList, LibraryClassifier): ...

class _SAINT(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., pretrain_epochs: int = ..., pretrain_lr: float = ...,
        attention: str = ..., order: int = ..., style: str = ..., n_layers: int = ...,
        width: int = ..., n_heads: int = ..., ffn_dropout: float = ..., hidden: int = ...,
        p_cutmix: float = ..., mixup: float = ..., temperature: float = ...,
        reference_rows: int = ..., batch_prediction: bool = ..., **common: Unpack[_Common],
    ) -> None: ...
class SAINTClassifier(_SAINT, LibraryClassifier): ...
class SAINTRegressor(_SAINT, LibraryRegressor): ...

class _SAINTCheAtt(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., pretrain_epochs: int = ..., pretrain_lr: float = ...,
        attention: str = ..., order: int = ..., style: str = ..., n_layers: int = ...,
        width: int = ..., n_heads: int = ..., ffn_dropout: float = ..., hidden: int = ...,
        p_cutmix: float = ..., mixup: float = ..., temperature: float = ...,
        reference_rows: int = ..., batch_prediction: bool = ..., **common: Unpack[_Common],
    ) -> None: ...
class SAINTCheAttClassifier(_SAINTCheAtt, LibraryClassifier): ...
class SAINTCheAttRegressor(_SAINTCheAtt, LibraryRegressor): ...

class _SNN(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        number_width: int = ..., n_layers: int = ..., width_first: int = ...,
        width_middle: int = ..., width_last: int = ..., dropout: float = ..., embedding: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class SNNClassifier(_SNN, LibraryClassifier): ...
class SNNRegressor(_SNN, LibraryRegressor): ...

class _Stacking(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., n_parts: int = ..., C: float = ...,
        n_neighbors: int = ..., min_samples_leaf: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class StackingClassifier(_Stacking, LibraryClassifier): ...
class StackingRegressor(_Stacking, LibraryRegressor): ...

class _SVM(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., C: float = ..., gamma: float | str = ...,
        epsilon: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class SVMClassifier(_SVM, LibraryClassifier): ...
class SVMRegressor(_SVM, LibraryRegressor): ...

class _TabM(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        number_width: int = ..., variant: str = ..., k: int = ..., n_blocks: int = ...,
        width: int = ..., dropout: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class TabMClassifier(_TabM, LibraryClassifier): ...
class TabMRegressor(_TabM, LibraryRegressor): ...

class _TabNet(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., n_steps: int = ..., width: int = ..., width_attention: int = ...,
        relaxation: float = ..., sparsity: float = ..., decay_rate: float = ...,
        decay_steps: int = ..., n_shared: int = ..., n_own: int = ..., mask: str = ...,
        virtual_batch: int = ..., momentum: float = ..., input_norm: bool = ...,
        embedding: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class TabNetClassifier(_TabNet, LibraryClassifier): ...
class TabNetRegressor(_TabNet, LibraryRegressor): ...

class _TabR(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., number_embedding: str = ..., number_frequencies: int = ...,
        number_sigma: float = ..., number_bins: int = ..., number_leaf_rows: int = ...,
        number_width: int = ..., width: int = ..., n_encoder: int = ..., n_predictor: int = ...,
        hidden_factor: float = ..., context_size: int = ..., context_dropout: float = ...,
        hidden_dropout: float = ..., residual_dropout: float = ..., **common: Unpack[_Common],
    ) -> None: ...
class TabRClassifier(_TabR, LibraryClassifier): ...
class TabRRegressor(_TabR, LibraryRegressor): ...

class _TabTransformer(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., pretrain_epochs: int = ..., pretrain_lr: float = ...,
        attention: str = ..., order: int = ..., n_layers: int = ..., width: int = ...,
        n_heads: int = ..., d_head: int = ..., hidden: int = ..., attention_dropout: float = ...,
        ffn_dropout: float = ..., mask_rate: float = ..., ce_weight: float = ...,
        numeric_tokens: bool = ..., identity_width: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class TabTransformerClassifier(_TabTransformer, LibraryClassifier): ...
class TabTransformerRegressor(_TabTransformer, LibraryRegressor): ...

class _TabTransformerCheAtt(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., pretrain_epochs: int = ..., pretrain_lr: float = ...,
        attention: str = ..., order: int = ..., n_layers: int = ..., width: int = ...,
        n_heads: int = ..., d_head: int = ..., hidden: int = ..., attention_dropout: float = ...,
        ffn_dropout: float = ..., mask_rate: float = ..., ce_weight: float = ...,
        numeric_tokens: bool = ..., identity_width: int = ..., **common: Unpack[_Common],
    ) -> None: ...
class TabTransformerCheAttClassifier(_TabTransformerCheAtt, LibraryClassifier): ...
class TabTransformerCheAttRegressor(_TabTransformerCheAtt, LibraryRegressor): ...

class _VIME(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., device: str = ..., precision: str = ...,
        compile: bool = ..., quantile: float | None = ..., epochs: int = ..., patience: int = ...,
        batch_size: int = ..., lr: float = ..., weight_decay: float = ..., numeric: str = ...,
        stop_on: str = ..., pretrain_epochs: int = ..., pretrain_lr: float = ..., width: int = ...,
        hidden: int = ..., p_mask: float = ..., feature_weight: float = ..., semi: bool = ...,
        consistency: float = ..., n_copies: int = ..., frozen: bool = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class VIMEClassifier(_VIME, LibraryClassifier): ...
class VIMERegressor(_VIME, LibraryRegressor): ...

class _XGBoost(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., quantile: float | None = ..., n_estimators: int = ...,
        learning_rate: float = ..., early_stopping_rounds: int = ..., categorical: str = ...,
        device: str = ..., max_depth: int = ..., min_child_weight: float = ...,
        subsample: float = ..., colsample_bytree: float = ..., colsample_bylevel: float = ...,
        gamma: float = ..., reg_alpha: float = ..., reg_lambda: float = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class XGBoostClassifier(Weighted, _XGBoost, LibraryClassifier): ...
class XGBoostRegressor(Weighted, _XGBoost, LibraryRegressor): ...

class _XRFM(LibraryEstimator):
    def __init__(
        self, *, target_transform: str = ..., bandwidth: float = ..., exponent: float = ...,
        reg: float = ..., iters: int = ..., diag: bool = ..., leaf_size: int = ...,
        **common: Unpack[_Common],
    ) -> None: ...
class XRFMClassifier(_XRFM, LibraryClassifier): ...
class XRFMRegressor(_XRFM, LibraryRegressor): ...
