"""`bench data inspect`: what a file is read as, before anything is swept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ....common.text import first_few, one_line
from ...console import OK, USAGE, Console, common, count
from ...planning.options import COLUMNS
from .catalog import say_flags


@click.command("inspect", short_help="Show what a file of yours is read as.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", metavar="COLUMN", help="Column to predict.")
@COLUMNS
@common
def data_inspect(console: Console, file: Path, target: str | None, **given: Any) -> int:
    """Show what a file is read as: its columns with their kinds, missing values and what marks
    them; with --target also classes or range, the split, and problems such as leaks. A file that a
    sweep would refuse is shown, too, with all reasons.

    \b
    bench data inspect houses.csv --target price
    """
    from ....datasets.describe import describe
    from ....datasets.infer import Reading
    from ....datasets.reading.cells import read_file

    cells = read_file(file)
    about = describe(file, cells, Reading.of({**given, "target": target}))
    console.data(about)
    size = f"{about['n_rows']:,} rows, {len(cells.columns)} columns"
    console.say(f"{file.name}: {about['form']}; {size}")
    console.table(
        ["column", "role", "kind", "written", "missing", "marked by", "distinct", "values"],
        [
            [
                name,
                facts["role"],
                facts["kind"],
                facts["style"],
                facts["n_missing"] or "",
                first_few([one_line(mark, 20) for mark in facts["marks"]], 4, " "),
                facts["n_distinct"],
                facts["values"],
            ]
            for name, facts in about["columns"].items()
        ],
    )
    for warning in about["warnings"]:
        console.warn(warning)
    for problem in about["problems"]:
        console.say(f"refused {problem}")
    if target is None:
        console.say(
            "name the column to predict to see its task, splits and problems: --target COLUMN"
        )
    if "task" not in about:
        return USAGE if about["problems"] else OK
    console.say(f"target {target}: {about['task']}; {about['target']}")
    sizes = ", ".join(f"{part} {n:,}" for part, n in about["sizes"].items())
    folds = count(about["n_folds"], "fold")
    console.say(f"protocol {about['protocol']}: {folds}; rows of the first: {sizes}")
    say_flags(console, about["flags"])
    return USAGE if about["problems"] else OK
