"""A sweep from start to end: data, plan, engine and asynchronous search, into a run's ledger."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...datasets import catalog
from ...models import registry
from ...sweeps.engine import Engine, Stop, Tally
from ...sweeps.events import Event, StudyEnded, TrialEnded, Warned
from ...sweeps.ray_tune.async_search import Asynchronous
from ...sweeps.store.checkpoints import CheckpointFolder
from ...sweeps.store.integrity import integrity_of, lacks_files
from ...sweeps.store.ledger import Ledger
from ...sweeps.store.records import utc_now
from ...sweeps.store.run_folder import is_run
from ...sweeps.store.run_lock import RunLock, RunLocked
from ...sweeps.trial import DONE
from ...sweeps.workers.actor_pool import ActorPool
from ...sweeps.workers.pool import ClusterLost, InProcessPool, WorkerPool
from ...sweeps.workers.ray_cluster import nodes
from ..console import count
from ..errors import (
    NO_RAY,
    NoGpu,
    SweepError,
    check_gpu,
    check_name,
    check_sweep_libraries,
    resume_with,
)
from ..planning import environment
from ..planning.code_identity import computes_with
from ..planning.costs.estimate import set_limits
from ..planning.own_models import find_model
from ..planning.plan import Plan
from ..planning.plan_record import last_plan
from ..planning.settings import Settings
from ..results.evidence_builder import planned_frame
from ..results.slots_frame import columns_of
from ..results.trial_scores import ScoreCheck
from .data import gather
from .event_log import EventLog
from .events import Planned, Started, SweepListener, Waiting
from .heartbeat import Heartbeat
from .ray_session import HERE, RayStart, cluster_lost
from .request import Request
from .resume import all_ended, check_same, dropped, merge_with, runs_again, with_first_code
from .reuse import reuse_from, siblings

if TYPE_CHECKING:
    from ...datasets.protocols import Fold
    from ...datasets.table import Table

WHAT_X_IS = (
    "{models}: X is a DataFrame, its numbers float64 with NaN for gaps, its categories of dtype "
    "category (text, NaN for gaps); y holds class codes 0, 1, ... or float64 numbers. A "
    "class that takes numbers without gaps alone says numbers_only = True; where fit sets no "
    "classes_, the columns of predict_proba are those of the codes in y, sorted (docs/models.md)."
)


@dataclass
class SweepOutcome:
    """How a sweep ended. tally: what this call did; wall_s: its time in seconds."""

    folder: Path
    plan: Plan
    tally: Tally
    warnings: list[str]
    wall_s: float


# ---------------------------------------------------------------------- before anything runs


def check_names(request: Request) -> Settings:
    """Refuse unknown datasets, models, metrics and searches, before any data is loaded.

    Raises UnknownDataset, UnknownModel, PlanError.
    """
    suite, options = request.suite, request.options
    settings = Settings(suite, options)
    for model in settings.budget.model:  # a section for a model that this call leaves out is fine
        find_model(settings.budget.asked(model))
    tasks = {
        name: catalog.card(name).task
        for name in (*options.datasets, *suite.datasets, *suite.offline)
        if name not in request.tables and name not in suite.file
    }
    wanted = [name for name in options.datasets or suite.datasets if name in tasks]
    own = {name: own.table.task for name, own in request.tables.items()}
    settings.check_searches({name: tasks[name] for name in wanted} | own)
    return settings


def prepare(
    request: Request,
    ledger: Ledger | None,
    *,
    checked: Callable[[Settings], None] | None = None,
) -> Plan:
    """Load the data and plan the studies; checked against the plan that the ledger holds.

    checked: called when the names are known to be right, before data is loaded.
    """
    old = last_plan(ledger) if ledger is not None else None
    request.options = merge_with(old, request)
    settings = check_names(request)
    if checked is not None:
        checked(settings)
    data, left_out, notes = gather(request, old.datasets if old else None)
    plan = Plan(request.suite, request.options, data, left_out, notes)
    plan.check_searches({name: data.table.task for name, data in plan.data.items()})
    check_same(old, plan)
    if request.options.asynchronous:
        if not any(study.asynchronous for study in plan.studies):
            plan.hints.append("--async changes nothing: none of the models trains in steps.")
        elif request.options.workers == 0 or request.address == NO_RAY:
            raise SweepError("--async needs workers of Ray: leave out --workers 0, --address none")
    plan.dropped = dropped(old, plan)
    plan.notes.extend(
        f"{model} declares no search space: its default configuration is its only trial."
        for model in sorted({s.model for s in plan.studies if not s.reason and not s.space.params})
        if model not in registry.MODELS
    )
    outside = sorted(n for n in plan.models if ":" in plan.asked(n) and not plan.specs[n].module)
    if outside:
        plan.hints.append(WHAT_X_IS.format(models=", ".join(outside)))
    return plan


def check_devices(settings: Settings) -> None:
    """Refuse --device cuda on a machine without a GPU at once, not when the first trial is due.
    Raises NoGpu, SweepError. A cluster is asked when it is there."""
    options, specs = settings.options, settings.specs
    if options.address == NO_RAY and options.device != "cpu":
        raise SweepError("--address none has no GPUs to share out: leave it out")
    if options.address in (None, *HERE) and options.device != "cpu":
        wanting = sorted(name for name, spec in specs.items() if settings.device(spec) != "cpu")
        if wanting:
            check_gpu(options.device, wanting)


def code_check(plan: Plan) -> Callable[[], dict[str, str]]:
    """A function to call on other machines: versions of all that the plan's trials depend on."""
    specs = list(plan.specs.values())
    libraries = sorted({name for spec in specs for name in spec.libraries})
    return partial(computes_with, sorted({spec.target for spec in specs}), libraries)


# ---------------------------------------------------------------------- the sweep


def run(
    request: Request,
    *,
    listener: SweepListener = lambda event: None,
    stop: Stop | None = None,
) -> SweepOutcome:
    """Run a sweep to its end (or until asked to stop) and leave the ledger complete.

    `listener` gets the events of the engine and those of a sweep (`events.py`). Raises
    SweepError, SuiteError, PlanError, NoData, RunLocked, SourceChanged, LedgerError, ClusterLost.
    """
    check_sweep_libraries()
    started = time.monotonic()

    def tell(text: str) -> None:
        listener(Warned(text))

    if not is_run(request.folder):  # whose folder may have been renamed
        check_name(request.name)
    existed = request.folder.exists()
    if existed and not (request.folder / "ledger").is_dir() and holds_something(request.folder):
        raise SweepError(f"{request.folder} exists and holds no run: choose another --name")
    options = request.options
    ray = RayStart(options.workers, request.address)
    listener(Waiting("the data"))

    def begin(settings: Settings) -> None:
        check_devices(settings)
        ray.begin()

    try:
        plan = None
        if not existed:  # a request that fails leaves no folder behind
            plan = prepare(request, None, checked=begin)
        with RunLock(request.folder, note=tell) as lock:
            ledger = Ledger(request.folder, write=True)
            try:
                if plan is None or len(ledger):  # another process may have been faster
                    ended = all_ended(ledger)
                    plan = prepare(request, ledger, checked=None if ended else begin)
                keep_tables(request)
                sweep = _Sweep(request, plan, ledger, ray, listener, stop or Stop(), lock.check)
                tally = sweep.run()
                return SweepOutcome(
                    folder=request.folder,
                    plan=plan,
                    tally=tally,
                    warnings=sweep.warnings,
                    wall_s=time.monotonic() - started,
                )
            finally:
                ledger.close()
    finally:
        ray.end()


def keep_tables(request: Request) -> None:
    """Store the parsed tables of files; no variable of `run` holds one while trials run."""
    for own in request.tables.values():
        own.keep(request.folder.parent)


def holds_something(folder: Path) -> bool:
    """Whether a path holds more than the lock of a sweep that ended before its ledger began: a file
    is something, too."""
    if not folder.is_dir():
        return True
    return any(not path.name.startswith("owner.") for path in folder.iterdir())


class _Sweep:
    """One execution of a plan: its logs, its engine, and the search by Ray Tune beside it."""

    def __init__(
        self,
        request: Request,
        plan: Plan,
        ledger: Ledger,
        ray: RayStart,
        listener: SweepListener,
        stop: Stop,
        still_owner: Callable[[], None],
    ) -> None:
        self.request = request
        self.plan = plan
        self.ledger = ledger
        self.warnings = [*ledger.notices, *ledger.warnings]
        self._told = len(ledger.warnings)  # those that came while the sweep runs are told at once
        self._ray = ray
        self._listener = listener
        self._stop = stop
        self._still_owner = still_owner
        self._checkpoints = CheckpointFolder(request.folder / "checkpoints")
        # Kinds that ran a trial, of its device.
        self._processors: dict[str, list[str]] = {"cpu": [], "gpu": []}
        self._common = None if request.address in HERE else code_check(plan)
        self._log = EventLog(request.folder, warn=self.warnings.append)
        self._heartbeat = Heartbeat(request.folder)
        common: dict[str, Any] = {
            "ledger": ledger,
            "retry": partial(runs_again, request, plan),
            "lost": self._lost(),
            "allow_code_change": request.options.allow_code_change,
            "listener": self._listen,
            "stop": stop,
            "still_owner": still_owner,
        }
        marked = {study.name for study in plan.studies if study.asynchronous and not study.reason}
        self._studies = studies = plan.build()
        set_limits(plan, studies)
        self._engine = Engine(
            [study for study in studies if study.name not in marked],
            pool=self._pool,
            reuse=reuse_from(siblings(request), plan, self.warnings),
            **common,
        )
        # The studies that Ray Tune searches; the engine evaluates what they choose.
        self._search: Asynchronous | None = None
        if marked:
            self._search = Asynchronous(
                {study.name: study for study in studies if study.name in marked},
                str(plan.options.asynchronous),
                checkpoints=self._checkpoints,
                run_trial=request.run_trial,
                load=plan.payload,
                slots=ray.n_workers,
                paths=request.paths,
                common=self._common,
                tally=self._engine.tally,
                **common,
            )

    def _lost(self) -> set[str]:
        """Finished trials whose predictions are gone, damaged or of other scores: those of the plan
        run again. All are read where that was asked for, and where files are missing."""
        if not (self.request.verify or lacks_files(self.ledger)):
            return set()
        lost = integrity_of(self.ledger, ScoreCheck(self.plan.payload)).lost
        if lost:
            plan = self.plan.of_run(environment.capture())
            _, rows = planned_frame(self.ledger, columns_of(self.ledger.columns()), plan)
            planned = set(rows["id"])
            again = [reason for id, reason in lost.items() if id in planned]
            if again:
                self.warnings.append(
                    f"the predictions of {count(len(again), 'finished trial')} are gone, damaged "
                    f"or of other scores ({again[0]}); they run again"
                )
        return set(lost)

    def run(self) -> Tally:
        """Run what the plan lacks; however it ends, the log and the heartbeat say so, unless the
        folder is another driver's by then: that one's logs are not to be written to."""
        state: str | None = "aborted"
        try:
            self._checkpoints.remove_torn()  # of earlier drivers
            self._replay()
            tally = self._execute()
            self._log.write("end", **asdict(tally))
            state = "interrupted" if tally.interrupted else "ended"
            return tally
        except RunLocked:
            state = None
            raise
        except KeyboardInterrupt:
            self._log.write("end", **asdict(replace(self._engine.tally, interrupted=True)))
            state = "interrupted"
            raise
        except BaseException as error:
            self._log.write("abort", error=f"{type(error).__name__}: {error}")
            self._explain(error)
            raise
        finally:
            if state is not None:
                self._heartbeat.end(state)
            self._log.close()

    def _replay(self) -> None:
        """Take over the results in the ledger, then record the new plan. If the plan is refused,
        the ledger keeps the old one."""
        if self._search is not None:
            self._search.replay()  # it writes nothing, whereas the engine may write links
        self._engine.replay()
        old = last_plan(self.ledger)
        record = with_first_code(self.plan.of_run(environment.capture()), old).to_record()
        if old is None or old.to_record() != record:
            self.ledger.append([{**record, "time": utc_now()}])
        self._log.write(
            "start",
            run=str(self.request.folder),
            studies=len(self.plan.studies),
            workers=self._ray.n_workers,
            records=len(self.ledger),
            left_out=self.plan.left_out,
            quarantined_bytes=self.ledger.torn_bytes,
        )
        studies = list(self._engine.studies.values())
        known = sum(study.state.n_done for study in studies)
        left = {s.name: s.shape.n_slots for s in self.plan.studies if not s.reason}
        for study in studies:
            left[study.name] = 0 if study.finished else left[study.name] - study.state.n_done
        workers = self._ray.n_workers
        self._listener(Planned(self.plan, self.ledger, known, left, workers, self._heartbeat))
        self._listener(Started())

    def _show(self, stage: str) -> None:
        """Say what a start waits for; "" for nothing any more."""
        self._listener(Waiting(stage))

    def _execute(self) -> Tally:
        search = self._search
        if search is not None:
            if not search.finished:
                self._ray.wait(self._stop, self._show)
                self._check_gpus()
                from ...sweeps.ray_tune import tuner  # loads Ray Tune

                try:
                    tuner.run(search)
                except ClusterLost:
                    if not self._stop.soon:  # else it was ended with this driver
                        raise
                    search.tally.interrupted = True
            self._engine.admit(study for study in search.studies.values() if not search.left(study))
        return self._engine.run()

    def _listen(self, event: Event) -> None:
        self._still_owner()
        match event:
            case TrialEnded(study, _, trial, result) if not event.reused:
                if result.status == DONE and study.halving is None:
                    self._checkpoints.drop(trial.chain)  # no later trial continues this fit
            case StudyEnded(study):  # the saved states of its fits are not needed any more
                for key in study.chains():
                    self._checkpoints.drop(key)
        new, self._told = self.ledger.warnings[self._told :], len(self.ledger.warnings)
        for text in new:
            self._listen(Warned(text))
        if isinstance(event, Warned):
            self.warnings.append(event.message)
        if isinstance(event, TrialEnded) and not event.reused:
            self._note_processor(event.result.info)
        self._log.listen(event)
        self._heartbeat.listen(event)
        self._listener(event)

    def _note_processor(self, info: Mapping[str, Any]) -> None:
        """Warn, once for each, of a second kind of processor, or of GPU, among the workers."""
        device = "gpu" if "gpu" in info else "cpu"
        kinds = self._processors[device]
        if info.get(device) is None or info[device] in kinds:
            return
        kinds.append(info[device])
        if len(kinds) > 1:
            what, way_out = "processors", "--portable pins them"
            if device == "gpu":
                what, way_out = "GPUs", "see docs/cluster.md"
            elif self.plan.options.portable:
                way_out = "see docs/limits.md"
            message = (
                f"trials run on {len(kinds)} kinds of {what} ({', '.join(kinds)}), whose "
                f"instructions may round differently: bytes are not promised; {way_out}"
            )
            self._listen(Warned(message))

    def _pool(self) -> WorkerPool:
        """The workers, made when the first trial needs them."""
        request, plan, n_workers = self.request, self.plan, self._ray.n_workers
        if n_workers == 0:
            if any(study.needs.gpu_mb for study in self._studies):
                check_gpu("cuda")
            self._show("")
            return InProcessPool(request.run_trial, plan.payload, self._checkpoints)
        self._ray.wait(self._stop, self._show)
        if request.address != NO_RAY:
            self._check_gpus()
        self._show("the first worker")
        return ActorPool(
            request.run_trial,
            self._hand_out,
            slots=n_workers,
            paths=request.paths,
            common=self._common,
            checkpoints=self._checkpoints.path,
            calls=self._ray.calls,
        )

    def _hand_out(self, dataset: str) -> tuple[Table, dict[int, Fold]]:
        """A dataset for workers, which have a copy of it from then on: of a file of the user the
        driver maps the features and holds none."""
        plan, tables = self.plan, self.request.tables
        handed = plan.payload(dataset)
        if dataset in tables:
            own = tables[dataset] = tables[dataset].mapped(self.request.folder.parent)
            data = plan.data[dataset]
            table = replace(data.table, frame=own.table.frame)
            plan.data[dataset] = replace(data, table=table)
        return handed

    def _check_gpus(self) -> None:
        """Raises NoGpu where a study needs a GPU and no machine has one, before a trial runs: some
        boosting libraries would go on on the CPU."""
        wanting = sorted({s.model for s in self._studies if s.needs.gpu_mb})
        if wanting and not any(node.gpus for node in nodes().values()):
            raise NoGpu(
                f"--device cuda: no machine of this Ray has a GPU for {', '.join(wanting)} (see "
                "ray status); use --device cpu"
            )

    def _explain(self, error: BaseException) -> None:
        """Raise a lost cluster or a full disk again, with the command that resumes the run."""
        folder = self.request.folder
        if isinstance(error, ClusterLost):
            raise cluster_lost(error, folder) from error
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f" in {error.filename}" if error.filename else ""
            way = f"make room{where}; {resume_with(folder)}"
            raise OSError(error.errno, f"{error.strerror}; {way}") from error
