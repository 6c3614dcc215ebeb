"""Successive halving: the sizes of the rungs, their lengths, and the promoted configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Fidelity = dict[str, int]


@dataclass(frozen=True)
class Halving:
    """Successive halving (Jamieson and Talwalkar 2016, arXiv:1502.07943) on whole rungs.

    Every configuration runs the lowest of `rungs` rungs; the best 1/`eta` of a rung go on to the
    next, which runs `eta` times as many steps; the last rung runs a configuration's whole schedule.
    A rung is decided when all of it has ended, so the order of ends does not matter. Both numbers
    are 2 at least.
    """

    eta: int = 3
    rungs: int = 3

    def sizes(self, n_trials: int) -> list[int]:
        """How many configurations each rung holds if none fails, lowest rung first.

        >>> Halving(eta=3, rungs=3).sizes(20)
        [20, 7, 3]
        """
        sizes = [n_trials]
        while len(sizes) < self.rungs:
            sizes.append(math.ceil(sizes[-1] / self.eta))
        return sizes

    def fidelities(self, length: int) -> list[Fidelity]:
        """The rungs of a schedule of `length` steps: where each stops, lowest first. All go through
        the same boundaries, so that a higher rung continues what a lower one left.

        >>> [rung["stop"] for rung in Halving(eta=3, rungs=3).fidelities(300)]
        [34, 102, 300]
        """
        if length < 1:
            raise ValueError(f"a schedule must have at least one step, got {length}")
        every = math.ceil(length / self.eta ** (self.rungs - 1))
        stops = [min(length, every * self.eta**rung) for rung in range(self.rungs - 1)]
        return [{"length": length, "stop": stop, "every": every} for stop in (*stops, length)]

    def rung_at(self, length: int, step: int) -> int | None:
        """The lowest rung of a schedule that stops at this step, None where none does.

        >>> [Halving(eta=3, rungs=3).rung_at(300, step) for step in (34, 68, 102, 300)]
        [0, None, 1, 2]
        """
        stops = [rung["stop"] for rung in self.fidelities(length)]
        return stops.index(step) if step in stops else None

    @staticmethod
    def promote(losses: Mapping[int, float | None], n: int) -> list[int]:
        """The indices that go on from a rung to one of `n` places: least loss first, ties to the
        lower index, failures never; in order of index.

        >>> Halving.promote({0: 0.3, 1: None, 2: 0.1, 3: 0.3}, 2)
        [0, 2]
        """
        known = sorted((loss, index) for index, loss in losses.items() if loss is not None)
        return sorted(index for _, index in known[:n])
