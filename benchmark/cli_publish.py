"""`bench publish`: a static site of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .arguments import DATA, SEVERAL_RUNS
from .console import Console, common


@click.command(short_help="Write a static site with the leaderboard of runs.")
@SEVERAL_RUNS
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder of the site: a new one, an empty one, or an earlier site, which is replaced.",
)
@click.option(
    "--title", default="Leaderboard", show_default=True, help="Heading of the first page."
)
@click.option(
    "--beside",
    multiple=True,
    metavar="NAME[,NAME]",
    help="Published results to show beside the runs' (bench beside list), or a folder of yours.",
)
@DATA
@common
def publish(console: Console, runs: tuple[Path, ...], out: Path, **given: Any) -> int:
    """Write a static site of one or several runs: a leaderboard of all of them, their history, the
    report of each, and the results as CSV.

    \b
    bench publish runs/first runs/second --out site/

    Runs may share datasets and models: of each cell the newest run that completed it counts. Any
    static host can serve the folder; its pages load nothing from elsewhere. The same runs give the
    same bytes.
    """
    from .commands.publish.command import publish_command

    return publish_command(console, runs, out, **given)
