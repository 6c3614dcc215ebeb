"""`bench data add`: files of the user and archives of arrays, each stored with a card."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...arguments import flag_of
from ...console import OK, USAGE, Console, common
from ...planning.options import COLUMNS, FIELDS, Options
from .catalog import added_data, added_line
from .openml import ADDRESS, openml_command

if TYPE_CHECKING:
    from ....datasets.added.importing import Added

TAR = re.compile(r"\.(tar(\.\w+)?|t[gbx]z)$", re.IGNORECASE)


@click.command("add", short_help="Add datasets: a file, arrays with their split, an OpenML task.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--target", metavar="COLUMN", help="Column of the file to predict.")
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the dataset; for several folders, the prefix of the datasets' names.",
)
@COLUMNS
@click.option(
    "--protocol",
    type=click.Choice(["kfold", "fivefold", "holdout", "grouped", "temporal"]),
    help="Default: grouped with --group, temporal with --time, else kfold (docs/suites.md).",
)
@common
def data_add(
    console: Console,
    path: Path,
    name: str | None,
    missing: tuple[str, ...],
    *,
    target: str | None,
    protocol: str | None,
    **columns: Any,
) -> int:
    """Add datasets, for good: they need no network and no PATH any more.

    PATH is a file with a header (CSV, Parquet or Arrow, also compressed), which needs --target; or
    the folder of a dataset with its own split (.npy files with an info.json, as RTDL, TALENT, TabR
    and TabReD have), a folder of such folders, or a .tar or .tar.gz of either; or openml:TASK, a
    task of OpenML with its official splits, or openml-suite:ID, all tasks of a suite (a number, an
    alias, or amlb, amlb-classification, amlb-regression, cc18, tabarena). The datasets are stored
    with a card each under TABSWEEP_DATA (default: ~/.local/share/tabsweep/datasets) and are named
    like built-in ones in suite files and by --dataset.

    \b
    bench data add houses.csv --target price
    bench data add visits.parquet --target stay --group patient
    bench data add revisiting_models_data.tar.gz
    bench data add openml:59
    bench data add openml-suite:tabarena
    """
    from ....datasets.errors import DataError

    task = ADDRESS.fullmatch(str(path))
    if task or path.is_dir() or TAR.search(path.name):
        told = Options(**columns, missing=missing if task else ()).given()
        own = {"--target": target, "--protocol": protocol}
        used = [flag for flag, value in own.items() if value is not None]
        used += [flag_of(FIELDS[option]) for option in told]
        if used:
            raise DataError(
                f"{used[0]} is for a file with columns: arrays in a folder and tasks of OpenML "
                "state their target, kinds and split"
            )
        if task:
            return openml_command(console, str(path), name)
        return _add_arrays(console, path, name, missing)
    if target is None:
        raise DataError(
            f"--target COLUMN is missing, the column of {path.name} to predict (bench data inspect "
            "shows the columns)"
        )
    return _add_file(console, path, name, protocol, missing=missing, target=target, **columns)


def _add_file(
    console: Console, path: Path, name: str | None, protocol: str | None, **reading: Any
) -> int:
    from ....datasets import catalog
    from ....datasets.added import tables
    from ....datasets.infer import Reading
    from ....datasets.passport import first_look
    from ....datasets.table import counted

    wanted = tables.name_of(path, name, catalog.built_in())
    one, table = tables.add(path, Reading.of(reading), wanted, protocol)
    card = one.card
    for warning in (*table.warnings, *first_look(table)):
        console.warn(warning)
    kinds = f"{counted(table.kinds.values())}, protocol {card.protocol}"
    console.say(added_line(one, f"{table.n_rows:,}", kinds))
    document = added_data(one, kinds=table.kinds, warnings=list(table.warnings))
    console.say(f"card: {document['card']}")
    console.say(f'in a suite file: datasets = ["{card.name}"]')
    console.data({"added": [document], "refused": {}})
    return OK


def _add_arrays(console: Console, path: Path, name: str | None, missing: tuple[str, ...]) -> int:
    import tempfile

    from ....datasets.added import store
    from ....datasets.added.layout import folders_in
    from ....datasets.added.tar import unpack_arrays
    from ....datasets.errors import DataError

    if not path.exists():
        raise DataError(f"{path} does not exist: give a folder of arrays, or a tar of it")
    if path.is_dir():
        return _add_folders(console, path, folders_in(path), path.absolute().name, name, missing)
    with store.incoming() as scratch, tempfile.TemporaryDirectory(dir=scratch) as unpacked:
        unpack_arrays(path, Path(unpacked))
        folders = folders_in(Path(unpacked))
        return _add_folders(console, Path(unpacked), folders, path.name, name, missing)


def _add_folders(
    console: Console,
    root: Path,
    folders: list[Path],
    origin: str,
    name: str | None,
    missing: tuple[str, ...],
) -> int:
    """Add each folder; one that is refused is named with the reason, and the others are added.
    Returns the exit code."""
    from ....datasets import catalog
    from ....datasets.added import importing
    from ....datasets.added.layout import read_folder
    from ....datasets.errors import DataError

    if not folders:
        raise DataError(
            f"{origin} holds no dataset of arrays: no folder in it has info.json and y_train.npy "
            "(or Y.npy)"
        )
    stem = TAR.sub("", origin)
    built_in, several = set(catalog.built_in()), len(folders) > 1
    added: list[Added] = []
    refused: dict[str, str] = {}
    for folder in folders:
        place = folder.relative_to(root).as_posix()
        shown = origin if place == "." else f"{origin}/{place}"
        try:
            arrays = read_folder(folder, shown, name=stem if place == "." else None)
            wanted = importing.name_of(arrays, name, several, built_in)
            if any(wanted == one.card.name for one in added):
                raise DataError(
                    f"another folder here has the name {wanted!r}, too: add this one alone, with "
                    "a --name"
                )
            added.append(importing.add(arrays, wanted, f"arrays, {shown}", missing))
        except DataError as error:
            if not several:
                raise
            text = str(error)
            refused[shown] = text if text.startswith(shown) else f"{shown}: {text}"
            console.warn(f"refused: {refused[shown]}")
            continue
        options = added[-1].card.options
        sizes = " / ".join(f"{n:,}" for n in options["sizes"])
        kinds = f"{options['numeric']} numeric, {options['binary'] + options['categorical']}"
        console.say(added_line(added[-1], sizes, f"{kinds} categorical features"))
    stand = [f"{one.stands_for} = {one.card.name}" for one in added if one.stands_for]
    if stand:
        console.say(
            "taken for RTDL's own split by folder, form and the sizes of its Table 1, and used by "
            f"suite rtdl: {', '.join(stand)}"
        )
    documents = [
        added_data(one, stands_for=one.stands_for, sizes=list(one.card.options["sizes"]))
        for one in added
    ]
    console.data({"added": documents, "refused": refused})
    return USAGE if refused else OK
