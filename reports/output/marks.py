"""How numbers are printed: scores of a metric, the marks of the best, a leaderboard's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ..metrics import METRICS, Metric
from ..statistics.ranking import places
from .tables import TableCell, bare, decimals_for, fixed

CONSTANT = "one value for all rows"  # the line of a prediction that looks at no feature
# {figure of a leaderboard: (direction, decimals, factor)}
FIGURES = {
    "elo": ("max", 0, 1.0),
    "mean_rank": ("min", 2, 1.0),
    "win_rate": ("max", 2, 1.0),
    "normalised": ("max", 2, 1.0),
    "improvability": ("min", 1, 100.0),
}


def told_apart(
    values: Sequence[float], direction: str, decimals: int, factor: float = 1.0
) -> tuple[int, list[int]]:
    """(decimals, place of each value) such that values with different places print differently.

    If other values print like the best or the second best, one more decimal is used. Values that
    are still alike share a place. `factor`: printed value over stored value.

    >>> told_apart([0.9996, 0.9999, 0.5], "max", 3), told_apart([0.99999, 0.99998], "max", 3)
    ((4, [2, 1, 3]), (3, [1, 1]))
    """
    place = places(values, direction)
    shared: list[int] = []
    for more in (0, 1):
        texts = [fixed(factor * value, decimals + more) for value in values]
        first: dict[str, int] = {}
        for text, at in zip(texts, place, strict=True):
            first[text] = min(at, first.get(text, at))
        seen = [first[text] for text in texts]
        if all(s == p or s > 2 for s, p in zip(seen, place, strict=True)):
            return decimals + more, place
        shared = shared or seen
    return decimals, shared


@dataclass(frozen=True)
class ScoreText:
    """How the scores of a metric are written: a percentage with two decimals, say."""

    metric: Metric
    decimals: int

    @classmethod
    def of(cls, name: str, values: Sequence[float], *, more: int = 0) -> ScoreText:
        """Two decimals of a percentage, three of another bounded score, else as the metric says or
        three significant digits of the smallest value. `more`: decimals beyond these three."""
        metric = METRICS[name]
        decimals = 2 if metric.percent else 3 if metric.bounded else metric.decimals
        if decimals is None:
            decimals = decimals_for([v for v in values if v == v])
        elif not metric.percent:
            decimals += more
        return cls(metric, decimals)

    def apart(self, values: Sequence[float]) -> tuple[ScoreText, list[int]]:
        """(how they are written so that no two of different places look alike, their places)."""
        metric = self.metric
        decimals, place = told_apart(values, metric.direction, self.decimals, metric.factor)
        return replace(self, decimals=decimals), place

    def __call__(self, value: float) -> str:
        """The score; "" for NaN. One that cannot exceed 1 needs no zero before the point."""
        if value != value:
            return ""
        short = self.metric.bounded and not self.metric.percent
        return (bare if short else fixed)(self.metric.factor * value, self.decimals)


def figure_cells(board: pd.DataFrame) -> dict[str, list[TableCell]]:
    """{figure: its cells}, the best of each bold and the second best underlined; `board`: rows of
    the frame `leaderboard`."""
    found = {}
    for name, (direction, decimals, factor) in FIGURES.items():
        values = board[name].tolist()
        digits, place = told_apart(values, direction, decimals, factor)
        errors = board["mean_rank_se"] if name == "mean_rank" else [float("nan")] * len(board)
        found[name] = [
            TableCell(
                fixed(factor * value, digits),
                "" if error != error else f"{error:.2f}",
                bold=place[i] == 1,
                underline=place[i] == 2,
            )
            for i, (value, error) in enumerate(zip(values, errors, strict=True))
        ]
    return found
