"""Seconds that a fitted model takes to predict 1,000 rows: in one batch, and row by row.

They are measured after the trial's own predictions, which warm the model up, and do not count in
its other costs. A trial is measured if its validation score is the best so far of its study in this
process; so the chosen trial is measured. A measurement should take at most a fiftieth of the time
of fit and predictions, or LEAST_S if that is more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakKeyDictionary

BATCH, SINGLE = "predict_1k_s", "predict_1k_single_s"  # seconds per 1,000 rows, of batches of 1,000
ROWS = 1000
SHARE, LEAST_S = 0.02, 0.05  # of the trial's seconds that a measurement may take; at least so many
# Predictions of each kind. The shortest counts: what else runs on the machine only adds to them.
MOST_SINGLE, MOST_BATCHES = 3, 2
GROWTH = 4  # of a batch, from one whose time is known to the next


class BestSoFar:
    """The least validation loss that this process has seen of each study.

    They are forgotten with the table in memory, so that another sweep in this process begins anew.
    """

    def __init__(self) -> None:
        self._by_table: WeakKeyDictionary[Any, dict[Hashable, float]] = WeakKeyDictionary()

    def beaten(self, table: Any, study: Hashable, loss: float) -> bool:
        """Take in a trial's validation loss. Returns whether it is the best so far of `study`, a
        study on `table`."""
        losses = self._by_table.setdefault(table, {})
        if loss >= losses.get(study, float("inf")):
            return False
        losses[study] = loss
        return True


def prediction_times(
    predict: Callable[[Any], Any], X: Any, *, took_s: float, budget_s: float
) -> tuple[dict[str, float], str]:
    """({BATCH, SINGLE: seconds per 1,000 rows}, what went wrong, or "").

    `predict` takes a DataFrame of rows; `X` holds rows that it has just predicted in `took_s`
    seconds. They are repeated to 1,000 rows. Batches grow as long as the next one is expected to
    fit into `budget_s`, the seconds of the fit and of all predictions.

    A model that would take too long is not measured. Its batch figure is then the time of the
    prediction just made if that had 1,000 rows or more, and otherwise left out. An exception of
    `predict` is returned, not raised: the trial has its predictions already.
    """
    figures: dict[str, float] = {}
    if not len(X):
        return figures, ""
    if len(X) >= ROWS:
        figures[BATCH] = took_s * ROWS / len(X)
    until = time.perf_counter() + max(LEAST_S, SHARE * budget_s)
    try:
        if took_s > until - time.perf_counter():  # a single row may take as long as all did
            return figures, ""
        singles = [_rows(X, 1, start=i) for i in range(MOST_SINGLE + 1)]
        warm, *times = _repeated(predict, singles, 0.5 * (until - time.perf_counter()))
        single = min(times or [warm])
        figures[SINGLE] = ROWS * single
        size, seconds = min(len(X), ROWS), took_s
        while size < ROWS:
            # what exceeds a single row's time grows with the rows
            larger = min(ROWS, GROWTH * size)
            if single + max(0.0, seconds - single) * larger / size > until - time.perf_counter():
                return figures, ""
            size = larger
            (seconds,) = _repeated(predict, [_rows(X, size)], 0.0)
        if seconds <= until - time.perf_counter():
            batches = [_rows(X, ROWS)] * MOST_BATCHES
            figures[BATCH] = min(_repeated(predict, batches, until - time.perf_counter()))
        elif len(X) < ROWS:
            figures[BATCH] = seconds
    except Exception as error:  # a class of the user's own may know batches only
        line = (str(error).strip().splitlines() or [""])[0]
        return figures, f"{type(error).__name__}: {line}"[:300]
    return figures, ""


def _rows(X: Any, n: int, *, start: int = 0) -> Any:
    """`n` rows of a DataFrame from row `start` on, again from its first after its last."""
    return X.iloc[[(start + i) % len(X) for i in range(n)]].reset_index(drop=True)


def _repeated(predict: Callable[[Any], Any], inputs: list[Any], seconds: float) -> list[float]:
    """The seconds of each prediction, while there are inputs and seconds left; at least one."""
    times: list[float] = []
    for rows in inputs:
        began = time.perf_counter()
        predict(rows)
        times.append(time.perf_counter() - began)
        if sum(times) + times[-1] > seconds:
            break
    return times
