"""TabICL: a Transformer pretrained on synthetic tables (Qu et al. 2025), by its library."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..hyperparameters import Number, hyper
from ..optional import optional
from .checkpoint_file import without_downloads
from .estimator import InContextEstimator


class TabICL(InContextEstimator):
    """TabICL of the library `tabicl` (extra `tabicl`), with a checkpoint file of the user's.

    There is no training: the rows are the context of a forward pass. Categories are ordinal codes,
    gaps are imputed with a 0/1 column. Validation rows are not used. A fit cannot be resumed, and
    the seed draws the orders of columns and classes in the ensemble.

    Examples
    --------
    >>> from tabsweep.models.in_context.tabicl import TabICL
    >>> TabICL(task="regression", n_estimators=4).n_estimators
    4

    References
    ----------
    Qu et al. 2025, TabICL, arXiv:2502.05564.
    """

    model = "tabicl"

    outlier_threshold: float = hyper(
        4.0,
        Number(0.0, 1000.0, low_open=True),
        "Numbers so many standard deviations away are clipped.",
    )

    def _made(self) -> Any:
        file = self._file()  # before the library: without a checkpoint it is of no use
        library = optional("tabicl", model="tabicl", extra="tabicl")
        common = {
            "model_path": str(file.path),
            "allow_auto_download": False,
            "n_estimators": self.n_estimators,
            "outlier_threshold": self.outlier_threshold,
            "device": "cpu",
            "use_amp": False,
            "random_state": self.seed,
            "n_jobs": self.threads,
        }
        if self.task == "regression":
            return library.TabICLRegressor(**common)
        return library.TabICLClassifier(softmax_temperature=self.softmax_temperature, **common)

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        super()._fit(x, y, val)
        # The library keeps its passes by scaling in the order of a set of texts, which differs from
        # process to process, and sums in that order: the last bits would differ, too.
        passes = self.model_.ensemble_generator_
        for name in ("ensemble_configs_", "feature_shuffles_", "class_shuffles_"):
            held: Any = getattr(passes, name, {})  # a regression has no orders of classes
            for scaling in sorted(held):
                held.move_to_end(scaling)

    def _quiet(self) -> AbstractContextManager[None]:
        names = ("tabicl._sklearn.classifier", "tabicl._sklearn.regressor", "tabicl._sklearn.base")
        return without_downloads(self.model, *names)
