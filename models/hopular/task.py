"""Training step of Hopular: one step of the optimiser over all training rows.

All training rows are the memory, and all of them are asked, each with its own row of the memory
hidden. They may be asked in batches: the memory is stored once, and gradients add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..deep.cells import Cells, generator, without
from ..deep.column_decoder import Decoded, stacked
from ..deep.optimisers import Lamb
from ..deep.trainer import seed_of
from .masking import column_losses, mean_loss, noisy
from .network import HopularNetwork, Memory
from .schedules import gamma

ROWS = 64  # rows that are predicted together
WEIGHTS_AT_ONCE = 2**22  # associations of them


class HopularTask:
    """Network and losses on a table of training rows. settings: a `Hopular`, or what has its
    hyperparameters. target_scale: raw units of a numeric target in one standardised unit."""

    def __init__(
        self,
        module: HopularNetwork,
        cells: Cells,
        val: Cells | None,
        settings: Any,
        target_scale: float = 1.0,
    ) -> None:
        self.module, self.cells, self.val = module, cells, val
        self.settings, self.target_scale = settings, target_scale
        self.columns = module.columns
        device = cells.hidden.device
        self.is_target = torch.zeros(self.columns.n, dtype=torch.bool, device=device)
        self.is_target[list(self.columns.targets)] = True
        self.rows = torch.arange(len(cells), device=device)

    def optimiser(self) -> Lamb:
        """LAMB with bias correction and weight decay."""
        return Lamb(
            self.module.parameters(),
            weight_decay=self.settings.weight_decay,
            debias=True,
            segments=self.module.segments(),
        )

    def loss(self, step: int) -> Tensor:
        """gamma x mean loss of the features + (1 - gamma) x that of the targets (eq. 10).

        In batches, it is the mean of their losses. Gradients that do not pass through the memory
        are accumulated batch by batch here. DIFF(Schaefl 2022, the authors' code): the memory has
        one draw of dropout an epoch, not one a batch.
        """
        s = self.settings
        g = generator(seed_of(s.seed, step, 1))
        shown, flags = noisy(self.cells, self.columns, s.p_mask, s.p_replace, g)
        weight = gamma(step, s.steps, s.gamma)
        memory = self.module.store(self.cells, (s.seed, step, 0))
        n_batches = -(-len(self.cells) // s.batch_size) if s.batch_size else 1
        if n_batches == 1:
            return self._part(self.rows, shown, flags, memory, weight, (s.seed, step, 1))
        leaves = [tuple(x.detach().requires_grad_() for x in stored) for stored in memory]
        total = self.cells.values.new_zeros(())
        for i, rows in enumerate(self.rows.tensor_split(n_batches)):
            part = self._part(rows, shown, flags, leaves, weight, (s.seed, step, i + 1))  # type: ignore[arg-type]
            (part / n_batches).backward()
            total += part.detach() / n_batches
        for stored, leaf in zip(memory, leaves, strict=True):
            for x, y in zip(stored, leaf, strict=True):
                assert y.grad is not None
                carried = (x * y.grad).sum()  # its gradient by x is that of the batches
                total = total + carried - carried.detach()
        return total

    def _part(
        self,
        rows: Tensor,
        shown: Cells,
        flags: Tensor,
        memory: Memory,
        weight: float,
        seed: tuple[int, ...],
    ) -> Tensor:
        """The loss of some training rows: `weight` of the features', the rest the target's. Without
        a feature that counts, it is the target's alone."""
        state = self.module(shown[rows], flags[rows], memory, seed, forbidden=rows)
        truth = self.cells[rows]
        wanted = None if weight else self.columns.targets
        decoded = self.module.decode(state, wanted)
        losses, counted = column_losses(decoded, truth, self.columns, ~truth.hidden)
        on_targets, _ = mean_loss(losses, counted, self.is_target)
        if not weight:
            return on_targets
        on_features, n = mean_loss(losses, counted, ~self.is_target)
        return torch.where(n > 0, weight * on_features + (1 - weight) * on_targets, on_targets)

    def val_loss(self) -> float | None:
        """On validation rows: share of wrong classes, or what ROC AUC lacks to 1; squared error in
        raw units."""
        if self.val is None:
            return None
        decoded = ask(self.module, self.module.store(self.cells), self.val)
        target = self.columns.targets[0]
        predicted = decoded.of(target)
        if self.columns.categorical[target]:
            codes = self.val.codes[:, self.columns.categories_at.index(target)]
            if self.settings.stop_on == "roc_auc":
                return area_lacking(predicted.double(), codes)
            return float((predicted.argmax(dim=1) != codes).double().mean())
        truth = self.val.values[:, self.columns.numeric_at.index(target)]
        return float((predicted.double() - truth.double()).square().mean()) * self.target_scale**2


def area_lacking(logits: Tensor, codes: Tensor) -> float:  # (N, C), (N,)
    """1 - ROC AUC, for more than two classes the mean of one against the rest; log loss where a
    class has no row, NaN for logits that are no numbers.

    >>> area_lacking(torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]), torch.tensor([0, 1, 1]))
    0.0
    """
    from sklearn.metrics import roc_auc_score

    if len(codes.unique()) < logits.shape[1]:
        return float(F.cross_entropy(logits, codes))
    if not logits.isfinite().all():
        return float("nan")
    shares = logits.softmax(dim=1).cpu().numpy()
    asked = shares[:, 1] if shares.shape[1] == 2 else shares
    return 1.0 - float(roc_auc_score(codes.cpu().numpy(), asked, multi_class="ovr"))


def ask(module: HopularNetwork, memory: Memory, cells: Cells) -> Decoded:
    """Targets of rows that see the memory and themselves, in blocks of one size: a row's answer is
    the same whatever is predicted with it. The cells of the targets are not read."""
    flags = torch.zeros_like(cells.hidden)
    flags[:, list(module.columns.targets)] = True
    cells = without(cells, flags)
    _, n_nets, n, _ = memory[0][0].shape
    block = int(np.clip(WEIGHTS_AT_ONCE // (n * n_nets), 8, ROWS))
    parts: list[tuple[Decoded, int]] = []
    for at in range(0, len(cells), block):
        rows = torch.arange(at, at + block, device=flags.device)
        there = int((rows < len(cells)).sum())
        rows = torch.where(rows < len(cells), rows, at)
        state = module(cells[rows], flags[rows], memory, alone=True)
        parts.append((module.decode(state, module.columns.targets), there))
    return stacked(parts)
