"""`bench predict`: every row of a file by a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..arguments import CHECKPOINTS
from ..console import OK, Console, common


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="CSV to write.")
@click.option(
    "--trust",
    multiple=True,
    metavar="PACKAGE.MODULE:CLASS",
    help="Allow the file to import this class. Repeatable.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Add columns lower and upper, between which this share of targets lies; for numbers.",
)
@CHECKPOINTS
@common
def predict(console: Console, model: Path, file: Path, out: Path, **given: Any) -> int:
    """Predict every row of a file with a model that `bench fit` saved. Columns that the model does
    not know, such as identifiers, are copied."""
    from ..outcome.file_predictions import predict_file

    if given["trust"]:
        from ..running.request import import_folders

        import_folders(given["trust"])
    n = predict_file(model, file, out, warn=console.warn, **given)
    console.data({"rows": n, "out": str(out)})
    console.say(f"{n} predictions in {out}")
    return OK
