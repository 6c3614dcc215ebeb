"""Base of networks of single rows whose numbers may be embedded: settings, and bins from rows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..hyperparameters import WIDTH, Number, OneOf, hyper
from .estimator import Rows
from .layers.number_embedding import BINNED, KINDS, TREE, Embedding, NumberVectors, edges_of
from .row_network import RowNetwork
from .trainer import Task


class EmbeddedRows(RowNetwork):
    """Base of networks of single rows whose numbers may become vectors (Gorishniy et al. 2022).

    After `fit`, with piecewise-linear embeddings: `bins_`, the edges of each number's bins, learned
    from training rows alone.

    DIFF(Gorishniy 2022): a split of the trees of `ple-tree` gains 1e-4 at least, as on the page of
    the library; in the paper that was searched, too.
    """

    ple_version: ClassVar[str] = "A"
    number_activation: ClassVar[bool] = True  # a ReLU behind the linear layer of a number

    number_embedding: str = hyper(
        "none",
        OneOf(KINDS),
        "Vectors of numbers: ReLU of a line (`linear-relu`); ReLU of a linear layer of sines "
        "and cosines whose frequencies are trained, one layer a number (`plr`) or one for all "
        "(`plr-lite`); a linear layer of the piecewise-linear encoding, between quantiles "
        "(`ple-quantile`) or the thresholds of a tree of this number alone (`ple-tree`). "
        "`none`: numbers as they are.",
    )
    number_frequencies: int = hyper(48, WIDTH, "Frequencies of a number, of `plr` and `plr-lite`.")
    number_sigma: float = hyper(
        0.01,
        Number(0.0, 1e6, low_open=True),
        "Standard deviation of the frequencies at first, of `plr` and `plr-lite`; small values "
        "are the safe ones.",
    )
    number_bins: int = hyper(
        48,
        Number(2, 65_536, whole=True),
        "Bins of a number at most, of `ple-quantile` and `ple-tree`.",
    )
    number_leaf_rows: int = hyper(
        64,
        Number(1, 1_000_000, whole=True),
        "Training rows between two edges at least, of `ple-tree`.",
    )

    def _embedding(self, width: int) -> Embedding:
        return Embedding(
            self.number_embedding,
            width,
            self.number_frequencies,
            self.number_sigma,
            self.number_activation,
            self.ple_version,
        )

    def _vectors(self, width: int) -> NumberVectors | None:
        """The module that makes vectors of numbers, None where they stay numbers."""
        if self.number_embedding == "none" or not self.n_numeric:
            return None
        bins = self.bins_ if self.number_embedding in BINNED else ()
        return NumberVectors(self._embedding(width), self.n_numeric, bins)

    def _task(self, train: Rows, val: Rows | None) -> Task:
        if self.number_embedding in BINNED:
            self.bins_ = self._learned_bins(*train)
        return super()._task(train, val)

    def _learned_bins(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        numbers = self._rows(x).numbers.cpu()
        if self.number_embedding == "ple-tree":
            target, regression = self._targets(y).cpu(), self.task == "regression"
            tree = {**TREE, "min_samples_leaf": self.number_leaf_rows}
            bins = edges_of(numbers, self.number_bins, y=target, regression=regression, **tree)
        else:
            bins = edges_of(numbers, self.number_bins)
        return [edges.numpy() for edges in bins]


class FlatRows(EmbeddedRows):
    """Base of networks that read a row as one vector, the vectors of its numbers side by side."""

    number_width: int = hyper(
        24, WIDTH, "Width of a number's vector, where `number_embedding` is not `none`."
    )

    @property
    def numbers(self) -> NumberVectors | None:
        """The module that makes vectors of numbers, with fresh weights; None where they stay."""
        return self._vectors(self.number_width)
