"""Attention between the features of a row: settings that FT-Transformer and AutoInt share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ..hyperparameters import DROPOUT, LAYERS, SHARE, WIDTH, InvalidConfig, OneOf, hyper
from .layers.feature_tokenizer import Tokens
from .layers.polynomial_attention import AttentionSettings, alphas
from .layers.token_attention import LINFORMER, Mix, Mixtures
from .row_network import RowNetwork


class TokenNetwork(nn.Module):
    """Tokens, and blocks in which they attend to each other.

    mixtures: of keys and values (Linformer), None for all of them. A subclass reads the tokens.
    """

    def __init__(
        self, tokens: Tokens, blocks: Sequence[nn.Module], mixtures: Mixtures | None
    ) -> None:
        super().__init__()
        self.tokens, self.blocks, self.mixtures = tokens, nn.ModuleList(blocks), mixtures

    def mix(self, layer: int) -> Mix | None:
        """What mixes the keys and values of a layer."""
        return None if self.mixtures is None else self.mixtures.of(layer)

    def undecayed(self) -> list[nn.Parameter]:
        """Tokens, the blocks' norms and all biases; of polynomial attention, its weights.

        DIFF(Gorishniy 2021, E.3): the text exempts all layer norms from weight decay; the gain of
        FT-Transformer's last norm decays here, as in the authors' code and package, which made the
        results.
        """
        norms = [m for m in self.blocks.modules() if isinstance(m, nn.LayerNorm)]
        return [
            *self.tokens.parameters(),
            *(p for norm in norms for p in norm.parameters()),
            *(p for name, p in self.named_parameters() if name.endswith("bias")),
            *alphas(self),
        ]


class TokenRows(AttentionSettings, RowNetwork):
    """Base of networks whose tokens are the features of a row. `attention` other than `softmax`
    needs linformer='none'."""

    n_layers: int = hyper(3, LAYERS, "Blocks.")
    width: int = hyper(32, WIDTH, "Width of a token, D; a multiple of n_heads.")
    n_heads: int = hyper(2, WIDTH, "Heads of attention, H.")
    attention_dropout: float = hyper(0.1, DROPOUT, "Dropout on the attention weights.")
    residual_dropout: float = hyper(0.0, DROPOUT, "Dropout on what a block adds.")
    linformer: str = hyper(
        "none",
        OneOf(LINFORMER),
        "Whether tokens attend to a few mixtures of all keys and values (Wang et al. 2020), "
        "with one matrix for the keys and one for the values of a layer (`headwise`), one for "
        "both (`key-value`) or one for all layers (`layerwise`); `none`: they attend to all "
        "keys.",
    )
    linformer_ratio: float = hyper(
        0.064, SHARE, "Number of mixtures as a share of the number of tokens."
    )

    def check(self) -> None:
        """Raises `InvalidConfig` where heads do not fit, or a polynomial meets Linformer."""
        super().check()
        model = type(self).__name__
        if self.width % self.n_heads:
            raise InvalidConfig(
                f"{model}: width must be a multiple of n_heads = {self.n_heads}, got {self.width}"
            )
        if self.attention != "softmax" and self.linformer != "none":
            raise InvalidConfig(
                f"{model}: attention={self.attention!r} needs linformer='none', got "
                f"{self.linformer!r}: mixtures of keys leave no square attention matrix to take "
                "powers of"
            )

    def _mixtures(self, n_tokens: int) -> Mixtures | None:
        """What mixes the keys and values of so many tokens; None where all of them are kept."""
        if self.linformer == "none":
            return None
        return Mixtures(n_tokens, self.linformer_ratio, self.linformer, self.n_layers)
