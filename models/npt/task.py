"""Training step of NPT: masked cells, two losses and their trade-off (Kossen et al. 2021, 2.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..deep.cells import Cells, generator, hide
from ..deep.optimisers import Lamb
from ..deep.schedules import tradeoff
from ..deep.trainer import seed_of
from .batches import Batches, strata_of
from .masking import loss_on, select
from .network import NPTNetwork
from .prediction import TRAIN, decode_targets


class NPTTask:
    """Network and losses on a table: training rows, and in transductive mode the others too.
    settings: an `NPT`, or what has its hyperparameters."""

    def __init__(
        self,
        module: NPTNetwork,
        cells: Cells,
        parts: np.ndarray,
        val: Cells | None,
        settings: Any,
    ) -> None:
        self.module, self.cells, self.val, self.settings = module, cells, val, settings
        self.parts = torch.from_numpy(parts).to(cells.hidden.device)
        self.columns = module.columns
        targets = torch.zeros(self.columns.n, dtype=torch.bool)
        targets[list(self.columns.targets)] = True
        self.is_target = targets.to(cells.hidden.device)
        classes = None
        if settings.balanced and self.columns.categorical[self.columns.targets[0]]:
            at = self.columns.categories_at.index(self.columns.targets[0])
            classes = cells.codes[:, at].cpu().numpy()
        self.batches = Batches(strata_of(parts, classes), settings.batch_size, settings.seed)

    def optimiser(self) -> Lamb:
        """LAMB, with the columns' parts of stored parameters as tensors of their own."""
        return Lamb(self.module.parameters(), segments=self.module.segments())

    def rows(self, step: int) -> tuple[Cells, Tensor]:
        """The rows of a step, nothing masked, and the part of each."""
        if self.batches.n_batches == 1:
            return self.cells, self.parts
        rows = torch.from_numpy(self.batches.at(step)).to(self.parts.device)
        return self.cells[rows], self.parts[rows]

    def draw(self, step: int) -> tuple[Cells, Cells, Tensor, Tensor]:
        """(what is shown, the truth, cells of the feature loss, cells of the target loss)."""
        s = self.settings
        cells, parts = self.rows(step)
        g = generator(seed_of(s.seed, step, 1))
        there = ~cells.hidden
        train = (parts == TRAIN)[:, None]
        features = select(there & ~self.is_target, s.p_feature, g)
        targets = select(there & self.is_target & train, s.p_target, g)
        closed = self.is_target & ~train  # labels that no training step may see
        shown = hide(
            cells, self.columns, features[0] | targets[0] | closed, features[1] | targets[1], g
        )
        return shown, cells, features[0] | features[1], targets[0] | targets[1]

    def loss(self, step: int) -> Tensor:
        """(1 - w) x mean target loss + w x mean feature loss, w the trade-off of the step."""
        s = self.settings
        shown, truth, features, targets = self.draw(step)
        weight = tradeoff(s.tradeoff_schedule, step, s.steps, s.tradeoff)
        state = self.module(shown, (s.seed, step))
        if not weight or not s.p_feature:
            total, count = loss_on(
                self.module.decode(state, self.columns.targets), truth, self.columns, targets
            )
            return (1 - weight) * total / count.clamp(min=1)
        decoded = self.module.decode(state)
        on_targets, n_targets = loss_on(decoded, truth, self.columns, targets)
        on_features, n_features = loss_on(decoded, truth, self.columns, features)
        return (1 - weight) * on_targets / n_targets.clamp(min=1) + (
            weight * on_features / n_features.clamp(min=1)
        )

    def val_loss(self) -> float | None:
        """Mean loss on the validation rows' targets, as they would be predicted."""
        if self.val is None:
            return None
        decoded = decode_targets(self.module, self.cells, self.parts, self.val, self.settings)
        wanted = self.is_target.expand(len(self.val), -1) & ~self.val.hidden
        total, count = loss_on(decoded, self.val, self.columns, wanted)
        return float(total / count.clamp(min=1))
