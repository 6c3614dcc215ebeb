"""FT-Transformer (Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from .deep.embedded_rows import EmbeddedRows
from .deep.layers.dropout import Seed, dropout
from .deep.layers.feature_tokenizer import Tokens
from .deep.layers.number_embedding import EmbeddedTokens
from .deep.layers.token_attention import (
    Mix,
    Mixtures,
    token_attention,
)
from .deep.token_rows import TokenNetwork, TokenRows
from .hyperparameters import DROPOUT, ROWS, Number, OneOf, hyper

ACTIVATIONS = ("reglu", "relu")


class Block(nn.Module):
    """x + attention(norm x), then x + feed-forward(norm x); the first block has no first norm.

    hidden: width between the two linear layers, after the activation. ReGLU (Shazeer 2020) is
    a relu(b) of the halves a, b.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        n_heads: int,
        is_first: bool,
        activation: str,
        attention_dropout: float,
        ffn_dropout: float,
        residual_dropout: float,
        attention: str = "softmax",
        order: int = 5,
    ) -> None:
        super().__init__()
        self.gated = activation == "reglu"
        self.p, self.p_residual = ffn_dropout, residual_dropout
        self.norm_in = None if is_first else nn.LayerNorm(width)
        self.attention = token_attention(
            width, n_heads, attention_dropout, attention=attention, order=order
        )
        self.norm_ff = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden * (2 if self.gated else 1))
        self.narrow = nn.Linear(hidden, width)

    def forward(
        self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None, *, cls: bool = False
    ) -> Tensor:  # (B, T, D) -> (B, T, D), or (B, 1, D) of [CLS] alone
        """Tokens after the block; with `cls` the first token alone."""
        normed = x if self.norm_in is None else self.norm_in(x)
        ask = self.attention.first if cls else self.attention
        change = dropout(
            ask(normed, seed and (*seed, 0), mix), self.p_residual, seed and (*seed, 1)
        )
        x = (x[:, :1] if cls else x) + change
        hidden = self.widen(self.norm_ff(x))
        if self.gated:
            a, b = hidden.chunk(2, dim=-1)
            hidden = a * b.relu()
        else:
            hidden = hidden.relu()
        out = self.narrow(dropout(hidden, self.p, seed and (*seed, 2)))
        return x + dropout(out, self.p_residual, seed and (*seed, 3))


class FTTransformerNetwork(TokenNetwork):
    """Tokens, blocks, and a linear layer of relu(norm [CLS]).

    The last block computes [CLS] alone, which is all that is read. Two-class and numeric outputs
    come as (B,).
    """

    def __init__(
        self, tokens: Tokens, blocks: Sequence[Block], mixtures: Mixtures | None, n_out: int
    ) -> None:
        super().__init__(tokens, blocks, mixtures)
        width = tokens.weight.shape[1]
        self.norm_out = nn.LayerNorm(width)
        self.head = nn.Linear(width, n_out)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.tokens(numbers, codes)
        for i, block in enumerate(self.blocks):
            x = block(x, seed and (*seed, i), self.mix(i), cls=i + 1 == len(self.blocks))
        return self.head(self.norm_out(x[:, 0]).relu()).squeeze(-1)


class FTTransformer(TokenRows, EmbeddedRows):
    """FT-Transformer: attention between the features of a row, read from one token.

    Defaults are those of Gorishniy et al. 2021, Table 6; the search spaces those of Table 7.

    References
    ----------
    Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.3.
    """

    example = "epochs=5, width=8"

    lr: float = 1e-4
    width: int = 192
    n_heads: int = 8
    ffn_factor: float = hyper(
        4 / 3,
        Number(0.0, 1000.0, low_open=True),
        "The feed-forward layer of a block is int(width * ffn_factor) wide inside.",
    )
    activation: str = hyper("reglu", OneOf(ACTIVATIONS), "`reglu`, or `relu` without a gate.")
    attention_dropout: float = 0.2
    ffn_dropout: float = hyper(
        0.1, DROPOUT, "Dropout between the two linear layers of a feed-forward layer."
    )
    linformer_from: int = hyper(
        0, ROWS, "In tables with fewer tokens a row, tokens attend to all keys."
    )

    def _network(self) -> FTTransformerNetwork:
        numbers = self._vectors(self.width)
        if numbers is None:
            tokens = Tokens(self.n_numeric, self.sizes, self.width)
        else:
            tokens = EmbeddedTokens(numbers, self.sizes)
        mixtures = self._mixtures(tokens.n) if tokens.n >= self.linformer_from else None
        blocks = [
            self._made(Block, hidden=max(int(self.width * self.ffn_factor), 1), is_first=i == 0)
            for i in range(self.n_layers)
        ]
        return FTTransformerNetwork(tokens, blocks, mixtures, self.n_out)
