"""`bench suites`, `runs` and `beside list`: lists of what there is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ...sweeps.store.run_folder import runs_below
from ..arguments import DATA, PAPER, SEVERAL_RUNS, options_of
from ..completion import SUITES
from ..console import NOTHING, OK, REGRESSION, Console, common, duration
from ..errors import check_run, command_on
from ..planning.options import Options


@click.command()
@click.argument("name", required=False, shell_complete=SUITES)
@PAPER
@common
def suites(console: Console, name: str | None, paper: Path | None) -> int:
    """List the suites, or show one: datasets, budgets, models."""
    from ..planning import suite

    files = suite.files() if paper is None else suite.files_in(paper)
    if name is not None:
        chosen = suite.load(str(files.get(name, name)))
        console.data(chosen.model_dump(mode="json"))
        console.say(f"{chosen.name}: {chosen.title}\n{chosen.note.strip()}\n")
        console.say(f"datasets ({len(chosen.datasets)}): {', '.join(chosen.datasets)}")
        console.table(
            ["budget", "models", "folds", "configurations", "seeds", "sampler", "space"],
            [
                [b, len(v.models), v.folds, v.trials, v.seeds, v.sampler, v.space]
                for b, v in chosen.budgets.items()
            ],
        )
        return OK
    all_suites = [suite.load(str(path)) for path in files.values()]
    console.data(
        [
            {
                "name": s.name,
                "title": s.title,
                "datasets": len(s.datasets),
                "budgets": list(s.budgets),
                "default_budget": s.default_budget,
            }
            for s in all_suites
        ]
    )
    console.table(
        ["suite", "datasets", "budgets", "title"],
        [[s.name, len(s.datasets), ", ".join(s.budgets), s.title] for s in all_suites],
    )
    return OK


@click.group()
def beside() -> None:
    """Published results that can stand beside those of a run."""


@beside.command("list")
@common
def beside_list(console: Console) -> int:
    """List the published results that come with the package, for `bench report RUN --beside NAME`.

    Yours are a folder with entrant.toml and results.csv.gz: docs/reports.md, Published results.
    """
    from ..results.beside import listed

    entrants = listed()
    console.data(entrants)
    console.table(
        ["name", "what", "reference", "licence", "datasets of ours", "with their split"],
        [
            [e["name"], e["title"], e["reference"], e["licence"], e["datasets"], e["with_split"]]
            for e in entrants
        ],
    )
    console.say("\nbench report runs/NAME --beside " + entrants[0]["name"])
    return OK


@beside.command("export", short_help="Write runs as published results, to stand beside others.")
@SEVERAL_RUNS
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="The folder to write, or to add to: entrant.toml, results.csv.gz, trials.csv.gz.",
)
@click.option("--title", required=True, help="Whose results these are, for tables and lists.")
@click.option("--mark", default="", help="Word behind each model's name; default: the folder's.")
@click.option("--source", default="", help="Where the runs can be had; default: the sweep.")
@common
def beside_export(
    console: Console, runs: tuple[Path, ...], out: Path, title: str, mark: str, source: str
) -> int:
    """Write the complete datasets of runs as published results: one row a model, dataset, fold and
    seed, with the chosen configuration, scores, costs and the trial's id. Results of the same suite
    and budget that stand in the folder are kept, but for the datasets of these runs.

    \b
    bench beside export runs/mine --out mine-2026 --title "Our models, March 2026"
    bench report runs/another --beside mine-2026
    """
    from ..outcome.entrant_export import export

    for run in runs:
        check_run(run)
    about = export(runs, out, title=title, mark=mark, source=source)
    console.data(about)
    console.say(
        f"{out}: {len(about['datasets'])} datasets of these runs and {len(about['kept'])} that "
        f"stood there, {about['rows']:,} rows of {about['trials']:,} trials "
        f"({about['failed']} failed), {about['cpu_hours']} CPU-hours"
    )
    if about["left_out"]:
        console.say(f"not complete, left out: {', '.join(about['left_out'])}")
    console.say(f"beside a run: bench report RUN --beside {out}")
    return OK


@beside.command("check", short_help="Fit random rows of published results again.")
@click.argument("name", metavar="NAME|FOLDER")
@click.option(
    "--rows", "n", type=click.IntRange(1), default=10, show_default=True, help="How many rows."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the rows.")
@DATA
@common
def beside_check(console: Console, name: str, n: int, seed: int) -> int:
    """Fit random rows of an exported study again and compare their test scores: the same digits on
    the same kind of processor, elsewhere within 5 %. Exit code 4 where a score is further off.

    \b
    bench beside check uci-small-reference --rows 10 --seed 1
    """
    from ..outcome.entrant_check import Repeated, check_entrant

    def tell(row: Repeated) -> None:
        how = "same" if row.same else "near" if row.near else row.problem or "other scores"
        scores = ", ".join(f"{m} {row.found.get(m)} ({v})" for m, v in row.stored.items())
        console.say(f"{how}: {row.dataset}/{row.fold}/{row.model}, seed {row.seed}: {scores}")

    repeated = check_entrant(name, n, seed, tell=tell)
    same, near = sum(row.same for row in repeated), sum(row.near for row in repeated)
    console.data([{**asdict(row), "same": row.same, "near": row.near} for row in repeated])
    console.say(
        f"{same} of {len(repeated)} rows have the stored scores, {near} are within 5 % of them"
    )
    return OK if near == len(repeated) else REGRESSION


@click.command()
@options_of(Options, "runs", runs="Folder of runs.")
@common
def runs(console: Console, runs: Path) -> int:
    """List the runs in a folder: what they compare, how far they are, and how to go on."""
    rows = [_one_run(run) for run in runs_below(runs)]
    console.data(rows)
    if not rows:
        console.say(f"no run in {runs}: bench sweep --suite smoke makes one, --runs names a folder")
        return NOTHING
    names = ("run", "suite", "budget", "state", "trials", "failed", "datasets", "models")
    console.table(list(names), [[row.get(name) for name in names] for row in rows])
    for row in rows:
        if row["next"]:
            console.say(row["next"])
    return OK


def _one_run(run: Path) -> dict[str, Any]:
    """One row of `bench runs`: state, and the command that goes on with it."""
    from ...sweeps.store.ledger import LedgerError
    from ..results.run_status import status_of

    about: dict[str, Any] = {"run": str(run), "next": ""}
    try:
        status = status_of(run)
    except (LedgerError, OSError) as error:
        return {**about, "state": "unreadable", "next": f"{run}: {error}"}
    failed = sum(status.failed.values())
    if status.owner is not None:
        left = f", {duration(status.eta_s)} to go" if status.eta_s is not None else ""
        state, way = f"running{left}", f"show progress: {command_on(run, 'status', '--watch')}"
    elif not status.finished:
        state, way = "interrupted", f"resume with: {command_on(run, 'resume')}"
    else:
        again = f"run failed trials again: {command_on(run, 'retry')}"
        state, way = "finished", again if failed else ""
    return {
        **about,
        "suite": status.suite,
        "budget": status.budget,
        "state": state,
        "trials": f"{status.done}/{status.planned}",
        "failed": failed or None,
        "datasets": status.datasets,
        "models": status.models,
        "next": way,
    }
