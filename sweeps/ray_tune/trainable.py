"""The trainable of Ray Tune: a trial that advances from boundary to boundary of its schedule."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ray import tune

from ..machine.awake_clock import awake_s
from ..machine.output_capture import captured
from ..search.halving import Halving
from ..trial import DONE, DOUBTFUL, Limits, Result, Trial, failure
from ..workers.pool import RunTrial
from ..workers.ray_calls import RayLink, RemoteCheckpoints
from ..workers.ray_private import report_crash_cause
from ..workers.trial_actor import Common, IncompatibleWorker, TrialWorker, output_file
from .trial_state import Track, added

AT, LOSS = "at", "loss"  # what a scheduler reads: progress, and loss
PAYLOAD = "payload"  # of a report: result and state, removed before Tune stores the report
NO_LOSS = 1e300  # stands for a missing loss: finite, so that quantiles stay numbers
FILE = "track"


@dataclass(frozen=True)
class Shared:
    """What all trials of a study have in common.

    data: [a reference of the data], or [] without data.
    leases: {index: the trial of the configuration's whole schedule}.
    session: the prefix of the workers' names.
    population: whether the search is PBT.
    """

    run_trial: RunTrial
    data: list[Any]
    paths: list[str]
    common: Common | None
    expected: Mapping[str, str]
    leases: Mapping[int, Trial]
    limits: Limits
    loss_of: Callable[[Result], float | None]
    keeper: Any
    session: str
    halving: Halving
    population: bool
    gpu: bool


class _StateInMemory:
    """A track's state as `Checkpoints`, whatever the key: PBT hands it to other configurations."""

    def __init__(self, track: Track) -> None:
        self.start = (track.step, track.state) if track.state is not None else None
        self.saved: tuple[int, bytes] | None = None

    def get(self, key: str) -> tuple[int, bytes] | None:
        return self.start

    def put(self, key: str, step: int, state: bytes) -> None:
        self.saved = step, state


class _Worker(TrialWorker):
    """A worker whose trials go on from a given state, each under a name of its own."""

    def check(self) -> None:
        """Raises IncompatibleWorker where this node differs from the driver's."""
        if self._wrong:
            raise IncompatibleWorker(self._wrong)

    def advance(
        self, name: str, trial: Trial, data: Any, limits: Limits, state: _StateInMemory
    ) -> Result:
        """Run a trial to its next stop under this name; a signal or a cause of DOUBTFUL ends the
        process."""
        self._name = name
        self._guard_memory(limits.memory_mb)
        with captured(path=output_file(name)) as output:
            result = self._guarded(trial, data, state)
        if self._signals.received:  # the driver lets another process go on
            report_crash_cause(name, "lost")
            os._exit(143)
        if result.cause in DOUBTFUL:
            # Another process may have caused it: the driver decides whether a fresh one goes on.
            report_crash_cause(name, result.cause)
            os._exit(137)
        return replace(result, output=output.text())


class StepTrial(tune.Trainable):
    """A configuration under Ray Tune. `config["point"]` holds its index and config; Tune's name of
    the trial is the index of the configuration that this trial began with.

    At every boundary the track goes to the run's own checkpoints, so that neither a new process nor
    a new driver needs anything of Tune's. Tune's checkpoints pass a state from trial to trial.
    """

    def setup(self, config: dict[str, Any], shared: Shared | None = None) -> None:
        """Load the data, go to the first configuration; `shared` comes by `with_parameters`."""
        import ray

        assert shared is not None
        self._shared = shared
        self._worker = _Worker(
            RayLink(),
            shared.run_trial,
            "",
            shared.paths,
            shared.common,
            shared.expected,
            shared.gpu,
        )
        self._worker.check()
        self._data = ray.get(shared.data[0]) if shared.data else None
        self._kept = RemoteCheckpoints(shared.keeper)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Go to another configuration, from its checkpoint where there is one."""
        self._config = new_config["point"]["config"]
        self._index = int(self.trial_name)
        self._lease = self._shared.leases[self._index]
        self._trouble = ""
        kept = self._find()
        # The last report of a resumed trial may be lost: its last boundary is reported once more.
        self._repeat = kept is not None
        self._track = kept or Track.start(self._lease)
        return True

    def _find(self) -> Track | None:
        try:
            return Track.kept(self._kept, self._lease)
        except Exception as error:  # a checkpoint is a cache: without it the trial begins anew
            self._trouble = f"no checkpoint could be read: {type(error).__name__}"
            return None

    def _keep(self) -> None:
        try:
            self._kept.put(self._lease.chain, self._track.step, self._track.pack())
        except Exception as error:
            self._trouble = f"no checkpoint could be written: {type(error).__name__}"

    def step(self) -> dict[str, Any]:
        """Run to the next boundary, store the state, and report."""
        track, shared = self._track, self._shared
        stop = track.step if self._repeat and track.step else track.next_stop()
        self._repeat = False
        trial = track.trial(self._lease, stop)
        name, state = f"{shared.session}-{self._index}", _StateInMemory(track)
        began = awake_s()
        result = self._worker.advance(name, trial, self._data, shared.limits, state)
        track.elapsed_s += awake_s() - began
        loss = shared.loss_of(result) if result.status == DONE else None
        if result.status == DONE:
            track.step = stop
            track.state = state.saved[1] if state.saved and state.saved[0] == stop else track.state
            track.curve = [*(point for point in track.curve if point[0] != stop), (stop, loss)]
            limit_s = shared.limits.timeout_s
            cpu_s = added(track.costs, result.costs).get("cpu_s", 0.0)
            if stop < track.length and cpu_s > limit_s:
                late = f"used {cpu_s:.0f} s of CPU time, more than {limit_s:g} s"
                result = failure("timeout", late, output=result.output, costs=result.costs)
        track.costs = added(track.costs, result.costs)
        ended = result.status != DONE or stop == track.length
        if result.status == DONE:
            self._keep()
        return self._report(result, loss, ended)

    def _report(self, result: Result, loss: float | None, ended: bool) -> dict[str, Any]:
        track, shared = self._track, self._shared
        report: dict[str, Any] = {
            LOSS: NO_LOSS if loss is None else loss,
            "done": ended,
            "step": track.step,
            "elapsed_s": track.elapsed_s,
        }
        rung = shared.halving.rung_at(track.length, track.step)
        if shared.population:
            report[AT] = -(-track.step // track.every)
        elif rung is not None and result.status == DONE:
            report[AT] = shared.halving.eta**rung
        if ended or (AT in report and not shared.population):
            more = {"checkpoints": self._trouble} if self._trouble else {}
            info = {**result.info, **more}
            report[PAYLOAD] = (replace(result, info=info), replace(track, state=None))
        return report

    # ------------------------------------------------------------------ from trial to trial

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the state for Tune, which passes it to another trial."""
        if self._last_result:
            self._last_result.pop(PAYLOAD, None)  # Tune would keep it beside the checkpoint
        Path(checkpoint_dir, FILE).write_bytes(self._track.pack())

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Take over a state, a copy of another trial's where it is one (PBT)."""
        handed = Track.unpack(Path(checkpoint, FILE).read_bytes())
        if handed.index != self._index or handed.config != self._config:
            handed = handed.copied_to(self._index, self._config, self._track)
        if self._track.descends_from(handed):
            self._repeat = self._track.step > handed.step
        else:
            self._track, self._repeat = handed, False
            self._keep()
