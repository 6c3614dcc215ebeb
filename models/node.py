"""Neural oblivious decision ensembles (Popov et al. 2020; Gorishniy et al. 2021, F.6).

Differentiable trees whose nodes of one depth share a feature and a threshold. Tensors stand with
the rows last: (I, B) inputs, (T, D, B) decisions of T trees of depth D, (T, m, B) answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .deep.layers.category_embedding import RowInput
from .deep.layers.dropout import Seed
from .deep.layers.entmax import CHOICES
from .deep.row_network import Batch, RowNetwork, RowTask
from .deep.trainer import seed_of
from .hyperparameters import COUNT, WIDTH, Number, OneOf, hyper

ROOM = {"cpu": 2**19, "cuda": 2**26}  # numbers that a block of trees may hold
FIRST = 2048  # rows that the thresholds are taken from (Gorishniy et al. 2021, the authors' code)
START = 64  # trees that are started together


# -- the leaves of trees --------------------------------------------------------------------------


def _products(p: Tensor) -> list[Tensor]:  # (T, D, B) -> (T, 2^d, B) for d = 0, ..., D
    """Weights of the nodes below each depth; bit d of a node's number is 0 with p_d, else 1."""
    of_depths = [p.new_ones(len(p), 1, p.shape[2])]
    for d in range(p.shape[1]):
        kept = of_depths[-1] * p[:, d : d + 1]
        of_depths.append(torch.cat([kept, of_depths[-1] - kept], dim=1))
    return of_depths


def _slopes(products: list[Tensor], p: Tensor, grad: Tensor) -> Tensor:  # (T, D, B)
    """The gradient of p from that of its last products (T, 2^D, B)."""
    out = torch.empty_like(p)
    for d in reversed(range(p.shape[1])):
        kept, rest = grad.chunk(2, dim=1)
        differs = kept - rest
        out[:, d] = (differs * products[d]).sum(dim=1)
        grad = differs.mul_(p[:, d : d + 1]).add_(rest)
    return out


class _Leaves(torch.autograd.Function):
    """The leaves' responses by their weights: p (T, D, B), response (T, m, 2^D) -> (T, m, B).

    A weight is that of the lower depths times that of the upper ones. The response is summed over
    the lower depths first, so that no (T, 2^D, B) weights are held. Trees go in blocks, and the
    backward pass computes a block's products again.
    """

    @staticmethod
    def forward(ctx: Any, p: Tensor, response: Tensor, room: int) -> Tensor:
        ctx.save_for_backward(p, response)
        (n_trees, depth, n_rows), m = p.shape, response.shape[1]
        held = [2 ** (depth - upper) + (1 + m) * 2**upper for upper in range(depth)]
        ctx.cut = depth - held.index(min(held))
        size = max(1, room // (min(held) * n_rows))
        ctx.blocks = [slice(at, at + size) for at in range(0, n_trees, size)]
        y = p.new_empty(n_trees, m, n_rows)
        for at in ctx.blocks:
            _, upper, sums = _meet(p[at], response[at], ctx.cut)
            torch.sum(sums.mul_(upper[-1][:, None]), dim=2, out=y[at])
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        p, response = ctx.saved_tensors
        to_p, to_response = torch.empty_like(p), torch.empty_like(response)
        for at in ctx.blocks:
            below, above, grad = p[at, : ctx.cut], p[at, ctx.cut :], grads[0][at][:, :, None]
            lower, upper, sums = _meet(p[at], response[at], ctx.cut)
            to_sums = (grad * upper[-1][:, None]).flatten(1, 2)  # (T, m 2^upper, B)
            leaves = response[at].reshape(len(below), to_sums.shape[1], -1)
            to_p[at, ctx.cut :] = _slopes(upper, above, sums.mul_(grad).sum(dim=1))
            to_p[at, : ctx.cut] = _slopes(lower, below, leaves.transpose(1, 2) @ to_sums)
            to_response[at] = (to_sums @ lower[-1].transpose(1, 2)).view_as(response[at])
        return to_p, to_response, None


def _meet(p: Tensor, response: Tensor, cut: int) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Products of the depths below and from `cut`; the response summed over those below it,
    (T, m, 2^upper, B)."""
    lower, upper = _products(p[:, :cut]), _products(p[:, cut:])
    n_upper = upper[-1].shape[1]
    sums = response.reshape(len(p), -1, 2**cut) @ lower[-1]
    return lower, upper, sums.view(len(p), -1, n_upper, p.shape[2])


# -- the network ----------------------------------------------------------------------------------


class Layer(nn.Module):
    """Oblivious decision trees side by side (Popov et al. 2020, sec. 3.1)."""

    def __init__(self, n_in: int, n_trees: int, depth: int, tree_dim: int, choice: str) -> None:
        super().__init__()
        self.shares, self.share = CHOICES[choice]
        self.selection = nn.Parameter(torch.rand(n_trees, depth, n_in))
        self.thresholds = nn.Parameter(torch.zeros(n_trees, depth))
        self.log_temperatures = nn.Parameter(torch.zeros(n_trees, depth))
        self.response = nn.Parameter(torch.randn(n_trees, tree_dim, 2**depth))

    def values(self, x: Tensor, trees: slice = slice(None)) -> Tensor:  # (I, B) -> (T, D, B)
        """What is compared with the thresholds: a mean of few inputs."""
        shares = self.shares(self.selection[trees])
        return (shares.flatten(0, 1) @ x).view(*shares.shape[:2], -1)

    def decisions(self, x: Tensor) -> Tensor:  # (I, B) -> (T, D, B)
        """How far a value lies above its threshold, from 0 to 1."""
        above = self.values(x) - self.thresholds[..., None]
        return self.share(above * (-self.log_temperatures).exp()[..., None])

    def forward(self, x: Tensor) -> Tensor:  # (I, B) -> (T, m, B)
        """The m outputs of each tree."""
        return _Leaves.apply(self.decisions(x), self.response, ROOM[x.device.type])

    @torch.no_grad()
    def start(self, x: Tensor, levels: Tensor) -> None:  # (I, N), (T, D)
        """Thresholds at quantiles (`levels`, from 0 to 1) of the values of these rows, temperatures
        at which the farthest of them is one unit away (Popov et al. 2020, sec. 3.1)."""
        last = x.shape[1] - 1
        for at in range(0, len(levels), START):
            trees = slice(at, at + START)
            values = self.values(x, trees).sort(dim=-1).values
            place = (levels[trees, :, None] * last).to(values.dtype)
            below = place.long()
            low, high = (values.gather(2, i.clamp(max=last)) for i in (below, below + 1))
            threshold = low + (high - low) * (place - below)
            farthest = (values - threshold).abs().amax(dim=2)
            self.thresholds[trees] = threshold[..., 0]
            self.log_temperatures[trees] = (farthest + 1e-6).log()


class NODENetwork(nn.Module):
    """Layers of trees, each of which sees the row and all outputs of the layers before; the mean
    over all trees of their first `n_out` outputs (Popov et al. 2020, sec. 3.2).

    n_trees: of a layer. tree_dim: outputs of a tree, at least n_out. choice: of `CHOICES`.
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        width: int,
        n_layers: int,
        n_trees: int,
        depth: int,
        tree_dim: int,
        choice: str,
        n_out: int,
    ) -> None:
        super().__init__()
        self.n_out = n_out
        self.input = RowInput(n_numeric, sizes, width)
        self.layers = nn.ModuleList(
            Layer(self.input.n_out + i * n_trees * tree_dim, n_trees, depth, tree_dim, choice)
            for i in range(n_layers)
        )

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.input(numbers, codes).t().contiguous()
        answers = []
        for i, layer in enumerate(self.layers):
            answers.append(layer(x))
            if i + 1 < len(self.layers):
                x = torch.cat([x, answers[-1].flatten(0, 1)])
        mean = torch.cat([y[:, : self.n_out] for y in answers]).mean(dim=0)
        return mean.t().squeeze(-1)

    @torch.no_grad()
    def start(self, rows: Batch, seed: int) -> None:
        """Thresholds and temperatures from rows, at random quantiles."""
        rng = np.random.default_rng(seed)
        x = self.input(rows.numbers, rows.codes).t().contiguous()
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            levels = rng.uniform(size=tuple(layer.thresholds.shape))
            layer.start(x, torch.from_numpy(levels).to(x.device))
            if i + 1 < len(self.layers):
                x = torch.cat([x, layer(x).flatten(0, 1)])


class _Task(RowTask):
    """Before the first step the thresholds are set, on random training rows."""

    def __init__(self, module: NODENetwork, *given: Any) -> None:
        super().__init__(module, *given)
        rng = np.random.default_rng(seed_of(self.settings.seed, 12))
        first = torch.from_numpy(rng.permutation(len(self.rows))[:FIRST])
        module.start(self.rows.at(first.to(self.targets.device)), seed_of(self.settings.seed, 13))


class NODE(RowNetwork):
    """Neural oblivious decision ensembles: differentiable trees in layers.

    Trained as in Gorishniy et al. 2021 (F.6), with a constant rate and no weight decay.

    References
    ----------
    Popov et al. 2020, arXiv:1909.06312; Gorishniy et al. 2021, arXiv:2106.11959, sec. F.6.
    """

    example = "epochs=5, n_trees=16, depth=3"
    make_task = _Task

    lr: float = 1e-3
    weight_decay: float = 0.0
    n_layers: int = hyper(1, COUNT, "Layers of trees; each sees the outputs of those before.")
    n_trees: int = hyper(2048, COUNT, "Trees of all layers together, shared out evenly.")
    depth: int = hyper(6, Number(1, 16, whole=True), "Depth of a tree, which has 2^depth leaves.")
    tree_dim: int = hyper(
        2, WIDTH, "Outputs of a tree; in a multiclass task a tree has at least one for each class."
    )
    choice: str = hyper(
        "entmax",
        OneOf(tuple(CHOICES)),
        "The function that chooses the feature of a node and the way below it.",
    )
    embedding: int = hyper(8, WIDTH, "Width of a category's vector.")

    def _network(self) -> NODENetwork:
        return self._made(
            NODENetwork,
            width=self.embedding,
            n_trees=max(1, self.n_trees // self.n_layers),
            tree_dim=max(self.tree_dim, self.n_out),
        )
