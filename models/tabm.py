"""TabM: an ensemble of multi-layer perceptrons that share most weights (Gorishniy et al. 2025).

Layers are those of the authors' library `tabm`, in the training loop of all networks here; dropout
and the last layer are ours, which take less time on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from tabm import TabM as Layers
from torch import Tensor, nn
from torch.nn import functional as F

from .deep.embedded_rows import FlatRows
from .deep.layers.dropout import Seed, dropout
from .deep.layers.number_embedding import BINNED, Embedding, Inside
from .deep.layers.one_hot import OneHot
from .deep.row_network import RowTask, regression_loss
from .deep.trainer import Recipe
from .hyperparameters import DROPOUT, LAYERS, WIDTH, OneOf, hyper

VARIANTS = {"tabm": "tabm", "mini": "tabm-mini", "packed": "tabm-packed"}
FEW = 4  # outputs of a member up to which products and sums are faster than matrix products


class PlacedDropout(nn.Module):
    """Dropout after hidden layer `place`; `seed` names the next pass's draws, None for none."""

    def __init__(self, p: float, place: int) -> None:
        super().__init__()
        self.p, self.place = p, place
        self.seed: Seed | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape, elements of it zero and the others scaled."""
        return dropout(x, self.p, self.seed and (*self.seed, self.place))


class Heads(nn.Module):
    """A linear layer for each member, weights (k, D, O) and biases (k, O).

    A matrix product with one column takes several times as long as its products and sums.
    """

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor) -> Tensor:  # (B, k, D) -> (B, k, O)
        """The outputs of all members."""
        if self.weight.shape[-1] > FEW:
            return (x.transpose(0, 1) @ self.weight).transpose(0, 1) + self.bias
        columns = [(x * column).sum(dim=-1) for column in self.weight.unbind(dim=-1)]
        return torch.stack(columns, dim=-1) + self.bias


class TabMNetwork(nn.Module):
    """k multi-layer perceptrons of a row's numbers and 0/1 columns of its categories.

    embedding, bins: of the numbers, None where they stay numbers. n_out: classes, or 0 for a value.
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        n_out: int,
        k: int,
        n_blocks: int,
        width: int,
        p: float,
        variant: str,
        embedding: Embedding | None = None,
        bins: Sequence[np.ndarray] = (),
    ) -> None:
        super().__init__()
        self.n_out = n_out
        if embedding is not None and embedding.kind in BINNED and not sizes:
            if all(len(edges) == 1 for edges in bins):
                embedding = None  # nothing to encode: in float32 no number differs
        vectors, self.inside, self.n_numeric = None, None, n_numeric
        if embedding is not None and n_numeric:
            if embedding.kind in BINNED:
                self.inside = Inside(bins)
                self.n_numeric = len(self.inside.kept)
            if self.n_numeric:
                vectors = embedding.made(self.n_numeric, [b for b in bins if len(b) > 1])
        start = "random-signs" if vectors is None else "normal"
        self.layers = Layers(
            n_num_features=self.n_numeric,
            cat_cardinalities=list(sizes),
            d_out=n_out or 1,
            num_embeddings=vectors,
            n_blocks=n_blocks,
            d_block=width,
            dropout=p,
            k=k,
            arch_type=VARIANTS[variant],
            start_scaling_init=None if variant == "packed" else start,
        )
        for place, block in enumerate(self.layers.backbone.blocks):
            block[2] = PlacedDropout(p, place)
        self.layers.output = Heads(self.layers.output.weight, self.layers.output.bias)
        if sizes:  # the library's has no place for levels that training did not hold
            self.layers.cat_module = OneHot(sizes)

    def members(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B, k) values or (B, k, C) logits of the members, for rows (B, F), or (B, k, F) for rows
        of each member's own; `seed` names the draws of dropout."""
        for block in self.layers.backbone.blocks:
            block[2].seed = seed
        x = numbers if self.inside is None else self.inside(numbers)
        out = self.layers(
            x if self.n_numeric else None, codes if self.layers.cat_module is not None else None
        )
        return out if self.n_out else out.squeeze(-1)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """The ensemble's answer: the mean value, or the logarithm of the mean probabilities."""
        out = self.members(numbers, codes, seed)
        if not self.n_out:
            return out.mean(dim=1)
        return out.log_softmax(dim=-1).logsumexp(dim=1) - math.log(out.shape[1])


def mean_loss(out: Tensor, targets: Tensor, quantile: float | None = None) -> Tensor:
    """The mean of all members' losses: out (B, k) or (B, k, C), targets (B,) or (B, k)."""
    if targets.dim() == 1:
        targets = targets[:, None].expand(out.shape[:2])
    if out.dim() == 2:
        return regression_loss(out, targets, quantile)
    return F.cross_entropy(out.flatten(0, 1), targets.flatten())


class TabMTask(RowTask):
    """The mean of the members' losses on a batch; the validation loss is the ensemble's."""

    settings: Any

    def loss(self, step: int) -> Tensor:
        """The mean over members of the mean loss of step `step` + 1."""
        rows = self.batch(step)
        batch = self.rows.at(rows)
        out = self.module.members(batch.numbers, batch.codes, (self.settings.seed, step))
        return mean_loss(out, self.targets[rows], self.settings.quantile)


class TabM(FlatRows):
    """k multi-layer perceptrons in one: most weights are shared, predictions are averaged.

    Trained on the mean of the members' losses, stopped by the loss of their average. Defaults are
    those that the authors' page suggests; categories are 0/1 columns.

    DIFF(Gorishniy 2025, the authors' code): a level that training did not hold is 0 in all columns
    of its feature; there it fails.

    References
    ----------
    Gorishniy et al. 2025, arXiv:2410.24210.
    """

    example = "epochs=5, k=4, width=16"
    make_task = TabMTask
    log_outputs = True
    ple_version: ClassVar[str] = "B"

    lr: float = 2e-3
    weight_decay: float = 3e-4
    number_width: int = 16
    number_activation = False
    variant: str = hyper(
        "tabm",
        OneOf(tuple(VARIANTS)),
        "What a member has of its own: scales of the inputs and outputs of each layer, and "
        "biases (`tabm`), a scale of the network's inputs (`mini`), or all weights (`packed`); "
        "heads are always its own.",
    )
    k: int = hyper(32, WIDTH, "Members.")
    n_blocks: int = hyper(
        3, LAYERS, "Hidden layers; with vectors of numbers the authors suggest 2."
    )
    width: int = hyper(512, WIDTH, "Width of the hidden layers.")
    dropout: float = hyper(0.1, DROPOUT, "Dropout after each hidden layer.")

    def _recipe(self) -> Recipe:
        return replace(super()._recipe(), clip_norm=1.0)

    def _network(self) -> TabMNetwork:
        embedded, binned = self.number_embedding != "none", self.number_embedding in BINNED
        return self._made(
            TabMNetwork,
            p=self.dropout,
            embedding=self._embedding(self.number_width) if embedded else None,
            bins=self.bins_ if binned and self.n_numeric else (),
        )
