"""FT-Transformer without feature biases as a model of sweeps (Gorishniy et al. 2021, sec. 5.2)."""

from __future__ import annotations

from typing import Any, ClassVar

from ....models.ft_transformer import FTTransformer, FTTransformerNetwork
from ....models.registry_entries import MODELS
from ....models.space_files import tables

_WITH = MODELS["ft-transformer"]


class FTTransformerNoFeatureBias(FTTransformer):
    """FT-Transformer whose tokens are x_j W_j and E_j[x_j], without b_j; spaces as with them."""

    name: ClassVar[str] = "ft-transformer-no-feature-bias"
    tasks: ClassVar[tuple[str, ...]] = _WITH.tasks
    libraries: ClassVar[tuple[str, ...]] = _WITH.libraries
    family: ClassVar[str] = _WITH.family
    gpu_mb: ClassVar[float] = _WITH.gpu_mb

    @staticmethod
    def spaces() -> dict[str, Any]:
        """The search spaces of FT-Transformer, as plain data."""
        return tables("ft-transformer")

    def _network(self) -> FTTransformerNetwork:
        network = super()._network()
        network.tokens.bias = None
        return network
