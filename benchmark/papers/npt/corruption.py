"""NPT's loss of accuracy when all other rows are corrupted (Kossen et al. 2021, Table 2).

All twelve columns of the table: the ten tables of sec. 4.1, in batches where one batch does not
hold them, and the two image sets. `corrupted_rows.py` has the algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.catalog import load_dataset, splits
from ....datasets.errors import ChecksumMismatch, DatasetUnavailable
from ....datasets.images import load_images
from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....models.deep.trainer import computing
from ....reports.metrics import rmse
from ..experiment_result import ExperimentResult, ExperimentTable, Setting, Size
from ..published_values import printed_values
from . import images
from .corrupted_rows import answers
from .fitted_inputs import fitted, whole_table

FOLDER = Path(__file__).parent
PUBLISHED = "table2"

# -- the columns of the table ---------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of Table 2 and how NPT is fitted for it; p_target of the small sets is that of the
    authors' corruption script.

    paper: its hyperparameters. batched: whether batches hold parts of it. stand_in: the table that
    is measured in its place below the full size. full_only: why nothing is, there.
    """

    dataset: str
    paper: Mapping[str, Any]
    batched: bool = True
    stand_in: str = ""
    full_only: str = ""
    narrow: Mapping[str, Any] = field(default_factory=dict)


_BASE = {"schedule_share": 0.7, "lr": 1e-3}  # NPT-Base (C.1.1) where it is not our default
COLUMNS = (
    Column(
        "poker-hand",
        {
            **_BASE, "batch_size": 4096, "steps": 200_000, "p_target": 0.5, "balanced": True,
            "eval_every": 1255,
        },
        stand_in="poker-hand-25k",
    ),
    Column(
        "income-kdd",
        {
            **_BASE, "batch_size": 2048, "steps": 2_000_000, "p_target": 0.15, "p_feature": 0.0,
            "tradeoff": 0.0, "tradeoff_schedule": "constant", "eval_every": 735,
        },
    ),
    Column(
        "higgs",
        {**_BASE, "batch_size": 4096, "steps": 500_000, "p_target": 1.0, "eval_every": 13_430},
        full_only="its 11 million rows are a download of 2.8 GB, and no part of it is to be had",
    ),
    Column(
        "forest-cover",
        {
            "batch_size": 1800, "steps": 800_000, "p_target": 0.5, "balanced": True, "lr": 5e-3,
            "schedule": "polynomial", "schedule_share": 0.01, "eval_every": 1615,
        },
        stand_in="forest-cover-93k",
    ),
    Column(
        "kick",
        {**_BASE, "batch_size": 4096, "steps": 250_000, "p_target": 0.5, "eval_every": 90},
    ),
    Column(
        "breast-cancer-wdbc",
        {"width": 32, "steps": 20_000, "lr": 5e-4, "p_target": 0.1},
        batched=False,
        narrow={"width": 8},
    ),
    Column("yacht", {"width": 128, "steps": 20_000, "p_target": 0.1}, batched=False),
    Column(
        "protein",
        {
            **_BASE, "width": 128, "batch_size": 2048, "steps": 400_000, "p_target": 0.15,
            "eval_every": 115,
        },
    ),
    Column("boston", {"width": 128, "steps": 4_000, "p_target": 0.5}, batched=False),
    Column("concrete", {"width": 128, "steps": 10_000, "p_target": 0.5}, batched=False),
)  # fmt: skip
IMAGES = {  # column: (data, method) of the case in `images.py` that the paper's value is of
    "cifar-10": images.RESNET,
    "mnist": images.MNIST,
}

# -- sizes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. folds: of each table, at most. rows: of a batched table, drawn from
    each part of its split; asked: test rows predicted in each fold; 0 for all. settings, batched:
    of every fit, and of those in batches, instead of the paper's."""

    folds: int
    rows: int
    asked: int
    settings: Mapping[str, Any]
    batched: Mapping[str, Any]


# DIFF(Kossen 2021, C.1.2): narrow, shallow, few steps, at a rate that learns in them.
REDUCED: dict[str, Any] = {
    "width": 16,
    "n_layers": 4,
    "n_heads": 2,
    "steps": 300,
    "lr": 1e-2,
    "eval_every": 10,
    "dropout": 0.0,
    "dropout_weights": 0.0,
}
TINY = {**REDUCED, "width": 4, "n_layers": 2, "n_heads": 1, "steps": 2}
EXTENTS: dict[Size, Extent] = {
    "tiny": Extent(1, 120, 4, TINY, {"batch_size": 50}),
    "reduced": Extent(
        1, 4000, 500, REDUCED, {"batch_size": 512, "max_width": 256, "eval_every": 50}
    ),
    "full": Extent(10, 0, 0, {}, {}),
}


def config_of(column: Column, extent: Extent) -> dict[str, Any]:
    """Hyperparameters of `NPT` for a column at a size."""
    found = {**column.paper, "val_in_context": True, **extent.settings}
    if column.batched:
        found |= extent.batched
    if extent.settings:
        found |= {k: min(v, found[k]) for k, v in column.narrow.items()}
    return found


# -- the experiment -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """Of one column: a metric of the constant, of NPT, and of NPT beside corrupted rows. measured:
    on which data; asked: rows predicted, in all folds."""

    measured: str
    asked: int
    metric: str
    constant: float
    before: float
    after: float

    @property
    def change(self) -> float:
        """As the paper has it: accuracy in points, RMSE in percent of before; negative is worse."""
        difference = self.after - self.before
        return difference if self.metric == ACCURACY else -100 * difference / self.before


ACCURACY, RMSE = "accuracy, %", "RMSE"


def run(setting: Setting) -> ExperimentResult:
    """`bench experiment npt-corruption`: the columns of Table 2 in the paper's order, those that
    could not be measured with the published value alone, and why below the table."""
    extent = EXTENTS[setting.size]
    columns = {column.dataset: column for column in COLUMNS}
    rows: list[list[Any]] = []
    remarks = []
    for (name, _), theirs in printed_values(FOLDER, PUBLISHED).items():
        score, reason = None, columns[name].full_only if name in columns else ""
        if setting.full or not reason:
            try:
                if name in columns:
                    score = score_on_table(setting, columns[name], extent)
                else:
                    score = score_on_images(setting, name)
            except (DatasetUnavailable, ChecksumMismatch) as error:
                reason = str(error)
        if score is None:
            rows.append([name, "not measured", *[None] * 6, theirs])
            remarks.append(f"Not measured: {name}: {reason}")
            continue
        measured = [score.constant, score.before, score.after, score.change]
        rows.append([name, score.measured, score.metric, score.asked, *measured, theirs])
    table = ExperimentTable(
        "npt-corruption",
        "Test scores before and after all other rows are corrupted",
        ("dataset", "measured on", "metric", "rows", "constant", "before", "after", "change",
         "change, paper"),
        rows,
        _note(setting, extent),
    )  # fmt: skip
    return ExperimentResult([table], remarks=remarks)


def _note(setting: Setting, extent: Extent) -> str:
    note = (
        "change: RMSE in percent of the score before, accuracy in percentage points; negative is "
        "worse. rows: predicted test rows. constant: the mean or commonest class of the training "
        "rows. CIFAR-10 is predicted by a ResNet-18 with attention between pictures, whose other "
        "pictures are corrupted once for all test pictures."
    )
    if setting.full:
        return f"The paper's settings; mean over the folds. {note}"
    return (
        f"A narrow network, {extent.settings['steps']} steps; the first fold. Larger tables: "
        f"{extent.rows} of their rows in batches of about {extent.batched['batch_size']}, each "
        "with its share of training, validation and test rows. Where the second column names other "
        f"data, the published change says only which column is meant. {note}"
    )


def score_on_table(setting: Setting, column: Column, extent: Extent) -> Score:
    """The score of a column that is a table, its mean over the folds."""
    name = column.dataset if setting.full else column.stand_in or column.dataset
    where: dict[str, Any] = {"mirror": setting.mirror, "cache": setting.cache}
    data = load_dataset(name, **where)
    folds = splits(name, seed=setting.seed, **where)[: extent.folds]
    if column.batched:
        folds = [some_rows(fold, extent.rows, setting.seed) for fold in folds]
    config = config_of(column, extent)
    scores, asked = [], 0
    for fold in folds:
        setting.say(f"{name}, fold {fold.index}: fitting")
        found, n = scores_of(setting, config, data, fold, extent.asked)
        setting.say(f"{name}, fold {fold.index}: {found[1]:.4g} before, {found[2]:.4g} after")
        scores.append(found)
        asked += n
    constant, before, after = np.mean(scores, axis=0).tolist()
    return Score(name, asked, ACCURACY if data.classes else RMSE, constant, before, after)


def score_on_images(setting: Setting, name: str) -> Score:
    """The score of a column that is an image set: a case of `npt-images`, below the full size on
    scikit-learn's digits."""
    case = next(c for c in images.CASES[setting.size] if c.like == IMAGES[name])
    data = load_images(case.data, mirror=setting.mirror, cache=setting.cache)
    setting.say(f"{case.data}, {case.label}: fitting")
    with computing(setting.threads):
        found = images.score_of(case, data, setting)
    assert found.change is not None
    n_test = len(data.parts(setting.seed)[2])
    after = found.accuracy + found.change
    setting.say(f"{case.data}, {case.label}: {found.accuracy:.4g} before, {after:.4g} after")
    return Score(case.data, n_test, ACCURACY, found.constant, found.accuracy, after)


def some_rows(fold: Fold, n: int, seed: int) -> Fold:
    """The fold with n of its rows (0, or more than there are: all), drawn from each part in
    proportion to its size, at least one."""
    parts = (fold.train, fold.val, fold.test)
    total = sum(map(len, parts))
    if not 0 < n < total:
        return fold
    rng = np.random.default_rng([seed, fold.index])
    sizes = [max(1, round(n * len(part) / total)) for part in parts]
    drawn = [
        np.sort(rng.choice(part, size, replace=False))
        for part, size in zip(parts, sizes, strict=True)
    ]
    return replace(fold, train=drawn[0], val=drawn[1], test=drawn[2])


def scores_of(
    setting: Setting, config: Mapping[str, Any], data: Data, fold: Fold, limit: int
) -> tuple[tuple[float, float, float], int]:
    """((score of the constant, of NPT, of NPT beside corrupted rows), rows asked) on one fold."""
    model = fitted(data, fold, setting, config)
    known, y = np.concatenate([fold.train, fold.val]), data.target
    cells, parts = whole_table(
        model, data.rows(known), y[known], len(fold.train), data.rows(fold.test)
    )
    found = answers(model, cells, parts, limit, setting.seed)
    truth = y[fold.test][found.rows]
    constant = np.bincount(y[fold.train]).argmax() if data.classes else y[fold.train].mean()
    score = _accuracy if data.classes else rmse
    predictions = (np.full(len(truth), constant), found.before, found.after)
    first, before, after = (float(score(truth, predicted)) for predicted in predictions)
    return (first, before, after), len(truth)


def _accuracy(truth: np.ndarray, predicted: np.ndarray) -> float:
    return 100 * float(np.mean(predicted == truth))
