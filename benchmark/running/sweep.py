"""How does a sweep run from start to end? Data, plan, engine, report, tracking, in one call."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...datasets import catalog
from ...datasets.errors import DatasetUnavailable
from ...datasets.table import Table
from ...models import registry
from ...sweeps.engine import Engine, Listener, Reused, Stop, Tally
from ...sweeps.store.checkpoints import CheckpointFolder
from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.store.records import slot_places, utc_now
from ...sweeps.store.run_lock import RunLock
from ...sweeps.trial import DONE, Limits, Result, Trial
from ...sweeps.workers.pool import ClusterLost, InProcessPool, RunTrial, WorkerPool
from ...sweeps.workers.ray_cluster import nodes, start_ray, take_back_sigterm
from ...sweeps.workers.ray_pool import RayWorkerPool
from ..errors import SweepError, check_name
from ..planning import environment
from ..planning.code_identity import computes_with
from ..planning.plan import KEY_PARTS, Data, Options, Plan, choose_folds, find_model
from ..planning.suite import Suite
from ..results.run_status import last_plan, planned_slots
from . import async_search
from .event_log import EventLog
from .heartbeat import Live
from .run_trial import run_trial, score_parts


class NoData(Exception):
    """No dataset of the suite can be had here; each with its reason."""


@dataclass(frozen=True)
class Own:
    """A table that no card describes, and what the plan should remember of it."""

    table: Table
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Request:
    """One call of `bench sweep`, after the command line."""

    suite: Suite
    options: Options
    runs: Path
    name: str
    workers: int | None = None
    address: str = "local"
    mirror: str | None = None
    cache: str | None = None
    allow_code_change: bool = False
    reuse: tuple[Path, ...] = ()
    retry: Callable[[Record], bool] = lambda record: False
    tables: Mapping[str, Own] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    run_trial: RunTrial = run_trial

    @property
    def folder(self) -> Path:
        return self.runs / self.name


# ---------------------------------------------------------------------- data


def gather(request: Request) -> tuple[dict[str, Data], dict[str, str], list[str]]:
    """Load what can be had: (data, {dataset left out: reason}, notes for the report).

    Where fewer than `offline_below` of the suite's datasets can be had, its offline list joins.
    Raises NoData where nothing can be had, and DataError for a dataset that is there but wrong.
    """
    suite, options = request.suite, request.options
    wanted = list(options.datasets) or suite.datasets
    budget = suite.budget(options.budget)[1]
    data: dict[str, Data] = {}
    left_out: dict[str, str] = {}
    notes: list[str] = []

    def load(name: str) -> None:
        try:
            if name in request.tables:
                table = request.tables[name].table
            else:
                table = catalog.load_dataset(name, mirror=request.mirror, cache=request.cache)
        except DatasetUnavailable as error:
            left_out[name] = error.reason
            return
        data[name] = _with_folds(request, name, table, options.folds or budget.folds)

    for name in wanted:
        load(name)
    if not options.datasets and len(data) < suite.offline_below and suite.offline:
        joined = [name for name in suite.offline if name not in data]
        for name in joined:
            load(name)
        notes.append(
            f"Only {len(wanted) - len(left_out)} of {len(wanted)} datasets of suite {suite.name} "
            f"could be had; its offline list joined: {', '.join(joined)}."
        )
    if not data:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise NoData(f"no dataset of suite {suite.name!r} can be had here ({reasons})")
    return data, left_out, notes


def _with_folds(request: Request, name: str, table: Table, n_folds: int) -> Data:
    facts: dict[str, Any] = {"learnable": True, "overlaps": [], "title": name}
    protocol = request.suite.protocol.get(name)
    if name in request.tables:
        facts |= request.tables[name].facts
    else:
        card = catalog.card(name)
        facts = {
            "learnable": card.learnable,
            "overlaps": list(card.overlaps),
            "title": card.title,
        }
        protocol = protocol or card.protocol
    protocol = protocol or "kfold"
    folds = choose_folds(table, protocol, seed=request.options.seed, folds=n_folds)
    return Data(table=table, protocol=protocol, folds=folds, facts=facts)


# ---------------------------------------------------------------------- resuming


def check_same(old: Record | None, plan: Plan) -> None:
    """Refuse to mix results that cannot stand in one table: name each part that differs."""
    if old is None:
        return
    differences = []
    if old["suite"]["name"] != plan.suite.name:
        differences.append(f"suite was {old['suite']['name']!r}, is {plan.suite.name!r}")
    for part in KEY_PARTS:
        before, now = old["identity"].get(part, {}), plan.identity[part]
        changes: dict[str, list[str]] = {}
        for who in sorted(set(before) & set(now)):
            if before[who] != now[who]:
                # a space is known by its hash alone
                how = "is another" if part == "space" else f"was {before[who]!r}, is {now[who]!r}"
                changes.setdefault(how, []).append(who)
        for how, those in changes.items():
            shown = ", ".join(those[:3]) + (f" and {len(those) - 3} more" if those[3:] else "")
            differences.append(f"{part}{'' if part == 'seed' else f' of {shown}'} {how}")
    if differences:
        raise SweepError(
            "this run was started differently: " + "; ".join(differences) + ". Choose another "
            "--name, or start it as before (more folds, trials, models and datasets are fine)"
        )


def merge_with(old: Record | None, request: Request) -> Options:
    """Started again under the same name, a run extends: what it held before stays planned."""
    options = request.options
    if old is None:
        return options
    before = old["options"]

    def both(name: str, fallback: list[str]) -> tuple[str, ...]:
        new = list(getattr(options, name))
        if not before[name] or not new:
            # one of the two meant everything in the suite; what else was named stays too
            extra = [item for item in [*before[name], *new] if item not in fallback]
            return (*fallback, *extra) if extra else ()
        return tuple(dict.fromkeys([*before[name], *new]))

    budget = request.suite.budget(options.budget)[1]

    def larger(name: str, usual: int) -> int | None:
        new, was = getattr(options, name), before[name]
        return None if new is None and was is None else max(new or usual, was or usual)

    return Options(
        budget=options.budget,
        models=both("models", budget.models),
        datasets=both("datasets", request.suite.datasets),
        folds=larger("folds", budget.folds),
        trials=larger("trials", budget.trials),
        sampler=options.sampler or before["sampler"],
        space=options.space or before["space"],
        seed=options.seed,
        device=options.device,
        asynchronous=options.asynchronous or before.get("asynchronous"),
    )


# ---------------------------------------------------------------------- reuse


def siblings(request: Request) -> list[Path]:
    """Runs under the same --runs folder, and those named by --reuse."""
    folders = [path.parent.parent for path in request.runs.glob("*/ledger/MANIFEST.json")]
    extra = [path for path in request.reuse if (path / "ledger" / "MANIFEST.json").exists()]
    own = request.folder.resolve()
    return sorted({path for path in [*folders, *extra] if path.resolve() != own})


def reuse_from(
    folders: list[Path], plan: Plan, warnings: list[str]
) -> Callable[[Trial], Reused | None]:
    """Finished trials of other runs as a read-only cache, read when the first trial asks for it;
    a run that cannot be read adds to `warnings`."""

    @cache
    def places() -> dict[str, tuple[Ledger, int]]:
        found: dict[str, tuple[Ledger, int]] = {}
        for folder in folders:
            try:
                ledger = Ledger(folder)
                for at, head in ledger.heads("result"):
                    if head.status == DONE:
                        found.setdefault(head.id, (ledger, at))
            except Exception as error:
                warnings.append(f"{folder} is not used as a cache: {error}")
        return found

    def reuse(trial: Trial) -> Reused | None:
        if trial.id not in places():
            return None
        ledger, at = places()[trial.id]
        try:
            return vouch_for(trial, ledger, ledger.at(at), plan)
        except Exception:  # another run's damage is no reason to stop: the cell runs here
            return None

    return reuse


def vouch_for(trial: Trial, ledger: Ledger, record: Record, plan: Plan) -> Reused | None:
    """An id is a claim: the metrics are computed again from the predictions. None, or an error,
    where these are not there, not whole, or of another shape."""
    arrays = ledger.get_predictions(record["predictions"])
    if set(arrays) != {"val", "test"}:
        return None
    data = plan.data[trial.dataset]
    scores = score_parts(data.table, data.folds[trial.fold], arrays)
    result = Result(
        status=DONE,
        val=scores["val"],
        test=scores["test"],
        costs={str(name): float(value) for name, value in record["costs"].items()},
        info=record["info"],
        predictions=arrays,
    )
    more = {name: record[name] for name in ("time", "attempt", "limits", "worker")}
    return Reused(record.get("origin") or ledger.run.name, result, more)


# ---------------------------------------------------------------------- running


@dataclass
class Outcome:
    """How a sweep ended."""

    folder: Path
    plan: Plan
    tally: Tally
    warnings: list[str]
    wall_s: float


def check_names(request: Request) -> None:
    """Refuse what needs no data to be refused: unknown datasets, models, metrics and searches."""
    suite, options = request.suite, request.options
    cards = {
        name: catalog.card(name)
        for name in (*options.datasets, *suite.datasets, *suite.offline)
        if name not in request.tables
    }
    plan = Plan(suite, options, {}, {})
    for model in plan.budget.model:  # a section for a model that this call leaves out is fine
        find_model(plan.budget.asked(model))
    tasks = {cards[name].task for name in (options.datasets or suite.datasets) if name in cards}
    plan.check_searches(tasks | {own.table.task for own in request.tables.values()})


def prepare(request: Request, ledger: Ledger | None) -> Plan:
    """Data and plan, checked against what the run's ledger already holds."""
    old = last_plan(ledger) if ledger is not None else None
    request.options = merge_with(old, request)
    check_names(request)
    data, left_out, notes = gather(request)
    plan = Plan(request.suite, request.options, data, left_out, notes)
    plan.check_searches({data.table.task for data in plan.data.values()})
    check_same(old, plan)
    plan.notes.extend(
        f"{model} declares no search space: its default configuration is its only trial."
        for model in sorted({s.model for s in plan.studies if not s.reason and not s.space.params})
        if model not in registry.MODELS
    )
    return plan


def run(
    request: Request,
    *,
    listener: Listener = lambda event, details: None,
    stop: Stop | None = None,
) -> Outcome:
    """Run a sweep to its end (or until asked to stop) and leave the ledger complete.

    Raises SweepError, SuiteError, PlanError, NoData, RunLocked, SourceChanged, LedgerError.
    """
    started = time.monotonic()

    def tell(text: str) -> None:
        listener("warning", {"message": text})

    check_name(request.name)
    check_names(request)
    existed = request.folder.exists()
    if existed and not (request.folder / "ledger").exists() and any(request.folder.iterdir()):
        raise SweepError(f"{request.folder} exists and holds no run: choose another --name")
    ray = RayStart(request)
    try:
        plan = None
        if not existed:  # a request that fails leaves no folder behind
            ray.begin()
            plan = prepare(request, None)
        with RunLock(request.folder, note=tell) as lock:
            ledger = Ledger(request.folder, write=True)
            try:
                if plan is None or len(ledger):  # somebody may have been faster
                    if not all_ended(ledger):
                        ray.begin()
                    plan = prepare(request, ledger)
                return _run(request, plan, ledger, ray, listener, stop or Stop(), started, lock)
            finally:
                ledger.close()
    finally:
        ray.end()


START_S = 60.0  # that a sweep which ends early waits for a Ray that is still starting


class RayStart:
    """Ray comes up while the data loads; a sweep with nothing to run never waits for it.

    The thread that starts Ray stays until the end: on Linux Ray's processes ask to be killed when
    their parent is gone, and the parent is the thread that started them.
    """

    def __init__(self, request: Request) -> None:
        # None: all that a cluster has
        self.slots = request.workers
        if self.slots is None and request.address == "local":
            self.slots = all_cores()
        self._address = request.address
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._up = threading.Event()
        self._over = threading.Event()

    def begin(self) -> None:
        if self.slots != 0 and self._thread is None:
            self._thread = threading.Thread(target=self._start, daemon=True)
            self._thread.start()

    def _start(self) -> None:
        try:
            start_ray(slots=self.slots, address=self._address)
        except BaseException as error:
            self._error = error
        self._up.set()
        self._over.wait()

    def wait(self, stop: Stop) -> None:
        """Until Ray is up. Raises what kept it from coming up, KeyboardInterrupt for a stop."""
        self.begin()
        while not self._up.wait(0.2):
            if stop.soon:
                raise KeyboardInterrupt
        if self._error is not None:
            raise self._error
        take_back_sigterm()

    def end(self) -> None:
        if self._thread is None:
            return
        if not self._up.wait(START_S):
            return  # it hangs; its processes end with this one
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            ray.shutdown()
        self._over.set()


# What Ray raises where the cluster, not a trial, is the trouble.
RAY_GONE = ("RaySystemError", "RpcError", "LocalRayletDiedError", "RayChannelError")


def cluster_lost(error: Exception, folder: Path) -> ClusterLost | None:
    """The error as the loss of the cluster, with the way on; None for any other error."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, ClusterLost) or names & {*RAY_GONE}:
        text = " ".join(str(error).split())[:300]
        return ClusterLost(
            f"{text}. Every finished trial is kept; go on with: bench resume {folder}"
        )
    return None


def _run(
    request: Request,
    plan: Plan,
    ledger: Ledger,
    ray: RayStart,
    listener: Listener,
    stop: Stop,
    started: float,
    lock: RunLock,
) -> Outcome:
    warnings = list(ledger.warnings)
    log = EventLog(request.folder, warn=warnings.append)
    live = Live(request.folder)
    state = "aborted"

    checkpoints = CheckpointFolder(request.folder / "checkpoints")

    def listen(event: str, details: Mapping[str, Any]) -> None:
        if event == "study":  # what its fits left is of no more use
            for key in details["study"].chains():
                checkpoints.drop(key)
        if event == "warning":
            warnings.append(details["message"])
        log.listen(event, details)
        live.listen(event, details)
        listener(event, details)

    def pool() -> WorkerPool:
        if ray.slots == 0:
            return InProcessPool(request.run_trial, plan.payload, checkpoints)
        ray.wait(stop)
        no_gpu = "--device cuda: this Ray has no machine with a GPU (ray status shows what it has)"
        if not any(node.gpus for node in nodes().values()):
            if any(study.needs.gpu_mb for study in engine.studies.values()):
                raise SweepError(no_gpu)
        made = RayWorkerPool(
            request.run_trial,
            plan.payload,
            slots=ray.slots,
            paths=request.paths,
            common=None if request.address == "local" else common_to(plan),
            checkpoints=checkpoints.path,
        )
        made.warm(sum(planned_slots(study.to_data()) for study in plan.studies))
        return made

    studies = plan.build()
    retry = partial(again, request, plan)
    search = async_search.search(
        request,
        plan,
        studies,
        ledger,
        checkpoints,
        slots=ray.slots,
        common=None if request.address == "local" else common_to(plan),
        retry=retry,
        listener=listen,
        stop=stop,
        still_owner=lock.check,
    )
    engine = Engine(
        [study for study in studies if search is None or study.name not in search.studies],
        ledger=ledger,
        pool=pool,
        reuse=reuse_from(siblings(request), plan, warnings),
        retry=retry,
        allow_code_change=request.allow_code_change,
        listener=listen,
        stop=stop,
        still_owner=lock.check,
    )
    try:
        engine.replay()  # what is refused leaves the plan in force as it was
        if search is not None:
            search.replay()
        record = plan.record(environment.capture())
        old = last_plan(ledger)
        if old is None or {**old, "time": ""} != {**record, "time": ""}:
            ledger.append([{**record, "time": utc_now()}])
        log.write(
            "start",
            run=str(request.folder),
            studies=len(plan.studies),
            workers=ray.slots,
            records=len(ledger),
            left_out=plan.left_out,
            quarantined_bytes=ledger.torn_bytes,
        )
        known = sum(study.n_done for study in engine.studies.values())
        listener("plan", {"plan": plan, "ledger": ledger, "known": known})
        listener("started", {})
        if search is not None:
            if not search.finished:
                ray.wait(stop)
                search.run()
            engine.admit(study for study in search.studies.values() if not search.left(study))
        tally = engine.run()
        if search is not None:
            tally = async_search.total(search.tally, tally)
        log.write("end", **asdict(tally))
        state = "interrupted" if tally.interrupted else "ended"
    except BaseException as error:
        log.write("abort", error=f"{type(error).__name__}: {error}")
        lost = cluster_lost(error, request.folder) if isinstance(error, Exception) else None
        if lost is not None:
            raise lost from error
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            way = f"every finished trial is kept; make room, then: bench resume {request.folder}"
            raise OSError(error.errno, f"{error.strerror}; {way}") from error
        raise
    finally:
        live.end(state)
        log.close()
    return Outcome(
        folder=request.folder,
        plan=plan,
        tally=tally,
        warnings=warnings,
        wall_s=time.monotonic() - started,
    )


def common_to(plan: Plan) -> Callable[[], dict[str, str]]:
    """What every machine that works on the plan must have in common, as a function to ask there."""
    specs = list(plan.specs.values())
    libraries = sorted({name for spec in specs for name in spec.libraries})
    return partial(computes_with, sorted({spec.target for spec in specs}), libraries)


def again(request: Request, plan: Plan, record: Record) -> bool:
    """Does a record deserve another run: asked for, or under limits that are larger now?"""
    return request.retry(record) or outgrown(record, plan.limits)


def outgrown(record: Record, limits: Limits) -> bool:
    """Did this cell fail under a limit that is larger now? Then it deserves another run."""
    was = record.get("limits") or {}
    if record["cause"] == "timeout":
        return limits.timeout_s > was.get("timeout_s", limits.timeout_s)
    if record["cause"] == "oom":
        return limits.memory_mb > was.get("memory_mb", limits.memory_mb)
    return False


def all_cores() -> int:
    return max(1, len(os.sched_getaffinity(0)))


def all_ended(ledger: Ledger) -> bool:
    """Has every slot of the plan in force a result? Then a resume most likely runs nothing."""
    plan = last_plan(ledger)
    if plan is None:
        return False
    return len(slot_places(ledger)) >= sum(map(planned_slots, plan["studies"]))
