"""Random forest: trees on bootstrap samples of the rows."""

from __future__ import annotations

from typing import Any

from .tree_ensemble import TreeEnsemble


class RandomForest(TreeEnsemble):
    """Random forest: each tree on a bootstrap sample, the best splits of a sample of features.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    n_estimators : int, default 100, in [1, 100000]
        Trees.
    criterion : str, default "default"
        Impurity: "default" for the library's ("gini", "squared_error"); classification also has
        "entropy" and "log_loss", regression "absolute_error", "friedman_mse" and "poisson".
    max_features : float in (0, 1], "sqrt", "log2" or "default", default "default"
        Features tried at a split, as a share or a function of their number; "default" for the
        library's ("sqrt" for classes, all for values).
    max_depth : int, default 0, in [0, 1000]
        Depth of the deepest leaf; 0 for no limit.
    min_samples_leaf : int, default 1, in [1, 100000]
        Fewest training rows in a leaf.

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
