"""RealMLP: a perceptron with tuned details (Holzmüller et al. 2024), by the authors' library."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd

from .hyperparameters import (
    COUNT,
    DROPOUT,
    LAYERS,
    PENALTY,
    POSITIVE,
    SWITCH,
    WIDTH,
    InvalidConfig,
    Number,
    OneOf,
    hyper,
)
from .optional import optional, undisturbed
from .policy import Policy
from .quantile import QuantileEstimator

HARD = {"metric": "class_error", "balanced_accuracy": "1-balanced_accuracy", "mcc": "1-mcc"}
SOFT = {"log_loss": "cross_entropy", "roc_auc": "1-auc_ovr", "brier": "brier"}
OF_VALUES = {"metric": "rmse", "mae": "mae"}  # {`stop_on`: the library's name}
ACTIVATIONS = ("auto", "relu", "selu", "mish")
EMBEDDINGS = ("none", "pl", "plr", "pbld")


class RealMLP(QuantileEstimator):
    """RealMLP with its tuned defaults, of the library `pytabkit` (extra `realmlp`).

    The library scales numbers, encodes categories and scales the target; gaps in numbers get the
    training mean and a 0/1 column here, as it takes none. Of the epochs it keeps the one that is
    best by `stop_on` on validation rows; without validation rows, on training rows. A fit cannot be
    resumed. A sweep sets `stop_on` to the metric that it ranks by.

    Examples
    --------
    >>> from tabsweep.models.realmlp import RealMLP
    >>> RealMLP(task="regression", epochs=64).epochs
    64

    References
    ----------
    Holzmüller et al. 2024, Better by Default, arXiv:2407.04491.
    """

    computes_in = "float32"

    policy = Policy("shift", "native", "impute", "shift")

    epochs: int = hyper(
        256, COUNT, "Epochs; rates, dropout and weight decay follow schedules of this length."
    )
    batch_size: int = hyper(256, Number(2, 1_000_000, whole=True), "Rows of a step.")
    n_layers: int = hyper(3, LAYERS, "Hidden layers.")
    width: int = hyper(256, WIDTH, "Width of the hidden layers.")
    activation: str = hyper(
        "auto", OneOf(ACTIVATIONS), "Activation; `auto`: SELU for classes, Mish for values."
    )
    embedding: str = hyper(
        "pbld",
        OneOf(EMBEDDINGS),
        "Vectors of numbers: periodic ones (`pl`, `plr`), or with biases and the number itself.",
    )
    sigma: float = hyper(0.1, POSITIVE, "Standard deviation of the frequencies at first.")
    front_scale: bool = hyper(True, SWITCH, "Whether each input has a trained factor.")
    lr: float = hyper(0.0, PENALTY, "Largest learning rate; 0: 0.04 for classes, 0.2 for values.")
    dropout: float = hyper(0.15, DROPOUT, "Dropout after each hidden layer.")
    weight_decay: float = hyper(0.02, PENALTY, "Weight decay.")
    smoothing: float | str = hyper(
        "auto",
        Number(0.0, 1.0, high_open=True, words=("auto",)),
        "Label smoothing, for classes alone; `auto`: 0.1, the library's, where predicted classes "
        "choose the epoch, and 0 where their probabilities do, as the paper advises.",
    )
    stop_on: str = hyper(
        "metric",
        OneOf((*HARD, *SOFT, "mae")),
        "What chooses the epoch: `metric` (share of wrong classes or RMSE), or another metric by "
        "its name. ROC AUC is log loss where a class has no validation row.",
    )

    def check(self) -> None:
        """Raises `InvalidConfig` where `stop_on` is of another task."""
        super().check()
        if self.stop_on not in self._stops():
            raise InvalidConfig(
                f"RealMLP: stop_on of a {self.task} task must be one of "
                f"{', '.join(self._stops())}, got {self.stop_on!r}"
            )

    def _stops(self) -> dict[str, str]:
        return OF_VALUES if self.task == "regression" else HARD | SOFT

    def _early_stopping(self) -> bool:
        return True  # the validation rows choose the epoch

    def _settings(self, held: np.ndarray) -> dict[str, Any]:
        """The configuration under the library's names; held: validation targets, (N,)."""
        settings: dict[str, Any] = {
            "n_epochs": self.epochs,
            "batch_size": self.batch_size,
            "hidden_sizes": [self.width] * self.n_layers,
            "num_emb_type": self.embedding,
            "plr_sigma": self.sigma,
            "add_front_scale": self.front_scale,
            "p_drop": self.dropout,
            "wd": self.weight_decay,
            "val_metric_name": self._stops()[self.stop_on],
        }
        if self.activation != "auto":
            settings["act"] = self.activation
        if self.lr:
            settings["lr"] = self.lr
        if self.quantile is not None:
            loss = f"pinball({self.quantile})"
            settings |= {"train_metric_name": loss, "val_metric_name": loss}
        if self.task != "regression":
            smoothing = self.smoothing
            if isinstance(smoothing, str):
                smoothing = 0.1 if self.stop_on in HARD else 0.0
            settings |= {"use_ls": smoothing > 0, "ls_eps": smoothing}
            if self.stop_on == "roc_auc" and len(np.unique(held)) < len(self.classes_):
                settings["val_metric_name"] = SOFT["log_loss"]
        return settings

    def _frame(self, x: np.ndarray) -> pd.DataFrame:
        """Rows as the library takes them: codes as categories, absent ones as gaps."""
        columns: dict[str, Any] = {}
        sizes = iter(self.preprocessor_.cardinalities_)
        for j, categorical in enumerate(self.preprocessor_.categorical_):
            if categorical:
                levels = [str(k) for k in range(next(sizes))]
                columns[f"c{j}"] = pd.Categorical.from_codes(x[:, j].astype(int), levels)
            else:
                columns[f"n{j}"] = x[:, j]
        return pd.DataFrame(columns)

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        kind = "Regressor" if self.task == "regression" else "Classifier"
        frame, held = self._frame(x), val or (x, y)
        made = getattr(self._library(), f"RealMLP_TD_{kind}")(
            device="cpu",
            random_state=self.seed,
            n_threads=self.threads,
            **self._settings(held[1]),
        )
        self.model_ = made.fit(
            frame,
            y,
            self._frame(held[0]),
            held[1],
            cat_col_names=[name for name in frame if name.startswith("c")],
        )

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(self._frame(x))

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = self.model_.predict_proba(self._frame(x)).astype(np.float64)
        return p / p.sum(axis=1, keepdims=True)

    def _limits(self) -> AbstractContextManager[None]:
        self._library()  # its import turns the loggers on that are silent below
        return undisturbed(self.seed, self.threads)

    @staticmethod
    def _library() -> Any:
        return optional("pytabkit", model="realmlp", extra="realmlp")
