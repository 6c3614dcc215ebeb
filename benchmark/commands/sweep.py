"""`bench sweep`, `resume` and `retry`: from options to a request, and from its run to a report."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from ...common.portable import pin_or_restart
from ...common.text import suggest
from ...sweeps.engine import Stop
from ...sweeps.machine.cgroups import available_cpus
from ...sweeps.store.ledger import Ledger, LedgerError, Record
from ...sweeps.store.run_folder import is_run
from ...sweeps.trial import CAUSES, FAILED
from ...sweeps.workers.ray_thread import RAY
from ..console import (
    BEHIND,
    INTERRUPTED,
    NOTHING,
    OK,
    Console,
    Verbs,
    count,
    duration,
    size,
    split_names,
)
from ..console import FAILED as EXIT_FAILED
from ..errors import FitError, SweepError, check_name, check_run, command_on, resume_with
from ..outcome.run_report import note_made, unchanged
from ..planning import suite as suites
from ..planning.costs.estimate import Estimate, by_study, estimate, searched_whole
from ..planning.options import Options
from ..planning.own_tables import csv_suite, planned_tables, suite_tables
from ..planning.plan import Plan
from ..planning.plan_record import by_reason, last_plan, plan_in
from ..results.run_status import results_in, status_of
from ..running import sweep
from ..running.events import Planned, Started, SweepEvent
from ..running.minutes import with_minutes
from ..running.progress import Pace, Progress, waiting
from ..running.ray_session import check_workers
from ..running.request import Request, import_folders, models_of
from ..running.resume import code_that_runs
from ..running.reuse import siblings
from ..tracking.store import check
from .report import make_report

if TYPE_CHECKING:
    from ...datasets.reading.cells import Cells
    from ...reports.output.tables import Section
    from ..tracking.follower import Syncer

LATE = 1.25  # of the minutes that a plan was made for
COSTLIEST = 5  # models that an estimate names
FEW = 4  # datasets whose scores fit on a terminal
TRACKING_OFF = "tracking-off"  # a file in a run's folder: the run began with --tracking-uri none


def sweep_command(console: Console, chosen: suites.Suite | None, options: Options) -> int:
    """`bench sweep`: `chosen` is the suite, None for --csv."""
    request = request_of(console, chosen, options)
    request.paths = import_folders(models_of(request))
    if options.dry_run:
        return dry_run(console, request)
    return run_and_report(console, request)


def request_of(console: Console, chosen: suites.Suite | None, options: Options) -> Request:
    """The request that the (checked) options of `bench sweep` mean."""
    tables: dict[str, Any] = {}
    if chosen is None:
        with waiting(console):
            chosen, tables = csv_suite(options.csv, options.target, options.reading(), options.runs)
    if options.minutes is not None:
        asked = with_minutes(Request(chosen, options, tables=tables), cpus_for(options))
        chosen, options = asked.suite, asked.options
        console.tell(chosen.budget(options.budget)[1].note)
    options = options.on(chosen)
    if chosen.file:
        # an older run of this name may have more of the suite's files than are asked for now
        begun = (options.runs / str(options.name)).exists()
        with waiting(console):
            tables = suite_tables(chosen, () if begun else options.datasets, options.runs)
    check_name(str(options.name))
    request = Request(chosen, options, tables=tables)
    check_places(request)
    return request


def check_places(request: Request) -> None:
    """Refuse, before anything is written, a number of workers, published results and an address of
    MLflow that cannot be used. Raises SweepError, DataError, TrackingError."""
    from ..results.entrants import results_file

    options = request.options
    check_workers(options.workers, request.address)
    for name in split_names(options.beside):
        results_file(Path(name))
    if options.tracking_uri and options.tracking_uri != "none":
        check(options.tracking_uri)


# ---------------------------------------------------------------------- resume and retry


def retry_command(console: Console, run: Path, *, causes: tuple[str, ...], **given: Any) -> int:
    """`bench retry`: the failed trials of these causes, or of all, once more."""
    check_run(run)
    for cause in causes:
        if cause not in CAUSES:
            raise SweepError(f"unknown cause {cause!r}; {suggest(cause, CAUSES)}")
    failed = status_of(run).failed
    if n_of(failed, causes or None):
        return resume_command(console, run, causes=causes or None, **given)
    shown = ", ".join(f"{n} {cause}" for cause, n in failed.items())
    console.say(
        f"{run}: no failed trial{' of that cause' if causes else ''} to run again"
        + (f"; failed: {shown}" if shown else "")
    )
    console.data({"retried": 0})
    return NOTHING


def n_of(failed: Mapping[str, int], causes: tuple[str, ...] | None) -> int:
    """The number of failed trials ({cause: number}) of these causes; of all for None."""
    return sum(n for cause, n in failed.items() if causes is None or cause in causes)


def resume_command(
    console: Console,
    run: Path,
    *,
    causes: tuple[str, ...] | None,
    verify: bool = False,
    **given: Any,
) -> int:
    """`bench resume` and `bench retry`: the plan in the ledger, started again. `causes`: of the
    failed trials that run again; all for None, none for (). `given`: options of this call."""
    check_run(run)
    if run.name in ("", ".."):  # `.` has no name of its own
        run = run.resolve()
    plan = plan_in(Ledger(run))
    options = replace(plan.options, runs=run.parent, name=run.name, **given)
    if options.portable:
        pin_or_restart(own_process=Verbs.own_process)

    def runs_again(record: Record) -> bool:
        return record["status"] == FAILED and (causes is None or record["cause"] in causes)

    with waiting(console):
        tables = planned_tables([plan.datasets], runs=run.parent)
    request = Request(plan.suite, options, retry=runs_again, verify=verify, tables=tables)
    check_places(request)
    models = models_of(request)
    request.paths = import_folders(models)
    for line in code_that_runs(plan, models, allow_code_change=options.allow_code_change):
        console.tell(line)
    before = status_of(run)
    failed = sum(before.failed.values())
    parts = [f"{before.done} of {before.planned} trials done"]
    if failed:
        again = n_of(before.failed, causes)
        retried = f"{again} of them run again" if again else "bench retry runs them again"
        parts.append(f"{failed} failed ({retried})")
    console.say(", ".join([*parts, f"{before.left} to run"]))
    if options.tracking_uri is None and (run / TRACKING_OFF).exists():
        request.options = replace(options, tracking_uri="none")
        console.say("MLflow stays off, as it was; bench track sync writes the run to it later")
    return run_and_report(console, request)


# ---------------------------------------------------------------------- running


def dry_run(console: Console, request: Request) -> int:
    """Show what would run and for how long, from what is cached; nothing is written."""
    own = Ledger(request.folder) if is_run(request.folder) else None
    plan = sweep.prepare(request, own)
    workers = cpus_for(request.options)
    others, start_s = siblings(request), request.start_s
    cost = estimate(plan, own=own, others=others, workers=workers, start_s=start_s)
    console.data({**asdict(cost), "left_out": plan.left_out, "notes": plan.notes})
    console.say(
        f"{request.folder}: {count(len(plan.data), 'dataset')}, {count(len(plan.models), 'model')}"
    )
    console.say(
        f"{count(cost.cells, 'trial')} in {count(cost.studies, 'study')}: {cost.finished} "
        f"finished, {cost.cached} cached in other runs, {cost.to_run} to run"
    )
    for line in cost_lines(cost, workers):
        console.say(line)
    for line in by_reason({**plan.left_out, **cost.unsupported}):
        console.say(f"left out: {line}")
    tell_of_plan(console, plan)
    if plan.nothing_runs:
        console.warn(plan.nothing_runs)
    return OK


def cpus_for(options: Options) -> int:
    """The CPUs that an estimate counts with: as many workers as were asked for, else this machine's
    (of a cluster it is not known before the sweep has joined it)."""
    return available_cpus() if options.workers is None else options.workers


def cost_lines(cost: Estimate, workers: int) -> list[str]:
    """What a sweep is expected to cost, in words."""
    if not cost.to_run:
        return ["time: nothing to run"]
    cpu, high, wall = (
        duration(3600 * hours) for hours in (cost.cpu_hours, cost.cpu_hours_high, cost.wall_hours)
    )
    where = f"on {count(workers, 'CPU')}" if workers else "in this process"
    memory = size(1e6 * cost.memory_mb)
    lines = [
        f"estimate: about {wall} {where}, {memory} of memory, {size(1e6 * cost.disk_mb)} of disk",
        f"CPU time: {cpu}, or up to {high}; from {cost.basis}",
    ]
    if len(cost.models) > 1:
        most = list(cost.models.items())[:COSTLIEST]
        named = ", ".join(f"{model} {duration(3600 * hours)}" for model, hours in most)
        lines.append(f"costliest models: {named}")
    if cost.guessed:
        named = ", ".join(f"{model} ({count(n, 'trial')})" for model, n in cost.guessed.items())
        lines.append(f"guessed, for lack of any measured fit: {named}")
    limit = size(1e6 * cost.memory_mb_limit)
    return [*lines, f"a trial may use {limit} of memory (--memory-mb); one that takes more fails"]


def tell_of_plan(console: Console, plan: Plan) -> None:
    """Print which trials the plan no longer has, the notes on the user's own data (with the
    dataset's name where there are several), and the plan's notes."""
    if plan.dropped:
        console.warn(
            f"the suite no longer asks for all that this run had: trials of {plan.dropped} are in "
            "no table any more; the ledger keeps them for a suite that names them again"
        )
    own = [name for name, data in plan.data.items() if {"csv", "added"} & data.description.keys()]
    for name in own:
        for warning in plan.data[name].table.warnings:
            console.warn(f"{name}: {warning}" if len(plan.data) > 1 else warning)
    for note in [*plan.notes, *plan.hints, *searched_whole(plan.studies)]:
        console.say(note)


def run_and_report(console: Console, request: Request, *, cost_first: bool = False) -> int:
    """Run a sweep with MLflow following it, write the report, print a summary, wait for MLflow;
    returns the exit code. cost_first: say what the sweep is expected to cost before it starts."""
    progress = Progress(
        quiet=console.quiet or console.json, color=console.color, verbose=console.verbose
    )
    stop = Stop()
    syncer: Syncer | None = None
    tracking_uri = request.options.tracking_uri
    begins_untracked = tracking_uri == "none" and not was_planned(request.folder)

    def listen(event: SweepEvent) -> None:
        nonlocal syncer
        if isinstance(event, Planned):
            plan = event.plan
            for line in by_reason(plan.left_out):
                console.warn(f"left out: {line}")
            tell_of_plan(console, plan)
            if cost_first:
                workers, others = cpus_for(request.options), siblings(request)
                known, start_s = event.ledger, request.start_s
                cost = estimate(plan, own=known, others=others, workers=workers, start_s=start_s)
                console.say(f"{count(cost.cells, 'trial')}, {cost.to_run} to run")
                for line in cost_lines(cost, workers):
                    console.say(line)
            left = event.left
            total = event.known + sum(left.values())
            expected = by_study(plan)
            timed = [study.name for study in plan.studies if study.study_s is not None]
            rest = {name: left[name] * expected[name] for name in timed if name in left}
            pace = Pace(expected, event.workers, rest, request.start_s)
            work = sum(n * pace.seconds(study) for study, n in left.items())
            progress.begin(total, request.name, known=event.known, pace=pace, work=work)
            event.heartbeat.left_s = progress.left_s
        elif isinstance(event, Started):
            if begins_untracked:
                note = "bench resume leaves MLflow off\n"
                (request.folder / TRACKING_OFF).write_text(note, encoding="utf-8")
            elif tracking_uri != "none":
                from ..tracking.follower import Syncer

                (request.folder / TRACKING_OFF).unlink(missing_ok=True)
                syncer = Syncer(request.folder, uri=tracking_uri)
        else:
            progress.listen(event)

    outcome = None
    behind = None
    code, document = OK, dict[str, Any]()
    if console.teller is not None:
        console.teller.run_is(request.folder)
        RAY.tell = console.teller.lost
    try:
        with interruptible(stop, said=console.teller is not None):
            try:
                outcome = sweep.run(request, listener=listen, stop=stop)
            except KeyboardInterrupt:
                pass
            finally:
                progress.end("the report")
        if outcome is not None and not outcome.tally.interrupted:
            for warning in outcome.warnings:
                console.warn(warning)
            code, document = summary(console, request, outcome)
            if request.options.predict_missing:
                progress.end("the predictions of rows without a target")
                document["predicted"] = predict_missing(console, request)
    finally:  # after the report, which MLflow shows, too; nobody waits for it to read the tables
        if syncer is not None:
            progress.end("MLflow")
            behind = syncer.stop(**{"timeout": 5.0} if stop.soon else {}, say=console.tell)
        progress.end()
    if outcome is None or outcome.tally.interrupted:
        if behind:
            console.warn(behind)
        return interrupted(console, request)
    console.data({**document, "mlflow_behind": behind})
    if behind:
        console.warn(behind)
    elif syncer is not None:
        from ..tracking.ui import place_of

        console.say(f"MLflow: {place_of(request.folder, syncer.uri)}")
    return BEHIND if behind and code == OK else code


def predict_missing(console: Console, request: Request) -> list[str]:
    """Predict the rows without a target of each file by its best model; returns what was written:
    `<dataset>-without-target.csv` in the run's folder."""
    from ...datasets.infer import Reading
    from ...datasets.reading.target import without_target
    from ...models.persistence.schema import SchemaError
    from ..outcome.file_predictions import predict_file
    from ..outcome.fit_and_save import fit_chosen

    written = []
    for name, own in request.tables.items():
        out = request.folder / f"{name}-without-target.csv"
        reading, path = Reading.of(own.origin["csv"]), own.origin["csv"]["path"]

        def only(cells: Cells, how: Reading = reading) -> Cells:
            return cells.rows(without_target(cells, how))

        try:
            model = fit_chosen(request.folder, dataset=name, note=console.say)
            n = predict_file(model, path, out, only=only, warn=console.tell)
        except (FitError, SchemaError) as error:
            console.warn(f"{name}: the rows without a target are not predicted: {error}")
            continue
        console.say(f"{count(n, 'row')} without a target: {out}")
        written.append(str(out))
    return written


def was_planned(run: Path) -> bool:
    """Whether a sweep has begun in this folder before."""
    return is_run(run) and last_plan(Ledger(run)) is not None


def interrupted(console: Console, request: Request) -> int:
    """Print how to resume an interrupted sweep; returns the exit code."""
    try:
        console.data({**status_of(request.folder).to_data(), "interrupted": True})
    except (LedgerError, OSError):  # stopped before there was a plan
        console.data({"interrupted": True})
        console.tell("interrupted; nothing was started yet")
        return INTERRUPTED
    console.tell(f"interrupted; {resume_with(request.folder)}")
    return INTERRUPTED


@contextmanager
def interruptible(stop: Stop, *, said: bool) -> Iterator[None]:
    """Handle SIGINT, SIGTERM and SIGHUP: the first lets running trials end and submits no more, a
    second SIGINT stops at once. said: another process has said so already."""

    def handle(number: int, frame: Any) -> None:
        if stop.soon and number == signal.SIGINT and not stop.now:
            stop.now = True
            raise KeyboardInterrupt
        if not stop.soon and not said:
            # straight to the descriptor: the signal may have interrupted another print
            os.write(2, b"stopping: waiting for running trials (Ctrl-C again stops them)\n")
        stop.soon = True

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if number != signal.SIGHUP or handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def summary(
    console: Console,
    request: Request,
    outcome: sweep.SweepOutcome,
) -> tuple[int, dict[str, Any]]:
    """Write the report, unless nothing has changed since it was made, and print how a sweep ended,
    with its main tables; returns the exit code and the same as data."""
    files, doubtful, sections = report_of(console, request, outcome.tally.ran)
    status = status_of(request.folder)
    failed = sum(status.failed.values())
    tally = outcome.tally
    origins, done = results_in(request.folder)
    document = {
        **status.to_data(),
        "ran": tally.ran,
        "reused": tally.reused,
        "origins": origins,
        "wall_s": round(outcome.wall_s, 1),
        "report": [str(path) for path in files],
        "warnings": outcome.warnings,
        "notes": outcome.plan.notes,
    }
    few = len(outcome.plan.data) <= FEW and not request.options.beside  # which adds many models
    bags = any(section.name == "out-of-fold" for section in sections)
    shown = {"out-of-fold"} if bags and request.tables else {"scores" if few else "leaderboard"}
    shown |= {"costs"} if request.tables else set()
    for section in sections:
        if section.name in shown:
            widest = section.tables[:1] if section.name == "leaderboard" else section.tables
            console.report_tables(replace(section, tables=widest))
    causes = ", ".join(f"{n} {cause}" for cause, n in status.failed.items())
    known = max(0, status.done + failed + status.unsupported - tally.ran)
    console.say(
        f"\n{status.done} of {count(status.planned, 'trial')} done, {failed} failed"
        f"{f' ({causes})' if causes else ''}; {tally.ran} new, {known} reused; "
        f"{duration(outcome.wall_s)}"
    )
    if request.options.minutes is not None:
        took = (time.time() - psutil.Process().create_time()) / 60
        why = "" if took <= LATE * request.options.minutes else ": fits were slower than estimated"
        console.say(f"planned for {request.options.minutes:g} min, took {took:.1f}{why}")
    for origin, n in origins.items():
        console.say(f"{count(n, 'trial')} copied from run {origin}")
    for line in by_reason(status.left_out):
        console.say(f"left out: {line}")
    if outcome.plan.nothing_runs:
        console.warn(outcome.plan.nothing_runs)
    leads = "out-of-fold" if "out-of-fold" in shown else "leaderboard"
    for section in sections:
        if section.name == leads:
            console.say(section.remarks[0])
    if doubtful:
        console.say(f"look first at {count(doubtful, 'implausible cell')}: report/look-first.md")
    console.say(f"tables: {request.folder / 'report'}")
    console.say_page(files)
    scored = [study for study in outcome.plan.studies if study.name in done]
    tables = {study.dataset for study in scored}
    for name in (name for name in request.tables if name in tables):
        here = f" --dataset {name}" if len(request.tables) > 1 else ""
        console.say(f"next: {command_on(request.folder, 'fit')}{here} --out {name}.tabsweep")
        console.say(f"      bench explain features {name} --run {request.folder}")
    if failed:
        again = command_on(request.folder, "retry")
        console.say(f"see report/coverage.md; run them again with: {again}")
    for model in [] if status.left else outcome.plan.models:
        if ":" in outcome.plan.asked(model) and all(study.model != model for study in scored):
            console.say(f"check it on small tables: bench models check {outcome.plan.asked(model)}")
    return EXIT_FAILED if failed else OK, document


def report_of(
    console: Console, request: Request, ran: int
) -> tuple[list[Path], int, list[Section]]:
    """(files of the report, number of cells to look at first, sections), written anew where trials
    `ran` or anything else has changed; else without sections."""
    run, beside = request.folder, split_names(request.options.beside)
    if not ran and (there := unchanged(run, beside=beside)):
        console.say("nothing has changed since the report was made (bench report makes it anew)")
        return *there, []
    made = make_report([run], None, beside=beside)
    for text in made.missed:
        console.warn(text)
    doubtful = next(len(s.frame) for s in made.sections if s.name == "look-first")
    note_made(run, made.files, doubtful, beside=beside)
    return made.files, doubtful, made.sections
