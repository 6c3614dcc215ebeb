"""Hopular with equation 7 as it is printed, which Algorithm 1 iterates: the state itself is kept,
and the projection of the keys is that of the values, too."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ....models.hopular.estimator import Hopular
from ....models.hopular.network import Block, Hopfield, HopularNetwork, Stored
from ..variant import variant_of


class PrintedHopfield(Hopfield):
    """x + W_o [softmax(beta q_m k_m^T) k_m for each net m].

    DIFF(Schaefl 2022, eq. 7): what the nets read is normalised, as in the authors' code; the paper
    prints no norm."""

    def store(self, normed: Tensor) -> Stored:
        """Keys, which are the values, of patterns (B, N, W)."""
        keys = super().store(normed)[0]
        return keys, keys

    def _asked(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, super()._asked(x)[1]


@variant_of("hopular")
class HopularPrinted(Hopular):
    """Hopular whose nets follow equation 7 as printed (Schaefl et al. 2022), its own spaces."""

    name: ClassVar[str] = "hopular-printed"

    def _network(self) -> HopularNetwork:
        network = super()._network()
        for block in network.blocks:
            assert isinstance(block, Block)
            for net in (block.samples, block.features):
                net.__class__ = PrintedHopfield  # the same layers, read in another order
        return network
