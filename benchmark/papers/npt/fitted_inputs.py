"""A table as the input of a fitted NPT: its cells, and the distances between rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....datasets.catalog import card
from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....models.deep.cells import Cells, join
from ....models.deep.layers.attention import attend
from ....models.npt.estimator import NPT
from ....models.npt.network import NPTNetwork
from ....models.npt.prediction import TEST, TRAIN, VAL, visible
from ....models.preprocessing import as_frame
from ...planning import suite
from ...planning.options import Options
from ...planning.settings import Settings
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
YACHT = {"width": 8, "n_layers": 4, "steps": 400, "eval_every": 20, "lr": 1e-2, "p_target": 0.5}


def paper_configs(dataset: str) -> list[dict[str, Any]]:
    """The configurations of NPT in the budget `paper` of the suite `npt-uci-transductive`: eight on
    a small dataset, one on a large dataset."""
    options = Options(budget="paper", models=("npt",))
    settings = Settings(suite.load("npt-uci-transductive"), options)
    space = settings.search("npt", card(dataset).task, dataset)[1]
    return [space.grid_point(i) for i in range(space.size or 0)]


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


def fitted(
    setting: Setting, data: Data, fold: Fold, config: Mapping[str, Any] | None = None
) -> NPT:
    """An NPT fitted as in the paper: on all rows of the table, test rows without labels.

    config: the paper's first one for the dataset where none is given.
    """
    given = paper_configs(data.name)[0] if config is None else config
    x_test = data.rows(fold.test)
    return setting.fit("npt", data, fold, {"transductive": True, **given}, X_test=x_test)


@dataclass
class TableInputs:
    """A table as a fitted network sees it when it predicts (C.4.2): training rows first, then
    validation rows, test rows last.

    x: (N, F) preprocessed features. cells: their input cells. parts: (N,) TRAIN, VAL or TEST.
    """

    model: NPT
    module: NPTNetwork
    x: np.ndarray
    cells: Cells
    parts: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> TableInputs:
        at = torch.from_numpy(rows).to(self.cells.hidden.device)
        return TableInputs(self.model, self.module, self.x[rows], self.cells[at], self.parts[rows])

    @property
    def features(self) -> np.ndarray:  # (N, K)
        """Standardised values, 0 where missing, and one-hot categories."""
        columns = self.model.columns()
        parts = [
            self.x[:, j, None] == np.arange(columns.sizes[j])
            if columns.categorical[j]
            else np.nan_to_num(self.x[:, j, None])
            for j in range(self.x.shape[1])
        ]
        return np.concatenate(parts, axis=1).astype(float)

    def distances(self, row: int) -> np.ndarray:  # (N,)
        """Squared distance of every row's features to those of one row (sec. 4.4)."""
        features = self.features
        return np.square(features - features[row]).sum(axis=1)

    def decoded(self, state: Tensor) -> np.ndarray:  # (K, tokens, E) -> (K,)
        """Values in the target's unit, or classes, from outputs of the network."""
        target = self.module.columns.targets[0]
        found = self.module.decode(state, [target]).of(target).double().cpu().numpy()
        if self.model.task == "regression":
            return self.model._in_units(found)
        return np.asarray(self.model.classes_)[found.argmax(axis=1)]


def inputs_of(model: NPT, data: Data, fold: Fold) -> TableInputs:
    """The whole table of a fold before the model that was fitted on it.

    The labels of training and validation rows are seen where the model was trained to see labels
    (p_target < 1), those of test rows never. A validation row whose class training does not have
    is left out.
    """
    known = np.concatenate([fold.train, fold.val])
    labelled = model._validation(data.rows(known), data.target[known])
    assert labelled is not None
    tested = model.preprocessor_.transform(as_frame(data.rows(fold.test)))
    cells = join([model.cells(*labelled), model.cells(tested)])
    n_val = len(labelled[0]) - len(fold.train)
    parts = np.repeat([TRAIN, VAL, TEST], [len(fold.train), n_val, len(tested)])
    with model._ready() as module:
        shown = visible(cells, model.columns(), model)
        return TableInputs(model, module, np.concatenate([labelled[0], tested]), shown, parts)


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
