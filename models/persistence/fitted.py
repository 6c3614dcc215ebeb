"""Fitted models that were loaded from a file, with the schema of their input."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns.encoder import ColumnEncoder
from ...common.decisions import decisions
from ..library.estimator import arrays_inside
from .library_versions import versions
from .schema import Schema


class ModelWarning(UserWarning):
    """Something about a loaded model or its input that its user should know."""


def warn_user(text: str) -> None:
    """The default listener: a Python warning."""
    warnings.warn(text, ModelWarning, stacklevel=3)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A loaded model and the schema of its input.

    `about` holds the remarks given to `save_model`; `how` is 'state' (the fitted attributes were
    stored) or 'refit' (fitted again from stored rows). `encoder` makes numbers of dates and texts.
    """

    estimator: Any
    schema: Schema
    name: str
    how: str
    about: Mapping[str, Any]
    encoder: ColumnEncoder | None = None

    def predict(self, frame: pd.DataFrame, *, warn: Callable[[str], None] = warn_user) -> Any:
        """(N,) values, or labels: of the largest probability, or of the least expected cost where
        `about` has a matrix of `costs`, as the benchmark scores.

        Columns are found by name; SchemaError for an absent one or a text where numbers belong.
        """
        known = self.schema.conform(frame, warn)
        if self.schema.task == "regression":
            return self._values(known)
        return self.labels[self.decided(self._probabilities(known))]

    def decided(self, proba: np.ndarray) -> np.ndarray:  # (N, C) -> (N,)
        """The codes of the classes that `predict` gives for probabilities."""
        return decisions(proba, self.about.get("costs", ()))

    def predict_proba(self, frame: pd.DataFrame, *, warn: Callable[[str], None] = warn_user) -> Any:
        """(N, C) probabilities in the order of `labels`; 0 for classes absent from training."""
        if self.schema.task == "regression":
            raise AttributeError("a regression model has no predict_proba; use predict")
        return self._probabilities(self.schema.conform(frame, warn))

    def _values(self, known: pd.DataFrame) -> np.ndarray:  # (N,)
        """Values of a regression for rows that conform to the schema."""
        with arrays_inside():
            values = np.asarray(self.estimator.predict(self._encoded(known)), dtype=np.float64)
        return values.reshape(len(known))

    def _probabilities(self, known: pd.DataFrame) -> np.ndarray:  # (N, C)
        """Probabilities of the classes for rows that conform to the schema."""
        with arrays_inside():
            shares = np.asarray(self.estimator.predict_proba(self._encoded(known)))
        if not self.schema.classes:
            return shares
        full = np.zeros((len(known), len(self.schema.classes)))
        full[:, np.asarray(self.estimator.classes_).astype(int)] = shares
        return full

    def _encoded(self, known: pd.DataFrame) -> pd.DataFrame:
        """The rows as the estimator was fitted on them."""
        return known if self.encoder is None else self.encoder.transform(known)

    @property
    def libraries(self) -> dict[str, str]:
        """{distribution: installed version} of tabsweep and what the model computes with."""
        return versions(self.name)

    @property
    def labels(self) -> np.ndarray:
        """The classes by name; those of the estimator itself where the schema names none."""
        if self.schema.classes:
            return np.array(self.schema.classes, dtype=object)
        return np.asarray(self.estimator.classes_)


@dataclass(frozen=True, eq=False)
class FittedEnsemble(Fitted):
    """A loaded ensemble: its parts, and their weights, which add up to 1. `about` may have
    `bounds`, of a regression: the least and the largest value that is taken from a part."""

    parts: tuple[Fitted, ...] = ()
    weights: tuple[float, ...] = ()

    def _values(self, known: pd.DataFrame) -> np.ndarray:
        within = self.about.get("bounds", (-np.inf, np.inf))
        return self._mean([np.clip(part._values(known), *within) for part in self.parts])

    def _probabilities(self, known: pd.DataFrame) -> np.ndarray:
        return self._mean([part._probabilities(known) for part in self.parts])

    def _mean(self, predictions: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros_like(predictions[0])
        for weight, values in zip(self.weights, predictions, strict=True):
            total += weight * values
        return total

    @property
    def labels(self) -> np.ndarray:
        """The classes by name."""
        return self.parts[0].labels

    @property
    def libraries(self) -> dict[str, str]:
        """{distribution: installed version} of all parts."""
        return {k: v for part in self.parts for k, v in part.libraries.items()}
