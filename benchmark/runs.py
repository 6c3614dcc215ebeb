"""How does the command line drive a sweep? Requests, signals, progress, tracking, last words."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..sweeps.engine import Stop
from ..sweeps.ledger import Ledger, Record
from ..sweeps.trial import CAUSES, FAILED
from . import suite as suites
from . import sweep
from .face import FAILED as EXIT_FAILED
from .face import INTERRUPTED, OK, Face
from .plan import Options
from .progress import Progress
from .status import plan_in, planned_slots, status_of
from .sweep import Request, SweepError


def sweep_command(face: Face, **given: Any) -> int:
    """`bench sweep`."""
    request = request_of(**given)
    if given["dry_run"]:
        return dry_run(face, request)
    return run_and_report(face, request, given["tracking_uri"])


def request_of(**given: Any) -> Request:
    """The request that the options of `bench sweep` mean."""
    tables: dict[str, Any] = {}
    if (given["suite"] is None) == (given["csv"] is None):
        raise SweepError("say what to sweep: either --suite NAME or --csv FILE --target COLUMN")
    if given["csv"] is not None:
        chosen, tables = csv_suite(given["csv"], given["target"], given["task"])
    else:
        for option in ("target", "task"):
            if given[option] is not None:
                raise SweepError(f"--{option} goes with --csv, not with --suite")
        chosen = suites.load(given["suite"])
    budget = chosen.budget(given["budget"])[0]
    options = Options(
        budget=budget,
        models=tuple(given["models"]),
        datasets=tuple(given["datasets"]),
        folds=given["folds"],
        trials=given["trials"],
        sampler=given["sampler"],
        space=given["space"],
        seed=given["seed"],
    )
    return Request(
        suite=limited(chosen, budget, given["timeout"], given["memory_mb"]),
        options=options,
        runs=given["runs"],
        name=sweep.check_name(given["name"] or f"{chosen.name}-{budget}"),
        workers=given["workers"],
        address=given["address"],
        mirror=given["mirror"],
        cache=given["cache"],
        allow_code_change=given["allow_code_change"],
        reuse=tuple(given["reuse"]),
        tables=tables,
        paths=here(options.models),
    )


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
    from ..datasets.infer import table_from_csv

    if target is None:
        raise SweepError("--csv needs --target COLUMN, the column to predict")
    table = table_from_csv(path, target, task=task)
    slug = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40] or "table"
    usual = suites.load("uci-small")
    made = suites.Suite(
        name=f"csv-{slug}",
        title=f"{path.name}: {target}",
        datasets=[slug],
        protocol={slug: "kfold"},
        metric=usual.metric,
        budgets={
            name: budget.model_copy(update={"note": f"{name} budget of uci-small on {path.name}."})
            for name, budget in usual.budgets.items()
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
    from ..sweeps.engine import latest_results

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
    plan = plan_in(Ledger(run))
    check_causes(causes or ())
    old = plan["options"]
    options = Options(
        budget=old["budget"],
        models=tuple(old["models"]),
        datasets=tuple(old["datasets"]),
        folds=old["folds"],
        trials=old["trials"],
        sampler=old["sampler"],
        space=old["space"],
        seed=old["seed"],
    )
    found = suites.parse(plan["suite"], f"the plan of {run}")
    chosen = limited(found, old["budget"], given.get("timeout"), given.get("memory_mb"))
    request = Request(
        suite=chosen,
        options=options,
        runs=run.parent,
        name=run.name,
        workers=given["workers"],
        address=given["address"],
        mirror=given["mirror"],
        cache=given["cache"],
        allow_code_change=given.get("allow_code_change", False),
        retry=retry_rule(causes),
        tables=own_tables(plan),
        paths=here(options.models),
    )
    before = status_of(run)
    failed = sum(before.failed.values())
    hint = f", {failed} failed" if failed else ""
    if failed and causes == ():
        hint += " (retry with --retry-failed)"
    face.say(f"{before.done} of {before.planned} cells done{hint}, {before.left} to run")
    return run_and_report(face, request, given["tracking_uri"])


def own_tables(plan: Record) -> dict[str, Any]:
    """The tables of a run on a CSV, read again and held against what the plan says."""
    from ..datasets.infer import table_from_csv

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
    from .estimate import estimate

    exists = (request.folder / "ledger" / "MANIFEST.json").exists()
    own = Ledger(request.folder) if exists else None
    plan = sweep.prepare(request, own)
    workers = request.workers or sweep.all_cores()
    found = estimate(plan, own=own, others=sweep.siblings(request), workers=workers)
    face.data({**found.to_data(), "left_out": plan.left_out, "notes": plan.notes})
    face.say(f"{request.folder}: {len(plan.data)} datasets, {len(plan.models)} models")
    face.say(
        f"{found.cells} trials in {found.studies} studies: {found.finished} finished, "
        f"{found.cached} cached in other runs, {found.to_run} to run"
    )
    if found.cpu_hours is not None and found.to_run:
        face.say(
            f"time: about {found.cpu_hours:.2f} CPU-hours (at most {found.cpu_hours_high:.2f}), "
            f"{found.wall_hours:.2f} h on {workers} CPUs; basis: {found.basis}"
        )
    else:
        face.say(f"time: {found.basis}")
    face.say(
        f"memory: at most {found.memory_mb_limit:.0f} MB a trial; disk: about {found.disk_mb} MB"
    )
    for name, reason in {**plan.left_out, **found.unsupported}.items():
        face.say(f"left out: {name}: {reason}")
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
            for name, reason in plan.left_out.items():
                face.warn(f"{name} is left out: {reason}")
            for note in plan.notes:
                face.say(note)
            total = sum(planned_slots(study.to_data()) for study in plan.studies)
            progress.begin(total, request.name)
        elif event == "started":
            syncer = start_tracking(request.folder, tracking_uri)
        else:
            progress.listen(event, details)

    with interruptible(stop, face):
        try:
            outcome = sweep.run(request, listener=listen, stop=stop)
        except KeyboardInterrupt:
            outcome = None
        finally:
            progress.end()
            problem = stop_tracking(syncer, quickly=stop.soon)
    if problem:
        face.warn(problem)
    if outcome is None or outcome.tally.interrupted:
        face.say(
            f"interrupted; every finished trial is kept. Go on with: bench resume {request.folder}"
        )
        return INTERRUPTED
    for warning in outcome.warnings:
        face.warn(warning)
    files = write_report([request.folder], None)
    return closing_words(face, request, outcome, files)


def start_tracking(folder: Path, uri: str | None) -> Any:
    if uri == "none":
        return None
    from .tracking import Syncer

    syncer = Syncer(folder, uri=uri)
    syncer.start()
    return syncer


def stop_tracking(syncer: Any, *, quickly: bool) -> str | None:
    if syncer is None:
        return None
    return syncer.stop(timeout=5.0 if quickly else 120.0)


@contextmanager
def interruptible(stop: Stop, face: Face) -> Iterator[None]:
    """Once: stop submitting, let running trials end. Twice: stop now. SIGTERM is the first."""

    def handle(number: int, frame: Any) -> None:
        if stop.soon and number == signal.SIGINT:
            stop.now = True
            raise KeyboardInterrupt
        stop.soon = True
        face.say("stopping: running trials may end (again to kill them)")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def write_report(runs: Iterable[Path], out: Path | None) -> list[Path]:
    """Write the tables of runs into `out` (default: report/ of the first run)."""
    from ..reports.report import write
    from .frame import evidence_of

    runs = list(runs)
    return write(evidence_of(runs), out or runs[0] / "report")


def closing_words(face: Face, request: Request, outcome: sweep.Outcome, files: list[Path]) -> int:
    """The summary on the terminal; returns the exit code."""
    found = status_of(request.folder)
    failed = sum(found.failed.values())
    tally = outcome.tally
    face.data(
        {
            **found.to_data(),
            "ran": tally.ran,
            "reused": tally.reused,
            "wall_s": round(outcome.wall_s, 1),
            "report": [str(path) for path in files],
            "warnings": outcome.warnings,
        }
    )
    if not (face.quiet or face.json):
        show_ranks(face, request.folder / "report")
    causes = ", ".join(f"{n} {cause}" for cause, n in found.failed.items())
    face.say(
        f"{found.done} of {found.planned} trials done ({tally.ran} run now, {tally.reused} taken "
        f"from earlier), {failed} failed{f' ({causes})' if causes else ''}; "
        f"{outcome.wall_s:.0f} s"
    )
    if found.left_out:
        face.say(f"left out: {', '.join(sorted(found.left_out))}")
    face.say(f"tables: {request.folder / 'report'}   MLflow UI: bench ui {request.folder}")
    if failed:
        face.say(f"see report/coverage.md; run them again with: bench retry {request.folder}")
    return EXIT_FAILED if failed else OK


def show_ranks(face: Face, folder: Path) -> None:
    """The rank table, as it stands in the Markdown file."""
    path = folder / "ranks.md"
    if path.exists():
        face.say(path.read_text(encoding="utf-8").rstrip())
        face.say()
