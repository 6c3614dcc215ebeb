"""Resumable fits: a fit in pieces, each of which continues from the state of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from .base import Estimator

Start = tuple[int, bytes]
Save = Callable[[int, bytes], None]


def _states() -> Any:
    """The module that turns models into bytes and back.

    It is imported by name, so that it is no part of the fingerprint of a fit in one piece: the
    format of states may change without a new trial id. The fingerprint of a fit in pieces adds
    `tabsweep.models.persistence.fit_state`.
    """
    return import_module(".persistence.fit_state", __package__)


def boundaries(step: int, stop: int, every: int) -> list[int]:
    """The steps at which a fit at `step` saves and reloads: multiples of `every`, and `stop`.

    >>> boundaries(0, 10, 4), boundaries(8, 10, 4), boundaries(10, 10, 4)
    ([4, 8, 10], [10], [])
    >>> boundaries(0, 9, 3), boundaries(3, 8, 3), boundaries(0, 2, 5)
    ([3, 6, 9], [6, 8], [2])
    """
    return [*range((step // every + 1) * every, stop, every), stop] if step < stop else []


def seed_at(seed: int, step: int) -> int:
    """The seed of a piece that begins at `step`: `seed` itself at 0, another at each boundary."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0] >> 1) if step else seed


def by_round(losses: Iterable[float]) -> np.ndarray:
    """(n, 2) rounds from 1 and their validation losses, a boosted model's `curve_`."""
    values = np.asarray(list(losses), dtype=np.float64)
    return np.column_stack([np.arange(1.0, len(values) + 1), values])


class Stepwise(Estimator):
    """Base of models whose fit is a number of steps (`resource`) and can continue from a state.

    A subclass writes `_grow`, `_begin` where it trains on more than arrays, and `_continues` where
    some configurations cannot continue.
    """

    reads_back: ClassVar[bool] = True  # the state after each piece, so that all pieces begin alike

    # -- what a subclass writes -------------------------------------------------------------------

    def _begin(self, x: np.ndarray, y: np.ndarray, X_val: Any, y_val: Any) -> Any:
        """What trains in all pieces: the training rows, in the form of the library."""
        return x, y

    def _grow(self, training: Any, step: int, until: int) -> Any:
        """Trains `model_` (absent at step 0, else as it was saved at `step`) to `until` steps;
        returns its state. What is random must depend on the seed and `step` alone (`seed_at`)."""
        raise NotImplementedError

    def _go_on(self, training: Any, state: Any) -> None:
        """Takes over a state; BadState where it is of another model."""
        self.model_ = state

    def _end(self, training: Any, x: np.ndarray, y: np.ndarray, stop: int) -> None:
        """Sets what `fit` sets, after the last piece."""
        self.n_iter_ = self.best_iteration_ = stop

    def _continues(self) -> bool:
        """Whether this configuration can continue; else `fit_to` trains from zero in one piece."""
        return True

    # -- public methods ---------------------------------------------------------------------------

    def fit_to(
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        *,
        stop: int,
        every: int,
        start: Start | None = None,
        save: Save | None = None,
    ) -> Stepwise:
        """Fits `stop` steps of the configuration's schedule. Boosting does not stop early and uses
        no X_val; the validation rows of a network choose its weights as in `fit`.

        At every multiple of `every` and at `stop` the state is given to `save(step, state)`; a fit
        that continues from a saved state, in this process or another, equals the uninterrupted one
        to the bit. `start`: such a (step, state) of the same
        configuration and data. It is ignored where it cannot be used (beyond `stop`, or saved at a
        `stop` that is no multiple of `every`). BadState (a ValueError) for bytes that are damaged
        or belong to another model or to data of another shape: train again without `start`.

        A configuration that cannot continue (`_continues`) trains from zero in one piece and saves
        at `stop` alone. `resumed_from_` is the step that this fit began at.
        """
        self.check()
        self._check_steps(stop, every)
        x, target = self._prepare(X, y)
        states = _states()

        def keep(step: int, members: Any) -> None:
            if save is not None:
                save(step, states.seal(members, self._facts(step, x.shape[1])))

        self.resumed_from_ = step = 0
        if self.constant_ is not None:
            keep(stop, states.dump(None))
            return self
        every = every if self._continues() else stop

        def loaded(members: Any) -> Any:
            return states.load(members, threads=self.threads)

        with self._limits(), self._counting_warnings():
            training = self._begin(x, target, X_val, y_val)
            if start is not None and 0 < start[0] <= stop:
                if start[0] == stop or start[0] % every == 0:
                    self.resumed_from_ = step = start[0]
                    members = states.unseal(start[1], self._facts(step, x.shape[1]))
                    self._go_on(training, loaded(members))
            for until in boundaries(step, stop, every):
                state = self._grow(training, step, until)
                if self.reads_back or save is not None:
                    members = states.dump(state)
                    if self.reads_back:
                        self._go_on(training, loaded(members))
                    keep(until, members)
                step = until
            self._end(training, x, target, stop)
        return self

    # -- inside -----------------------------------------------------------------------------------

    def _check_steps(self, stop: int, every: int) -> None:
        if self._limit_s is not None:
            raise ValueError("a fit in parts has no limit of time; call fit, or limit no time")
        length = getattr(self, self.resource)
        if not 1 <= stop <= length:
            raise ValueError(f"stop must be from 1 to {self.resource} = {length}, got {stop}")
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")

    def _facts(self, step: int, width: int) -> dict[str, Any]:
        """What a state must name to belong to this model on such data."""
        outputs = 1 if self.task == "regression" else len(self.classes_)
        model = type(self).__name__
        return {"model": model, "step": step, "features": width, "outputs": outputs}
