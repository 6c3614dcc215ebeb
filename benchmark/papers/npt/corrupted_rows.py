"""Predictions of NPT beside corrupted rows (Kossen et al. 2021, B.2.1, Algorithm 1).

For each asked row, every column of its masked batch is permuted over all other rows of the batch,
each column separately, the visible targets too. A network that uses only the distribution of the
other rows' columns predicts as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ....models.deep.cells import Cells, Columns
from ....models.npt.batches import deal, strata_of
from ....models.npt.network import NPTNetwork
from ....models.npt.prediction import TEST
from ....reports.metrics import rmse
from .fitted_inputs import TableInputs, last_row

AT_ONCE = 2**23  # numbers in the corrupted batches that are computed together


@dataclass(frozen=True)
class Answers:
    """Predictions (K,) of K asked rows, values or classes. rows: their numbers among the test rows;
    before, after: beside the other rows of their batch as they are, and corrupted."""

    rows: np.ndarray
    before: np.ndarray
    after: np.ndarray


def answers(whole: TableInputs, limit: int, seed: int) -> Answers:
    """Predictions of test rows in batches as in training, before and after corruption.

    limit: of asked rows, taken from one batch after the other; 0 for all.
    """
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    n_asked, first = 0, int(np.argmax(whole.parts == TEST))
    for number, rows in enumerate(batches_of(whole)):
        seen = whole[rows]
        asked = np.flatnonzero(seen.parts == TEST)[: limit - n_asked if limit else None]
        if not len(asked):
            continue
        before, after = predict(seen, asked), predict(seen, asked, (seed, number))
        found.append((rows[asked] - first, before, after))
        n_asked += len(asked)
        if n_asked == limit:
            break
    return Answers(*map(np.concatenate, zip(*found, strict=True)))


def scores_of(
    whole: TableInputs, y_train: np.ndarray, y_test: np.ndarray, limit: int, seed: int
) -> dict[str, float]:
    """Accuracy in percent, or RMSE, on at most `limit` test rows (0: all) of a fitted NPT: of the
    commonest class or mean of the training rows (`constant`), and of NPT `before` and `after`
    corruption; `rows`: how many were asked. y_train, y_test: targets of training and test rows."""
    found, regression = answers(whole, limit, seed), whole.model.task == "regression"
    truth = y_test[found.rows]
    constant = np.full(len(truth), y_train.mean() if regression else np.bincount(y_train).argmax())

    def score(predicted: np.ndarray) -> float:
        return float(rmse(truth, predicted) if regression else 100 * np.mean(predicted == truth))

    sides = {"constant": constant, "before": found.before, "after": found.after}
    return {"rows": len(truth), **{side: score(predicted) for side, predicted in sides.items()}}


def batches_of(whole: TableInputs) -> list[np.ndarray]:
    """Row numbers of the batches, dealt as in training; all rows where one batch holds them."""
    model, n, target = whole.model, len(whole.parts), whole.model.columns().targets[0]
    if not 0 < model.batch_size < n:
        return [np.arange(n)]
    classes = None
    if model.balanced and model.columns().categorical[target]:
        codes = whole.cells.codes[:, model.columns().categories_at.index(target)]
        classes = codes.cpu().numpy()
    rng = np.random.default_rng([model.seed, 3])
    return deal(strata_of(whole.parts, classes), model.batch_size, rng)


@torch.no_grad()
def predict(batch: TableInputs, asked: np.ndarray, seed: Sequence[int] | None = None) -> np.ndarray:
    """(K,) values or classes of the asked rows of a batch. With a seed, each is predicted beside
    other rows that were corrupted anew for it."""
    cells, model = batch.cells, batch.model
    with model._limits(), model._ready() as module:
        if seed is None:
            return batch.decoded(module(cells)[torch.from_numpy(asked).to(cells.hidden.device)])
        n, d = cells.hidden.shape
        at_once = max(1, AT_ONCE // (n * max(d, module.embedding.index.numel())))
        found = []
        for at in range(0, len(asked), at_once):
            orders = [order_of(n, d, int(row), seed) for row in asked[at : at + at_once]]
            found.append(batch.decoded(at_last_rows(module, cells, np.stack(orders))))
    return np.concatenate(found)


def order_of(n: int, d: int, row: int, seed: Sequence[int] | None) -> np.ndarray:
    """(n, d): which row each cell of the batch is taken from, `row` last and whole; the others as
    they are, or with a seed every column of theirs in an order of its own."""
    others = np.delete(np.arange(n), row)
    order = np.tile(others, (d, 1))
    if seed is not None:
        order = np.random.default_rng([*seed, row]).permuted(order, axis=1)
    return np.concatenate([order.T, np.full((1, d), row)])


def at_last_rows(module: NPTNetwork, cells: Cells, orders: np.ndarray) -> Tensor:
    """The network's output (P, tokens, E) at the last row of each of P tables, whose cells are
    taken from the rows that `orders` (P, n, d) names."""
    taken = _taken(cells, module.columns, torch.from_numpy(orders).to(cells.hidden.device))
    embedded = module.embedding(taken)
    return last_row(module, embedded.view(*orders.shape[:2], *embedded.shape[1:]))


def _taken(cells: Cells, columns: Columns, orders: Tensor) -> Cells:
    def of(part: Tensor, at: Sequence[int]) -> Tensor:  # (N, K), K columns -> (P n, K)
        return part[orders[..., list(at)], torch.arange(len(at), device=part.device)].flatten(0, 1)

    return Cells(
        of(cells.values, columns.numeric_at),
        of(cells.codes, columns.categories_at),
        of(cells.hidden, range(columns.n)),
    )
