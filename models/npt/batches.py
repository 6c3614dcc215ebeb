"""Batches of NPT, each with the shares of parts and classes that the table has.

NPT attends between the rows of a batch, so a batch must look like the table: the same shares of
training, validation and test rows, and where asked for of the classes (NPT, sec. C.2).
"""

from __future__ import annotations

import numpy as np


def deal(strata: np.ndarray, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Row numbers 0..N-1 in ceil(N / batch_size) batches, each stratum spread evenly over them.

    strata: (N,) whole numbers. The rows are shuffled within a stratum and then dealt out in turn,
    so that a batch's share of a stratum differs by less than one row from any other's.
    """
    n = len(strata)
    n_batches = max(1, -(-n // batch_size))
    order = rng.permutation(n)
    order = order[np.argsort(strata[order], kind="stable")]
    return [np.sort(order[i::n_batches]) for i in range(n_batches)]


class Batches:
    """The batch of every step: one epoch after another, each dealt anew from (seed, epoch)."""

    def __init__(self, strata: np.ndarray, batch_size: int, seed: int) -> None:
        self.strata, self.seed = strata, seed
        self.size = batch_size if 0 < batch_size < len(strata) else len(strata)
        self.n_batches = -(-len(strata) // self.size)
        self._epoch, self._dealt = -1, [np.arange(len(strata))]

    def at(self, step: int) -> np.ndarray:
        """Row numbers of the batch of a step; all rows where one batch holds them."""
        if self.n_batches == 1:
            return self._dealt[0]
        epoch, i = divmod(step, self.n_batches)
        if epoch != self._epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._epoch, self._dealt = epoch, deal(self.strata, self.size, rng)
        return self._dealt[i]


def strata_of(parts: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """(N,) strata: parts 0 (training), 1, 2; with `classes` the training rows by class too."""
    if classes is None:
        return parts.astype(np.int64)
    return np.where(parts == 0, 3 + classes.astype(np.int64), parts)
