"""Pre-training of SAINT: contrastive and denoising losses on damaged copies of rows.

Two views of each row are encoded, as it is and damaged: cells from another row (CutMix), then a
mixture with the tokens of a third (mixup). Views of one row shall be alike (contrastive), and the
damaged one shall tell what the cells were (denoising). (Somepalli et al. 2021, sec. 3.2, and the
authors' code.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..deep.cells import Columns, index
from ..deep.column_decoder import Decoder
from ..deep.layers.dropout import Seed
from ..deep.pretrained import PretrainedTask
from ..deep.row_network import Batch
from ..deep.trainer import seed_of
from .network import Cells, Embedding, Memory, SAINTNetwork

CONTRASTIVE, LOG_LOSS, SQUARED = 0.5, 1.0, 10.0  # weights of the losses (authors' code)


class Damage(NamedTuple):
    """How a step changes its B rows. CutMix: the cells `taken` (B, F2 + F1) are copied from row
    `donors` (B,). Mixup: each token is `kept` times the row's own plus the rest of row `partners`
    (B,).

    DIFF(Somepalli 2021, sec. 3.2.1): as in the authors' code, all taken cells of a row come from
    one donor, and `kept` is the small share, 0.3 as published.
    """

    donors: Tensor
    taken: Tensor
    partners: Tensor
    kept: float


def drawn(
    b: int, f: int, *, p_cutmix: float, mixup: float, seed: int, device: Any = "cpu"
) -> Damage:
    """The damage of one step to a batch of b rows with f columns."""
    rng = np.random.default_rng(seed)
    donors, partners, taken = rng.permutation(b), rng.permutation(b), rng.random((b, f)) < p_cutmix
    there = [torch.from_numpy(a).to(device) for a in (donors, taken, partners)]
    return Damage(there[0], there[1], there[2], mixup)


def cutmix(cells: Cells, damage: Damage) -> Cells:
    """Rows with some cells of their donors; what is missing stays missing, and is not taken over
    (authors' code)."""
    n = cells.codes.shape[1]
    return Cells(
        torch.where(damage.taken[:, n:], cells.numbers[damage.donors], cells.numbers),
        torch.where(damage.taken[:, :n], cells.codes[damage.donors], cells.codes),
        cells.missing,
    )


class Pretext(nn.Module):
    """The part that only pre-training needs: a projection for each view, and a perceptron
    D -> 5 D -> levels, or 1, for each column."""

    def __init__(self, embedding: Embedding) -> None:
        super().__init__()
        n_levels = [size + 1 for size in embedding.sizes]  # and unknown ones, see `Categories`
        n, width, whole = embedding.n - 1, embedding.width, embedding.n * embedding.width
        self.clean, self.damaged = (
            nn.Sequential(
                nn.Linear(whole, 6 * whole // 5), nn.ReLU(), nn.Linear(6 * whole // 5, whole // 2)
            )
            for _ in range(2)
        )
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(n, width, 5 * width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n, 1, 5 * width).uniform_(-bound, bound))
        categorical = [True] * len(n_levels) + [False] * embedding.n_numeric
        sizes = (*n_levels, *[1] * embedding.n_numeric)
        self.decoder = Decoder(Columns(sizes, tuple(categorical), targets=()), 5 * width)

    def likeness(self, clean: Tensor, damaged: Tensor) -> Tensor:  # (B, T, D) twice -> (B, B)
        """Products of the projected views, of rows whose tokens have the length 1."""
        one, other = (F.normalize(x, dim=-1).flatten(1) for x in (clean, damaged))
        return self.clean(one) @ self.damaged(other).t()

    def contrastive(self, clean: Tensor, damaged: Tensor, temperature: float) -> Tensor:
        """InfoNCE: each view shall find its row's other view among those of the batch."""
        logits = self.likeness(clean, damaged) / temperature
        own = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.t(), own)) / 2

    def denoising(self, x: Tensor, cells: Cells) -> tuple[Tensor, Tensor]:
        """Losses of encoded rows (B, T, D): log loss summed over the categorical columns, and mean
        squared error of the numbers, missing ones (that are the training mean) included."""
        hidden = torch.baddbmm(self.bias, x[:, 1:].transpose(0, 1), self.weight).relu()
        columns = self.decoder.columns
        told = self.decoder(hidden.transpose(0, 1), range(columns.n))
        log_loss = x.new_zeros(())
        for group, logits in zip(told.groups, told.logits, strict=True):
            wanted = cells.codes[:, index(group, x.device)].flatten()
            lost = F.cross_entropy(logits.flatten(0, 1), wanted)
            log_loss = log_loss + lost * len(group)
        if not told.numeric:
            return log_loss, x.new_zeros(())
        return log_loss, F.mse_loss(told.values, cells.numbers)


def losses(
    module: SAINTNetwork,
    pretext: Pretext,
    cells: Cells,
    damage: Damage,
    *,
    temperature: float,
    seed: Seed | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(contrastive, log loss, squared error) of a batch. Both views go through the layers at once;
    they do not see each other there."""
    clean, damaged = module.embedding(cells), module.embedding(cutmix(cells, damage))
    damaged = damage.kept * damaged + (1 - damage.kept) * damaged[damage.partners]
    views = module.encode(torch.stack([clean, damaged]), seed)
    contrastive = pretext.contrastive(views[0], views[1], temperature)
    return contrastive, *pretext.denoising(views[1], cells)


class SAINTTask(PretrainedTask):
    """Pre-training on damaged rows, then the usual loss on whole ones; the validation loss is
    that of predictions."""

    seen: list[Memory]

    def pretext_loss(self, batch: Batch, rows: Tensor, step: int) -> Tensor:
        """Weighted sum of the contrastive and the two denoising losses of a batch."""
        settings, module = self.settings, self.module
        cells = module.embedding.cells(*batch)
        damage = drawn(
            *cells.missing.shape,
            p_cutmix=settings.p_cutmix,
            mixup=settings.mixup,
            seed=seed_of(settings.seed, step, 31),
            device=rows.device,
        )
        contrastive, log_loss, squared = losses(
            module,
            module.pretext,
            cells,
            damage,
            temperature=settings.temperature,
            seed=(settings.seed, step),
        )
        return CONTRASTIVE * contrastive + LOG_LOSS * log_loss + SQUARED * squared

    def val_loss(self) -> float | None:
        """The validation loss of rows that see the reference rows, as predictions do."""
        if self.val is not None:
            rows = torch.from_numpy(self.settings.references(len(self.rows)))
            kept = self.rows.at(rows.to(self.targets.device))
            self.seen = self.module.context(*kept) if len(kept) else []
        return super().val_loss()

    def outputs(self, rows: Batch) -> Tensor:
        """Outputs of rows in evaluation mode, as predictions are made."""
        if self.settings.sees_batch:
            return self.settings.together(self.module, rows)
        return self.module.ask(*rows, self.seen).float()
