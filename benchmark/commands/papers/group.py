"""`bench reproduce` and `bench experiment` on the command line: what the papers published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...arguments import DATA, PAPER, options_of, seed_of
from ...console import Console, common
from ...errors import SweepError
from ...planning.options import Options

# Options of `bench sweep` that `bench reproduce` takes, too.
REPRODUCED = (
    "datasets",
    "budget",
    "models",
    "folds",
    "trials",
    "device",
    "workers",
    "address",
    "runs",
    "name",
    "tracking_uri",
    "dry_run",
)


@click.command()
@click.argument("table", required=False)
@click.option("--list", "listing", is_flag=True, help="List every table and figure of the papers.")
@PAPER
@options_of(
    Options,
    *REPRODUCED,
    budget="Default: the table's own, mostly paper.",
    models="Only this method; one that the paper lacks becomes a row of its table. Repeatable.",
    datasets="Only this dataset. Repeatable.",
    folds="First K folds.",
)
@DATA
@click.option("--no-run", is_flag=True, help="Compare an existing run; run nothing.")
@click.option(
    "--from",
    "results",
    type=click.Path(path_type=Path),
    help="Compare a CSV of another tool's results, in the format of `bench report --from`; only a "
    "--model that the file lacks runs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="With --from: folder for the tables. Default: report/ beside the CSV.",
)
@common
def reproduce(
    console: Console,
    table: str | None,
    listing: bool,
    paper: Path | None,
    no_run: bool,
    results: Path | None,
    **given: Any,
) -> int:
    """Run what a paper's table or figure needs, then print the published values beside ours.
    --list names every table and figure of the papers, with its command or why there is none.

    \b
    bench reproduce --list
    bench reproduce npt-table-11 --budget reduced
    bench reproduce rtdl-table-2 --from results.csv
    bench reproduce rtdl-table-2 --from rtdl --model mymodel.py:MyModel
    """
    asked = Options(**{name: given.pop(name) for name in REPRODUCED})
    if results is not None:
        from .from_results import reproduce_from_results

        if no_run:
            raise SweepError("--from runs nothing, so it takes no --no-run")
        return reproduce_from_results(console, table, asked, results, paper, **given)
    if listing and table is not None:
        raise click.UsageError(f"--list names all tables; leave it out to make {table!r}")
    if given["out"]:
        raise SweepError("--out goes with --from, a CSV of results")
    from .reproduce import list_tables, reproduce_command

    if table is None:
        return list_tables(console, paper)
    return reproduce_command(console, table, asked, paper=paper, no_run=no_run)


@click.command()
@click.argument("name", required=False)
@PAPER
@click.option(
    "--size",
    type=click.Choice(["tiny", "reduced", "full"]),
    default="reduced",
    show_default=True,
    help="reduced: minutes on two CPU cores. full: the paper's; most want a GPU. tiny: a trial run "
    "in seconds, whose numbers mean nothing.",
)
@click.option("--seed", default=0, show_default=True, **seed_of("the experiment"))
@options_of(Options, "device")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Threads of a fit.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("experiments"),
    show_default=True,
    help="Folder for the results; each experiment has its own in it.",
)
@DATA
@common
def experiment(console: Console, name: str | None, paper: Path | None, **given: Any) -> int:
    """Run an experiment: lookup, corruption, attention maps, ...; without a name, list
    them.

    \b
    bench experiment
    bench experiment npt-lookup

    Prints its tables, published numbers beside ours, and writes them with figures and facts.json
    to OUT/NAME. On a CPU a second run writes the same bytes but for facts.json and measured times.
    """
    from ...papers.experiment_result import Setting
    from .experiment import experiment_command, list_experiments

    if name is None:
        return list_experiments(console, paper)
    return experiment_command(console, name, paper, Setting(say=console.say, **given))
