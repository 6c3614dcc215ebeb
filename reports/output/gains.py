"""Gains of one way over another on datasets: a table's rows, with Wilcoxon's test over datasets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..statistics.tests import ALPHA, holm
from ..statistics.wilcoxon import wilcoxon
from . import escape
from .tables import TableCell, fixed, p_text

HEADER = ("median %", "mean %", "better", "equal", "worse", "p", "p Holm")
NOTES = (
    "gain: difference of the errors in percent of their mean, positive for the better; median and "
    "mean over the datasets. An error is 1 − score where more is better.",
    "p: Wilcoxon's signed-rank test over the datasets, exact, two-sided, zeros by Pratt; Holm's "
    f"correction over the lines of a part. Bold: below {ALPHA:g}. A line that is not bold shows no "
    "gain, and no equality either.",
)


def gain_rows(gains: Mapping[str, np.ndarray]) -> list[tuple[TableCell, ...]]:
    """A row (its label, then HEADER) for each name and its gains, one a dataset: the changes from
    the new errors to the old. NaN is left out, and so is a name without any."""
    known = {name: values[np.isfinite(values)] for name, values in gains.items()}
    known = {name: values for name, values in known.items() if len(values)}
    p = [wilcoxon(values).p for values in known.values()]
    rows = []
    for (name, values), raw, adjusted in zip(known.items(), p, holm(p), strict=True):
        better, worse = int((values > 0).sum()), int((values < 0).sum())
        figures = [_signed(100.0 * float(f(values))) for f in (np.median, np.mean)]
        counts = [better, len(values) - better - worse, worse]
        texts = [escape.label(name), *figures, *map(str, counts), p_text(raw)]
        last = TableCell(p_text(adjusted), bold=adjusted < ALPHA)
        rows.append((*map(TableCell, texts), last))
    return rows


def _signed(value: float) -> str:
    text = fixed(value, 2)
    return text if text.startswith("−") else f"+{text}"
