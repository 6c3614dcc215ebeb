"""`bench export`: a run's trials for Optuna's tools, as CSV or as Parquet."""

from __future__ import annotations

from pathlib import Path

import click

from ...arguments import RUN
from ...console import OK, Console, common, count
from ...errors import check_run

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@RUN
@click.option("--optuna", metavar="URL", help="A storage of Optuna, such as sqlite:///studies.db.")
@click.option("--csv", type=FOLDER, metavar="FOLDER", help="Write trials.csv and curves.csv there.")
@click.option("--parquet", type=FOLDER, metavar="FOLDER", help="The same as Parquet.")
@common
def export(
    console: Console, run: Path, optuna: str | None, csv: Path | None, parquet: Path | None
) -> int:
    """Write the trials of a run, with values and curves, for other tools.

    \b
    bench export runs/uci-small-quick --optuna sqlite:///studies.db
    bench export runs/uci-small-quick --csv trials/ --parquet trials/

    With --optuna, each dataset, fold and model is a study that optuna.load_study,
    optuna.visualization and optuna-dashboard open.
    """
    if not (optuna or csv or parquet):
        raise click.UsageError("say what to write: --optuna URL, --csv FOLDER or --parquet FOLDER")
    check_run(run)
    from ...outcome.run_export import to_optuna, to_tables

    studies = to_optuna(run, optuna) if optuna else []
    files = [
        path
        for folder, kind in ((csv, "csv"), (parquet, "parquet"))
        if folder
        for path in to_tables(run, folder, kind)
    ]
    console.data({"studies": studies, "files": [str(path) for path in files]})
    for path in files:
        console.say(str(path))
    if studies:
        console.say(f"{count(len(studies), 'study')} in {optuna}, the first:")
        console.say(f'optuna.load_study(study_name="{studies[0]}", storage="{optuna}")')
    return OK
