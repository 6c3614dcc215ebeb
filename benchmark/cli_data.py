"""The verbs of `bench data`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .arguments import DATA, READING, TASK, options
from .completion import ADDED, DATASETS, SUITES
from .console import Console, common


@click.group()
def data() -> None:
    """List, fetch, check and add datasets."""


@data.command("list")
@common
def data_list(console: Console) -> int:
    """List the datasets."""
    from .commands.data.catalog import datasets_command

    return datasets_command(console)


@data.command("fetch", short_help="Fetch datasets into the cache.")
@click.argument("names", nargs=-1, shell_complete=DATASETS)
@click.option("--suite", shell_complete=SUITES, help="Every dataset of this suite.")
@DATA
@common
def data_fetch(console: Console, names: tuple[str, ...], suite: str | None, **given: Any) -> int:
    """Fetch datasets into the cache, from the mirror or their pinned addresses."""
    from .commands.data.catalog import fetch_command

    return fetch_command(console, names, suite, **given)


@data.command("verify")
@click.argument("names", nargs=-1, shell_complete=DATASETS)
@DATA
@common
def data_verify(console: Console, names: tuple[str, ...], **given: Any) -> int:
    """Check the bytes and the shape of datasets against their cards."""
    from .commands.data.catalog import verify_command

    return verify_command(console, names, **given)


@data.command("passport", short_help="Show the known problems of a dataset.")
@click.argument("name", shell_complete=DATASETS)
@click.option("--csv", is_flag=True, help="NAME is a file of yours; needs --target.")
@click.option("--target", metavar="COLUMN", help="Column of the file to predict.")
@options(TASK, *READING)
@DATA
@common
def data_passport(console: Console, name: str, csv: bool, target: str | None, **given: Any) -> int:
    """Show the known problems of a dataset: duplicates, leaks, drift, faults."""
    from .commands.data.catalog import passport_command

    return passport_command(console, name, target, csv, **given)


@data.command("inspect", short_help="Show what a file of yours is read as.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", metavar="COLUMN", help="Column to predict.")
@options(TASK, *READING)
@common
def data_inspect(console: Console, file: Path, target: str | None, **given: Any) -> int:
    """Show what a file is read as: its columns with their kinds, missing values and what marks
    them; with --target also classes or range, the split, and problems such as leaks.

    \b
    bench data inspect houses.csv --target price
    """
    from .commands.data.inspect import inspect_command

    return inspect_command(console, file, target, **given)


@data.command("add", short_help="Add datasets: a file, arrays with their split, an OpenML task.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--target", metavar="COLUMN", help="Column of the file to predict.")
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the dataset; for several folders, the prefix of the datasets' names.",
)
@options(TASK, *READING)
@click.option(
    "--protocol",
    type=click.Choice(["kfold", "fivefold", "holdout", "grouped", "temporal"]),
    help="Default: grouped with --group, temporal with --time, else kfold (docs/suites.md).",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "arrays"]),
    help="arrays: folders of .npy files with an info.json, as RTDL, TALENT, TabR and TabReD have; "
    "default for a folder or tar.",
)
@click.option(
    "--openml",
    metavar="URL",
    help="OpenML server; default: TABSWEEP_OPENML, or https://www.openml.org/api/v1.",
)
@click.option(
    "--openml-file",
    type=click.Choice(["arff", "parquet"]),
    help="File of an OpenML dataset; default: arff, whose MD5 OpenML states and which is checked.",
)
@common
def data_add(console: Console, path: Path, **given: Any) -> int:
    """Add datasets, for good: they need no network and no PATH any more.

    PATH is a file with a header (CSV, Parquet or Arrow, also compressed), which needs --target; or
    with --format arrays the folder of a dataset with its own split, a folder of such folders, or a
    .tar or .tar.gz of either; or openml:TASK, a task of OpenML with its official splits, or
    openml-suite:ID, all tasks of a suite (a number, an alias, or amlb, amlb-classification,
    amlb-regression, cc18, tabarena). The datasets are stored with a card each under TABSWEEP_DATA
    (default: ~/.local/share/tabsweep/datasets) and are named like built-in ones in suite files and
    by --dataset.

    \b
    bench data add houses.csv --target price
    bench data add visits.parquet --target stay --group patient
    bench data add revisiting_models_data.tar.gz --format arrays
    bench data add openml:59
    bench data add openml-suite:tabarena
    """
    from .commands.data.add import add_command

    return add_command(console, path, **given)


@data.command("remove", short_help="Delete datasets that were added.")
@click.argument("names", nargs=-1, required=True, shell_complete=ADDED)
@common
def data_remove(console: Console, names: tuple[str, ...]) -> int:
    """Delete datasets that were added; runs that used them keep their results."""
    from .commands.data.catalog import remove_command

    return remove_command(console, names)
