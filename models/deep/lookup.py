"""Base of networks of single rows that look up the training rows when they answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch

from .embedded_rows import FlatRows
from .estimator import Rows
from .row_network import Batch, RowTask
from .trainer import torch_device

ENCODED = 1024  # training rows that are encoded together


class LookupTask(RowTask):
    """Losses of a network whose `forward` looks up training rows. `known` holds the rows that its
    `remember` was last given; in validation these are all training rows."""

    def val_loss(self) -> float | None:
        """The validation loss (as for `RowTask`), with all training rows looked up."""
        if self.val is None:
            return None
        self.module.remember(self.rows, self.targets)
        try:
            return super().val_loss()
        finally:
            self.module.known = None


def in_parts(rows: Batch) -> list[Batch]:
    """The rows in parts that are encoded together."""
    return [rows.at(slice(at, at + ENCODED)) for at in range(0, len(rows), ENCODED)]


class LookupRows(FlatRows):
    """Base of networks that look up the training rows: the fitted model keeps those rows."""

    # a block of a prediction reads all training rows
    asked: ClassVar[dict[str, int]] = {"cpu": 256, "cuda": 256}

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        rows = self._rows(train[0])
        kept = {"numbers": rows.numbers, "codes": rows.codes, "targets": self._targets(train[1])}
        return {name: tensor.cpu().numpy() for name, tensor in kept.items()}

    @contextmanager
    def _ready(self) -> Iterator[Any]:
        with super()._ready() as module:
            if module.known is None:
                device = torch_device(self.device)
                numbers, codes, targets = (
                    torch.from_numpy(self.model_[name]).to(device)
                    for name in ("numbers", "codes", "targets")
                )
                module.remember(Batch(numbers, codes), targets)
            yield module
