"""AutoInt as the RTDL paper runs it (Song et al. 2019; Gorishniy et al. 2021, F.10)."""

from __future__ import annotations

from torch import Tensor, nn

from .deep.layers.dropout import Seed, dropout
from .deep.layers.feature_tokenizer import Tokens
from .deep.layers.token_attention import (
    Mix,
    Mixtures,
    token_attention,
)
from .deep.token_rows import TokenNetwork, TokenRows


class Block(nn.Module):
    """relu(norm(W x + attention(x))), W without a bias, attention without an output layer.

    DIFF(Song 2019): the norm is Gorishniy et al.'s (authors' code).
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        p: float,
        p_residual: float,
        *,
        attention: str = "softmax",
        order: int = 5,
    ) -> None:
        super().__init__()
        self.p_residual = p_residual
        self.attention = token_attention(
            width, n_heads, p, attention=attention, order=order, out=False
        )
        self.residual = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None
    ) -> Tensor:  # (B, T, D) -> (B, T, D)
        """Tokens after the block, of the same shape."""
        attended = self.attention(x, seed and (*seed, 0), mix)
        attended = dropout(attended, self.p_residual, seed and (*seed, 1))
        return self.norm(self.residual(x) + attended).relu()


class AutoIntNetwork(TokenNetwork):
    """Tokens without biases and without [CLS], blocks, a linear layer of all tokens side by side.

    Two-class and numeric outputs come as (B,).
    """

    def __init__(
        self, tokens: Tokens, blocks: list[Block], mixtures: Mixtures | None, n_out: int
    ) -> None:
        super().__init__(tokens, blocks, mixtures)
        self.head = nn.Linear(tokens.n * tokens.weight.shape[1], n_out)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.tokens(numbers, codes)
        for i, block in enumerate(self.blocks):
            x = block(x, seed and (*seed, i), self.mix(i))
        return self.head(x.flatten(1)).squeeze(-1)


class AutoInt(TokenRows):
    """AutoInt: attention between the features of a row, all of which are read at the end.

    The search spaces are those of Gorishniy et al. 2021, Table 16; the paper has no default
    configuration, ours lies inside its space.

    References
    ----------
    Song et al. 2019, arXiv:1810.11921; Gorishniy et al. 2021, arXiv:2106.11959, sec. F.10.
    """

    example = "epochs=5, width=8"

    def _network(self) -> AutoIntNetwork:
        tokens = Tokens(self.n_numeric, self.sizes, self.width, bias=False, cls=False)
        blocks = [
            self._made(Block, p=self.attention_dropout, p_residual=self.residual_dropout)
            for _ in range(self.n_layers)
        ]
        return AutoIntNetwork(tokens, blocks, self._mixtures(tokens.n), self.n_out)
