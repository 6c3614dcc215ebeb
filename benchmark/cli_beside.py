"""`bench beside` and `bench portfolio`: published results, and configurations learned on other
datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .arguments import DATA, SEVERAL_RUNS
from .console import Console, common


@click.group()
def beside() -> None:
    """Published results that can stand beside those of a run."""


@beside.command("list")
@common
def beside_list(console: Console) -> int:
    """List the published results that come with the package, for `bench report RUN --beside NAME`.

    Yours are a folder with entrant.toml and results.csv.gz: docs/reports.md, Published results.
    """
    from .commands.listings import beside_command

    return beside_command(console)


@beside.command("export", short_help="Write runs in that form, to stand beside others.")
@SEVERAL_RUNS
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="The folder to write: entrant.toml and results.csv.gz.",
)
@click.option("--title", required=True, help="Whose results these are, for tables and lists.")
@click.option("--mark", default="", help="Word behind each model's name; default: the folder's.")
@click.option("--source", default="", help="Where the runs, or what repeats them, can be had.")
@common
def beside_export(console: Console, runs: tuple[Path, ...], **given: Any) -> int:
    """Write the complete datasets of runs as published results: one row a model, dataset, fold and
    seed, with the chosen configuration, scores, costs and the trial's id.

    \b
    bench beside export runs/mine --out mine-2026 --title "Our models, March 2026"
    bench report runs/another --beside mine-2026
    """
    from .commands.listings import export_command

    return export_command(console, runs, **given)


@beside.command("check", short_help="Fit random rows of such results again.")
@click.argument("name", metavar="NAME|FOLDER")
@click.option("--rows", "n", type=click.IntRange(1), default=10, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the rows.")
@DATA
@common
def beside_check(console: Console, name: str, **given: Any) -> int:
    """Fit random rows of an exported study again and compare their test scores: the same digits on
    the same kind of processor, else within rounding. Exit code 4 where a score is another.

    \b
    bench beside check uci-small-reference --rows 10 --seed 1
    """
    from .commands.listings import check_command

    return check_command(console, name, **given)


@click.group()
def portfolio() -> None:
    """Learn configurations for a warm start from finished runs."""


@portfolio.command("learn", short_help="Choose a few configurations from finished runs.")
@SEVERAL_RUNS
@click.option(
    "--size",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Number of configurations.",
)
@click.option(
    "--per-model", is_flag=True, help="--size configurations for each model, not in total."
)
@click.option(
    "--leave-one-out",
    is_flag=True,
    help="For each dataset, also choose configurations without using it (for sweeps on these "
    "datasets).",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The portfolio file to write, for bench sweep --warm-start FILE.",
)
@common
def learn(console: Console, runs: tuple[Path, ...], **given: Any) -> int:
    """Choose the configurations that together have the lowest validation regret, on average over
    the datasets of the runs, and write them as a portfolio file; nothing is fitted again.

    \b
    bench portfolio learn runs/uci-small-quick --per-model --size 3 --out portfolio.toml
    bench sweep --suite mine.toml --warm-start portfolio.toml

    What is in the file, and how regret is estimated: docs/suites.md, Portfolios.
    """
    from .commands.portfolio.learn import learn_command

    return learn_command(console, runs, **given)
