"""`bench merge`: runs of several machines or people as one run."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from ....sweeps.store.ledger import Ledger
from ...arguments import CHECKPOINTS, DATA, SEVERAL_RUNS
from ...console import ENVIRONMENT, OK, Console, common, count
from ...errors import SweepError, check_name, check_run, command_on
from ...planning.plan_record import RunPlan, plan_in

CLASS = re.compile(r"(?!.*\.py:)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")  # module:Class
SHOWN = 10  # refused trials and conflicts that are named on a terminal; --json names all


@click.command()
@SEVERAL_RUNS
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR/NAME", help="The new run."
)
@click.option(
    "--csv",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A table of the runs, where it is not at their paths; known by its sha256. Repeatable.",
)
@click.option(
    "--trust",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Allow the runs to import this class of yours. Repeatable.",
)
@DATA
@CHECKPOINTS
@common
def merge(
    console: Console,
    runs: tuple[Path, ...],
    out: Path,
    csv: tuple[Path, ...],
    trust: tuple[str, ...],
) -> int:
    """Unite runs of one suite, made by several machines or people; nothing is run again.

    \b
    bench merge runs/mine /mnt/yours --out runs/ours

    Every trial is verified: its id from the data, code and versions here, its scores from its
    predictions. One that fails this is named and left to run; where two runs have other predictions
    of one trial, it is named, and the run that is named first counts. Exit code 3 for both.
    """
    from ...planning.own_tables import planned_tables
    from ...results.run_status import status_of
    from ...running.merging import united_plan, write_union
    from ...running.request import Request, import_folders

    check_runs(runs, out)
    ledgers = {run: Ledger(run) for run in runs}
    for ledger in ledgers.values():
        for text in [*ledger.notices, *ledger.warnings]:
            console.warn(text)
    plans = [plan_in(ledger) for ledger in ledgers.values()]
    first = plans[0]
    own = own_classes(dict(zip(runs, plans, strict=True)), trust)
    tables = planned_tables([plan.datasets for plan in plans], csv)
    suite = first.suite
    files = {
        name: file.model_copy(update={"path": tables[name].origin["csv"]["path"]})
        if name in tables
        else file
        for name, file in suite.file.items()
    }
    request = Request(
        suite=suite.model_copy(update={"file": files}),
        options=replace(
            first.options,
            runs=out.parent,
            name=out.name,
        ),
        tables=tables,
    )
    import_folders(own)
    plan = united_plan(request, plans)
    merged = write_union(plan, ledgers, out)
    refused = [f"refused: {place}: {why}" for place, why in merged.refused.items()]
    for kind in (refused, [f"conflict: {text}" for text in merged.conflicts]):
        for text in kind[:SHOWN]:
            console.tell(text)
        if len(kind) > SHOWN:
            console.tell(f"{len(kind) - SHOWN} more; --json names all")
    if not merged.taken:
        console.data({"written": False, **asdict(merged)})
        console.tell("nothing was written: no run has a finished trial of this plan")
        return ENVIRONMENT
    now = status_of(out)
    console.data({"written": True, "out": str(out), **asdict(merged), **now.to_data()})
    for run, n in merged.taken.items():
        console.say(f"{count(n, 'trial')} from {run}")
    console.say(f"{out}: {now.done} of {count(now.planned, 'trial')} done, {now.left} left")
    console.say(f"tables: {command_on(out, 'report')}")
    if now.left:
        console.say(f"run the remaining trials: {command_on(out, 'resume')}")
    return ENVIRONMENT if merged.refused or merged.conflicts else OK


def check_runs(runs: Sequence[Path], out: Path) -> None:
    """Raises NoRun for a folder that is no run, SweepError for fewer than two, or where `out` is
    there already."""
    for run in runs:
        check_run(run)
    if len({run.resolve() for run in runs}) < 2 or len({r.resolve() for r in runs}) < len(runs):
        raise SweepError("bench merge needs two different runs at least: bench merge A B --out C")
    check_name(out.name, "--out: the name")
    if out.exists():
        raise SweepError(f"{out} exists: choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)


def own_classes(plans: Mapping[Path, RunPlan], trust: Collection[str]) -> list[str]:
    """The models of runs that are classes from outside tabsweep, each of them trusted by name.

    A run may come from anybody, and to import a class runs its module: this stands before the first
    change of sys.path. Raises SweepError for a name that is a path, and for a class that `trust`
    does not name.
    """
    classes: dict[str, None] = {}
    for run, plan in plans.items():
        asked = [*plan.options.models, *plan.budget.models]
        behind = plan.variants.values()
        for name in (name for name in [*asked, *behind] if ":" in str(name)):
            if not CLASS.fullmatch(str(name)):
                raise SweepError(
                    f"{run}: its model {str(name)[:100]!r} is a path; a merge follows no path in a "
                    "record. Only registered models and MODULE:CLASS, with --trust, can be merged"
                )
            if name not in trust:
                raise SweepError(
                    f"{run}: its model {name[:100]!r} is code from outside tabsweep, which the "
                    f"merge would import; if you trust it, add --trust {name[:100]}"
                )
            classes[name] = None
    return list(classes)
