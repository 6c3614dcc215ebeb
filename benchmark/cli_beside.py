"""The verbs of `bench beside`."""

from __future__ import annotations

import click

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
