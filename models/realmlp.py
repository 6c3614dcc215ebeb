"""RealMLP: a perceptron with tuned details (Holzmüller et al. 2024), by the authors' library."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd

from .base import PENALTY, Estimator, Number, OneOf
from .optional import optional, undisturbed
from .policy import Policy

ACTIVATIONS = ("auto", "relu", "selu", "mish")
EMBEDDINGS = ("none", "pl", "plr", "pbld")


class RealMLP(Estimator):
    """RealMLP with its tuned defaults, of the library `pytabkit` (extra `realmlp`).

    The library scales numbers, encodes categories and scales the target; gaps in numbers get the
    training mean and a 0/1 column here, as it takes none. Of the epochs it keeps the one with the
    least validation loss; without validation rows, with the least loss on training rows. A fit
    cannot be resumed.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    epochs : int, default 256, in [1, 100000]
        Epochs; rates, dropout and weight decay follow schedules of this length.
    batch_size : int, default 256, in [2, 1000000]
        Rows of a step.
    n_layers : int, default 3, in [1, 1000]
        Hidden layers.
    width : int, default 256, in [1, 65536]
        Width of the hidden layers.
    activation : {"auto", "relu", "selu", "mish"}, default "auto"
        Activation; `auto`: SELU for classes, Mish for values.
    embedding : {"none", "pl", "plr", "pbld"}, default "pbld"
        Vectors of numbers: periodic ones (`pl`, `plr`), or with biases and the number itself.
    sigma : float, default 0.1, above 0
        Standard deviation of the frequencies at first.
    front_scale : bool, default True
        Whether each input has a trained factor.
    lr : float, default 0.0, at least 0
        Largest learning rate; 0: 0.04 for classes, 0.2 for values.
    dropout : float, default 0.15, in [0, 1)
        Dropout after each hidden layer.
    weight_decay : float, default 0.02, at least 0
        Weight decay.
    smoothing : float, default 0.1, in [0, 1)
        Label smoothing, for classes alone; 0 is right where log loss or AUC counts.

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

    rules = {
        "epochs": Number(1, 100_000, whole=True),
        "batch_size": Number(2, 1_000_000, whole=True),
        "n_layers": Number(1, 1000, whole=True),
        "width": Number(1, 65_536, whole=True),
        "activation": OneOf(ACTIVATIONS),
        "embedding": OneOf(EMBEDDINGS),
        "sigma": Number(0.0, low_open=True),
        "front_scale": OneOf((True, False)),
        "lr": PENALTY,
        "dropout": Number(0.0, 1.0, high_open=True),
        "weight_decay": PENALTY,
        "smoothing": Number(0.0, 1.0, high_open=True),
    }
    policy = Policy("shift", "native", "impute", "shift")

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        epochs: int = 256,
        batch_size: int = 256,
        n_layers: int = 3,
        width: int = 256,
        activation: str = "auto",
        embedding: str = "pbld",
        sigma: float = 0.1,
        front_scale: bool = True,
        lr: float = 0.0,
        dropout: float = 0.15,
        weight_decay: float = 0.02,
        smoothing: float = 0.1,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.epochs = epochs
        self.batch_size = batch_size
        self.n_layers = n_layers
        self.width = width
        self.activation = activation
        self.embedding = embedding
        self.sigma = sigma
        self.front_scale = front_scale
        self.lr = lr
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.smoothing = smoothing

    def _early_stopping(self) -> bool:
        return True  # the validation rows choose the epoch

    def _settings(self) -> dict[str, Any]:
        """The configuration under the library's names."""
        settings: dict[str, Any] = {
            "n_epochs": self.epochs,
            "batch_size": self.batch_size,
            "hidden_sizes": [self.width] * self.n_layers,
            "num_emb_type": self.embedding,
            "plr_sigma": self.sigma,
            "add_front_scale": self.front_scale,
            "p_drop": self.dropout,
            "wd": self.weight_decay,
        }
        if self.activation != "auto":
            settings["act"] = self.activation
        if self.lr:
            settings["lr"] = self.lr
        if self.task != "regression":
            settings |= {"use_ls": self.smoothing > 0, "ls_eps": self.smoothing}
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
            **self._settings(),
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
