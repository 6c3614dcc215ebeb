"""What do the two forests of scikit-learn have in common? Their hyperparameters and checks."""

from __future__ import annotations

from typing import Any

from .base import COUNT, ROUNDS, InvalidConfig, Number, SklearnEstimator
from .preprocessing import Policy

CRITERIA = {
    "classification": ("gini", "entropy", "log_loss"),
    "regression": ("squared_error", "absolute_error", "friedman_mse", "poisson"),
}


class Forest(SklearnEstimator):
    """Many trees on unscaled features; categories one-hot, missing values kept (a split sends them;
    the criterion absolute_error cannot, so there they are imputed).

    n_estimators: trees. criterion: `default` for the library's (gini, squared_error), or its name.
    max_features: features tried at a split: `default` for the library's (sqrt for classes, all for
    values), `sqrt`, `log2`, or a share. max_depth: 0 for no limit. min_samples_leaf: fewest rows
    in a leaf.
    """

    rules = {
        "n_estimators": ROUNDS,
        "max_features": Number(0.0, 1.0, low_open=True, words=("default", "sqrt", "log2")),
        "max_depth": Number(0, 1000, whole=True),
        "min_samples_leaf": COUNT,
    }
    policy = Policy(numeric="none", categorical="one-hot", missing="native")

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        n_estimators: int = 100,
        criterion: str = "default",
        max_features: float | str = "default",
        max_depth: int = 0,
        min_samples_leaf: int = 1,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf

    def check(self) -> None:
        super().check()
        known = CRITERIA["regression" if self.task == "regression" else "classification"]
        if self.criterion != "default" and self.criterion not in known:
            raise InvalidConfig(
                f"{type(self).__name__}: criterion for a {self.task} task must be 'default' or "
                f"one of {', '.join(known)}, got {self.criterion!r}"
            )

    def _policy(self) -> Policy:
        if self.criterion == "absolute_error":
            return Policy("none", "one-hot", "impute")
        return self.policy

    def _kinds(self) -> tuple[Any, Any]:
        """The library's classifier and regressor."""
        raise NotImplementedError

    def _build(self, n_rows: int) -> Any:
        classifier, regressor = self._kinds()
        regression = self.task == "regression"
        default = {"criterion": "squared_error", "max_features": 1.0}
        if not regression:
            default = {"criterion": "gini", "max_features": "sqrt"}
        named = {name: getattr(self, name) for name in default}
        return (regressor if regression else classifier)(
            n_estimators=self.n_estimators,
            **{name: default[name] if v == "default" else v for name, v in named.items()},
            max_depth=self.max_depth or None,
            min_samples_leaf=self.min_samples_leaf,
            n_jobs=self.threads,
            random_state=self.seed,
        )
