"""`bench publish`: runs as a static site with a leaderboard, their history and the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...arguments import SEVERAL_RUNS
from ...console import ENVIRONMENT, OK, Console, common, count, size, split_names
from ...planning.options import DATA
from .site import publish as write_site


@click.command()
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
def publish(
    console: Console, runs: Sequence[Path], out: Path, beside: Sequence[str], **how: Any
) -> int:
    """Write a static site of one or several runs: a leaderboard of all of them, their history, the
    report of each, and the results as CSV.

    \b
    bench publish runs/first runs/second --out site/

    Runs may share datasets and models: of each cell the newest run that completed it counts. Any
    static host can serve the folder; its pages load nothing from elsewhere. The same runs give the
    same bytes.
    """
    files, damage = write_site(runs, out, beside=split_names(beside), **how)
    page = out / "index.html"
    n_bytes = sum(path.stat().st_size for path in files)
    console.say(f"{count(len(files), 'file')}, {size(n_bytes)}, in {out}")
    console.say_page([page])
    console.say("put the folder on any static host; it asks for nothing from outside")
    for text in damage:
        console.tell(f"damaged: {text}")
    console.data({"files": [str(path) for path in files], "page": str(page), "damage": damage})
    return ENVIRONMENT if damage else OK
