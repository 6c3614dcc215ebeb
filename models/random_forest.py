"""Random forest: trees on bootstrap samples of the rows."""

from __future__ import annotations

from typing import Any

from .tree_ensemble import TreeEnsemble


class RandomForest(TreeEnsemble):
    """Random forest: each tree on a bootstrap sample, the best splits of a sample of features.

    Notes
    -----
    Missing values are kept by the splits, or imputed with the criterion "absolute_error";
    categories are one-hot.

    Examples
    --------
    >>> from tabsweep.models.random_forest import RandomForest
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = RandomForest(task="binary", n_estimators=10).fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Breiman 2001, doi:10.1023/A:1010933404324.
    """

    def _kinds(self) -> tuple[Any, Any]:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        return RandomForestClassifier, RandomForestRegressor
