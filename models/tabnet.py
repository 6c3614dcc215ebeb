"""TabNet (Arik and Pfister 2021; Gorishniy et al. 2021, F.7).

Steps that each look at a few features of a row through a sparse mask. Tensors stand with the rows
last, (F, B), so that the batches of a ghost batch norm lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .deep.layers.category_embedding import RowInput
from .deep.layers.dropout import Seed
from .deep.layers.entmax import FIRST
from .deep.row_network import RowNetwork, RowTask
from .deep.trainer import Recipe
from .hyperparameters import (
    COUNT,
    DEPTH,
    LAYERS,
    PENALTY,
    ROWS,
    SHARE,
    SOME_WIDTH,
    SWITCH,
    WIDTH,
    Number,
    OneOf,
    hyper,
)

EPS = 1e-5  # of batch norms
TINY = 1e-15  # inside the logarithm of a mask
HALF = math.sqrt(0.5)  # scale of a residual sum
WHOLE = 2**31  # a virtual batch that holds any batch


class GhostNorm(nn.Module):
    """Batch norm by virtual batches (Hoffer et al. 2017): a batch falls into as few chunks of at
    most `size` rows as it can, all equal but a shorter last one; each is normalised by itself and
    moves the running statistics by `momentum` (the weight of the new value)."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, n: int, size: int, momentum: float) -> None:
        super().__init__()
        self.size, self.momentum = size, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))
        self.register_buffer("running_mean", torch.zeros(n))
        self.register_buffer("running_var", torch.ones(n))

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:  # (F, B) -> (F, B)
        """gain: (F,), multiplies the output where it is given."""
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if gain is not None:
            weight, bias = weight * gain, bias * gain
        if not self.training:
            scale = weight * (self.running_var + EPS).rsqrt()
            shift = bias - self.running_mean * scale
            return torch.addcmul(shift[:, None], x, scale[:, None])
        n_rows = x.shape[1]
        size = math.ceil(n_rows / math.ceil(n_rows / self.size))
        whole = n_rows // size * size
        if whole == n_rows:
            return self._norm(x, weight, bias, size)
        parts = [
            self._norm(x[:, :whole], weight, bias, size),
            self._norm(x[:, whole:], weight, bias, n_rows - whole),
        ]
        return torch.cat(parts, dim=1)

    def _norm(self, x: Tensor, weight: Tensor, bias: Tensor, size: int) -> Tensor:
        """Chunks of so many rows, as the groups of one group norm; the running statistics move.

        On a CPU that was faster than batch norms and layer norms.
        """
        n, n_chunks = len(x), x.shape[1] // size
        weight, bias = (p.repeat_interleave(n_chunks) for p in (weight, bias))
        groups = n * n_chunks
        out, mean, scale = torch.native_group_norm(
            x.contiguous().view(1, groups, size).to(weight.dtype),
            weight, bias, 1, groups, size, groups, EPS,
        )  # fmt: skip
        with torch.no_grad():
            variance = (scale.pow(-2) - EPS) * (size / max(size - 1, 1))
            kept = 1 - self.momentum
            weights = [self.momentum * kept**i for i in reversed(range(n_chunks))]
            shares = torch.tensor(weights, dtype=mean.dtype, device=mean.device)
            for running, new in ((self.running_mean, mean), (self.running_var, variance)):
                moved = (new.view(n, n_chunks) * shares).sum(dim=1)
                running.mul_(kept**n_chunks).add_(moved)
        return out.view(n, -1)


def _glorot(n_out: int, n_in: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(n_out, n_in)))


class Transformer(nn.Module):
    """Gated layers of a step: Linear -> norm -> a * sigmoid(b), all but the first with a residual
    scaled by sqrt(1/2). The weights of the first `n_shared` belong to all steps, the norms do not.
    """

    def __init__(self, n_shared: int, n_own: int, width: int, size: int, momentum: float) -> None:
        super().__init__()
        self.width = width
        self.own = nn.ParameterList(_glorot(2 * width, width) for _ in range(n_own))
        self.norms = nn.ModuleList(
            GhostNorm(2 * width, size, momentum) for _ in range(n_shared + n_own)
        )

    def forward(self, x: Tensor, shared: Iterable[Tensor]) -> Tensor:  # (F, B) -> (D, B)
        """Features after the gated layers; `shared` holds the weights of all steps."""
        gain = x.new_ones(2 * self.width)
        gain[: self.width] = HALF
        for i, (weight, norm) in enumerate(zip([*shared, *self.own], self.norms, strict=True)):
            if i == 0:
                x = F.glu(norm(weight @ x), dim=0)
            else:  # (x + a sigmoid(b)) sqrt(1/2), with the factor in the norm's gain of a
                x = torch.add(F.glu(norm(weight @ x, gain), dim=0), x, alpha=HALF)
        return x


class Step(NamedTuple):
    """What a step computes: how much of a feature is left (F, B), the logits of its mask (F, B),
    the mask (F, B), shares of a row's features; features of the row (n_d + n_a, B)."""

    prior: Tensor
    logits: Tensor
    mask: Tensor
    features: Tensor


class TabNetNetwork(nn.Module):
    """TabNet's encoder and a linear read-out of the sum of its decisions (Arik and Pfister 2021).

    n_d, n_a: width of a step's decision, and of what the next step's mask is made from. n_steps:
    steps that decide; a first one without a mask comes before. relaxation: how often a feature may
    be used again (1: once). n_shared, n_own: gated layers of a step with weights of all and of its
    own. mask: of `FIRST`. size, momentum: of ghost batch norms. input_norm: a batch norm first.
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        width: int,
        n_d: int,
        n_a: int,
        n_steps: int,
        relaxation: float,
        n_shared: int,
        n_own: int,
        mask: str,
        size: int,
        momentum: float,
        input_norm: bool,
        n_out: int,
    ) -> None:
        super().__init__()
        self.n_d, self.relaxation = n_d, relaxation
        self.shares = FIRST[mask]
        self.input = RowInput(n_numeric, sizes, width)
        n_in, n = self.input.n_out, n_d + n_a
        self.input_norm = GhostNorm(n_in, WHOLE, 0.01) if input_norm else None
        self.shared = nn.ParameterList(_glorot(2 * n, n if i else n_in) for i in range(n_shared))
        self.steps = nn.ModuleList(
            Transformer(n_shared, n_own, n, size, momentum) for _ in range(n_steps + 1)
        )
        self.attention = nn.ParameterList(_glorot(n_in, n_a) for _ in range(n_steps))
        self.norms = nn.ModuleList(GhostNorm(n_in, size, momentum) for _ in range(n_steps))
        self.head = _glorot(n_out, n_d)

    def walk(self, x: Tensor) -> Iterator[Step]:
        """The deciding steps for rows (F, B)."""
        if self.input_norm is not None:
            x = self.input_norm(x)
        features, prior = self.steps[0](x, self.shared), torch.ones_like(x)
        for step, weight, norm in zip(self.steps[1:], self.attention, self.norms, strict=True):
            logits = norm(weight @ features[self.n_d :])
            mask = self.shares(logits * prior)
            features = step(mask * x, self.shared)
            yield Step(prior, logits, mask, features)
            prior = prior * (self.relaxation - mask)

    def with_entropy(self, numbers: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, and the entropy of masks: a mean over rows and steps."""
        decided = entropy = numbers.new_zeros(())
        for step in self.walk(self.input(numbers, codes).t().contiguous()):
            decided = decided + step.features[: self.n_d].relu()
            entropy = entropy - (step.mask * (step.mask + TINY).log()).sum()
        out = (self.head @ decided).t().squeeze(-1)
        return out, entropy / (len(numbers) * len(self.attention))

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        return self.with_entropy(numbers, codes)[0]

    def importance(self, numbers: Tensor, codes: Tensor) -> Tensor:  # (B, F)
        """How much each input counted for a row: masks, weighed by their steps' decisions."""
        steps = self.walk(self.input(numbers, codes).t().contiguous())
        parts = [step.mask * step.features[: self.n_d].relu().sum(dim=0) for step in steps]
        return torch.stack(parts).sum(dim=0).t()


class _Task(RowTask):
    """The loss has the entropy of the masks beside it, so that they grow sparse."""

    settings: TabNet

    def loss(self, step: int) -> Tensor:
        rows = self.batch(step)
        out, entropy = self.module.with_entropy(*self.rows.at(rows))
        return self.criterion(out, self.targets[rows]) + self.settings.sparsity * entropy


class TabNet(RowNetwork):
    """TabNet: decision steps that each look at a few features through a sparse mask.

    Trained as in Gorishniy et al. 2021 (F.7): Adam, an exponentially decaying rate, gradients
    clipped at 2000.

    DIFF(Gorishniy 2021, F.7): the rows of an epoch are shared out evenly among its batches; there
    the last ones are dropped. DIFF(Arik 2021, the authors' code): every virtual batch moves the
    running statistics, there their mean does once.

    References
    ----------
    Arik and Pfister 2021, arXiv:1908.07442; Gorishniy et al. 2021, arXiv:2106.11959, sec. F.7.
    """

    example = "epochs=5, width=8"
    make_task = _Task
    batch_norm = True

    batch_size: int = hyper(
        0,
        ROWS,
        "Rows of a step, about; 0 for the paper's (2048 below 50,000 rows, 8192 below 100,000, "
        "else 16384), with six steps an epoch at least, where these have 64 rows.",
    )
    lr: float = 0.01
    weight_decay: float = 0.0
    n_steps: int = hyper(
        3, LAYERS, "Steps that decide (the authors' code counts one more, which does not)."
    )
    width: int = hyper(16, WIDTH, "Width of a step's decision (the papers' n_d).")
    width_attention: int = hyper(
        0,
        SOME_WIDTH,
        "Width of what the mask of the next step is made from (n_a), 0 for as much as `width`.",
    )
    relaxation: float = hyper(
        1.5, Number(1.0, 100.0), "How often a feature may be used again, 1 for once."
    )
    sparsity: float = hyper(1e-4, PENALTY, "Weight of the masks' entropy in the loss.")
    decay_rate: float = hyper(0.9, SHARE, "Factor of the learning rate in `decay_steps` steps.")
    decay_steps: int = hyper(500, COUNT, "Steps in which the learning rate decays by `decay_rate`.")
    n_shared: int = hyper(2, LAYERS, "Gated layers of a step whose weights all steps share.")
    n_own: int = hyper(2, DEPTH, "Gated layers of a step with weights of its own.")
    mask: str = hyper(
        "sparsemax", OneOf(tuple(FIRST)), "The function that makes a mask from logits."
    )
    virtual_batch: int = hyper(
        256, Number(2, 1_000_000, whole=True), "Rows that a ghost batch norm normalises together."
    )
    momentum: float = hyper(
        0.05, SHARE, "Weight of a virtual batch's statistics in the running ones."
    )
    input_norm: bool = hyper(
        False,
        SWITCH,
        "Whether a batch norm of the input comes first; superfluous where the numbers are scaled.",
    )
    embedding: int = hyper(8, WIDTH, "Width of a category's vector.")

    def rows_a_batch(self, n: int) -> int:
        """Rows of a step for n training rows, a multiple of the virtual batches."""
        paper = 2048 if n < 50_000 else 8192 if n < 100_000 else 16384
        wanted = self.batch_size or max(64, min(paper, n // 6))
        rows = math.ceil(n / max(1, round(n / wanted)))
        chunks = math.ceil(rows / self.virtual_batch)
        return math.ceil(rows / chunks) * chunks  # virtual batches of one size

    def _recipe(self) -> Recipe:
        def rate(step: int) -> float:
            return self.lr * self.decay_rate ** (step / self.decay_steps)

        return replace(super()._recipe(), rate=rate, clip_value=2000.0)

    def _network(self) -> TabNetNetwork:
        return self._made(
            TabNetNetwork,
            width=self.embedding,
            n_d=self.width,
            n_a=self.width_attention or self.width,
            size=self.virtual_batch,
        )
