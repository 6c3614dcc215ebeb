"""MET: a masked autoencoder of a row's columns, then a classifier on its encoder.

Majmundar et al. 2022, arXiv:2206.08564; as Kim et al. 2024 (CheAtt) run it, the encoder is trained
on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .deep.estimator import Rows
from .deep.layers.dropout import Seed, dropout
from .deep.layers.polynomial_attention import AttentionSettings, alphas
from .deep.layers.token_attention import token_attention
from .deep.pretrained import PretrainedNetwork, PretrainedTask
from .deep.row_network import Batch
from .deep.trainer import Task, seed_of
from .hyperparameters import DROPOUT, LAYERS, ROWS, WIDTH, Number, hyper

EPS = 1e-6  # of the norms of layers, as in the authors' code
RADIUS, ASCENT, ASCENTS = 2.0, 1e-2, 2  # of the adversary: its ball, a step, steps


def visible_count(n: int, mask_percent: float) -> int:
    """How many of n columns the encoder sees (authors' code).

    DIFF(Majmundar 2022): one at least.

    >>> visible_count(6, 80), visible_count(9, 70), visible_count(81, 80), visible_count(1, 80)
    (1, 2, 16, 1)
    """
    return max(1, int((100 - mask_percent) * n // 100))


def tokens(values: Tensor, vectors: Tensor) -> Tensor:  # (B, T), (T, E) or (B, T, E) -> (B, T, 1+E)
    """Each value beside the vector of its column."""
    return torch.cat([values[..., None], vectors.expand(*values.shape, -1)], dim=-1)


class Block(nn.Module):
    """norm(x + attention(x)), then norm(x + feed-forward(x)), with ReLU between its two layers.

    A head is as wide as a token. p: dropout on what is added.
    """

    def __init__(
        self, width: int, ffn_width: int, *, n_heads: int, attention: str, order: int, p: float
    ) -> None:
        super().__init__()
        self.p = p
        self.attention = token_attention(
            width, n_heads, 0.0, attention=attention, order=order, d_head=width
        )
        self.norm_in = nn.LayerNorm(width, eps=EPS)
        self.widen = nn.Linear(width, ffn_width)
        self.narrow = nn.Linear(ffn_width, width)
        self.norm_ff = nn.LayerNorm(width, eps=EPS)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, T, D) -> (B, T, D)
        """Tokens after the block, of the same shape."""
        change = self.attention(x, seed and (*seed, 0))
        x = self.norm_in(x + dropout(change, self.p, seed and (*seed, 1)))
        change = self.narrow(self.widen(x).relu())
        return self.norm_ff(x + dropout(change, self.p, seed and (*seed, 2)))


class Decoder(nn.Module):
    """The decoder of pre-training: all values of a row from its encoded columns."""

    def __init__(self, blocks: list[Block], width: int) -> None:
        super().__init__()
        self.absent = nn.Parameter(torch.zeros(1))  # the value of every masked column
        self.blocks = nn.ModuleList(blocks)
        self.value = nn.Linear(width, 1)

    def join(self, encoded: Tensor, vectors: Tensor) -> Tensor:
        """Visible columns, then the masked ones: (B, V, D), (B, M, E) -> (B, V + M, D)."""
        absent = self.absent.expand(vectors.shape[:2])
        return torch.cat([encoded, tokens(absent, vectors)], dim=1)

    def forward(
        self, encoded: Tensor, vectors: Tensor, seed: Seed | None = None
    ) -> Tensor:  # (B, V, D), (B, M, E) -> (B, V + M)
        """Values of all columns, visible ones first."""
        x = self.join(encoded, vectors)
        for i, block in enumerate(self.blocks):
            x = block(x, seed and (*seed, i))
        return self.value(x).squeeze(-1)


class METNetwork(nn.Module):
    """A vector for each column, the encoder, and a layer of ReLUs on all of its tokens.

    Categories enter as numbers: their codes, standardised as `standardise` saw them (CheAtt is
    silent; the counts of its Table 6 tell of one value a column). Two-class and numeric outputs
    come as (B,).
    """

    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        blocks: list[Block],
        *,
        n_numeric: int,
        n_categories: int,
        embedding: int,
        hidden: int,
        n_out: int,
    ) -> None:
        super().__init__()
        n = n_numeric + n_categories
        self.columns = nn.Parameter(torch.empty(n, embedding).uniform_(-1, 1) / embedding**0.5)
        self.blocks = nn.ModuleList(blocks)
        self.widen = nn.Linear(n * (embedding + 1), hidden)
        self.head = nn.Linear(hidden, n_out)
        self.register_buffer("centre", torch.zeros(n_categories))
        self.register_buffer("scale", torch.ones(n_categories))

    def standardise(self, codes: Tensor) -> None:
        """Takes mean and deviation of the codes (N, F2) of the training rows."""
        self.centre = codes.float().mean(dim=0)
        spread = (codes - self.centre).square().mean(dim=0).sqrt()
        self.scale = torch.where(spread > 0, spread, torch.ones_like(spread))

    def values(self, numbers: Tensor, codes: Tensor) -> Tensor:  # (B, F1), (B, F2) -> (B, F)
        """A row's columns as numbers."""
        return torch.cat([numbers, (codes - self.centre) / self.scale], dim=1)

    def encode(
        self, values: Tensor, vectors: Tensor, seed: Seed | None = None
    ) -> Tensor:  # (B, T), (B, T, E) or (T, E) -> (B, T, 1+E)
        """Columns by their values and vectors, encoded."""
        x = tokens(values, vectors)
        for i, block in enumerate(self.blocks):
            x = block(x, seed and (*seed, i))
        return x

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.encode(self.values(numbers, codes), self.columns, seed)
        return self.head(self.widen(x.flatten(1)).relu()).squeeze(-1)

    def undecayed(self) -> list[nn.Parameter]:
        """Columns' vectors, norms, biases, and what weighs the powers of attention."""
        return [self.columns, *(p for p in self.parameters() if p.dim() < 2), *alphas(self)]


class METTask(PretrainedTask):
    """Reconstruction of all values of a row from those of a few columns, then the usual loss."""

    settings: MET

    def pretext_loss(self, batch: Batch, rows: Tensor, step: int) -> Tensor:
        """Squared error of the reconstructed row, with an adversarial copy in every second step."""
        values = self.module.values(*batch)
        places = self._places(values, step)
        wanted = values.gather(1, places)
        visible = wanted[:, : visible_count(values.shape[1], self.settings.mask_percent)]
        loss = self._lost(visible, places, wanted, (self.settings.seed, step, 0))
        if not self._is_adversarial(step):
            return loss
        other = self._adversary(visible, places, wanted, step)
        return (loss + self._lost(other, places, wanted, (self.settings.seed, step, 1))) / 2

    def _places(self, values: Tensor, step: int) -> Tensor:  # (B, F)
        """Columns by number: those seen by the encoder in their order, then the masked ones."""
        n = values.shape[1]
        seen = visible_count(n, self.settings.mask_percent)
        rng = np.random.default_rng(seed_of(self.settings.seed, step, 21))
        drawn = np.argsort(rng.random((len(values), n)), axis=1)
        drawn = np.hstack([np.sort(drawn[:, :seen]), np.sort(drawn[:, seen:])])
        return torch.from_numpy(drawn).to(values.device)

    def _lost(self, visible: Tensor, places: Tensor, wanted: Tensor, seed: Seed) -> Tensor:
        """Mean squared error over all columns, visible ones included."""
        vectors, seen = self.module.columns[places], visible.shape[1]
        encoded = self.module.encode(visible, vectors[:, :seen], (*seed, 0))
        told = self.module.pretext(encoded, vectors[:, seen:], (*seed, 1))
        return F.mse_loss(told.float(), wanted)

    def _is_adversarial(self, step: int) -> bool:
        return step >= self.settings.adversarial_from * self.unit and step % 2 == 1

    def _adversary(self, visible: Tensor, places: Tensor, wanted: Tensor, step: int) -> Tensor:
        """Values near the visible ones from which the row is harder to reconstruct.

        DIFF(Majmundar 2022, authors' code): lengths are those of a row's values; theirs are of the
        whole batch, so that a row moves the less the more rows there are.
        """
        rng = np.random.default_rng(seed_of(self.settings.seed, step, 22))
        noise = torch.from_numpy(rng.standard_normal(visible.shape, dtype=np.float32))
        x = visible + noise.to(visible) * (2 / wanted.shape[1] ** 0.5)
        for _ in range(ASCENTS):
            x = x.detach().requires_grad_()
            loss = self._lost(x, places, wanted, (self.settings.seed, step, 1))
            (slope,) = torch.autograd.grad(loss, x)
            x = x.detach() + ASCENT * slope / _length(slope)
            away = x - visible
            x = visible + away * (RADIUS / _length(away)).clamp(max=1.0)
        return x


def _length(x: Tensor) -> Tensor:  # (B, F) -> (B, 1)
    """The Euclidean norm of each row, never zero."""
    return x.norm(dim=1, keepdim=True).clamp(min=1e-12)


class MET(AttentionSettings, PretrainedNetwork):
    """Masked encoding for tabular data: an autoencoder of a row's columns, then a classifier.

    The encoder is trained on with the classifier, as Kim et al. 2024 (sec. 4) do. Numbers are
    standardised, and so are the codes of categories.

    References
    ----------
    Majmundar et al. 2022, arXiv:2206.08564; Kim et al. 2024 (CheAtt).
    """

    example = "epochs=5, pretrain_epochs=2, embedding=7"
    make_task = METTask

    epochs: int = 100
    pretrain_epochs: int = 40
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 0.0
    numeric: str = "standard"
    embedding: int = hyper(
        32, WIDTH, "Width of a column's vector; a token, and each head, is wider by one."
    )
    n_heads: int = hyper(2, WIDTH, "Heads of attention, H.")
    n_layers: int = hyper(3, LAYERS, "Blocks of the encoder.")
    n_decoder_layers: int = hyper(
        2, LAYERS, "Blocks of the decoder, which only pre-training needs."
    )
    dropout: float = hyper(0.1, DROPOUT, "Dropout on what a block adds.")
    mask_percent: float = hyper(
        70,
        Number(0, 100, high_open=True),
        "Share of a row's columns, in percent, that the encoder does not see in pre-training.",
    )
    adversarial_from: int = hyper(
        10,
        ROWS,
        "Epoch of pre-training from which on every second step also learns from adversarially "
        "changed values.",
    )
    hidden: int = hyper(64, WIDTH, "Width of the layer before the output.")

    def _blocks(self, n: int) -> list[Block]:
        return [
            self._made(
                Block,
                width=self.embedding + 1,
                ffn_width=self.embedding,
                p=self.dropout,
            )
            for _ in range(n)
        ]

    def _network(self) -> METNetwork:
        blocks = self._blocks(self.n_layers)
        return self._made(METNetwork, blocks=blocks, n_categories=len(self.sizes))

    def _pretext(self, module: Any) -> Decoder:
        return Decoder(self._blocks(self.n_decoder_layers), self.embedding + 1)

    def _task(self, train: Rows, val: Rows | None) -> Task:
        task: Any = super()._task(train, val)
        task.module.standardise(task.rows.codes)
        return task


class METCheAtt(MET):
    """MET with a Chebyshev polynomial of its attention matrix.

    References
    ----------
    Kim et al. 2024 (CheAtt).
    """

    example = "epochs=5, pretrain_epochs=2, embedding=7"

    attention: str = "chebyshev"
    order: int = 2
