"""How does the command line drive a sweep? Requests, signals, progress, tracking, last words."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...sweeps.engine import Stop
from ...sweeps.store.ledger import Ledger, LedgerError, Record
from ...sweeps.store.records import latest_results
from ...sweeps.trial import CAUSES, FAILED
from ..console import FAILED as EXIT_FAILED
from ..console import INTERRUPTED, OK, Face, by_reason, count, duration
from ..errors import SweepError, as_utf8, check_name, check_run, csv_name
from ..planning import suite as suites
from ..planning.plan import Options
from ..results.run_status import last_plan, plan_in, planned_slots, status_of
from ..running import sweep
from ..running.progress import Progress
from ..running.sweep import Request

FEW = 4  # datasets whose scores fit on a terminal


def sweep_command(face: Face, chosen: suites.Suite | None, **given: Any) -> int:
    """`bench sweep`: `chosen` is the suite, None for --csv."""
    request = request_of(chosen, **given)
    request.paths = here(models_in(request))
    if given["dry_run"]:
        return dry_run(face, request)
    return run_and_report(face, request, given["tracking_uri"])


def request_of(chosen: suites.Suite | None, **given: Any) -> Request:
    """The request that the (checked) options of `bench sweep` mean."""
    tables: dict[str, Any] = {}
    if chosen is None:
        chosen, tables = csv_suite(given["csv"], given["target"], given["task"])
    budget = chosen.budget(given["budget"])[0]
    options = Options.of({**given, "budget": budget})
    return Request(
        suite=limited(chosen, budget, given["timeout"], given["memory_mb"]),
        options=options,
        runs=given["runs"],
        name=check_name(given["name"] or f"{chosen.name}-{budget}"),
        workers=check_workers(given["workers"], given["address"]),
        address=given["address"],
        mirror=given["mirror"],
        cache=given["cache"],
        allow_code_change=given["allow_code_change"],
        reuse=tuple(given["reuse"]),
        tables=tables,
    )


def check_workers(workers: int | None, address: str) -> int | None:
    """Every worker is a process with its libraries: refuse numbers that would drown a machine."""
    most = max(16, 4 * sweep.all_cores())
    if workers is not None and address == "local" and workers > most:
        raise SweepError(
            f"--workers {workers} on {count(sweep.all_cores(), 'CPU')}: at most {most} here; "
            "--address joins a cluster"
        )
    return workers


def models_in(request: Request) -> list[str]:
    """Every model that a request may mean: named, in the suite, or in the run it goes on with."""
    named = [*request.options.models, *request.suite.budget(request.options.budget)[1].models]
    if (request.folder / "ledger" / "MANIFEST.json").exists():
        plan = last_plan(Ledger(request.folder))
        named.extend(plan["options"]["models"] if plan else [])
    return named


def here(models: Iterable[str]) -> list[str]:
    """The working directory, where a model of one's own is looked for; on workers too."""
    if not any(":" in model for model in models):
        return []
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return [folder]


def limited(
    chosen: suites.Suite, budget: str, timeout_s: float | None, memory_mb: float | None
) -> suites.Suite:
    """The suite with other safety limits in one budget."""
    changes = {
        name: value
        for name, value in (("timeout_s", timeout_s), ("memory_mb", memory_mb))
        if value is not None
    }
    if not changes:
        return chosen
    budgets = {**chosen.budgets, budget: chosen.budgets[budget].model_copy(update=changes)}
    return chosen.model_copy(update={"budgets": budgets})


def csv_suite(
    path: Path, target: str | None, task: str | None
) -> tuple[suites.Suite, dict[str, Any]]:
    """A suite of one table: the engineer's own. Its budgets are those of uci-small."""
    from ...datasets.infer import table_from_csv

    if target is None:
        raise SweepError("--csv needs --target COLUMN, the column to predict")
    target, name = as_utf8(target), as_utf8(path.name)
    table = table_from_csv(path, target, task=task)
    slug = csv_name(path)
    usual = suites.load("uci-small")
    made = suites.Suite(
        name=f"csv-{slug}",
        title=f"{name}: {target}",
        datasets=[slug],
        protocol={slug: "kfold"},
        metric=usual.metric,
        budgets={
            key: budget.model_copy(update={"note": f"{key} budget of uci-small on {name}."})
            for key, budget in usual.budgets.items()
        },
    )
    facts = {"path": str(path.resolve()), "sha256": file_sha256(path), "target": target}
    return made, {slug: sweep.Own(table=table, facts={"csv": {**facts, "task": table.task}})}


def file_sha256(path: Path) -> str:
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------------- resume and retry


def count_failed(run: Path, causes: Iterable[str]) -> int:
    """How many trials of a run failed (for one of the causes, if any are given)."""
    check_run(run)
    causes = tuple(causes)
    check_causes(causes)
    ledger = Ledger(run)
    wanted = retry_rule(causes or None)
    return sum(wanted(ledger.at(at)) for at in latest_results(ledger).values())


def check_causes(causes: Iterable[str]) -> None:
    for cause in causes:
        if cause not in CAUSES:
            raise SweepError(f"unknown cause {cause!r}; {suites.suggest(cause, CAUSES)}")


def retry_rule(causes: tuple[str, ...] | None) -> Callable[[Record], bool]:
    """Which failed records run again: all for None, those of the causes otherwise."""
    return lambda record: (
        record["status"] == FAILED and (causes is None or record["cause"] in causes)
    )


def resume_command(face: Face, run: Path, *, causes: tuple[str, ...] | None, **given: Any) -> int:
    """`bench resume` and `bench retry`: the plan in the ledger, started again."""
    check_run(run)
    check_causes(causes or ())
    plan = plan_in(Ledger(run))
    old = plan["options"]
    options = Options.of(old)
    found = suites.parse(plan["suite"], f"the plan of {run}")
    chosen = limited(found, old["budget"], given.get("timeout"), given.get("memory_mb"))
    request = Request(
        suite=chosen,
        options=options,
        runs=run.parent,
        name=run.name,
        workers=check_workers(given["workers"], given["address"]),
        address=given["address"],
        mirror=given["mirror"],
        cache=given["cache"],
        allow_code_change=given.get("allow_code_change", False),
        retry=retry_rule(causes),
        tables=own_tables(plan),
    )
    request.paths = here(models_in(request))
    before = status_of(run)
    failed = sum(before.failed.values())
    hint = f", {failed} failed" if failed else ""
    if failed and causes == ():
        hint += " (retry with --retry-failed)"
    again = 0 if causes == () else count_failed(run, causes or ())
    hint += f" ({again} of them run again)" if again else ""
    face.say(f"{before.done} of {before.planned} cells done{hint}, {before.left} to run")
    return run_and_report(face, request, given["tracking_uri"])


def own_tables(plan: Record) -> dict[str, Any]:
    """The tables of a run on a CSV, read again and held against what the plan says."""
    from ...datasets.infer import table_from_csv

    found = {}
    for name, facts in plan["datasets"].items():
        csv = facts.get("csv")
        if csv is None:
            continue
        path = Path(csv["path"])
        if not path.exists():
            raise SweepError(f"{path}, on which this run was started, is gone")
        actual = file_sha256(path)
        if actual != csv["sha256"]:
            raise SweepError(
                f"{path} has changed since this run was started: sha256 {actual[:16]}... now, "
                f"{csv['sha256'][:16]}... then. Start a new run with another --name"
            )
        table = table_from_csv(path, csv["target"], task=csv["task"])
        found[name] = sweep.Own(table=table, facts={"csv": csv})
    return found


# ---------------------------------------------------------------------- running


def dry_run(face: Face, request: Request) -> int:
    """Say what would run, from what is cached; nothing is written."""
    from ..planning.estimate import estimate

    exists = (request.folder / "ledger" / "MANIFEST.json").exists()
    own = Ledger(request.folder) if exists else None
    plan = sweep.prepare(request, own)
    workers = sweep.all_cores() if request.workers is None else max(1, request.workers)
    found = estimate(plan, own=own, others=sweep.siblings(request), workers=workers)
    face.data({**found.to_data(), "left_out": plan.left_out, "notes": plan.notes})
    face.say(
        f"{request.folder}: {count(len(plan.data), 'dataset')}, {count(len(plan.models), 'model')}"
    )
    face.say(
        f"{count(found.cells, 'trial')} in {count(found.studies, 'study')}: {found.finished} "
        f"finished, {found.cached} cached in other runs, {found.to_run} to run"
    )
    if found.cpu_hours is not None and found.to_run:
        low, high, wall = (
            duration(3600 * (hours or 0.0))
            for hours in (found.cpu_hours, found.cpu_hours_high, found.wall_hours)
        )
        face.say(
            f"time: about {low} of CPU (at most {high}), {wall} on {count(workers, 'CPU')}; "
            f"basis: {found.basis}"
        )
    else:
        face.say(f"time: {found.basis}")
    face.say(
        f"memory: at most {found.memory_mb_limit:.0f} MB a trial; disk: about {found.disk_mb} MB"
    )
    for line in by_reason({**plan.left_out, **found.unsupported}):
        face.say(f"left out: {line}")
    for note in plan.notes:
        face.say(note)
    return OK


def run_and_report(face: Face, request: Request, tracking_uri: str | None) -> int:
    """Run a sweep, keep MLflow fed, write the tables, say how it went; returns the exit code."""
    progress = Progress(quiet=face.quiet or face.json, color=face.color, verbose=face.verbose)
    stop = Stop()
    syncer: Any = None

    def listen(event: str, details: Any) -> None:
        nonlocal syncer
        if event == "plan":
            plan = details["plan"]
            for line in by_reason(plan.left_out):
                face.warn(f"left out: {line}")
            for name in request.tables:
                for warning in plan.data[name].table.warnings:
                    face.warn(warning)
            for note in plan.notes:
                face.say(note)
            total = sum(planned_slots(study.to_data()) for study in plan.studies)
            progress.begin(total, request.name, known=details["known"])
        elif event == "started":
            syncer = start_tracking(request.folder, tracking_uri)
        else:
            progress.listen(event, details)

    outcome = None
    problem = None
    with interruptible(stop):
        try:
            outcome = sweep.run(request, listener=listen, stop=stop)
        except KeyboardInterrupt:
            pass
        finally:
            progress.end()
            problem = stop_tracking(syncer, quickly=stop.soon)
    if problem:
        face.warn(problem)
    if outcome is None or outcome.tally.interrupted:
        return interrupted(face, request)
    for warning in outcome.warnings:
        face.warn(warning)
    from .report import write_report

    files = write_report([request.folder], None, mirror=request.mirror, cache=request.cache)
    return closing_words(face, request, outcome, files)


def interrupted(face: Face, request: Request) -> int:
    """How to go on; nothing that ended is lost."""
    try:
        face.data({**status_of(request.folder).to_data(), "interrupted": True})
    except (LedgerError, OSError):  # stopped before there was a plan
        face.data({"interrupted": True})
        face.tell("interrupted; nothing was started yet")
        return INTERRUPTED
    face.tell(
        f"interrupted; every finished trial is kept. Go on with: bench resume {request.folder}"
    )
    return INTERRUPTED


def start_tracking(folder: Path, uri: str | None) -> Any:
    if uri == "none":
        return None
    from ..tracking.follower import Syncer

    syncer = Syncer(folder, uri=uri)
    syncer.start()
    return syncer


def stop_tracking(syncer: Any, *, quickly: bool) -> str | None:
    if syncer is None:
        return None
    return syncer.stop(timeout=5.0 if quickly else 120.0)


@contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """Once: stop submitting, let running trials end. Twice: stop now. SIGTERM is the first."""

    def handle(number: int, frame: Any) -> None:
        if stop.soon and number == signal.SIGINT:
            stop.now = True
            raise KeyboardInterrupt
        stop.soon = True
        # straight to the descriptor: the signal may have interrupted another print
        os.write(2, b"stopping: running trials may end (Ctrl-C again ends them)\n")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def closing_words(face: Face, request: Request, outcome: sweep.Outcome, files: list[Path]) -> int:
    """The summary on the terminal; returns the exit code."""
    found = status_of(request.folder)
    failed = sum(found.failed.values())
    tally = outcome.tally
    origins = origins_in(request.folder)
    face.data(
        {
            **found.to_data(),
            "ran": tally.ran,
            "reused": tally.reused,
            "origins": origins,
            "wall_s": round(outcome.wall_s, 1),
            "report": [str(path) for path in files],
            "warnings": outcome.warnings,
            "notes": outcome.plan.notes,
        }
    )
    if not (face.quiet or face.json):
        show_tables(face, request, len(outcome.plan.data))
    causes = ", ".join(f"{n} {cause}" for cause, n in found.failed.items())
    known = max(0, found.done + failed + found.unsupported - tally.ran)
    face.say(
        f"{found.done} of {found.planned} trials done, {failed} failed"
        f"{f' ({causes})' if causes else ''}; {tally.ran} run now, {known} known before; "
        f"{duration(outcome.wall_s)}"
    )
    for origin, n in origins.items():
        face.say(f"{count(n, 'trial')} of this run copied from run {origin}")
    for line in by_reason(found.left_out):
        face.say(f"left out: {line}")
    face.say(f"tables: {request.folder / 'report'}   MLflow UI: bench ui {request.folder}")
    if failed:
        face.say(f"see report/coverage.md; run them again with: bench retry {request.folder}")
    return EXIT_FAILED if failed else OK


def origins_in(run: Path) -> dict[str, int]:
    """{other run: how many of this run's results were copied from it}."""
    ledger = Ledger(run)
    records = (ledger.at(at) for at in latest_results(ledger).values())
    return dict(sorted(Counter(r["origin"] for r in records if r.get("origin")).items()))


def show_tables(face: Face, request: Request, n_datasets: int) -> None:
    """The scores of a few datasets or the ranks over many, and the costs of an own table."""
    names = ["scores" if n_datasets <= FEW else "ranks", *(["costs"] if request.tables else [])]
    for name in names:
        path = request.folder / "report" / f"{name}.md"
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("## "):
                face.say(line.removeprefix("## ").replace("The best of each column is bold.", ""))
            elif not line.startswith(("#", "-")):
                face.say(line)
