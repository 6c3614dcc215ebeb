"""The verbs of `bench data`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .arguments import DATA
from .console import Console, common


@click.group()
def data() -> None:
    """List, fetch, check and add datasets."""


@data.command("list")
@common
def data_list(console: Console) -> int:
    """List the datasets."""
    from .commands.data import datasets_command

    return datasets_command(console)


@data.command("fetch", short_help="Fetch datasets into the cache.")
@click.argument("names", nargs=-1)
@click.option("--suite", help="Every dataset of this suite.")
@DATA
@common
def data_fetch(console: Console, names: tuple[str, ...], suite: str | None, **given: Any) -> int:
    """Fetch datasets into the cache, from the mirror or their pinned addresses."""
    from .commands.data import fetch_command

    return fetch_command(console, names, suite, **given)


@data.command("verify")
@click.argument("names", nargs=-1)
@DATA
@common
def data_verify(console: Console, names: tuple[str, ...], **given: Any) -> int:
    """Check the bytes and the shape of datasets against their cards."""
    from .commands.data import verify_command

    return verify_command(console, names, **given)


@data.command("passport", short_help="Show the known problems of a dataset.")
@click.argument("name")
@click.option("--csv", is_flag=True, help="NAME is a CSV file; needs --target.")
@click.option("--target", help="Column of the CSV to predict.")
@DATA
@common
def data_passport(console: Console, name: str, csv: bool, target: str | None, **given: Any) -> int:
    """Show the known problems of a dataset: duplicates, leaks, drift, faults."""
    from .commands.data import passport_command

    return passport_command(console, name, target, csv, **given)


@data.command("add", short_help="Add datasets of your own, with their split.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["arrays"]),
    required=True,
    help="arrays: folders of .npy files with an info.json, as RTDL, TALENT, TabR and TabReD have.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the dataset; of several, what stands before the names of their folders.",
)
@click.option(
    "--missing", multiple=True, metavar="TEXT", help="Marks a missing category, too. Repeatable."
)
@common
def data_add(console: Console, path: Path, **given: Any) -> int:
    """Add datasets with their own split, for good: they need no network and no PATH any more.

    PATH is the folder of a dataset, a folder of such folders, or a .tar or .tar.gz of either. The
    datasets are stored under TABSWEEP_DATA (default: ~/.local/share/tabsweep/datasets) and are
    named like built-in ones: bench sweep --suite mine.toml --dataset NAME.

    \b
    bench data add revisiting_models_data.tar.gz --format arrays
    bench data add tabred/data --format arrays --name tabred
    """
    from .commands.data import add_command

    return add_command(console, path, **given)


@data.command("remove", short_help="Delete datasets that were added.")
@click.argument("names", nargs=-1, required=True)
@common
def data_remove(console: Console, names: tuple[str, ...]) -> int:
    """Delete datasets that were added; runs that used them keep their results."""
    from .commands.data import remove_command

    return remove_command(console, names)
