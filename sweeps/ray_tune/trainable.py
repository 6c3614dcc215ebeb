"""How does a trial advance under Ray Tune? A boundary of its schedule at a time, state in hand."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ray import tune

from ..trial import DONE, Limits, Result, Trial, failure
from ..workers.output_capture import captured
from ..workers.pool import RunTrial, guarded
from ..workers.trial_actor import (
    Common,
    RemoteCheckpoints,
    Stranger,
    TrialWorker,
    _last_words,
    output_file,
)
from .trial_state import Track, added

AT, LOSS = "at", "loss"  # what a scheduler reads: how far, and how well (less is better)
PAYLOAD = "payload"  # what the driver takes out of a report before Tune keeps it
NO_LOSS = 1e300  # of a trial without one: finite, so that a scheduler's quantiles stay numbers
FILE = "track"


@dataclass(frozen=True)
class Shared:
    """What all trials of a study have in common. `data` is a list of one reference."""

    run_trial: RunTrial
    data: list[Any]
    paths: list[str]
    common: Common | None
    expected: Mapping[str, str]
    template: Trial
    limits: Limits
    loss_of: Callable[[Result], float | None]
    keeper: Any
    keys: Mapping[int, str]  # of the configurations' checkpoints
    session: str
    eta: int
    population: bool
    gpu: bool = False


class _InHand:
    """A track's state as `Checkpoints`, whatever the key: PBT hands it to other configurations."""

    def __init__(self, track: Track) -> None:
        self.start = (track.step, track.state) if track.state is not None else None
        self.saved: tuple[int, bytes] | None = None

    def get(self, key: str) -> tuple[int, bytes] | None:
        return self.start

    def put(self, key: str, step: int, state: bytes) -> None:
        self.saved = step, state

    def drop(self, key: str) -> None:
        pass


class _Worker(TrialWorker):
    """A worker that is told where to go on from, and under which trial's name."""

    def check(self) -> None:
        if self._wrong:
            raise Stranger(self._wrong)

    def advance(self, name: str, trial: Trial, data: Any, limits: Limits, state: _InHand) -> Result:
        self._name = name
        self._guard_memory(limits.memory_mb)
        with captured(path=output_file(name)) as output:
            result = guarded(self._run_trial, trial, data, state)
        if result.cause in ("oom", "gpu_oom"):
            # Perhaps a neighbour's doing: the driver decides whether a fresh process goes on.
            _last_words(name, result.cause)
            os._exit(137)
        return replace(result, output=output.text())


class StepTrial(tune.Trainable):
    """A configuration under Ray Tune. `config["point"]` holds index, config, length, every, rungs;
    Tune's name of the trial is the index of the configuration that this trial began with.

    At every boundary the track goes to the run's own checkpoints, so that neither a new process nor
    a new driver needs anything of Tune's. Tune's checkpoints hand a state from trial to trial.
    """

    def setup(self, config: dict[str, Any], shared: Shared | None = None) -> None:
        import ray

        assert shared is not None
        self._shared = shared
        self._worker = _Worker(
            shared.run_trial, "", shared.paths, shared.common, shared.expected, shared.gpu
        )
        self._worker.check()
        self._data = ray.get(shared.data[0]) if shared.data else None
        self._kept = RemoteCheckpoints(shared.keeper)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        point = new_config["point"]
        self._point = point
        self._index = int(self.trial_name)
        self._trouble = ""
        found = self._find()
        # What was reported of a track that is picked up again may be lost: report it once more.
        self._repeat = found is not None
        self._track = found or Track(self._index, point["config"], point["length"], point["every"])
        return True

    def _find(self) -> Track | None:
        try:
            found = self._kept.get(self._shared.keys[self._index])
            return Track.unpack(found[1]) if found else None
        except Exception as error:  # a checkpoint is a cache: without it the trial begins anew
            self._trouble = f"no checkpoint could be read: {type(error).__name__}"
            return None

    def _keep(self) -> None:
        key = self._shared.keys[self._index]
        try:
            self._kept.put(key, self._track.step, self._track.pack())
        except Exception as error:
            self._trouble = f"no checkpoint could be written: {type(error).__name__}"

    def step(self) -> dict[str, Any]:
        track, shared = self._track, self._shared
        stop = track.step if self._repeat and track.step else track.next_stop()
        self._repeat = False
        mark = {**(shared.template.fidelity or {}), "index": self._index}
        fidelity = {**mark, "length": track.length, "stop": stop, "every": track.every}
        trial = replace(shared.template, config=track.config, fidelity=fidelity)
        name, state = f"{shared.session}-{self._index}", _InHand(track)
        began = time.monotonic()
        result = self._worker.advance(name, trial, self._data, shared.limits, state)
        track.elapsed_s += time.monotonic() - began
        loss = shared.loss_of(result) if result.status == DONE else None
        if result.status == DONE:
            track.step = stop
            track.state = state.saved[1] if state.saved and state.saved[0] == stop else track.state
            track.curve = [*(point for point in track.curve if point[0] != stop), (stop, loss)]
            if stop < track.length and track.elapsed_s > shared.limits.timeout_s:
                late = f"ran longer than {shared.limits.timeout_s:g} s"
                result = failure("timeout", late, output=result.output)
        track.costs = added(track.costs, result.costs)
        ended = result.status != DONE or stop == track.length
        if result.status == DONE:
            self._keep()
        return self._report(result, loss, ended)

    def _report(self, result: Result, loss: float | None, ended: bool) -> dict[str, Any]:
        track, rungs = self._track, self._point["rungs"]
        found: dict[str, Any] = {
            LOSS: NO_LOSS if loss is None else loss,
            "done": ended,
            "step": track.step,
            "elapsed_s": track.elapsed_s,
        }
        if self._shared.population:
            found[AT] = -(-track.step // track.every)
        elif track.step in rungs and result.status == DONE:
            found[AT] = self._shared.eta ** rungs.index(track.step)
        if ended or (AT in found and not self._shared.population):
            more = {"checkpoints": self._trouble} if self._trouble else {}
            info = {**result.info, **more}
            found[PAYLOAD] = (replace(result, info=info), replace(track, state=None))
        return found

    # ------------------------------------------------------------------ from trial to trial

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        if self._last_result:
            self._last_result.pop(PAYLOAD, None)  # Tune would keep it beside the checkpoint
        Path(checkpoint_dir, FILE).write_bytes(self._track.pack())

    def load_checkpoint(self, checkpoint: Any) -> None:
        handed = Track.unpack(Path(checkpoint, FILE).read_bytes())
        config = self._point["config"]
        if handed.index != self._index or handed.config != config:
            handed = handed.copied_to(self._index, config, self._track)
        if self._track.descends_from(handed):
            self._repeat = self._track.step > handed.step
        else:
            self._track, self._repeat = handed, False
            self._keep()
