"""How the networks of the NPT paper are trained: NPT on tables and on pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..deep.estimator import PATIENCE, STEPS, DeepEstimator
from ..deep.schedules import SCHEDULES, rate
from ..deep.trainer import Recipe
from ..hyperparameters import COUNT, RATE, SWITCH, Number, OneOf, hyper

PROBABILITY = Number(0.0, 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class LambTrained(DeepEstimator):
    """Base of networks that LAMB trains by a schedule, with Lookahead.

    Parameters
    ----------
    steps
        Steps of the optimiser in the whole schedule.
    eval_every
        Steps between two validation losses.
    patience
        Validation losses without a lower one that end the fit, 0 for no early stopping.
    lr
        Learning rate at its peak.
    schedule
        Schedule of the learning rate, see `tabsweep.models.deep.schedules.rate`.
    schedule_share
        Share of the steps before the rate falls: at its peak (`flat-cosine`) or rising to it
        (`cosine-cyclic`, `polynomial`). The other schedules do not use it.
    lookahead
        Whether Lookahead (0.5, 6) is used.
    clip
        Limit of each element of the gradient, None for no limit.
    batch_size
        Rows of a step, 0 for all.
    """

    steps: int = hyper(2000, STEPS)
    eval_every: int = hyper(1, COUNT)
    patience: int = hyper(0, PATIENCE)
    lr: float = hyper(1e-3, RATE)
    schedule: str = hyper("flat-cosine", OneOf(SCHEDULES))
    schedule_share: float = hyper(0.5, PROBABILITY)
    lookahead: bool = hyper(True, SWITCH)
    clip: float | None = hyper(1.0, Number(0.0, low_open=True, words=(None,)))
    batch_size: int = hyper(0, Number(0, 10_000_000, whole=True))

    def _recipe(self) -> Recipe:
        return Recipe(
            steps=self.steps,
            rate=partial(rate_at, self.schedule, self.steps, self.lr, self.schedule_share),
            eval_every=self.eval_every,
            patience=self.patience,
            clip_value=self.clip,
            lookahead=(0.5, 6) if self.lookahead else None,
            precision=self.precision,
            compile=self.compile,
        )


def rate_at(schedule: str, steps: int, peak: float, share: float, s: int) -> float:
    """`rate` with the step last, as a recipe calls it."""
    return rate(schedule, s, steps, peak, share)
