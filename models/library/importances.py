"""How much a fitted model uses each feature, in scikit-learn's sense: `feature_importances_`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .columns import ColumnReader


def importances(model: Any, reader: ColumnReader) -> np.ndarray | None:
    """The share of each column of `reader` (F,) in what a model's trees gain, 0 for one that is not
    used or not read; None for a model that has no such numbers.

    A feature's share is the sum over the columns that are made of it: levels, signs of gaps, parts
    of dates, components of texts.
    """
    inside = _of_library(model)
    if inside is None:
        return None
    row = reader.read(pd.DataFrame({name: [None] for name in reader.kinds_}, dtype=object))
    made_of = [name for name in row.columns for _ in reader.encoder_.transform(row[[name]])]
    source = dict(zip(reader.encoder_.transform(row), made_of, strict=True))
    seen = model.preprocessor_
    made = [*seen.numeric_names_, *(seen.numeric_names_[j] for j in seen._gaps)]
    one_hot = seen.policy.categorical == "one-hot"
    for name, levels in zip(seen.category_names_, seen._categories, strict=True):
        made += [name] * (levels.n if one_hot else 1)
    place = {name: j for j, name in enumerate(reader.kinds_)}
    found = np.bincount([place[source[name]] for name in made], inside, minlength=len(place))
    return found / found.sum() if found.sum() > 0 else found


def _of_library(model: Any) -> np.ndarray | None:
    """The library's own numbers, one for each column that the model's preprocessing makes."""
    fitted: Any = getattr(model, "model_", None)
    if hasattr(fitted, "feature_importances_"):  # scikit-learn, CatBoost
        return np.asarray(fitted.feature_importances_, dtype=np.float64)
    if hasattr(fitted, "feature_importance"):  # LightGBM
        return np.asarray(fitted.feature_importance("gain", iteration=model.best_iteration_))
    if hasattr(fitted, "get_score"):  # XGBoost
        gains = fitted[: model.best_iteration_].get_score(importance_type="total_gain")
        return np.array([gains.get(f"f{i}", 0.0) for i in range(model.preprocessor_.n_out_)])
    return None
