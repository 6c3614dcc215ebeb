"""Estimators of NPT's two networks for pictures (Kossen et al. 2021, sec. B.8).

X: (N, channels x side x side) values of square pictures, channel by channel and row by row; they
are standardised by the mean and deviation of each channel over the training pictures.

DIFF(Kossen 2021, sec. B.8, code): validation pictures are never augmented; in the authors' code
they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..deep.cells import Cells
from ..deep.column_decoder import probabilities
from ..deep.estimator import DROPOUT, Rows
from ..deep.optimisers import Lamb
from ..deep.trainer import seed_of, torch_device
from ..hyperparameters import CLASSES, COUNT, SWITCH, Number, OneOf, hyper
from ..policy import Policy
from .batches import Batches
from .estimator import NPT
from .images import PatchNetwork, PictureNetwork, augmented, side_of
from .network import NORMS
from .prediction import TRAIN
from .task import NPTTask
from .training import LambTrained

AS_IT_IS = Policy("none", "native", "native", "standard")
TOGETHER = 256  # pictures that are predicted at once


class Pictures:
    """What both estimators do with rows of pixels; mixed into a `DeepEstimator` with the parameters
    n_channels, augment and padding."""

    n_channels: int
    augment: bool
    padding: int
    mean_: np.ndarray
    scale_: np.ndarray

    def _prepare(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        x, target = super()._prepare(X, y)  # type: ignore[misc]
        side_of(x.shape[1], self.n_channels)
        if self.augment and np.isnan(x).any():
            raise ValueError("pictures with missing pixels cannot be augmented; use augment=False")
        planes = x.reshape(len(x), self.n_channels, -1)
        self.mean_ = np.nan_to_num(np.nanmean(planes, axis=(0, 2)))
        scale = np.nan_to_num(np.nanstd(planes, axis=(0, 2)))
        self.scale_ = np.where(scale > 0, scale, 1.0)
        return x, target

    def _standard(self, x: np.ndarray) -> np.ndarray:  # (N, P) -> (N, P)
        planes = x.reshape(len(x), self.n_channels, -1).astype(np.float64)
        return ((planes - self.mean_[:, None]) / self.scale_[:, None]).reshape(x.shape)

    def _varied(self, x: Tensor, seed: int) -> Tensor:  # (N, K, S, S) standardised
        """The pictures as a training step sees them; black comes in at the sides."""
        fill = torch.from_numpy(-self.mean_ / self.scale_).to(x.device)
        return augmented(x, self.padding, fill, seed) if self.augment else x


# -- patches --------------------------------------------------------------------------------------


class PatchTask(NPTTask):
    """As for tables, the training pictures of a step varied."""

    def rows(self, step: int) -> tuple[Cells, Tensor]:
        """As for tables, the training pictures cropped and mirrored where `augment` asks for it."""
        cells, parts = super().rows(step)
        model: Any = self.settings
        if not model.augment:
            return cells, parts
        side = side_of(cells.values.shape[1], model.n_channels)
        planes = cells.values.reshape(len(cells), model.n_channels, side, side)
        varied = model._varied(planes, seed_of(model.seed, step, 4))
        train = (parts == TRAIN)[:, None]
        return replace(cells, values=torch.where(train, varied.flatten(1), cells.values)), parts


@dataclass(kw_only=True, eq=False, repr=False)
class NPTPatches(Pictures, NPT):
    """NPT with linear patches (sec. B.8, (2)): classes of square pictures, and their pixels.

    `p_feature` is the share of masked pixel values; the other parameters mean what they mean for
    `NPT`.

    Parameters
    ----------
    n_channels
        Colour planes of a picture, K.
    n_patches
        Squares that a picture is cut into, 49 for MNIST and 64 for CIFAR-10 in the paper.
    augment
        Whether training pictures are randomly cropped after `padding` black pixels, and mirrored.
    padding
        Black pixels on each side.

    References
    ----------
    Kossen et al. 2021, arXiv:2106.02584, sec. B.8.

    Examples
    --------
    >>> import numpy as np
    >>> from tabsweep.models.npt.image_estimators import NPTPatches
    >>> X, y = np.random.default_rng(0).random((12, 64)), np.arange(12) % 2
    >>> model = NPTPatches(task="binary", n_patches=4, width=8, n_layers=2, n_heads=2, steps=3)
    >>> model.fit(X, y).predict(X).shape
    (12,)
    """

    policy = AS_IT_IS
    n_channels: int = hyper(1, COUNT)
    n_patches: int = hyper(49, COUNT)
    augment: bool = hyper(False, SWITCH)
    padding: int = hyper(4, Number(0, 1000, whole=True))

    def cells(self, x: np.ndarray, y: np.ndarray | None = None) -> Cells:
        """As for tables, the pixels standardised."""
        return super().cells(self._standard(x), y)

    def _network(self) -> PatchNetwork:
        return PatchNetwork(
            self.columns(),
            n_channels=self.n_channels,
            n_patches=self.n_patches,
            width=self.width,
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            p_weights=self.dropout_weights,
            p=self.dropout,
            norm=self.norm,
            aba=self.aba,
        )

    def _task(self, train: Rows, val: Rows | None) -> NPTTask:
        made = super()._task(train, val)
        return PatchTask(made.module, made.cells, made.parts.cpu().numpy(), made.val, self)


# -- ResNet-18 and attention between datapoints ---------------------------------------------------


class PictureTask:
    """Cross-entropy on the pictures of a batch, which attend to each other."""

    def __init__(
        self, module: PictureNetwork, train: tuple[Tensor, Tensor], val: Any, model: NPTResNet
    ) -> None:
        self.module, self.val, self.model = module, val, model
        self.x, self.y = train
        self.batches = Batches(np.zeros(len(self.y), np.int64), model.batch_size, model.seed)
        self.around = torch.from_numpy(model.context_rows(len(self.y))).to(self.x.device)

    def optimiser(self) -> Lamb:
        """LAMB without segments."""
        return Lamb(self.module.parameters())

    def loss(self, step: int) -> Tensor:
        """Mean cross-entropy of the pictures of step `step` + 1."""
        seed = self.model.seed
        rows = torch.from_numpy(self.batches.at(step)).to(self.x.device)
        x = self.model._varied(self.x[rows], seed_of(seed, step, 4))
        return F.cross_entropy(self.module(x, (seed, step)).float(), self.y[rows])

    def val_loss(self) -> float | None:
        """Mean cross-entropy on the validation pictures, as they would be predicted."""
        if self.val is None:
            return None
        x, y = self.val
        logits = self.model.logits(self.module, self.x[self.around], x)
        return float(F.cross_entropy(logits.float(), y))


@dataclass(kw_only=True, eq=False, repr=False)
class NPTResNet(Pictures, LambTrained):
    """ResNet-18 and blocks of attention between pictures (sec. B.8, (1)), inductive.

    A picture sees `context` training pictures, whatever else is predicted. Labels are never an
    input. A missing pixel is black.

    DIFF(Kossen 2021, sec. B.8): optimiser and rates are not stated there; these are NPT-Base's. At
    prediction the paper puts 480 pictures in a batch; here 480 training pictures are the context of
    every picture to predict, and these do not see each other.

    Parameters
    ----------
    n_channels
        Colour planes of a picture, K.
    augment
        Whether training pictures are randomly cropped after `padding` black pixels, and mirrored.
    padding
        Black pixels on each side.
    base
        Width of the ResNet's first stage, 64 as published.
    width
        Width of a picture's code.
    n_blocks
        Blocks of attention between pictures, 0 for the ResNet alone.
    n_heads
        Heads of attention, H.
    norm
        As for `NPT`.
    dropout
        Dropout on hidden values.
    dropout_weights
        Dropout on attention weights.
    context
        Training pictures that each picture to predict sees.

    References
    ----------
    Kossen et al. 2021, arXiv:2106.02584, sec. B.8.

    Examples
    --------
    >>> import numpy as np
    >>> from tabsweep.models.npt.image_estimators import NPTResNet
    >>> X, y = np.random.default_rng(0).random((12, 64)), np.arange(12) % 3
    >>> model = NPTResNet(n_channels=1, base=4, width=8, n_blocks=1, n_heads=2, steps=2)
    >>> model.fit(X, y).predict(X).shape
    (12,)
    """

    policy = AS_IT_IS

    task: str = hyper("multiclass", CLASSES)
    steps: int = 35_200
    eval_every: int = 352
    n_channels: int = hyper(3, COUNT)
    augment: bool = hyper(False, SWITCH)
    padding: int = hyper(4, Number(0, 1000, whole=True))
    base: int = hyper(64, COUNT)
    width: int = hyper(128, COUNT)
    n_blocks: int = hyper(4, Number(0, 1000, whole=True))
    n_heads: int = hyper(8, COUNT)
    norm: str = hyper("query", OneOf(NORMS))
    dropout: float = hyper(0.1, DROPOUT)
    dropout_weights: float = hyper(0.1, DROPOUT)
    batch_size: int = 128
    context: int = hyper(480, COUNT)

    def _network(self) -> PictureNetwork:
        return PictureNetwork(
            len(self.classes_),
            n_channels=self.n_channels,
            base=self.base,
            width=self.width,
            n_blocks=self.n_blocks,
            n_heads=self.n_heads,
            p_weights=self.dropout_weights,
            p=self.dropout,
            norm=self.norm,
        )

    def _images(self, x: np.ndarray) -> Tensor:  # (N, P) -> (N, K, S, S)
        side = side_of(x.shape[1], self.n_channels)
        pixels = self._standard(np.nan_to_num(x)).reshape(len(x), self.n_channels, side, side)
        return torch.from_numpy(pixels.astype(np.float32)).to(torch_device(self.device))

    def _rows(self, rows: Rows) -> tuple[Tensor, Tensor]:
        return self._images(rows[0]), torch.from_numpy(rows[1]).to(torch_device(self.device))

    def _task(self, train: Rows, val: Rows | None) -> PictureTask:
        module = self._network().to(torch_device(self.device))
        return PictureTask(
            module, self._rows(train), None if val is None else self._rows(val), self
        )

    def context_rows(self, n: int) -> np.ndarray:
        """Numbers of the training pictures, of n, that each picture to predict attends to."""
        rng = np.random.default_rng([self.seed, 2])
        return np.sort(rng.choice(n, min(n, self.context), replace=False))

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        """The pictures that predictions see."""
        return {"x": train[0][self.context_rows(len(train[0]))].astype(np.float32)}

    def logits(self, module: PictureNetwork, around: Tensor, asked: Tensor) -> Tensor:  # (N, C)
        """Logits (N, C) in blocks of one size, so that a row depends on its picture alone."""
        context = module.context(around) if self.n_blocks else []
        answers = []
        for at in range(0, len(asked), TOGETHER):
            piece = asked[at : at + TOGETHER]
            again = torch.arange(TOGETHER, device=piece.device) % len(piece)
            answers.append(module.ask(piece[again], context)[: len(piece)])
        return torch.cat(answers)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        with self._ready() as module:
            around = self._images(self.model_["x"])
            return probabilities(self.logits(module, around, self._images(x)).float())
