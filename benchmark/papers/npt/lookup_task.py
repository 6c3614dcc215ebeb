"""NPT's lookup task and its training (Kossen et al. 2021, secs. 4.2 and B.1).

A table holds every row twice: originals, whose targets are masked, and duplicates, which show them.
A model that finds the duplicate of a row and copies its target predicts perfectly. Variants make
this harder: some features are noise in both copies, or a constant is added to the duplicates'
targets.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....datasets.protocols import make_folds
from ....models.deep.cells import Cells, generator, hide
from ....models.deep.schedules import rate
from ....models.deep.trainer import Recipe, Training, seed_of, seeded, torch_device
from ....models.npt.masking import select
from ....models.npt.task import NPTTask
from ..experiment_result import Setting
from .batched_tables import Tables, numeric_cells, numeric_columns

TRAIN, VAL, TEST = 1, 2, 3  # what a draw is for; part of its seed


@dataclass(frozen=True)
class Variant:
    """random_features: last columns overwritten by N(1, 1), in both copies independently (B.1.2).
    added: to the targets that duplicates show, in standard deviations."""

    name: str
    title: str
    random_features: int = 0
    added: float = 0.0


VARIANTS = (
    Variant("original", "original"),
    Variant("random-features", "random features", random_features=3),
    Variant("add-one", "add one", added=1.0),
    Variant("random-features-and-add-one", "both", random_features=3, added=1.0),
)


@dataclass(frozen=True)
class Fresh:
    """Freshly drawn tables: features and targets are all independent N(0, 1)."""

    n_rows: int
    n_features: int

    def draw(self, n_tables: int, part: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features (B, N, F) and targets (B, N); the same for all parts."""
        shape = (n_tables, self.n_rows, self.n_features + 1)
        drawn = torch.randn(shape, generator=g, device=g.device)
        return drawn[..., :-1], drawn[..., -1]


@dataclass(frozen=True)
class Stored:
    """Tables of `n_rows` rows of a stored one, those of the part alone: (M, F) features and (M,)
    targets a part, in the order training, validation, test; standardised."""

    n_rows: int
    parts: tuple[tuple[Tensor, Tensor], ...]

    @property
    def n_features(self) -> int:
        """Features of a table."""
        return self.parts[0][0].shape[1]

    def draw(self, n_tables: int, part: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features (B, N, F) and targets (B, N) of rows drawn from one part."""
        x, y = self.parts[part - TRAIN]
        n = min(self.n_rows, len(x))
        rows = [torch.randperm(len(x), generator=g, device=g.device)[:n] for _ in range(n_tables)]
        at = torch.stack(rows)
        return x[at], y[at]


Source = Fresh | Stored


@dataclass(frozen=True)
class Doubled:
    """Tables of 2 N rows, duplicates above originals. features: (B, 2N, F). shown: (B, N), targets
    of the duplicates. truth: (B, N), targets of the originals."""

    features: Tensor
    shown: Tensor
    truth: Tensor

    @property
    def cells(self) -> Cells:
        """The input cells of NPT, (2 B N, F + 1)."""
        targets = torch.cat([self.shown, torch.zeros_like(self.truth)], dim=1)
        hidden = torch.zeros_like(targets, dtype=torch.bool)
        hidden[:, self.shown.shape[1] :] = True
        return numeric_cells(self.features, targets, hidden)


def doubled(features: Tensor, targets: Tensor, variant: Variant, g: torch.Generator) -> Doubled:
    """Both copies of tables (B, N, F), (B, N).

    DIFF(Kossen 2021, B.1.2, code): as in the text, the last `random_features` columns are noise in
    both copies, and only targets are added to. In the authors' code all columns after the third are
    noise, in the duplicates alone, and the one is added to the mask channel, too.
    """
    both = torch.cat([features, features], dim=1)
    if variant.random_features:
        shape = (*both.shape[:2], variant.random_features)
        both[..., -variant.random_features :] = 1 + torch.randn(
            shape, generator=g, device=both.device
        )
    return Doubled(both, targets + variant.added, targets)


@dataclass(frozen=True)
class Settings:
    """A network and its training. tables: drawn for each step. rows: originals of a table, and as
    many duplicates. flat: share of the steps at the full rate. test_tables: predicted at the end.
    dropout, p_feature: see `NPT`; with p_feature the originals' features are masked too, and their
    loss weighs as `NPT` has it."""

    width: int
    n_layers: int
    n_heads: int
    tables: int
    rows: int
    steps: int
    lr: float
    flat: float
    eval_every: int
    test_tables: int
    dropout: float = 0.0
    p_feature: float = 0.0


N_FEATURES = 7

# DIFF(Kossen 2021, sec. 4.2): a small network on fresh tables, eight in each step: the first
# hundreds of steps, in which nothing seems to be learnt with one table a step, nearly vanish.
REDUCED = Settings(
    width=16,
    n_layers=4,
    n_heads=4,
    tables=8,
    rows=16,
    steps=1000,
    lr=1e-2,
    flat=0.5,
    eval_every=50,
    test_tables=64,
)
FULL = Settings(
    width=128,
    n_layers=8,
    n_heads=8,
    tables=1,
    rows=2048,
    steps=400_000,
    lr=1e-3,
    flat=0.7,
    eval_every=2000,
    test_tables=4,
    dropout=0.1,
    p_feature=0.15,
)
TINY = replace(
    REDUCED, width=4, n_layers=2, n_heads=1, tables=2, rows=6, steps=4, eval_every=2, test_tables=3
)


def source_of(setting: Setting, settings: Settings) -> Source:
    """Fresh tables; at full size those of Protein: its training, validation and test rows
    (0.7/0.1/0.2), standardised by the training rows."""
    if not setting.full:
        return Fresh(settings.rows, N_FEATURES)
    data = setting.load("protein")
    fold = make_folds(data, "holdout", seed=setting.seed)[0]
    x = data.frame.to_numpy(dtype=np.float64)
    y = data.target.astype(np.float64)
    parts = []
    for rows in (fold.train, fold.val, fold.test):
        scaled = (x[rows] - x[fold.train].mean(axis=0)) / x[fold.train].std(axis=0)
        target = (y[rows] - y[fold.train].mean()) / y[fold.train].std()
        pair = (torch.from_numpy(scaled).float(), torch.from_numpy(target).float())
        parts.append((pair[0].to(setting.device), pair[1].to(setting.device)))
    return Stored(settings.rows, tuple(parts))


class LookupTask(NPTTask):
    """NPT's training on tables that are drawn anew in every step: squared error on the originals'
    targets, and on their masked features where `p_feature` asks for it."""

    module: Tables

    def __init__(
        self, source: Source, variant: Variant, settings: Settings, *, seed: int, device: str
    ) -> None:
        self.source, self.variant, self.seed = source, variant, seed
        weight = 1.0 if settings.p_feature else 0.0
        of_loss = {"seed": seed, "tradeoff": weight, "tradeoff_schedule": "cosine"}
        self.settings: Any = SimpleNamespace(**asdict(settings), **of_loss)
        self.device = torch_device(device)
        self.columns = numeric_columns(source.n_features)
        with seeded(seed_of(seed, 0)):
            self.module = Tables(
                self.columns,
                width=settings.width,
                n_layers=settings.n_layers,
                n_heads=settings.n_heads,
                p_weights=settings.dropout,
                p=settings.dropout,
            ).to(self.device)
        self.validation = self.drawn(VAL, 0, settings.test_tables)

    def drawn(self, part: int, step: int, n_tables: int) -> Doubled:
        """Tables of a part; those of a step are always the same."""
        g = torch.Generator(self.device).manual_seed(seed_of(self.seed, part, step))
        return doubled(*self.source.draw(n_tables, part, g), self.variant, g)

    def predict(self, tables: Doubled) -> Tensor:  # (B, N)
        """The originals' targets."""
        self.module.rows = tables.features.shape[1]
        state = self.module(tables.cells)
        found = self.module.decode(state, self.columns.targets).values[:, 0]
        return found.view(len(tables.truth), -1)[:, tables.shown.shape[1] :]

    def draw(self, step: int) -> tuple[Cells, Cells, Tensor, Tensor]:
        """As of `NPTTask`, on fresh tables."""
        settings, g = self.settings, generator(seed_of(self.seed, step, 4))
        tables = self.drawn(TRAIN, step, settings.tables)
        self.module.rows = tables.features.shape[1]
        cells = tables.cells
        whole = torch.cat([tables.shown, tables.truth], dim=1).flatten()
        truth = Cells(
            torch.cat([cells.values[:, :-1], whole[:, None]], 1), cells.codes, cells.hidden
        )
        features = torch.zeros_like(cells.hidden)
        features[:, :-1] = cells.hidden[:, -1:]  # of originals
        hidden, randomised = select(features, settings.p_feature, g)
        shown = hide(cells, self.columns, hidden, randomised, g) if settings.p_feature else cells
        return shown, truth, hidden | randomised, cells.hidden

    def val_loss(self) -> float:
        """Mean squared error on the validation tables."""
        return float((self.predict(self.validation) - self.validation.truth).square().mean())


def learn(source: Source, variant: Variant, settings: Settings, setting: Setting) -> LookupTask:
    """A network that was trained on the task, with its best weights by validation error."""
    task = LookupTask(source, variant, settings, seed=setting.seed, device=setting.device)
    recipe = Recipe(
        steps=settings.steps,
        rate=partial(_rate, settings.steps, settings.lr, settings.flat),
        eval_every=settings.eval_every,
        clip_value=1.0,
        lookahead=(0.5, 6),
        precision="fp32",
    )
    training = Training(task, recipe, seed=setting.seed, device=setting.device)
    training.run(settings.steps)
    weights = training.outcome()
    task.module.load_state_dict({n: torch.from_numpy(a) for n, a in weights.items()})
    task.module.eval()
    return task


def _rate(steps: int, lr: float, flat: float, s: int) -> float:
    return rate("flat-cosine", s, steps, lr, flat)


def correlation(predicted: Tensor, truth: Tensor) -> float:
    """Pearson's r; 0 where the predictions are all equal."""
    a = predicted.detach().double().cpu().numpy().ravel()
    b = truth.double().cpu().numpy().ravel()
    if not a.std() or not np.isfinite(a).all():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def rmse(predicted: Tensor, truth: Tensor) -> float:
    """Root mean squared error, in standard deviations of the target."""
    return math.sqrt(float((predicted.detach().double() - truth.double()).square().mean()))
