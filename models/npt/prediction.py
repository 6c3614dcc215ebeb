"""Predictions of a Non-Parametric Transformer: which rows of the table a row to predict sees.

Inductive: the labelled rows and itself, so that no other row to predict changes its answer.
Transductive: all rows of the table and all rows to predict, in batches as in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..deep.cells import Cells, Columns, join, without
from ..deep.column_decoder import Decoded, stacked
from .batches import deal
from .network import Context, NPTNetwork

WEIGHTS_AT_ONCE = 2**22  # attention weights of the rows that are predicted together
TRAIN, VAL, TEST = 0, 1, 2  # parts of a table


def target_cells(cells: Cells, columns: Columns) -> Tensor:  # (N, d) bool
    """Which cells are targets."""
    mask = torch.zeros_like(cells.hidden)
    mask[:, list(columns.targets)] = True
    return mask


def visible(table: Cells, columns: Columns, settings: Any) -> Cells:
    """Labelled rows as predictions see them: with p_target = 1 no label is ever an input."""
    return without(table, target_cells(table, columns)) if settings.p_target >= 1 else table


def stored_context(module: NPTNetwork, table: Cells, settings: Any) -> Context:
    """Keys and values of the labelled rows; with batches, of as many rows as a batch has."""
    size = settings.batch_size
    if 0 < size < len(table):
        rng = np.random.default_rng([settings.seed, 2])
        rows = np.sort(rng.choice(len(table), size, replace=False))
        table = table[torch.from_numpy(rows).to(table.hidden.device)]
    return module.context(table)


def decode_inductive(
    module: NPTNetwork,
    context: Context,
    asked: Cells,
    columns: Sequence[int],
    settings: Any,
) -> Decoded:
    """Outputs of rows that see the context and themselves.

    All blocks have one size, so a row's answer does not depend on the other rows to predict.
    """
    n, h = context[0][0].shape[2], settings.n_heads
    block = int(np.clip(WEIGHTS_AT_ONCE // (n * h), 16, 256))
    parts = []
    for at in range(0, len(asked), block):
        piece = asked[slice(at, at + block)]
        rows = len(piece)
        if rows < block:
            again = torch.arange(block, device=piece.hidden.device) % rows
            piece = piece[again]
        parts.append((module.decode(module.ask(piece, context), columns), rows))
    return stacked(parts)


def decode_transductive(
    module: NPTNetwork,
    table: Sequence[Cells],
    asked: Cells,
    columns: Sequence[int],
    settings: Any,
) -> Decoded:
    """Outputs of rows that are part of one table with the others, in batches as in training."""
    whole = join([*table, asked])
    parts = np.repeat(np.arange(len(table) + 1), [*map(len, table), len(asked)])
    begin, n = len(whole) - len(asked), len(whole)
    size = settings.batch_size if 0 < settings.batch_size < n else n
    rng = np.random.default_rng([settings.seed, 3])
    outputs, order = [], []
    for rows in deal(parts, size, rng) if size < n else [np.arange(n)]:
        wanted = np.flatnonzero(rows >= begin)
        device = whole.hidden.device
        state = module(whole[torch.from_numpy(rows).to(device)])
        decoded = module.decode(state[torch.from_numpy(wanted).to(device)], columns)
        outputs.append((decoded, len(wanted)))
        order.append(rows[wanted] - begin)
    back = torch.from_numpy(np.argsort(np.concatenate(order))).to(whole.hidden.device)
    return stacked(outputs).rows(back)


def decode_targets(
    module: NPTNetwork, cells: Cells, parts: Tensor, asked: Cells, settings: Any
) -> Decoded:
    """Predicted targets of rows whose own targets are hidden, while the network is trained.

    cells, parts (N,): the table that it is trained on, and the part of each row.
    """
    columns = module.columns
    asked = without(asked, target_cells(asked, columns))
    if settings.transductive:
        table, rest = visible(cells[parts == TRAIN], columns, settings), cells[parts == TEST]
        seen = [table, rest] if len(rest) else [table]
        return decode_transductive(module, seen, asked, columns.targets, settings)
    context = stored_context(module, visible(cells, columns, settings), settings)
    return decode_inductive(module, context, asked, columns.targets, settings)
