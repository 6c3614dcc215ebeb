"""Docstrings of the library's classes, in numpydoc's form, from those of the models."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from ..hyperparameters import entries
from ..model_spec import ModelSpec
from .presets import BY_PRESET

HIDDEN = {"task", "seed", "threads"}

COMMON_ENTRIES = """\
preset : {{'quick', 'paper'}}, default='quick'
    'quick': hyperparameters for a CPU and small tables{quick}.
    'paper': the published ones. A hyperparameter whose default is 'preset' has the value of the
    preset, which its entry names.
validation_fraction : float, default=0.15, in [0, 1)
    Share of the rows that is held out for early stopping where `fit` gets no validation rows;
    0 for none.{early}
categorical_features : sequence of names, positions or booleans, default=None
    Columns that are categories although they hold numbers; booleans are a mask, one for each
    column. Categorical and text columns are categories anyway.
random_state : int, RandomState or None, default=0
    Seed of the fit and of the rows that are held out. None draws another one each time.
n_jobs : int or None, default=None
    Threads of the fit; None for 1, -1 for all.
verbose : int, default=0
    1 shows a line after the fit."""

ATTRIBUTES = """\
Attributes
----------
{classes}n_features_in_ : int
    Columns of `X`.
feature_names_in_ : ndarray of str
    Their names, where `X` was a DataFrame whose names are all text.
estimator_ : {model}
    The fitted model.
columns_ : ColumnReader
    How the columns of `X` are read; `columns_.notices_` says what was done to odd ones.
n_iter_ : int
    Steps of the fit."""


def docstring(
    spec: ModelSpec,
    target: Any,
    kind: str,
    defaults: Mapping[str, Any],
    quick: Mapping[str, Any],
) -> str:
    """The docstring of the estimator of `kind` ("Classifier", "Regressor") of a model.

    defaults: the hyperparameters of the model's class `target`; quick: what the quick preset sets.
    """
    parts = [f"{target.__name__}: {spec.summary.rstrip('.')}; a {kind.lower()}."]
    told = "takes `sample_weight`" if spec.sample_weight else "takes no `sample_weight`"
    parts.append(
        textwrap.fill(
            "X may be a DataFrame with numbers, categories, booleans, dates, texts and gaps, or an "
            f"array. `fit` {told}.",
            96,
        )
    )
    stops = bool(spec.resource) or "early_stopping_rounds" in defaults
    common = COMMON_ENTRIES.format(
        quick=f", {len(quick)} of which differ from the paper's" if quick else "; here the same",
        early="" if stops else " This model does not stop early and holds none out.",
    )
    lines = _hyperparameters(target, quick, defaults)
    parts.append("\n".join(["Parameters\n----------", *lines, common]))
    classes = (
        "" if kind == "Regressor" else "classes_ : ndarray of shape (n_classes,)\n    Labels.\n"
    )
    parts.append(ATTRIBUTES.format(classes=classes, model=target.__name__))
    if spec.paper:
        parts.append(f"References\n----------\n{spec.paper}.")
    parts.append(_example(f"{target.__name__}{kind}", kind))
    return "\n\n".join(parts) + "\n"


def _hyperparameters(
    target: Any, quick: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[str]:
    """The entries of the model's hyperparameters, each with the presets' values where they differ;
    one without an entry gets a bare line."""
    doc = inspect.cleandoc(target.__doc__ or "")
    lines: list[str] = []
    told: set[str] = set()
    for head, entry in entries(doc).items():
        names = [name.strip() for name in head.split(",")]
        told |= set(names)
        if HIDDEN & set(names) or not set(names) & set(defaults):
            continue
        decided = [name for name in names if name in quick]
        for name in decided:
            entry[0] = entry[0].replace(f"default={defaults[name]!r}", f"default={BY_PRESET!r}")
        lines += entry
        lines += [f"    Presets: {quick[n]!r} (quick), {defaults[n]!r} (paper)." for n in decided]
    for name, value in defaults.items():
        if name not in told:
            lines.append(f"{name} : default={value!r}")
    return lines


def _example(name: str, kind: str) -> str:
    """Five lines that fit the estimator.

    >>> print(_example("KNNRegressor", "Regressor").splitlines()[-1])
    (442,)
    """
    data = "load_breast_cancer" if kind == "Classifier" else "load_diabetes"
    return textwrap.dedent(f"""\
        Examples
        --------
        >>> from sklearn.datasets import {data}
        >>> from tabsweep import {name}
        >>> X, y = {data}(return_X_y=True, as_frame=True)
        >>> model = {name}().fit(X, y)
        >>> model.predict(X).shape
        ({569 if kind == "Classifier" else 442},)""")
