"""Gaps of a table filled by what a Non-Parametric Transformer expects there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from ..deep.column_decoder import Decoded
from ..preprocessing import Preprocessor, numbers


def filled(
    frame: pd.DataFrame, rows: np.ndarray, decoded: Decoded, preprocessor: Preprocessor
) -> pd.DataFrame:
    """The frame with its gaps filled from the outputs of all columns for `rows`, those with gaps.

    Numeric gaps get the expected value (the column is float64 then), categorical ones the likeliest
    category of training. A column without a value in training keeps its gaps.
    """
    out, made = frame.copy(), preprocessor
    gaps = out.isna().to_numpy()
    n_numeric = len(made.numeric_names_)
    for j, name in enumerate([*made.numeric_names_, *made.category_names_]):
        empty = np.flatnonzero(gaps[rows, out.columns.get_loc(name)])
        if not len(empty):
            continue
        at = torch.from_numpy(empty).to(decoded.values.device)
        found = decoded.of(j)[at].float().cpu().numpy()
        column = out[name]
        if j < n_numeric:
            if made._empty[j]:
                continue
            values = numbers(column).copy()
            values[rows[empty]] = found.astype(np.float64) * made._scale[j] + made._centre[j]
        else:
            levels = made._categories[j - n_numeric].index
            if not len(levels):
                continue
            values = column.astype(object).to_numpy(copy=True)
            values[rows[empty]] = levels.to_numpy()[found.argmax(axis=1)]
            if isinstance(column.dtype, pd.CategoricalDtype):
                kinds = column.cat.categories.union(levels, sort=False)
                values = pd.Categorical(values, kinds, ordered=column.cat.ordered)
        out[name] = values
    return out
