"""Sample weights, for the models whose library takes them.

The models themselves take none: what they hand to their library during a fit is given the weights
on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np


def _on_fit(made: Any, weights: np.ndarray) -> Any:
    """An estimator of scikit-learn whose `fit` gets the weights."""
    made.fit = partial(made.fit, sample_weight=weights)
    return made


def _on_data(made: Any, weights: np.ndarray) -> Any:
    """A training set of a boosting library with weights."""
    made.set_weight(weights)
    return made


HANDS: dict[str, tuple[str, Callable[[Any, np.ndarray], Any]]] = {
    # model -> (the method that makes what the library trains, what gives that the weights)
    "adaboost": ("_build", _on_fit),
    "bagging": ("_build", _on_fit),
    "catboost": ("_pool", _on_data),
    "decision-tree": ("_build", _on_fit),
    "elastic-net": ("_build", _on_fit),
    "extra-trees": ("_build", _on_fit),
    "gradient-boosting": ("_library", _on_fit),
    "hist-gradient-boosting": ("_library", _on_fit),
    "lightgbm": ("_dataset", _on_data),
    "linear": ("_build", _on_fit),
    "random-forest": ("_build", _on_fit),
    "xgboost": ("_matrix", _on_data),
}
"""The models that take sample weights."""


@contextmanager
def weighted(name: str, model: Any, weights: np.ndarray | None) -> Iterator[None]:
    """Within it a fit of `model` (registered as `name`) counts its rows with these weights (N,).

    Validation rows, which only stop a fit, count equally. No weights change nothing.
    """
    if weights is None:
        yield
        return
    method, give = HANDS[name]
    make = getattr(model, method)
    made: list[Any] = []

    def weighted_first(*args: Any, **named: Any) -> Any:
        found = make(*args, **named)
        made.append(give(found, weights) if not made else found)  # later ones: validation rows
        return made[-1]

    setattr(model, method, weighted_first)
    try:
        yield
    finally:
        delattr(model, method)
        for found in made:
            getattr(found, "__dict__", {}).pop("fit", None)
