"""The verbs `bench nightly` and `bench baseline`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...arguments import DATA, options
from ...console import Console, common

SHARED = options(
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("nights"),
        show_default=True,
        help="Folder of nights; its store/ may be deleted at any time.",
    ),
    click.option(
        "--baseline",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Default: benchmark/nightly/baseline.json in the checkout.",
    ),
    click.option(
        "--suite",
        default="nightly",
        show_default=True,
        help="What is fitted: a suite of the checkout, or a suite file (.toml).",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="CPUs for trials, on Ray; 0: one after the other, without Ray.",
    ),
    DATA,
)


@click.command()
@SHARED
@click.option("--model", "models", multiple=True, help="Only this model. Repeatable.")
@click.option(
    "--against", metavar="COMMIT", help="Judge every model against a release, for slow drift."
)
@common
def nightly(console: Console, **given: Any) -> int:
    """Judge the commit that is checked out: did a model get worse or unstable?

    \b
    bench nightly                    both steps; exit code 4 for a regression or without data
    bench nightly --against v1.2     the A/B test alone: drift since a release

    Only models whose trial ids changed since the accepted baseline are judged, by an A/B test of
    both commits on fresh seeds. Started again on the same day it fits nothing twice.
    """
    from .night import nightly_command

    return nightly_command(console, **given)


@click.group()
def baseline() -> None:
    """Accept the baseline of bench nightly."""


@baseline.command("accept", short_help="Make this commit the baseline.")
@click.option("--reason", required=True, help="Why; the file keeps it.")
@SHARED
@common
def baseline_accept(console: Console, **given: Any) -> int:
    """Fit every cell of the nightly suite at this commit and write the baseline's file, which a
    reviewed commit then brings into the repository."""
    from .baseline import accept_command

    return accept_command(console, **given)
