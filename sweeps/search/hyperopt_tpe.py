"""hyperopt's TPE as a backend of the samplers: finished trials in, one configuration out.

hyperopt models every number by itself, from the trials in which it exists. So a conditional
parameter needs no tree of choices: all numbers are drawn, those of absent parameters are dropped,
and a trial simply has no entry for a number that did not exist in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .space import Axis, Space


class HyperoptTPE:
    """One `hyperopt.Trials`, kept in memory. Configurations must lie inside `space`."""

    def __init__(self, space: Space, startup: int) -> None:
        from hyperopt import Trials
        from hyperopt.base import Domain

        self._space = space
        self._domain = Domain(_never_called, {axis.label: _node(axis) for axis in space.axes})
        self._trials = Trials()
        self._startup = startup
        self._keys: list[tuple[bool, float, int]] = []  # (failed, loss, index) of each trial

    def add(self, index: int, config: Mapping[str, Any], loss: float | None) -> None:
        """Append a finished trial; a failed one counts as worse than every other."""
        from hyperopt import JOB_STATE_DONE, STATUS_FAIL, STATUS_OK

        numbers = self._space.encode(config)
        labels = [axis.label for axis in self._space.axes]
        misc = {
            "tid": index,
            "cmd": self._domain.cmd,
            "workdir": self._domain.workdir,
            "idxs": {label: [index] if label in numbers else [] for label in labels},
            "vals": {label: [numbers[label]] if label in numbers else [] for label in labels},
        }
        result = {"status": STATUS_FAIL if loss is None else STATUS_OK}
        self._keys.append((loss is None, loss or 0.0, index))
        (doc,) = self._trials.new_trial_docs([index], [None], [result], [misc])
        doc["state"] = JOB_STATE_DONE
        self._trials.insert_trial_doc(doc)
        self._trials.refresh()

    def propose(self, index: int, seed: int) -> dict[str, Any]:
        """The next configuration, given the trials so far."""
        from hyperopt import tpe

        # DIFF(hyperopt): ranks stand for the losses, ties to the lower index, failed trials last.
        # Only their order counts, and hyperopt's own sort leaves the order of ties to the machine.
        docs = zip(self._keys, self._trials.trials, strict=True)
        for rank, (_, doc) in enumerate(sorted(docs, key=lambda pair: pair[0])):
            doc["result"]["loss"] = float(rank)
        (doc,) = tpe.suggest(
            [index], self._domain, self._trials, seed, n_startup_jobs=self._startup, verbose=False
        )
        drawn = doc["misc"]["vals"]
        return self._space.decode(lambda axis: drawn[axis.label][0])


def _never_called(config: object) -> float:
    raise AssertionError("hyperopt is asked for suggestions only")


def _node(axis: Axis) -> Any:
    from hyperopt import hp

    low, high = axis.low, axis.high
    if axis.kind == "index":
        return hp.randint(axis.label, int(high) + 1)
    if axis.kind == "int":
        # Rounding to whole numbers gives the two ends half a share unless the range is wider.
        low, high = low - 0.5, high + 0.5
        if axis.log:
            return hp.qloguniform(axis.label, math.log(low), math.log(high), 1)
        return hp.quniform(axis.label, low, high, 1)
    if axis.log:
        return hp.loguniform(axis.label, math.log(low), math.log(high))
    return hp.uniform(axis.label, low, high)
