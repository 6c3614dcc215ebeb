"""The metrics by name, each with its direction and its tasks.

Names and meanings are those of scikit-learn, which the tests compare with. The usual metrics use
numpy only and work on integer class codes, as a sweep scores every trial on validation and on test
rows; the others are scikit-learn's functions, computed where one of them is chosen. Rows may have
weights (n,), all above 0, which mean what `sample_weight` means in scikit-learn; None counts every
row once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..common.decisions import Costs, decisions
from ..common.tasks import BINARY, MULTICLASS, REGRESSION, TASKS
from ..common.text import did_you_mean
from .statistics.ranking import equal

CLASSIFICATION = (BINARY, MULTICLASS)

# {task: the metric that selects and heads the tables where nobody names another}
DEFAULT_METRIC: dict[str, str] = {BINARY: "roc_auc", MULTICLASS: "accuracy", REGRESSION: "rmse"}

# Class probabilities may miss a sum of one by rounding (float32 softmax), but not by more.
SUM_TOLERANCE = 1e-3
ECE_BINS = 15  # Guo et al. 2017, sec. 4


class NonFinitePrediction(ValueError):
    """A prediction that holds NaN or infinity: a failed trial (cause `nonfinite`), not a score."""


def accuracy(y: np.ndarray, proba: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Share of rows whose most probable class is right; of equal ones the lower code is taken.

    y: (n,). proba: (n, C).
    """
    return _mean(proba.argmax(axis=1) == y, weights)


def balanced_accuracy(y: np.ndarray, proba: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean recall over the classes that occur in `y` (as scikit-learn; Brodersen et al. 2010).

    y: (n,). proba: (n, C).
    """
    counts = np.bincount(y, weights, minlength=proba.shape[1])
    right = proba.argmax(axis=1) == y
    of_right = None if weights is None else weights[right]
    hits = np.bincount(y[right], of_right, minlength=proba.shape[1])
    present = counts > 0
    return float(np.mean(hits[present] / counts[present]))


def roc_auc(
    y: np.ndarray, proba: np.ndarray, weights: np.ndarray | None = None
) -> float | None:  # (n,), (n, C)
    """Area under the ROC curve; for C > 2 the plain mean over one-vs-rest areas.

    Equal scores count one half (the Mann-Whitney statistic). None where a class has no row, or all.
    """
    n_classes = proba.shape[1]
    counts = np.bincount(y, minlength=n_classes)
    if n_classes < 2 or (counts == 0).any():
        return None
    if n_classes == 2:
        return _area(y == 1, proba[:, 1], weights)
    return float(np.mean([_area(y == c, proba[:, c], weights) for c in range(n_classes)]))


def _area(positive: np.ndarray, score: np.ndarray, weights: np.ndarray | None) -> float:
    """P(score of a positive > score of a negative) + half of P(equal); (n,) bool, (n,). A pair of
    rows counts by the product of their weights."""
    each = np.ones(len(score)) if weights is None else weights
    _, inverse = np.unique(score, return_inverse=True)
    for_, against = (np.bincount(inverse, each * part) for part in (positive, ~positive))
    below = np.cumsum(against) - against / 2.0  # weight of negatives below each distinct score
    area = float((for_ * below).sum() / (for_.sum() * against.sum()))
    return area if weights is None else round(area, 12)  # sums of weights round: 1 is 1


def log_loss(y: np.ndarray, proba: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean negative log likelihood in nats; float64's epsilon is kept away from 0 and 1.

    y: (n,). proba: (n, C).
    """
    eps = float(np.finfo(np.float64).eps)
    return -_mean(np.log(np.clip(proba[np.arange(len(y)), y], eps, 1.0 - eps)), weights)


def ece(
    y: np.ndarray, proba: np.ndarray, weights: np.ndarray | None = None
) -> float:  # (n,), (n, C)
    """Expected calibration error of the predicted class (Guo et al. 2017, eq. 3): mean over the
    rows of the distance between mean probability and share of right rows of their bin.

    Of `ECE_BINS` bins of equal width, bin i holds probabilities in (i / ECE_BINS,
    (i + 1) / ECE_BINS].
    """
    sure, each = proba.max(axis=1), np.ones(len(y)) if weights is None else weights
    # Rounding: a probability on an edge belongs to the bin below it, whatever its last bit.
    at = np.clip(np.ceil(np.round(sure * ECE_BINS, 9)).astype(int) - 1, 0, ECE_BINS - 1)
    gaps = np.bincount(at, each * ((proba.argmax(axis=1) == y) - sure))
    return float(np.abs(gaps).sum() / each.sum())


def mse(y: np.ndarray, value: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean squared error in squared units of the target; y, value: (n,)."""
    return _mean(np.square(y - value), weights)


def rmse(y: np.ndarray, value: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Root of the mean squared error in units of the target; y, value: (n,)."""
    return float(np.sqrt(mse(y, value, weights)))


def mae(y: np.ndarray, value: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean absolute error in units of the target; y, value: (n,)."""
    return _mean(np.abs(y - value), weights)


def r2(
    y: np.ndarray, value: np.ndarray, weights: np.ndarray | None = None
) -> float | None:  # (n,), (n,)
    """1 - residual / total sum of squares; None for fewer than two rows or a constant target.

    DIFF(scikit-learn, r2_score): a constant target gives None instead of 0 or 1.
    """
    if len(y) < 2 or np.ptp(y) == 0.0:
        return None
    each = 1.0 if weights is None else weights
    middle = y.mean() if weights is None else np.average(y, weights=weights)
    total = float(np.sum(each * np.square(y - middle)))
    return 1.0 - float(np.sum(each * np.square(y - value))) / total if total > 0.0 else None


def cost(
    y: np.ndarray,
    proba: np.ndarray,
    weights: np.ndarray | None = None,
    costs: Costs = (),
) -> float:
    """Mean cost of a row where each row gets the class of the least expected cost (`decisions`).

    y: (n,). proba: (n, C). costs: (C, C); () for 1 where the classes differ, which makes it the
    share of wrong rows.
    """
    matrix = np.asarray(costs or 1.0 - np.eye(proba.shape[1]), dtype=np.float64)
    return _mean(matrix[y, decisions(proba, costs)], weights)


def _mean(values: np.ndarray, weights: np.ndarray | None) -> float:  # (n,), (n,)
    return float(np.mean(values) if weights is None else np.average(values, weights=weights))


def _scikit_learn(
    name: str,
    seen: Callable[[np.ndarray], np.ndarray] | None,
    y: np.ndarray,
    prediction: np.ndarray,
    weights: np.ndarray | None = None,
    **how: Any,
) -> float | None:
    """scikit-learn's function of that name. `seen`: what it takes of class probabilities; None
    where it takes values. None where it needs a row of every class and one has no row, and for F1
    without a positive row."""
    from sklearn import metrics

    if name == "average_precision_score" and len(np.unique(y)) < prediction.shape[1]:
        return None
    if name == "f1_score" and "average" not in how and not (y == 1).any():
        return None
    if name == "brier_score_loss":
        how["labels"] = np.arange(prediction.shape[1])
    taken = prediction if seen is None else seen(prediction)
    return float(getattr(metrics, name)(y, taken, sample_weight=weights, **how))


def _codes(proba: np.ndarray) -> np.ndarray:
    return proba.argmax(axis=1)


def _scores(proba: np.ndarray) -> np.ndarray:
    return proba[:, 1] if proba.shape[1] == 2 else proba


@dataclass(frozen=True)
class Metric:
    """One metric: `fn(y_true, prediction, weights)` is a number, or None where it has no meaning;
    `value` is the same for weights that may be 0. `usual`: whether every trial has it, and not
    only where it is chosen."""

    name: str
    direction: str  # 'max': larger is better, 'min': smaller is better
    tasks: tuple[str, ...]
    fn: Callable[..., float | None]
    label: str  # as a table's heading writes it
    bounded: bool = False  # at most 1, so that 1 - value is an error
    lowest: float = 0.0
    percent: bool = False  # as tables print it
    decimals: int | None = (
        None  # where it is not bounded; None: as many as the smallest value needs
    )
    synonyms: tuple[str, ...] = ()  # names that other tools give it
    usual: bool = True
    quantile: float | None = None  # of the target, whose pinball loss it is

    def value(
        self,
        y: np.ndarray,
        prediction: np.ndarray,
        weights: np.ndarray | None = None,
        costs: Costs = (),
    ) -> float | None:
        """The metric on checked arrays (see `score_all`). Rows of weight 0 are left out; None where
        no others are there, and where the metric has no meaning. costs: see `cost`."""
        fn = partial(self.fn, costs=costs) if self.fn is cost else self.fn
        if weights is None:
            return fn(y, prediction)
        there = weights > 0
        if not there.any():
            return None
        return fn(y[there], prediction[there], weights[there])

    @property
    def factor(self) -> float:
        """100 for a metric that tables print in percent, else 1."""
        return 100.0 if self.percent else 1.0

    @property
    def sign(self) -> float:
        """-1 where larger is better, else 1: sign times value is a loss."""
        return -1.0 if self.direction == "max" else 1.0

    @property
    def better(self) -> str:
        """Which value is better: "higher" or "lower"."""
        return "higher" if self.direction == "max" else "lower"

    def loss(self, value: float) -> float:
        """The value as a loss: lower is better."""
        return self.sign * value

    def error(self, value: float) -> float:
        """The value as an error: 0 is perfect, lower is better. A score that ties with 1 is."""
        if not self.bounded:
            return value
        return 0.0 if value > 1.0 or equal(value, 1.0) else 1.0 - value


_fraction = partial(Metric, direction="max", tasks=CLASSIFICATION, bounded=True)
_error = partial(Metric, direction="min", tasks=(REGRESSION,))
_LOG_LOSS = ("nll", "cross-entropy", "cross_entropy", "logloss")
_more_fraction, _more_error = partial(_fraction, usual=False), partial(_error, usual=False)
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)  # that have a pinball loss

METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        _fraction("accuracy", fn=accuracy, label="accuracy", percent=True, synonyms=("acc",)),
        _fraction(
            "balanced_accuracy", fn=balanced_accuracy, label="balanced accuracy", percent=True
        ),
        _fraction("roc_auc", fn=roc_auc, label="ROC AUC", synonyms=("auc", "auroc")),
        Metric(
            "log_loss", "min", CLASSIFICATION, log_loss, "log loss", decimals=3, synonyms=_LOG_LOSS
        ),
        _error("rmse", fn=rmse, label="RMSE"),
        _error("mse", fn=mse, label="MSE"),
        _error("mae", fn=mae, label="MAE"),
        Metric("r2", "max", (REGRESSION,), r2, "R2", bounded=True, lowest=-np.inf),
        _more_fraction(
            "average_precision",
            fn=partial(_scikit_learn, "average_precision_score", _scores),
            label="average precision",
            synonyms=("ap", "auprc", "pr_auc"),
        ),
        _more_fraction(
            "f1", tasks=(BINARY,), fn=partial(_scikit_learn, "f1_score", _codes), label="F1"
        ),
        _more_fraction(
            "f1_macro",
            fn=partial(_scikit_learn, "f1_score", _codes, average="macro"),
            label="macro F1",
        ),
        _more_fraction(
            "mcc",
            fn=partial(_scikit_learn, "matthews_corrcoef", _codes),
            label="MCC",
            lowest=-1.0,
            synonyms=("matthews_corrcoef",),
        ),
        _more_error(
            "brier",
            tasks=CLASSIFICATION,
            fn=partial(_scikit_learn, "brier_score_loss", _scores),
            label="Brier score",
            synonyms=("brier_score", "brier_score_loss"),
        ),
        _more_error(
            "ece",
            tasks=CLASSIFICATION,
            fn=ece,
            label="calibration error",
            decimals=3,
            synonyms=("expected_calibration_error",),
        ),
        _more_error("cost", tasks=CLASSIFICATION, fn=cost, label="cost of a row"),
        _more_error(
            "mape",
            fn=partial(_scikit_learn, "mean_absolute_percentage_error", None),
            label="MAPE",
            percent=True,
            synonyms=("mean_absolute_percentage_error",),
        ),
        _more_error(
            "median_ae",
            fn=partial(_scikit_learn, "median_absolute_error", None),
            label="median absolute error",
            synonyms=("median_absolute_error",),
        ),
        *(
            _more_error(
                f"pinball_{p}",
                fn=partial(_scikit_learn, "mean_pinball_loss", None, alpha=p / 100),
                label=f"pinball loss, {p} %",
                quantile=p / 100,
            )
            for p in PERCENTILES
        ),
    )
}


def metric(name: str) -> Metric:
    """The metric of that name; ValueError with a suggestion for an unknown one."""
    if name in METRICS:
        return METRICS[name]
    hint = did_you_mean(name, METRICS)
    raise ValueError(f"unknown metric {name!r}{hint}; known: {', '.join(METRICS)}")


def metrics_of(task: str) -> list[str]:
    """Names of the metrics that the task has, in the order of METRICS; ValueError if unknown."""
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; known: {', '.join(TASKS)}")
    return [m.name for m in METRICS.values() if task in m.tasks]


def score_all(
    task: str,
    y_true: np.ndarray,
    prediction: np.ndarray,
    n_classes: int = 0,
    weights: np.ndarray | None = None,
    *,
    chosen: str = "",
    costs: Costs = (),
) -> dict[str, float | None]:
    """Every usual metric of the task, and the one that is `chosen`, by name; None where a metric
    has no meaning on these rows.

    `y_true` holds class codes 0..n_classes-1, `prediction` is (n, n_classes) probabilities; for
    regression it is (n,) values (an (n, 1) column is taken too) and `n_classes` is unused.
    `weights` (n,) say how much each row counts, 0 or more; None: all alike. `costs`: see `cost`.
    Never NaN or infinity: a metric that overflows is None. Raises NonFinitePrediction for NaN or
    infinity in the prediction, ValueError for wrong shapes, codes or probabilities.

    >>> score_all("regression", np.array([1.0, 2.0]), np.array([1.0, 4.0]))["mse"]
    2.0
    """
    names = [name for name in metrics_of(task) if METRICS[name].usual or name == chosen]
    prediction = np.asarray(prediction, dtype=np.float64)
    if task == REGRESSION:
        y, prediction = _checked_values(np.asarray(y_true), prediction)
    else:
        y, prediction = _checked_probabilities(task, np.asarray(y_true), prediction, n_classes)
    scores: dict[str, float | None] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for name in names:
            value = METRICS[name].value(y, prediction, weights, costs)
            scores[name] = value if value is not None and np.isfinite(value) else None
    return scores


def _checked_values(y: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = y.astype(np.float64)
    if value.ndim == 2 and value.shape[1] == 1:
        value = value[:, 0]
    if value.shape != y.shape or y.ndim != 1 or not len(y):
        raise ValueError(f"regression needs as many values as targets: {value.shape} for {y.shape}")
    if not np.isfinite(y).all():
        raise ValueError("the target must be finite; it holds NaN or infinity")
    _refuse_nonfinite(value)
    return y, value


def _checked_probabilities(
    task: str, y: np.ndarray, proba: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    if n_classes < 2 or (task == BINARY and n_classes != 2):
        raise ValueError(f"a {task} task cannot have n_classes={n_classes}")
    if y.ndim != 1 or not len(y) or proba.shape != (len(y), n_classes):
        raise ValueError(
            f"{task} needs probabilities of shape ({len(y)}, {n_classes}) with a column for every "
            f"class, also those absent from training; got {proba.shape}"
        )
    codes = y.astype(np.int64)
    if (codes != y).any() or codes.min() < 0 or codes.max() >= n_classes:
        raise ValueError(f"class codes must be integers in 0..{n_classes - 1}")
    _refuse_nonfinite(proba)
    off = float(np.abs(proba.sum(axis=1) - 1.0).max())
    if proba.min() < -SUM_TOLERANCE or off > SUM_TOLERANCE:
        raise ValueError(
            f"class probabilities must be non-negative and sum to 1 in each row; the lowest is "
            f"{proba.min():g} and a sum misses 1 by {off:g}"
        )
    return codes, proba


def _refuse_nonfinite(prediction: np.ndarray) -> None:
    bad = ~np.isfinite(prediction)
    if bad.any():
        rows = int(bad.reshape(len(prediction), -1).any(axis=1).sum())
        raise NonFinitePrediction(
            f"the prediction holds NaN or infinity in {rows} of {len(prediction)} rows"
        )
