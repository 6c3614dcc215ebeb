"""`bench merge`: runs of several machines or people as one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....sweeps.store.ledger import Ledger
from ...console import ENVIRONMENT, OK, Console, count
from ...errors import SweepError, check_name, check_run
from ...planning import suite as suites
from ...planning.own_tables import own_tables
from ...planning.plan import Options
from ...planning.plan_record import plan_in
from ...results.run_status import status_of
from ...running.merging import Merged, Verifier, collect, united_plan, write_run
from ...running.request import Request, import_folders

SHOWN = 10  # refused trials and conflicts that are named on a terminal; --json names all


def merge_command(
    console: Console,
    runs: Sequence[Path],
    out: Path,
    *,
    leave_out: bool,
    keep_first: bool,
    mirror: str | None,
    cache: str | None,
) -> int:
    """`bench merge`: exit code 3, and nothing written, where a trial is refused (unless
    `leave_out`) or two runs contradict each other (unless `keep_first`). Raises SweepError for runs
    that cannot share a plan, NoRun, LedgerError."""
    check_runs(runs, out)
    ledgers = {run: Ledger(run) for run in runs}
    for ledger in ledgers.values():
        for text in [*ledger.notices, *ledger.warnings]:
            console.warn(text)
    plans = [plan_in(ledger) for ledger in ledgers.values()]
    first = plans[0]
    tables: dict[str, Any] = {}
    for plan in plans:
        tables |= own_tables(plan["datasets"])
    request = Request(
        suite=suites.parse(first["suite"], f"the plan of {runs[0]}"),
        options=Options.of(first["options"]),
        runs=out.parent,
        name=out.name,
        mirror=mirror,
        cache=cache,
        tables=tables,
    )
    asked = [model for plan in plans for model in plan["options"]["models"]]
    import_folders([*asked, *request.suite.budget(request.options.budget)[1].models])
    plan = united_plan(request, plans)
    merged = Merged()
    entries = collect(Verifier(plan), ledgers, merged, keep_first=keep_first)
    wrong = bool(merged.conflicts) or bool(merged.refused and not leave_out)
    name_all(console, merged)
    if wrong or not entries:
        console.data({"written": False, **to_data(merged)})
        console.tell(f"nothing was written; {way_out(merged)}" if wrong else "no trial to merge")
        return ENVIRONMENT
    write_run(plan, entries, out, merged)
    found = status_of(out)
    console.data({"written": True, "out": str(out), **to_data(merged), **found.to_data()})
    for run, n in merged.taken.items():
        console.say(f"{count(n, 'trial')} from {run}")
    if merged.same:
        console.say(f"{count(merged.same, 'trial')} in more than one run, alike")
    console.say(f"{out}: {found.done} of {count(found.planned, 'trial')} done, {found.left} left")
    console.say(f"tables: bench report {out}")
    if found.left:
        console.say(f"the trials that are left: bench resume {out}")
    return OK


def check_runs(runs: Sequence[Path], out: Path) -> None:
    """Raises NoRun for a folder that is no run, SweepError for fewer than two, or where `out` is
    there already."""
    for run in runs:
        check_run(run)
    if len({run.resolve() for run in runs}) < 2 or len({r.resolve() for r in runs}) < len(runs):
        raise SweepError("bench merge needs two different runs at least: bench merge A B --out C")
    check_name(out.name)
    if out.exists():
        raise SweepError(f"{out} exists: choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)


def name_all(console: Console, merged: Merged) -> None:
    """Print what was refused, and the conflicts."""
    refused = [f"refused: {place}: {why}" for place, why in merged.refused.items()]
    for kind in (refused, [f"conflict: {text}" for text in merged.conflicts]):
        for text in kind[:SHOWN]:
            console.tell(text)
        if len(kind) > SHOWN:
            console.tell(f"{len(kind) - SHOWN} more; --json names all")


def way_out(merged: Merged) -> str:
    """What to do about refused trials and conflicts."""
    ways = []
    if merged.refused:
        ways.append("--leave-out merges without the refused trials (bench resume runs them)")
    if merged.conflicts:
        ways.append("--keep-first takes the trials of the run that is named first")
    return "; ".join(ways)


def to_data(merged: Merged) -> dict[str, Any]:
    """The merge for --json."""
    return {
        "taken": merged.taken,
        "same": merged.same,
        "refused": merged.refused,
        "conflicts": merged.conflicts,
    }
