"""Asynchronous successive halving (ASHA) and population-based training (PBT) on Ray Tune.

Both decide by which reports have come in, so their tables are *not* reproducible to the byte, and
their trials are no pure functions: their ids hold the run that made them ("async" and "run" in the
fidelity), and no other sweep reuses them. The other guarantees of a sweep hold: one ledger row a
configuration, durable before any listener learns of it, failures with a cause, nothing lost and
nothing twice when the driver is killed.

ASHA (Li et al. 2018, arXiv:1810.05934): at every rung a configuration goes on if it is among the
best 1/eta of those that have reached it so far. One that is stopped there has a row of the stage
"rung<k>", one that ran its whole schedule a row of the stage "tune".

PBT (Jaderberg et al. 2017, arXiv:1711.09846): all configurations run side by side; at every
boundary one of the worst quarter goes on from the state of one of the best, with its
hyperparameters perturbed. The rows are of the stage "tune"; `config` is what a trial ended with,
`info["history"]` lists the copies that its state went through. Its evaluation trains that last
configuration alone, from the start.

A configuration whose predictions are lost is searched again: ASHA decides on it with the losses of
the others in view, PBT trains it alone. What was decided on others stays.

A new driver goes on from the ledger and the run's own checkpoints. `Tuner.restore` is not used: it
unpickles what it finds in the run's folder, which others may have written, and it forgets what ASHA
saw on its rungs, which the rows' curves tell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ..scheduling.interface import Listener, Stop, Tally
from ..store.checkpoints import CheckpointFolder
from ..store.ledger import Ledger, Record
from ..store.records import study_record
from ..study import Study
from ..workers.pool import ClusterLost, RunTrial
from ..workers.trial_actor import Common
from .search_records import SearchRecords, Settings, studies_by_name

METHODS = ("asha", "pbt")
MAX_EMPTY_TUNERS = 3  # Tuners in a row that end without one result


class Asynchronous:
    """Runs the searches of studies with a schedule (`Study.halving`), one Tuner after another.

    `replay` reads what the ledger knows and refuses what does not fit; `run` does the rest. Each
    study whose search has ended is settled (`Study.settle`): an engine runs its evaluation seeds.
    `slots` is the number of CPUs that trials may use (None: all); PBT keeps to it on a local Ray
    only. Ray must be up for `run`. The other parameters are as for `Engine` and `RayWorkerPool`.
    """

    def __init__(
        self,
        studies: Iterable[Study],
        how: str,
        *,
        ledger: Ledger,
        checkpoints: CheckpointFolder,
        run_trial: RunTrial,
        load: Callable[[str], Any],
        slots: int | None = None,
        paths: Iterable[str] = (),
        common: Common | None = None,
        retry: Callable[[Record], bool] = lambda record: False,
        lost: Collection[str] = (),
        allow_code_change: bool = False,
        listener: Listener = lambda event, details: None,
        stop: Stop | None = None,
        still_owner: Callable[[], None] = lambda: None,
    ) -> None:
        if how not in METHODS:
            raise ValueError(f"unknown asynchronous search {how!r}; known: {', '.join(METHODS)}")
        self.studies = studies_by_name(studies)
        self.records = SearchRecords(
            self.studies,
            how,
            ledger=ledger,
            checkpoints=checkpoints,
            retry=retry,
            lost=lost,
            listener=listener,
            still_owner=still_owner,
        )
        self.settings = Settings(
            run_trial=run_trial,
            load=load,
            slots=slots,
            paths=list(paths),
            common=common,
            stop=stop or Stop(),
        )
        self._allow_code_change = allow_code_change
        self._replayed = False

    @property
    def tally(self) -> Tally:
        """What this search did so far."""
        return self.records.tally

    @property
    def finished(self) -> bool:
        """Whether every configuration of every study has a row."""
        return self.records.finished

    def left(self, study: Study) -> list[int]:
        """The configurations of a study that have no row yet."""
        return self.records.left(study)

    def replay(self) -> None:
        """Raises SourceChanged where configurations that ended have other ids now."""
        if not self._replayed:
            self._replayed = True
            self.records.replay(allow_code_change=self._allow_code_change)

    def run(self) -> Tally:
        """Run every search to its end. Returns early, with `interrupted`, when asked to stop; what
        was running then goes on from its last boundary another time."""
        self.replay()
        from .tuner import fit, keeping

        with keeping(self.records.checkpoints) as keeper:
            for study in self.studies.values():
                self._search(
                    study, lambda study, left: fit(self.records, self.settings, study, left, keeper)
                )
        self.tally.interrupted = not self.finished
        return self.tally

    def _search(self, study: Study, fit: Callable[[Study, list[int]], None]) -> None:
        empty, stop, records = 0, self.settings.stop, self.records
        records.trouble = ""
        while (left := self.left(study)) and not (stop.soon or stop.now):
            fit(study, left)
            empty = empty + 1 if len(self.left(study)) == len(left) else 0
            if empty == MAX_EMPTY_TUNERS:
                raise ClusterLost(f"no trial of {study.name} comes to an end: {records.trouble}")
            if self.left(study):
                continue
            records.settle(study)
            if study.finished:  # else an engine records its end, after its evaluation
                records.ledger.append([study_record(study)])
                records.listener("study", {"study": study})
