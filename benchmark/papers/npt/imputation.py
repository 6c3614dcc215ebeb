"""NPT fills the gaps of a table, beside scikit-learn's imputers (Kossen et al. 2021, C.4.2).

The paper says that NPT can be asked for any masked cell, and measures nothing of it. Here a share
of the known cells of a table is hidden, all imputers learn from what is left, and their answers
are compared with what was hidden.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from ....models.npt.imputer import NPTImputer
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting

TABLES = ("concrete", "boston", "contraceptive")
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"datasets": TABLES[::2], "rows": 40, "steps": 3, "width": 8, "share": 0.2},
    "reduced": {"datasets": TABLES, "rows": 200, "steps": 400, "width": 16, "share": 0.2},
    "full": {"datasets": TABLES, "rows": 0, "steps": 5000, "width": 64, "share": 0.2},
}


def encoded(frame: pd.DataFrame) -> tuple[pd.DataFrame, Callable[[np.ndarray], pd.DataFrame]]:
    """(numbers in standard deviations and a column for each category, NaN in gaps; the way back to
    values), for imputers of numbers."""
    parts, mean, std = {}, frame.mean(numeric_only=True), frame.std(numeric_only=True)
    for name in frame:
        if name in mean:
            parts[name] = (frame[[name]] - mean[name]) / (std[name] or 1.0)
        else:
            known = pd.get_dummies(frame[name], dtype=float)
            parts[name] = known.where(frame[name].notna(), np.nan)
    wide = pd.concat([part.set_axis(range(part.shape[1]), axis=1) for part in parts.values()],
                     axis=1, keys=parts)  # fmt: skip

    def back(filled: np.ndarray) -> pd.DataFrame:
        found = pd.DataFrame(filled, frame.index, wide.columns)
        values = {}
        for name, part in parts.items():
            mine = found[name].to_numpy()
            if name in mean:
                values[name] = mean[name] + (std[name] or 1.0) * mine[:, 0]
            else:
                values[name] = part.columns.to_numpy()[mine.argmax(axis=1)]
        return pd.DataFrame(values, frame.index)

    return wide, back


def errors(filled: pd.DataFrame, truth: pd.DataFrame, hidden: np.ndarray) -> dict[str, Any]:
    """Errors in the hidden cells: root mean squared error of the numbers, in standard deviations of
    their columns, and share of wrong categories in percent; None where there are none."""
    squares, wrong = [], []
    for at, name in enumerate(truth):
        ours, known = filled[name][hidden[:, at]], truth[name][hidden[:, at]]
        if pd.api.types.is_numeric_dtype(truth[name]):
            scale = float(truth[name].std()) or 1.0
            squares.append(((ours.to_numpy(float) - known.to_numpy(float)) / scale) ** 2)
        else:
            wrong.append((ours.astype(object) != known.astype(object)).to_numpy(float))
    rmse = float(np.sqrt(np.concatenate(squares).mean())) if squares else None
    return {"RMSE": rmse, "wrong, %": 100 * np.concatenate(wrong).mean() if wrong else None}


def run(
    setting: Setting, *, datasets: Sequence[str], rows: int, steps: int, width: int, share: float
) -> ExperimentResult:
    """`bench experiment npt-imputation`.

    rows: of each table at most, 0 for all. steps, width: of NPT. share: of the cells, hidden.
    """

    def on(dataset: str) -> tuple[list[dict[str, Any]], dict[str, float]]:
        data = setting.load(dataset)
        rng = np.random.default_rng([setting.seed, 7])
        chosen = np.sort(rng.permutation(data.n_rows)[: rows or data.n_rows])
        whole = data.rows(chosen).reset_index(drop=True)
        whole = whole.astype(dict.fromkeys(whole.select_dtypes("category"), object))
        hidden = (rng.random(whole.shape) < share) & whole.notna().to_numpy()
        given = whole.mask(hidden)
        wide, back = encoded(given)
        of_numbers: dict[str, Any] = {
            "mean or likeliest": SimpleImputer(),
            "KNNImputer": KNNImputer(),
            "IterativeImputer": IterativeImputer(random_state=setting.seed, max_iter=20),
        }
        npt = NPTImputer(
            steps=steps, width=width, seed=setting.seed, threads=setting.threads,
            device=setting.device,
        )  # fmt: skip
        found, seconds = [], {}
        for name, imputer in {**of_numbers, "NPTImputer": npt}.items():
            setting.say(f"{name} on {dataset}")
            began = time.perf_counter()
            filled = (
                npt.fit_transform(given) if imputer is npt else back(imputer.fit_transform(wide))
            )
            seconds[name] = round(time.perf_counter() - began, 2)
            about = {"dataset": dataset, "rows": len(whole), "cells": int(hidden.sum())}
            found.append({**about, "imputer": name, **errors(filled, whole, hidden)})
        return found, seconds

    made, left_out = on_available(datasets, on)
    table = ExperimentTable(
        "npt-imputation",
        "Errors on hidden cells",
        [row for found, _ in made.values() for row in found],
        f"{100 * share:g} % of the known cells are hidden at random. RMSE: of numbers, in standard "
        "deviations of their column; wrong: of categories. The imputers of scikit-learn, with "
        "their defaults, see categories one-hot. NPT was not tuned.",
    )
    return ExperimentResult([table], remarks=left_out, facts={n: s for n, (_, s) in made.items()})
