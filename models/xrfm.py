"""xRFM: a tree of recursive feature machines (Beaglehole et al. 2025), by its authors' library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from .base import Estimator, softmax
from .hyperparameters import DEPTH, PENALTY, POSITIVE, SWITCH, Number, hyper
from .optional import optional, undisturbed
from .policy import Policy

LEAST = 1e-300  # a share of a class is at least so large before its logarithm
ASKED = 256  # rows of a prediction: always so many, as the rounding of products depends on it


class XRFM(Estimator):
    """Kernel machines whose kernel learns which directions of the features matter, in the leaves of
    a tree; of the library `xrfm` (extra `xrfm`), with its Laplace kernel.

    Numbers are standardised and categories are 0/1 columns. Of the iterations the one with the
    least validation loss is kept; without validation rows, with the least loss on training rows.
    A fit cannot be resumed. With several leaves an answer depends on the rows beside it by
    rounding.

    DIFF(Beaglehole 2025, the authors' code): there the size of a leaf depends on the memory of the
    machine, here it is a setting. The kernel of single coordinates is for GPUs alone and no choice.

    Examples
    --------
    >>> from tabsweep.models.xrfm import XRFM
    >>> XRFM(task="regression", iters=3).iters
    3

    References
    ----------
    Beaglehole et al. 2025, xRFM, arXiv:2508.10053.
    """

    computes_in = "float32"

    policy = Policy("standard", "one-hot", "impute", "standard")

    bandwidth: float = hyper(10.0, POSITIVE, "Width of the kernel.")
    exponent: float = hyper(
        1.0, Number(0.0, 2.0, low_open=True), "Exponent of the distance in the kernel."
    )
    reg: float = hyper(1e-3, PENALTY, "Ridge penalty.")
    iters: int = hyper(5, DEPTH, "How often the directions are learned anew.")
    diag: bool = hyper(
        True, SWITCH, "Whether only a weight for each feature is learned, and no directions."
    )
    leaf_size: int = hyper(
        5000,
        Number(10, 1_000_000, whole=True),
        "Training rows of a leaf at most; memory grows with its square.",
    )

    def _early_stopping(self) -> bool:
        return True  # the validation rows choose the iteration

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        library = optional("xrfm", model="xrfm", extra="xrfm")
        kernel = {
            "kernel": "l2",
            "bandwidth": self.bandwidth,
            "exponent": self.exponent,
            "diag": self.diag,
            "bandwidth_mode": "constant",
        }
        search = {"reg": self.reg, "iters": self.iters, "verbose": False, "early_stop_rfm": True}
        made = library.xRFM(
            rfm_params={"model": kernel, "fit": search},
            device="cpu",
            classification_mode="prevalence",
            n_threads=self.threads,
            random_state=self.seed,
            verbose=False,
        )
        made.max_leaf_size = made.min_subset_size = self.leaf_size
        kind = np.float32 if self.task == "regression" else np.int64
        held, wanted = val or (x, y)
        if len(held) == 1:  # the library takes the labels of a single row for one value
            held, wanted = np.repeat(held, 2, axis=0), np.repeat(wanted, 2)
        self.model_ = made.fit(x, y.astype(kind), held, np.asarray(wanted).astype(kind))

    def _asked(self, ask: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:  # (N, outputs)
        """The library's answers for x, in blocks of one size, the last one filled up."""
        answers = []
        for at in range(0, len(x), ASKED):
            rows = np.minimum(np.arange(at, at + ASKED), len(x) - 1)
            answers.append(np.asarray(ask(x[rows]), dtype=np.float64)[: len(x) - at])
        return np.concatenate(answers)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self._asked(self.model_.predict, x)[:, 0]

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = self._asked(self.model_.predict_proba, x)[:, : len(self.classes_)]
        return softmax(np.log(np.maximum(p, LEAST)))

    def _limits(self) -> AbstractContextManager[None]:
        return undisturbed(self.seed, self.threads)
