"""`bench data inspect`: what a file is read as, before anything is swept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...console import OK, Console, count
from .catalog import say_flags


def inspect_command(console: Console, path: Path, target: str | None, **columns: Any) -> int:
    """`bench data inspect FILE [--target COLUMN]`. columns: what else of a Reading is known."""
    from ....datasets.describe import describe
    from ....datasets.infer import Reading
    from ....datasets.reading.cells import read_file

    cells = read_file(path)
    found = describe(path, cells, Reading.of({**columns, "target": target or ""}))
    console.data(found)
    size = f"{found['n_rows']:,} rows, {len(cells.frame.columns)} columns"
    console.say(f"{path.name}: {found['form']}; {size}")
    console.table(
        ["column", "role", "kind", "missing", "marked by", "distinct", "values"],
        [
            [
                name,
                facts["role"],
                facts["kind"],
                facts["n_missing"] or "",
                " ".join(facts["marks"]),
                facts["n_distinct"],
                facts["values"],
            ]
            for name, facts in found["columns"].items()
        ],
    )
    for warning in found["warnings"]:
        console.warn(warning)
    if target is None:
        console.say(
            "name the column to predict to see its task, splits and problems: --target COLUMN"
        )
        return OK
    console.say(f"target {target}: {found['task']}; {found['target']}")
    sizes = ", ".join(f"{part} {n:,}" for part, n in found["sizes"].items())
    folds = count(found["n_folds"], "fold")
    console.say(f"protocol {found['protocol']}: {folds}; rows of the first: {sizes}")
    say_flags(console, found["flags"])
    return OK
