"""NPT's loss of accuracy when all other rows are corrupted (Kossen et al. 2021, Algorithm 1).

For each test row, every column of the masked table is permuted over all other rows, each column
separately, the visible targets too. A network that uses only the distribution of the other rows'
columns predicts as before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ....datasets.catalog import load_dataset, splits
from ....datasets.errors import ChecksumMismatch, DatasetUnavailable
from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....models.deep.cell_masking import without
from ....models.deep.cells import Cells, join
from ....models.npt.estimator import NPT
from ....models.npt.network import NPTNetwork
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import printed_values
from .fitted_inputs import fitted, last_row

FOLDER = Path(__file__).parent

AT_ONCE = 2**23  # numbers in the corrupted tables that are computed together


@dataclass(frozen=True)
class Case:
    """A dataset and how NPT is fitted to it at each size; the variants of p_target are those of the
    authors' corruption script."""

    name: str
    p_target: float
    reduced: dict[str, Any] = field(default_factory=dict)
    full: dict[str, Any] = field(default_factory=dict)

    def config(self, full: bool) -> dict[str, Any]:
        """Hyperparameters of `NPT`."""
        common = {"p_target": self.p_target, "val_in_context": True}
        return {**common, **(self.full if full else {**REDUCED, **self.reduced})}


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
CASES = (
    Case("yacht", 0.1, full={"width": 128, "steps": 20_000}),
    Case("boston", 0.5, full={"width": 128, "steps": 4_000}),
    Case("concrete", 0.5, full={"width": 128, "steps": 10_000}),
    Case(
        "breast-cancer-wdbc",
        0.1,
        reduced={"width": 8},
        full={"width": 32, "steps": 20_000, "lr": 5e-4},
    ),
)
FOLDS_REDUCED, FOLDS_FULL = 1, 10


def run(setting: Setting) -> ExperimentResult:
    """Scores before and after corruption for every dataset that is available."""
    return corrupt_all(setting, CASES, FOLDS_FULL if setting.full else FOLDS_REDUCED)


def corrupt_all(setting: Setting, cases: tuple[Case, ...], n_folds: int) -> ExperimentResult:
    """The result for some datasets, scores averaged over the first folds."""
    printed = printed_values(FOLDER, "table2")
    rows: list[list[Any]] = []
    left_out: list[str] = []
    where: dict[str, Any] = {"mirror": setting.mirror, "cache": setting.cache}
    for case in cases:
        theirs = printed[(case.name, "npt")]
        try:
            data = load_dataset(case.name, **where)
        except (DatasetUnavailable, ChecksumMismatch) as error:
            left_out.append(f"{case.name}: {error}")
            rows.append([case.name, None, None, None, None, None, theirs])
            continue
        folds = splits(case.name, seed=setting.seed, **where)[:n_folds]
        scores = np.array([scores_of(setting, case, data, fold) for fold in folds])
        constant, before, after = scores.mean(axis=0).tolist()
        accuracy = data.task != "regression"
        change = after - before if accuracy else -100 * (after - before) / before
        metric = "accuracy, %" if accuracy else "RMSE"
        rows.append([case.name, metric, constant, before, after, change, theirs])
    size = "the paper's settings" if setting.full else "a narrow network, few steps"
    outcome = ExperimentResult(
        tables=[
            ExperimentTable(
                "npt-corruption",
                "Test scores before and after all other rows are corrupted",
                ("dataset", "metric", "constant", "before", "after", "change", "change, paper"),
                rows,
                f"Mean over {n_folds} of ten folds; {size}. change: RMSE in percent of the score "
                "before, accuracy in percentage points; negative is worse. constant: the mean or "
                "commonest class of the training rows.",
            )
        ],
        remarks=["Not tried: the paper's datasets that need minibatches, and its images."],
    )
    if left_out:
        outcome.remarks.append("Left out: " + "; ".join(left_out))
    return outcome


def scores_of(setting: Setting, case: Case, data: Data, fold: Fold) -> tuple[float, float, float]:
    """Scores of the constant, of NPT, and of NPT with all other rows corrupted, on one fold."""
    setting.say(f"{case.name}, fold {fold.index}: fitting")
    steps = {"steps": 2, "eval_every": 1} if setting.size == "tiny" else {}
    model = fitted(data, fold, setting, {**case.config(setting.full), **steps})
    cells = table_of(model, data, fold)
    asked = np.arange(len(cells) - len(fold.test), len(cells))
    before = predict(model, cells, asked, None)
    after = predict(model, cells, asked, setting.seed)
    y_train, y = data.target[fold.train], data.target[fold.test]
    score = _accuracy if data.classes else _rmse
    typical = np.bincount(y_train).argmax() if data.classes else y_train.mean()
    found = score(np.full(len(y), typical), y), score(before, y), score(after, y)
    setting.say(f"{case.name}, fold {fold.index}: {found[1]:.4g} before, {found[2]:.4g} after")
    return found


def _rmse(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def _accuracy(predicted: np.ndarray, y: np.ndarray) -> float:
    return 100 * float(np.mean(predicted == y))


def table_of(model: NPT, data: Data, fold: Fold) -> Cells:
    """The whole table before a fitted model, test rows last: labels of training and validation rows
    are seen where the model was trained to see labels (p_target < 1), those of test rows never."""
    known = np.concatenate([fold.train, fold.val])
    labelled = model._validation(data.rows(known), data.target[known])
    assert labelled is not None
    cells = join(
        [
            model.cells(*labelled),
            model.cells(model.preprocessor_.transform(data.rows(fold.test))),
        ]
    )
    if model.p_target >= 1:
        targets = torch.zeros_like(cells.hidden)
        targets[:, list(model.columns().targets)] = True
        cells = without(cells, targets)
    return cells


@torch.no_grad()
def predict(model: NPT, cells: Cells, asked: np.ndarray, seed: int | None) -> np.ndarray:
    """(K,) values or classes of the asked rows. With a seed, each is predicted beside other rows
    that were corrupted anew for it."""
    found = []
    with model._limits(), model._ready() as module:
        target, (n, d) = module.columns.targets[0], cells.hidden.shape
        embedded = module.embedding(cells)  # (N, d, E); a cell's vector depends on the cell alone
        step = max(1, AT_ONCE // embedded.numel())
        for at in range(0, len(asked), step):
            orders = np.stack([order_of(n, d, k, seed) for k in asked[at : at + step]])
            index = torch.from_numpy(orders).to(embedded.device)
            columns = torch.arange(embedded.shape[1], device=embedded.device)
            state = last_row(module, embedded[index, columns])
            found.append(_answers(model, module, state, target))
    return np.concatenate(found)


def order_of(n: int, d: int, row: int, seed: int | None) -> np.ndarray:
    """(n, d): which row each cell of the table is taken from, `row` last and whole; the others as
    they are, or with a seed every column of theirs in an order of its own."""
    others = np.delete(np.arange(n), row)
    order = np.tile(others, (d, 1))
    if seed is not None:
        order = np.random.default_rng([seed, row]).permuted(order, axis=1)
    return np.concatenate([order.T, np.full((1, d), row)])


def _answers(model: NPT, module: NPTNetwork, state: torch.Tensor, target: int) -> np.ndarray:
    found = module.decode(state, [target]).of(target).double().cpu().numpy()
    if model.task == "regression":
        return found * model._target_scale + model._target_mean
    return np.asarray(model.classes_)[found.argmax(axis=1)]
