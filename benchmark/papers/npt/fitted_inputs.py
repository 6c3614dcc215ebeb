"""A table as the input of a fitted NPT: its cells, and the distances between rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....models.deep.cell_masking import without
from ....models.deep.cells import Cells, join
from ....models.deep.layers.attention import attend
from ....models.npt.estimator import NPT
from ....models.npt.network import NPTNetwork
from ....models.npt.prediction import TEST, TRAIN, VAL, visible
from ....models.preprocessing import as_frame
from ..experiment_result import Setting

TINY: dict[str, Any] = {  # an NPT that is made within a second and predicts nothing
    "width": 4,
    "n_layers": 2,
    "n_heads": 2,
    "steps": 3,
    "lr": 1e-2,
    "p_target": 0.5,
    "batch_size": 128,
}


def fitted(data: Data, fold: Fold, setting: Setting, config: Mapping[str, Any]) -> NPT:
    """An NPT fitted as in the paper: on all rows of the table, test rows without labels."""
    model = NPT(
        task=data.task, seed=setting.seed, threads=setting.threads, device=setting.device,
        transductive=True, **config,
    )  # fmt: skip
    y = data.target
    return model.fit(
        data.rows(fold.train), y[fold.train], data.rows(fold.val), y[fold.val],
        X_test=data.rows(fold.test),
    )  # fmt: skip


@dataclass
class TableInputs:
    """A table as a fitted network sees it when it predicts (NPT, C.4.2), training rows first, test
    rows last. features: (N, K) standardised values and one-hot categories, 0 where missing.
    parts: (N,) 0 training, 1 validation, 2 test."""

    model: NPT
    module: NPTNetwork
    cells: Cells
    features: np.ndarray
    parts: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> TableInputs:
        at = torch.from_numpy(rows).to(self.cells.hidden.device)
        return TableInputs(
            self.model, self.module, self.cells[at], self.features[rows], self.parts[rows]
        )

    def distances(self, row: int) -> np.ndarray:  # (N,)
        """Squared distance of every row's features to those of one row (NPT, sec. 4.4)."""
        return np.square(self.features - self.features[row]).sum(axis=1)


def whole_table(
    model: NPT, x: Any, y: np.ndarray, n_train: int, x_test: Any
) -> tuple[Cells, np.ndarray]:
    """(the table as a fitted model sees it when it predicts (NPT, C.4.2), the part of each row).

    x, y: training rows, the first `n_train`, and validation rows; their labels are seen where the
    model was trained to see labels (p_target < 1), those of x_test never. Test rows come last. A
    validation row whose class training does not have is left out.
    """
    labelled = model._validation(x, y)
    assert labelled is not None
    tested = model.preprocessor_.transform(as_frame(x_test))
    cells = join([model.cells(*labelled), model.cells(tested)])
    n_val = len(labelled[0]) - n_train
    parts = np.repeat([TRAIN, VAL, TEST], [n_train, n_val, len(tested)])
    return visible(cells, model.columns(), model), parts


def table_inputs(model: NPT, data: Data, fold: Fold) -> TableInputs:
    """The whole table before a fitted regression model: labels of training and validation rows are
    seen where the model was trained to see labels (p_target < 1), those of test rows never."""
    y = data.target
    known, at = model.preprocessor_, np.concatenate([fold.train, fold.val])
    x, x_test = known.transform(data.rows(at)), known.transform(data.rows(fold.test))
    labels = (y[at] - model._target_mean) / model._target_scale
    cells = join([model.cells(x, labels), model.cells(x_test)])
    columns = model.columns()
    if model.p_target >= 1:
        targets = torch.zeros_like(cells.hidden)
        targets[:, list(columns.targets)] = True
        cells = without(cells, targets)
    whole, features = np.concatenate([x, x_test]), []
    for j in range(whole.shape[1]):
        column = whole[:, j, None]
        codes = np.arange(columns.sizes[j])
        features.append(column == codes if columns.categorical[j] else np.nan_to_num(column))
    parts = np.repeat([0, 1, 2], [len(fold.train), len(fold.val), len(fold.test)])
    with model._ready() as module:
        return TableInputs(
            model, module, cells, np.concatenate(features, axis=1).astype(float), parts
        )


def last_row(module: NPTNetwork, x: Tensor) -> Tensor:  # (P, M, d, E) -> (P, d, E)
    """The network's output at the last row of each of P tables of embedded rows: what `NPTNetwork`
    gives there, without what only the other rows of the last layers need."""
    last = max(i for i, kind in enumerate(module.kinds) if kind == "abd")
    for i, (kind, block) in enumerate(zip(module.kinds, module.blocks, strict=True)):
        if kind == "aba":
            x = block(x.flatten(0, 1)).view_as(x)
            continue
        flat = x.flatten(2)
        if i < last:
            x = block(flat).view_as(x)
        else:
            q, k, v = block.heads(flat)  # type: ignore[operator]
            attended = attend(q[:, :, -1:].contiguous(), k, v, scale=block.scale)  # type: ignore[arg-type]
            x = block.after(flat[:, -1:], attended, None).view_as(x[:, -1:])  # type: ignore[operator]
    return x[:, 0]


@torch.no_grad()
def predictions(seen: TableInputs, embedded: Tensor, tables: np.ndarray) -> np.ndarray:
    """(P,) predictions at the last rows of tables (P, M) of a regression's rows; in single
    precision, whose noise is far below the changes that count."""
    target = seen.module.columns.targets[0]
    state = last_row(seen.module, embedded[torch.from_numpy(tables).to(embedded.device)])
    values = seen.module.decode(state, [target]).of(target).double().cpu().numpy()
    return values * seen.model._target_scale + seen.model._target_mean
