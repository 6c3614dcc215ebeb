"""NPT with equation 4 as it is printed: keys and values read the normalised input, too."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ....models.deep.layers.attention import split_heads
from ....models.npt.estimator import NPT
from ....models.npt.network import Block, NPTNetwork
from ..variant import variant_of


class PrintedBlock(Block):
    """R = O(heads of LN(X)) + Linear(X); the rest as in `Block`."""

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (B, H, T, W / H) each, all of LN(X)."""
        normed = self.norm_in(x)
        q, k, v = (
            split_heads(layer(normed), self.n_heads) for layer in (self.query, self.key, self.value)
        )
        return q, k, v

    def _heads_and_residual(self, x: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        return self.heads(x), self.residual(x)


@variant_of("npt")
class NPTPrinted(NPT):
    """NPT whose blocks follow equation 4 as printed (Kossen et al. 2021); spaces as NPT's."""

    name: ClassVar[str] = "npt-printed"

    def _network(self) -> NPTNetwork:
        network = super()._network()
        for block in network.blocks:
            block.__class__ = PrintedBlock  # the same layers, read in another order
        return network
