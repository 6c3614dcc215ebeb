"""State of a trial of an asynchronous search: configuration, progress, curve, history, bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..store.checkpoints import Checkpoints
from ..study import Config
from ..trial import Trial, canonical

Curve = list[tuple[int, float | None]]  # (step, loss) at every boundary


@dataclass
class Track:
    """A trial's state and all that goes with it to a checkpoint or to another trial.

    `index` is the configuration's place in its search. `curve` holds (step, loss or None) of every
    boundary of this state's past, `history` what PBT did to it: {"step", "from", "changes"}, where
    "from" is the index that the state was copied from, and "changes" maps a hyperparameter to its
    value there and here. `costs` and `elapsed_s` are the trial's own.
    """

    index: int
    config: Config
    length: int
    every: int
    step: int = 0
    curve: Curve = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    state: bytes | None = None

    @classmethod
    def start(cls, lease: Trial) -> Track:
        """The state before the first step; `lease` is the trial of the whole schedule."""
        plan = lease.fidelity or {}
        return cls(plan["index"], dict(lease.config), plan["length"], plan["every"])

    @classmethod
    def kept(cls, checkpoints: Checkpoints, lease: Trial) -> Track | None:
        """The state of the last boundary, None without one. Raises ValueError as `unpack` does."""
        found = checkpoints.get(lease.chain)
        return None if found is None else cls.unpack(found[1])

    def pack(self) -> bytes:
        """A line of JSON, then the model's own bytes."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "state"}
        values["held"] = self.state is not None
        return canonical(values).encode() + b"\n" + (self.state or b"")

    @classmethod
    def unpack(cls, data: bytes) -> Track:
        """Raises ValueError for bytes that `pack` did not write."""
        line, newline, state = data.partition(b"\n")
        try:
            values = json.loads(line)
            held = values.pop("held")
            return cls(**values, state=state if held and newline else None)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"this is no trial's state: {error!r}") from None

    def next_stop(self) -> int:
        """The next boundary of the schedule, in steps."""
        return min(self.length, (self.step // self.every + 1) * self.every)

    def trial(self, lease: Trial, stop: int) -> Trial:
        """The trial that runs this configuration's schedule up to a step."""
        place = {"length": self.length, "stop": stop, "every": self.every}
        return replace(lease, config=self.config, fidelity={**(lease.fidelity or {}), **place})

    def copied_to(self, index: int, config: Config, own: Track) -> Track:
        """This state as trial `index` goes on from it, with the costs and the time of `own`."""
        changes = {
            name: [self.config.get(name), config.get(name)]
            for name in sorted({*self.config, *config})
            if self.config.get(name) != config.get(name)
        }
        event = {"step": self.step, "from": self.index, "changes": changes}
        return replace(
            self,
            index=index,
            config=config,
            history=[*self.history, event],
            costs=own.costs,
            elapsed_s=own.elapsed_s,
        )

    def descends_from(self, other: Track) -> bool:
        """Whether this state continues the other one, with the same configuration."""
        return (
            self.config == other.config
            and self.step >= other.step
            and self.history[: len(other.history)] == other.history
        )


def added(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The costs of a fit in pieces: times add up, peaks are maxima, and of predictions and of a
    step the last ones count."""
    total = dict(before)
    for name, value in now.items():
        if name.startswith("peak_"):
            total[name] = max(value, total.get(name, 0.0))
        elif name.startswith("predict_") or name == "step_s":
            total[name] = value
        else:
            total[name] = value + total.get(name, 0.0)
    return total
