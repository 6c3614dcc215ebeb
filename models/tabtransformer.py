"""TabTransformer, pre-trained on masked cells (Huang et al. 2020; Kim et al. 2024).

The form is that of Kim et al. (CheAtt): every number is a token beside the categories. Their
attention through a polynomial is `TabTransformerCheAtt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .deep.layers.dropout import Seed
from .deep.layers.feature_tokenizer import Tokens
from .deep.layers.geglu import GEGLUBlock
from .deep.layers.polynomial_attention import AttentionSettings, alphas
from .deep.pretrained import PretrainedNetwork, PretrainedTask
from .deep.row_network import Batch
from .deep.trainer import seed_of
from .hyperparameters import (
    DROPOUT,
    LAYERS,
    PROBABILITY,
    SHARE,
    SWITCH,
    WIDTH,
    InvalidConfig,
    Number,
    hyper,
)

# -- the network ----------------------------------------------------------------------------------


class Block(GEGLUBlock):
    """x + attention(norm x), then x + GEGLU(norm x).

    DIFF(Huang 2020, sec. 2): norms before and not after, a gate, heads of one width and queries,
    keys and values without biases, as in the implementation that Kim et al. 2024 changed.
    """

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, T, D) -> (B, T, D)
        """Tokens after the block, of the same shape."""
        x = x + self.attention(self.norm_in(x), seed and (*seed, 0))
        return x + self.feed_forward(self.norm_ff(x), seed and (*seed, 1))


class Embedding(nn.Module):
    """Numbers and categories of a row as tokens; `n` is their number, T.

    numeric: whether numbers are tokens (x_j w_j + b_j, first; a category then has a b_j beside its
    level's vector, too) or only categories are. identity: so many values of a token, the last ones,
    are its column's alone.
    """

    def __init__(
        self, n_numeric: int, sizes: Sequence[int], width: int, *, numeric: bool, identity: int
    ) -> None:
        super().__init__()
        self.n_numeric = n_numeric if numeric else 0
        self.sizes, self.width = list(sizes), width
        self.cells = Tokens(self.n_numeric, sizes, width - identity, bias=numeric, cls=False)
        self.n = self.cells.n
        drawn = torch.empty(self.n, identity).uniform_(-1, 1) / width**0.5
        self.columns = nn.Parameter(drawn) if identity else None

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:  # (B, F1), (B, F2) -> (B, T, D)
        """The tokens of each row: numbers, categories."""
        x = self.cells(numbers[:, : self.n_numeric], codes)
        if self.columns is None:
            return x
        return torch.cat([x, self.columns.expand(len(x), -1, -1)], dim=2)


class TabTransformerNetwork(nn.Module):
    """Tokens, blocks, and a perceptron with hidden layers of `widths` on all tokens side by side.

    Numbers that are no tokens are normed over their columns and go to the perceptron (of a single
    one nothing is left then). Two-class and numeric outputs come as (B,).
    """

    def __init__(
        self,
        tokens: Embedding,
        blocks: Sequence[Block],
        *,
        n_numeric: int,
        widths: Sequence[int],
        n_out: int,
    ) -> None:
        super().__init__()
        self.tokens, self.blocks = tokens, nn.ModuleList(blocks)
        apart = n_numeric - tokens.n_numeric
        self.norm = nn.LayerNorm(apart) if apart else None
        ins = [tokens.n * tokens.width + apart, *widths]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(ins))
        self.head = nn.Linear(ins[-1], n_out)

    def encode(self, x: Tensor, seed: Seed | None = None) -> Tensor:
        """Tokens after the blocks, (B, T, D) -> (B, T, D)."""
        for i, block in enumerate(self.blocks):
            x = block(x, seed and (*seed, i))
        return x

    def features(self, numbers: Tensor, x: Tensor) -> Tensor:
        """What the perceptron is given of tokens after the blocks: (B, T D + numbers apart)."""
        x = x.flatten(1)
        return x if self.norm is None else torch.cat([x, self.norm(numbers)], dim=1)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.features(numbers, self.encode(self.tokens(numbers, codes), seed))
        for layer in self.hidden:
            x = layer(x).relu()
        return self.head(x).squeeze(-1)

    def undecayed(self) -> list[nn.Parameter]:
        """Tokens, the polynomials' weights, norms and biases."""
        rest = {id(p) for p in (*self.tokens.parameters(), *alphas(self))}
        return [p for p in self.parameters() if p.dim() < 2 or id(p) in rest]


# -- pre-training ---------------------------------------------------------------------------------


class Hidden(nn.Module):
    """The part that only pre-training needs: a vector for hidden cells of each column, and outputs.

    A number is a linear function of its token after the blocks, a category has linear logits of its
    levels (with the extra one for unknown levels, as in `Categories`); all columns in one product.
    """

    beyond: Tensor

    def __init__(self, n_numeric: int, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.n_numeric, self.most = n_numeric, 1 + max(sizes, default=0)

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-1, 1) / width**0.5)

        self.cells = drawn(n_numeric + len(sizes), width)
        self.value_weight = drawn(n_numeric, width)
        self.value_bias = nn.Parameter(torch.zeros(n_numeric))
        self.level_weight = drawn(len(sizes), width, self.most)
        self.level_bias = nn.Parameter(torch.zeros(len(sizes), 1, self.most))
        there = torch.tensor(list(sizes), dtype=torch.int64)[:, None, None]
        self.register_buffer("beyond", torch.arange(self.most) > there, persistent=False)

    def hide(self, x: Tensor, at: Tensor) -> Tensor:
        """Tokens (B, T, D) with those of the cells `at` (B, T) replaced."""
        return torch.where(at[..., None], self.cells, x)

    def values(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, F1)
        """Numbers predicted from the tokens after the blocks."""
        return (x[:, : self.n_numeric] * self.value_weight).sum(dim=-1) + self.value_bias

    def logits(self, x: Tensor) -> Tensor:  # (B, T, D) -> (F2, B, most levels)
        """Logits of the categories; minus infinity for levels that a column does not have."""
        tokens = x[:, self.n_numeric :].transpose(0, 1)
        logits = torch.baddbmm(self.level_bias, tokens, self.level_weight)
        return logits.float().masked_fill(self.beyond, -torch.inf)

    def losses(self, x: Tensor, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        """Log loss of the hidden categories and squared error of the hidden numbers, each a mean
        over such cells of the batch; 0 where it has none."""
        numeric, levels = at[:, : self.n_numeric], at[:, self.n_numeric :].t()
        wrong = (self.values(x).float() - batch.numbers[:, : self.n_numeric]).square()
        logits, codes = self.logits(x)[levels], batch.codes.t()[levels]
        log_loss = F.cross_entropy(logits, codes, reduction="sum")
        log_loss = log_loss / levels.sum().clamp(min=1)
        return log_loss, (wrong * numeric).sum() / numeric.sum().clamp(min=1)


class MaskedTask(PretrainedTask):
    """Pre-training hides each cell of a batch with probability `mask_rate`; its loss is that of the
    hidden cells alone.

    DIFF(Kim 2024): the paper says neither the share of hidden cells (ours is Huang et al.'s), nor
    what stands for them, nor that the loss leaves out the others, nor the weight of the squared
    error (ours: what `ce_weight` leaves of one).
    """

    settings: TabTransformer

    def pretext_loss(self, batch: Batch, rows: Tensor, step: int) -> Tensor:
        """Log loss and squared error of the hidden cells, weighted by `ce_weight`."""
        settings, module = self.settings, self.module
        rng = np.random.default_rng(seed_of(settings.seed, step, 12))
        drawn = rng.random((len(batch), module.tokens.n)) < settings.mask_rate
        at = torch.from_numpy(drawn).to(batch.numbers.device)
        x = module.pretext.hide(module.tokens(batch.numbers, batch.codes), at)
        x = module.encode(x, (settings.seed, step))
        log_loss, squared = module.pretext.losses(x, batch, at)
        return settings.ce_weight * log_loss + (1 - settings.ce_weight) * squared


# -- the estimators -------------------------------------------------------------------------------


class TabTransformer(AttentionSettings, PretrainedNetwork):
    """TabTransformer with masked pre-training, in the form of Kim et al. 2024 (Table 7).

    References
    ----------
    Huang et al. 2020, arXiv:2012.06678; Kim et al. 2024 (CheAtt).
    """

    example = "epochs=5, pretrain_epochs=2, width=8"
    make_task = MaskedTask

    epochs: int = 80
    pretrain_epochs: int = 20
    lr: float = 1e-3
    numeric: str = "standard"
    n_layers: int = hyper(3, LAYERS, "Blocks.")
    width: int = hyper(32, WIDTH, "Width of a token, D.")
    n_heads: int = hyper(4, WIDTH, "Heads of attention, H.")
    d_head: int = hyper(16, WIDTH, "Width of a head.")
    hidden: int = hyper(64, WIDTH, "Width of the perceptron's hidden layer.")
    attention_dropout: float = hyper(
        0.1, DROPOUT, "Dropout on the attention weights, or on the output of a polynomial."
    )
    ffn_dropout: float = hyper(0.1, DROPOUT, "Dropout after the gate of the feed-forward layers.")
    mask_rate: float = hyper(0.3, SHARE, "Share of the cells that pre-training hides.")
    ce_weight: float = hyper(
        0.3,
        PROBABILITY,
        "Weight of the log loss of hidden categories; the squared error of hidden numbers has "
        "the rest of one.",
    )
    numeric_tokens: bool = hyper(
        True,
        SWITCH,
        "Whether numbers take part in attention. False keeps them out, as Huang et al. do, in "
        "tables that have categories; they are then not hidden either.",
    )
    identity_width: int = hyper(
        0,
        Number(0, 65_535, whole=True),
        "How many values of a token are the same for all cells of a column, so that they "
        "identify it (Huang et al.: an eighth); less than `width`.",
    )

    def check(self) -> None:
        """Raises `InvalidConfig` where identity_width leaves nothing of a token."""
        super().check()
        if self.identity_width >= self.width:
            name = type(self).__name__
            raise InvalidConfig(
                f"{name}: identity_width must be less than width = {self.width}, "
                f"got {self.identity_width}"
            )

    def _network(self) -> TabTransformerNetwork:
        tokens = Embedding(
            self.n_numeric,
            self.sizes,
            self.width,
            numeric=self.numeric_tokens or not self.sizes,
            identity=self.identity_width,
        )
        blocks = [
            self._made(Block, p_attention=self.attention_dropout, p_ffn=self.ffn_dropout)
            for _ in range(self.n_layers)
        ]
        n = self.n_numeric
        return TabTransformerNetwork(
            tokens, blocks, n_numeric=n, widths=[self.hidden], n_out=self.n_out
        )

    def _pretext(self, module: Any) -> Hidden:
        tokens = module.tokens
        return Hidden(tokens.n_numeric, tokens.sizes, tokens.width)


class TabTransformerCheAtt(TabTransformer):
    """TabTransformer with a Chebyshev polynomial of its attention matrix.

    References
    ----------
    Kim et al. 2024 (CheAtt).
    """

    example = "epochs=5, pretrain_epochs=2"

    attention: str = "chebyshev"
