"""The contract of an estimator: laws that are tried on tiny tables, for models of anyone.

`Tried` is a model on one task, with a fit that the laws share; a law is a function of it that
raises `Broken`. `LAWS` names them all; the tests hold every registered model to the same laws.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..common.tasks import REGRESSION
from .own_class import SORTED
from .registry import make_model, spec
from .resumable import Stepwise

N = 120  # rows that the shared fit learns from
NEW = 120  # rows of the same table that it is judged by
# Largest difference between a row's prediction alone and in its batch, relative to the largest
# prediction: by the number format of the matrix products, which are summed in another order.
TOLERANCES = {"float64": 1e-9, "float32": 1e-6}


class Broken(AssertionError):
    """A model does not keep a law."""


def table(task: str, n: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, gaps, categories, a constant and an all-missing column, n rows; a learnable target:
    values, or class codes (2 or 3 classes)."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.normal(100, 25, n),
            "constant": 3.0,
            "empty": np.nan,
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], n)),
        }
    )
    signal = frame["a"] + 0.02 * (frame["b"] - 100) + 1.5 * (frame["colour"] == "red")
    frame.loc[::8, "b"] = np.nan
    frame.loc[::13, "colour"] = None
    signal = signal.to_numpy(dtype=float)
    if task == REGRESSION:
        return frame, 50.0 + 10.0 * signal
    return frame, np.digitize(signal, [0.5] if task == "binary" else [-0.2, 1.0])


@dataclass
class Tried:
    """A model on one task.

    config: hyperparameters other than the defaults; short: further ones for laws about odd tables,
    where nothing has to be learnt; table: makes the rows.
    """

    name: str
    task: str
    config: Mapping[str, Any] = field(default_factory=dict)
    short: Mapping[str, Any] = field(default_factory=dict)
    table: Callable[..., tuple[pd.DataFrame, np.ndarray]] = table

    def rows(self, n: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
        """n rows of the task's table: features, target."""
        return self.table(self.task, n, seed)

    def make(self, **config: Any) -> Any:
        """The unfitted model."""
        return make_model(self.name, task=self.task, **{**self.config, **config})

    def fit(self, x: Any, y: Any, *val: Any, model: Any = None) -> Any:
        """The model fitted on these rows, with validation rows where it takes any."""
        model = self.make(**self.short) if model is None else model
        takes = "X_val" in inspect.signature(model.fit).parameters
        model.fit(x, y, *(val if takes else ()))
        return model

    @cached_property
    def learnt(self) -> tuple[pd.DataFrame, np.ndarray]:
        """The N rows of the shared fit."""
        frame, y = self.rows(N + NEW)
        return frame.iloc[:N], y[:N]

    def again(self) -> Any:
        """A fit on these rows, with 30 validation rows."""
        return self.fit(*self.learnt, *self.rows(30, seed=5), model=self.make())

    @cached_property
    def fitted(self) -> Any:
        """The fit that laws share; no law may change it."""
        return self.again()

    def answers(self, model: Any, x: Any) -> np.ndarray:
        """What a fitted model predicts: (n, C) probabilities or (n,) values. Broken where that has
        another shape or is not finite."""
        kind = "predict" if self.task == REGRESSION else "predict_proba"
        answer = np.asarray(getattr(model, kind)(x))
        shape = (len(x),) if self.task == REGRESSION else (len(x), len(model.classes_))
        need(answer.shape == shape, f"{kind} gave shape {answer.shape} where {shape} is needed")
        need(answer.dtype.kind == "f", f"{kind} gave the dtype {answer.dtype}, not a float")
        bad = int((~np.isfinite(answer)).sum())
        need(not bad, f"{kind} gave {bad} values that are NaN or infinite")
        return answer


def takes_numbers_alone(tried: Tried) -> bool:
    """Whether the model fits and answers numbers without gaps, and not the table of the task."""
    frame, y = tried.learnt
    numbers = frame[["a", "constant"]].assign(b=frame["b"].fillna(0.0))
    done = []
    for rows in (numbers, frame):
        try:
            tried.answers(tried.fit(rows, y, rows, y), rows)
        except Exception:  # code of the user, which may raise anything
            done.append(False)
        else:
            done.append(True)
    return done == [True, False]


def sorted_classes(tried: Tried) -> bool:
    """Whether the model's own fit says nothing of classes, and those of its labels are taken."""
    try:
        return hasattr(tried.fitted, SORTED)
    except Exception:  # code of the user, which may raise anything
        return False


def need(holds: Any, otherwise: str) -> None:
    """Raises Broken with these words where a law does not hold."""
    if not holds:
        raise Broken(otherwise)


def form(tried: Tried) -> None:
    """predictions have the form of the task"""
    (frame, y), fitted = tried.learnt, tried.fitted
    answer = tried.answers(fitted, frame)
    predicted = np.asarray(fitted.predict(frame))
    need(predicted.shape == (N,), f"predict gave shape {predicted.shape} where ({N},) is needed")
    if tried.task == REGRESSION:
        return
    classes = list(fitted.classes_)
    need(classes == sorted(set(y)), f"classes_ is {classes}, y held {sorted(set(y))}")
    need((answer >= 0).all(), "predict_proba gave probabilities below 0")
    off = np.abs(answer.sum(axis=1) - 1.0).max()
    need(off <= 1e-5, f"rows of predict_proba sum to 1 but for {off:.2g}")
    likeliest = np.asarray(fitted.classes_)[answer.argmax(axis=1)]
    n = int((likeliest != predicted).sum())
    need(not n, f"predict gave another class than the likeliest in {n} of {N} rows")


def learns(tried: Tried) -> None:
    """it beats each constant answer on a table that can be learnt"""
    frame, y = tried.rows(N + NEW)
    frame, y = frame.iloc[N:].reset_index(drop=True), y[N:]
    predicted = np.asarray(tried.fitted.predict(frame))
    if tried.task == REGRESSION:
        what, score, floor = "R2", 1 - np.mean((predicted - y) ** 2) / np.var(y), 0.0
    else:
        what, score = "accuracy", np.mean(predicted == y)
        floor = np.unique(y, return_counts=True)[1].max() / len(y)
    need(
        score > floor + 0.05,
        f"{what} {score:.3f} on new rows, the best constant answer {floor:.3f}",
    )


def repeats(tried: Tried) -> None:
    """the same fit gives the same bytes"""
    frame, _ = tried.learnt
    first, second = (tried.answers(model, frame) for model in (tried.fitted, tried.again()))
    off = np.abs(first - second).max()
    need(
        first.tobytes() == second.tobytes(),
        f"two fits with one seed differ by {off:.2g}: is every random draw made from `seed`?",
    )


def rows_stand_alone(tried: Tried) -> None:
    """no row of a prediction depends on the others: their values, order or number"""
    (frame, _), fitted = tried.learnt, tried.fitted
    whole = tried.answers(fitted, frame)
    format = str(getattr(fitted, "computes_in", ""))
    tolerance = TOLERANCES.get(format, TOLERANCES["float32"]) * max(1.0, np.abs(whole).max())
    half, order = N // 2, np.random.default_rng(0).permutation(N)
    strange = tried.rows(half, seed=4)[0].assign(a=1e20, b=np.nan)
    strange["colour"] = pd.Categorical([None] * half, categories=frame["colour"].cat.categories)
    several = pd.concat([frame] * 4, ignore_index=True)  # more than one block of a network
    mixed = pd.concat([frame.iloc[:half], strange], ignore_index=True)
    for what, asked, at in (
        ("other values", mixed, np.arange(half)),
        ("another order", frame.iloc[order].reset_index(drop=True), order),
        ("more rows", several, np.tile(np.arange(N), 4)),
        *(("a row alone", frame.iloc[[i]].reset_index(drop=True), np.array([i])) for i in (7, 8)),
    ):
        off = np.abs(tried.answers(fitted, asked)[: len(at)] - whole[at]).max()
        need(off <= tolerance, f"{what} change predictions by {off:.2g} (at most {tolerance:.2g})")


def news(tried: Tried) -> None:
    """levels and gaps that training did not have are answered"""
    new = pd.DataFrame(
        {
            "a": [np.nan, 0.0, 1e30],
            "b": [np.nan, np.nan, -1e30],
            "constant": [np.nan, 4.0, 3.0],
            "empty": [1.0, np.nan, 2.0],
            "colour": pd.Categorical(["violet", None, "red"]),
        }
    )
    tried.answers(tried.fitted, new)


def one_number(tried: Tried) -> None:
    """one number without gaps is enough"""
    frame, y = tried.rows()
    tried.answers(tried.fit(frame[["a"]], y), frame[["a"]])


def only_categories(tried: Tried) -> None:
    """categories alone are enough, under the largest seed"""
    frame, y = tried.rows()
    halves = pd.Categorical((frame["a"] > 0).map({True: "p", False: "n"}))
    x = pd.DataFrame({"c": frame["colour"], "d": halves})
    tried.answers(tried.fit(x, y, model=tried.make(**tried.short, seed=2**31 - 1)), x)


def no_difference(tried: Tried) -> None:
    """features without a difference give an answer, the same for each row"""
    _, y = tried.rows()
    x = pd.DataFrame({"a": np.full(60, 5.0), "b": np.full(60, 5.0)})
    answer = tried.answers(tried.fit(x, y, model=tried.make()), x)
    need(np.allclose(answer, answer[0]), "rows that are equal got different predictions")


def few_rows(tried: Tried) -> None:
    """nine rows, and a class of one row, are survived"""
    frame, _ = tried.rows(9)
    y = np.arange(9) ** 2.0
    if tried.task != REGRESSION:
        y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1 if tried.task == "binary" else 2])
    tried.answers(tried.fit(frame, y, frame, y), frame)


def continues(tried: Tried) -> None:
    """a fit that stops and continues equals the one that does not"""
    frame, y = tried.rows(48)
    config = {**tried.short, spec(tried.name).resource: 6}
    states: dict[int, bytes] = {}

    def fit(**more: Any) -> Any:
        model = tried.make(**config)
        more = {"stop": 6, "every": 3, "save": states.__setitem__, **more}
        takes = "X_val" in inspect.signature(model.fit_to).parameters
        model.fit_to(frame, y, *(tried.rows(30, seed=5) if takes else ()), **more)
        return model

    model = fit()
    whole = tried.answers(model, frame)
    need(all(type(s) is bytes for s in states.values()), "what is passed to save is no bytes")
    in_one_piece = isinstance(model, Stepwise) and not model._continues()
    steps = [6] if in_one_piece else [3, 6]
    need(sorted(states) == steps, f"states were saved at {sorted(states)}, not at {steps}")
    if in_one_piece:
        return
    parts = tried.answers(fit(start=(3, states[3])), frame)
    off = np.abs(whole - parts).max()
    need(whole.tobytes() == parts.tobytes(), f"the continued fit differs by {off:.2g}")


LAWS: tuple[Callable[[Tried], None], ...] = (
    form,
    learns,
    repeats,
    rows_stand_alone,
    news,
    one_number,
    only_categories,
    no_difference,
    few_rows,
    continues,
)


def laws(name: str) -> list[Callable[[Tried], None]]:
    """The laws that a model is held to: a baseline need not learn, nor a fit in one piece go on."""
    left = {learns} if spec(name).family == "baseline" else set()
    if not spec(name).resource:
        left.add(continues)
    return [law for law in LAWS if law not in left]


def said(law: Callable[[Tried], None]) -> str:
    """A law in words."""
    return inspect.getdoc(law) or law.__name__
