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
@click.option("--budget", help="With --model: this budget, not the suite's default.")
@click.option("--model", help="Show what the suite sets for this model, dataset by dataset.")
@PAPER
@common
def suites(
    console: Console, name: str | None, budget: str | None, model: str | None, paper: Path | None
) -> int:
    """List the suites, or show one: datasets, budgets, models.

    \b
    bench suites cheatt
    bench suites cheatt --budget paper --model saint-cheatt
    """
    from .commands.listings import settings_command, suites_command

    if budget is not None and model is None:
        raise click.UsageError("--budget needs --model, whose settings it shows")
    if model is None:
        return suites_command(console, name, paper)
    if name is None:
        raise click.UsageError("--model needs the name of a suite")
    return settings_command(console, name, budget, model, paper)


@click.command(short_help="List the runs in a folder, with their state.")
@RUNS
@common
def runs(console: Console, runs: Path) -> int:
    """List the runs in a folder: what they compare, how far they are, and how to go on."""
    from .commands.listings import runs_command

    return runs_command(console, runs)
