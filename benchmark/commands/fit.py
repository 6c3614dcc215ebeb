"""`bench fit`: a run's chosen configuration, fitted on all data, saved, and logged to MLflow."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..arguments import CHECKPOINTS, DATA, RUN, named_model
from ..console import OK, Console, common
from ..errors import check_run
from .track import STORE


@click.command()
@RUN
@click.option(
    "--model",
    callback=named_model,
    help="Default: the best by validation, which may be an ensemble.",
)
@click.option("--single", is_flag=True, help="One model, no ensemble.")
@click.option("--dataset", help="Needed where the run has several.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write.")
@click.option("--csv", type=click.Path(path_type=Path), help="The run's CSV, where it has moved.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    help="cuda: a model that uses a GPU is fitted on one.",
)
@click.option("--mlflow", is_flag=True, help="Log the model to MLflow, too, and register it there.")
@click.option(
    "--register-as", metavar="NAME", help="With --mlflow: its name there; default DATASET-MODEL."
)
@DATA
@CHECKPOINTS
@STORE
@common
def fit(
    console: Console,
    run: Path,
    mlflow: bool,
    register_as: str | None,
    tracking_uri: str | None,
    device: str,
    **given: Any,
) -> int:
    """Fit what a run chose on all data, one model or an ensemble; save it with its preprocessing.

    \b
    bench fit runs/csv-houses-quick --out houses.tabsweep
    bench fit runs/csv-houses-quick --mlflow   # for mlflow.pyfunc.load_model
    """
    check_run(run)
    if register_as and not mlflow:
        raise click.UsageError("--register-as needs --mlflow")
    origin = click.get_current_context().get_parameter_source("tracking_uri")
    if origin is ParameterSource.COMMANDLINE and not mlflow:
        raise click.UsageError("--tracking-uri needs --mlflow")
    from ..outcome.fit_and_save import fit_chosen

    if given["model"]:
        from ..running.request import import_folders

        import_folders([given["model"]])
    path = fit_chosen(run, note=console.say, device=device, **given)
    console.data({"model": str(path)})
    console.say(str(path))
    if mlflow:
        _log_chosen(console, run, path, name=register_as, tracking_uri=tracking_uri, **given)
    return OK


def _log_chosen(
    console: Console,
    run: Path,
    path: Path,
    *,
    name: str | None,
    tracking_uri: str | None,
    model: str | None,
    dataset: str | None,
    csv: str | Path | None,
    **_: Any,
) -> None:
    """Log the file that `fit_chosen` has written with the first rows of its data as the example;
    print how it is loaded."""
    from ..outcome.chosen_fit import read_data, read_run
    from ..tracking.model import TRUST_VARIABLE, log_fitted
    from ..tracking.store import Unreachable, default_uri, redact

    table, _folds = read_data(read_run(run, dataset), csv)
    outside = (model,) if model and ":" in model else ()
    try:
        logged = log_fitted(path, run, table.frame, name=name, uri=tracking_uri, trust=outside)
    except Unreachable as error:
        raise Unreachable(
            f"{error}; the model is saved in {path}: run the same command when the server is up, "
            "or without --tracking-uri, which registers it in the run's own mlflow.db"
        ) from None
    uri = redact(tracking_uri or default_uri(run))
    console.data({"model": str(path), "mlflow": logged.uri, "run_id": logged.run_id})
    console.say(
        f"registered in MLflow ({uri}) as {logged.name}, version {logged.version}; load it:"
    )
    trust = f"{TRUST_VARIABLE}={shlex.quote(model)} " if outside and model else ""
    console.say(
        f"{trust}MLFLOW_TRACKING_URI={shlex.quote(uri)} python -c "
        f"'import mlflow; model = mlflow.pyfunc.load_model(\"{logged.uri}\")'"
    )
