"""Extremely randomised trees: random thresholds, all rows for each tree."""

from __future__ import annotations

from .tree_ensemble import TreeEnsemble


class ExtraTrees(TreeEnsemble):
    """Extremely randomised trees: each tree on all rows, thresholds drawn at random.

    Notes
    -----
    Missing values are kept by the splits, or imputed with the criterion "absolute_error";
    categories are one-hot.

    References
    ----------
    Geurts et al. 2006, doi:10.1007/s10994-006-6226-1.
    """

    example = "n_estimators=10"
    ensemble = "ExtraTrees"
