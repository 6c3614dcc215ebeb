"""The verbs that list what there is: models, suites and runs."""

from __future__ import annotations

from pathlib import Path

import click

from .arguments import PAPER, RUNS, model_name
from .completion import MODELS, SUITES
from .console import Console, common


@click.command(short_help="List the models, or show one with its spaces.")
@click.argument(
    "name",
    required=False,
    callback=lambda context, option, given: given and model_name(given),
    shell_complete=MODELS,
)
@common
def models(console: Console, name: str | None) -> int:
    """List the models, or show one with its hyperparameters and search spaces."""
    from .commands.listings import models_command

    return models_command(console, name)


@click.command()
@click.argument("name", required=False, shell_complete=SUITES)
@PAPER
@common
def suites(console: Console, name: str | None, paper: Path | None) -> int:
    """List the suites, or show one: datasets, budgets, models."""
    from .commands.listings import suites_command

    return suites_command(console, name, paper)


@click.command(short_help="List the runs in a folder, with their state.")
@RUNS
@common
def runs(console: Console, runs: Path) -> int:
    """List the runs in a folder: what they compare, how far they are, and how to go on."""
    from .commands.listings import runs_command

    return runs_command(console, runs)
