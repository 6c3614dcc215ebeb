"""FT-Transformer without feature biases as a model of sweeps (Gorishniy et al. 2021, sec. 5.2)."""

from __future__ import annotations

from typing import ClassVar

from ....models.ft_transformer import FTTransformer, FTTransformerNetwork
from ..variant import variant_of


@variant_of("ft-transformer")
class FTTransformerNoFeatureBias(FTTransformer):
    """FT-Transformer whose tokens are x_j W_j and E_j[x_j], without b_j; spaces as with them."""

    name: ClassVar[str] = "ft-transformer-no-feature-bias"

    def _network(self) -> FTTransformerNetwork:
        network = super()._network()
        network.tokens.bias = None
        return network
