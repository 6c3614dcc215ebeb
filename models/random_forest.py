"""Random forest: trees on bootstrap samples of the rows."""

from __future__ import annotations

from .tree_ensemble import TreeEnsemble


class RandomForest(TreeEnsemble):
    """Random forest: each tree on a bootstrap sample, the best splits of a sample of features.

    Notes
    -----
    Missing values are kept by the splits, or imputed with the criterion "absolute_error";
    categories are one-hot.

    References
    ----------
    Breiman 2001, doi:10.1023/A:1010933404324.
    """

    example = "n_estimators=10"
    ensemble = "RandomForest"
