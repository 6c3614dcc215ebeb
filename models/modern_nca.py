"""ModernNCA: a learned distance, and the softly nearest training rows (Ye et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .deep.layers.dropout import Seed, dropout
from .deep.layers.neighbours import neighbour_mean
from .deep.layers.number_embedding import NumberVectors
from .deep.layers.one_hot import OneHot
from .deep.lookup import LookupRows, LookupTask, in_parts
from .deep.row_network import Batch
from .deep.trainer import seed_of
from .hyperparameters import DEPTH, DROPOUT, SHARE, WIDTH, Number, OneOf, hyper

LEAST = 1e-7  # added to a class's share before its logarithm
SAMPLES = 17  # names the draws of candidates beside those of batches


class Block(nn.Module):
    """BatchNorm -> Linear -> ReLU -> dropout -> Linear, without a path around it."""

    def __init__(self, width: int, hidden: int, p: float) -> None:
        super().__init__()
        self.p = p
        self.norm = nn.BatchNorm1d(width)
        self.linear0 = nn.Linear(width, hidden)
        self.linear1 = nn.Linear(hidden, width)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, D) -> (B, D)
        """The block's outputs."""
        return self.linear1(dropout(self.linear0(self.norm(x)).relu(), self.p, seed))


class NCANetwork(nn.Module):
    """Rows as points, and the mean label of the points near one.

    n_out: classes, or 0 for a value. `known` holds the points (N, D) and labels (N, C) of training
    rows, once `remember` was called; the weights say nothing of them.
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        n_out: int,
        width: int,
        n_blocks: int,
        hidden: int,
        p: float,
        temperature: float,
        numbers: NumberVectors | None = None,
    ) -> None:
        super().__init__()
        self.n_out, self.temperature = n_out, temperature
        self.numbers, self.one_hot = numbers, OneHot(sizes)
        wide = n_numeric if numbers is None else numbers.n * numbers.width
        self.encoder = nn.Linear(wide + self.one_hot.n_out, width)
        self.blocks = nn.ModuleList(Block(width, hidden, p) for _ in range(n_blocks))
        self.norm = nn.BatchNorm1d(width) if n_blocks else None
        self.known: tuple[Tensor, Tensor] | None = None

    def encode(self, rows: Batch, seed: Seed | None = None) -> Tensor:  # -> (B, D)
        """The points of rows."""
        x = rows.numbers if self.numbers is None else self.numbers(rows.numbers).flatten(1)
        x = self.encoder(torch.cat([x, self.one_hot(rows.codes)], dim=1))
        for i, block in enumerate(self.blocks):
            x = block(x, seed and (*seed, i))
        return x if self.norm is None else self.norm(x)

    def labels(self, targets: Tensor) -> Tensor:  # (N,) -> (N, C), or (N, 1) for values
        """Targets as they are averaged."""
        if not self.n_out:
            return targets[:, None]
        return F.one_hot(targets, self.n_out).to(self.encoder.weight.dtype)

    def remember(self, rows: Batch, targets: Tensor) -> None:
        """Keeps the points and labels of rows as the candidates of `forward`."""
        points = torch.cat([self.encode(part) for part in in_parts(rows)])
        self.known = points, self.labels(targets)

    def answer(self, points: Tensor, known: tuple[Tensor, Tensor], own: Tensor | None) -> Tensor:
        """(B,) means of values, or (B, C) logarithms of shares of classes; own: see
        `neighbour_mean`."""
        mean = neighbour_mean(points, *known, temperature=self.temperature, own=own)
        return (mean + LEAST).log() if self.n_out else mean.squeeze(-1)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """The answers for rows, from all that is known."""
        if self.known is None:
            raise RuntimeError("no training rows to look up; call remember first")
        return self.answer(self.encode(Batch(numbers, codes)), self.known, None)


class NCATask(LookupTask):
    """A row's candidates are the others of its batch and a part of all other training rows, drawn
    anew in each step; in validation they are all training rows."""

    def candidates(self, rows: Tensor, step: int) -> Tensor:
        """Numbers of the candidates beside the batch `rows` (B,) of step `step` + 1."""
        rest = np.setdiff1d(np.arange(len(self.rows)), rows.cpu().numpy(), assume_unique=True)
        n = int(len(rest) * self.settings.sample_rate)
        if n == 1 and self.module.norm is not None:
            n = 0  # a batch norm needs two rows
        rng = np.random.default_rng(seed_of(self.settings.seed, step, SAMPLES))
        return torch.from_numpy(rng.permutation(rest)[:n]).to(rows.device)

    def loss(self, step: int) -> Tensor:
        """The mean loss of the batch of step `step` + 1, each row hidden from itself."""
        rows, seed = self.batch(step), (self.settings.seed, step)
        more = self.candidates(rows, step)
        points = self.module.encode(self.rows.at(rows), (*seed, 0))
        all_points = points
        if len(more):
            others = self.module.encode(self.rows.at(more), (*seed, 1))
            all_points = torch.cat([points, others])
        labels = self.module.labels(self.targets[torch.cat([rows, more])])
        own = torch.arange(len(rows), device=rows.device)
        return self.criterion(
            self.module.answer(points, (all_points, labels), own), self.targets[rows]
        )


class ModernNCA(LookupRows):
    """Neighbourhood components analysis with vectors of numbers and samples of candidates.

    A row becomes a point; its answer is the mean label of all training rows' points, weighted by
    softmax(-distance / temperature). Predictions keep the training rows in the model. Memory grows
    with the number of training rows, not with their product with the rows asked for: a training
    step on 50,000 rows of 50 numbers takes 3 GB, nearly all of it the candidates' vectors of
    numbers; of distances it keeps 256 MB at most (see `neighbour_mean`).

    DIFF(Ye 2025, the authors' code): distances keep their digits (see `distances`). Initial
    frequencies are cut at three standard deviations, as in `rtdl_num_embeddings`.

    References
    ----------
    Ye et al. 2025, Revisiting Nearest Neighbor for Tabular Data, arXiv:2407.03257.
    """

    example = "epochs=5, width=16"
    make_task = NCATask
    log_outputs = True
    batch_norm = True

    quantile: None = hyper(
        None, OneOf((None,)), "None: a mean of labels, as the answer is, is no quantile."
    )
    numeric: str = "standard"
    lr: float = 0.01
    weight_decay: float = 2e-4
    number_embedding: str = "plr-lite"
    number_frequencies: int = 77
    number_sigma: float = 0.044
    number_width: int = 34
    width: int = hyper(128, WIDTH, "Width of a point, D.")
    n_blocks: int = hyper(
        0,
        DEPTH,
        "Blocks of batch norm and two linear layers behind the first linear layer; 0: a linear "
        "map.",
    )
    hidden: int = hyper(512, WIDTH, "Width between the two linear layers of a block.")
    dropout: float = hyper(0.1, DROPOUT, "Dropout inside of a block.")
    temperature: float = hyper(1.0, Number(0.0, 1e6, low_open=True), "Divides distances.")
    sample_rate: float = hyper(
        0.5, SHARE, "Share of the training rows outside of a batch that are its candidates, too."
    )

    def _network(self) -> NCANetwork:
        return self._made(NCANetwork, p=self.dropout)
