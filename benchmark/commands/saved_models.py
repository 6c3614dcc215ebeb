"""`bench fit`, `predict`, `track sync` and `ui` on the command line: saved models, and MLflow."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..arguments import CHECKPOINTS, RUN, named_model
from ..console import ENVIRONMENT, OK, Console, common
from ..errors import check_run
from ..planning.options import DATA


def _store(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    if given != "none":
        return given
    if context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT:
        return None  # there it keeps sweeps from tracking; such a command is asked for MLflow
    raise click.BadParameter(
        "'none' keeps a sweep from writing to MLflow; leave it out here for mlflow.db in the run's "
        "folder, or give the address of a server"
    )


STORE = click.option(
    "--tracking-uri",
    envvar="TABSWEEP_TRACKING_URI",
    callback=_store,
    help="MLflow server; default, also where the variable says none: SQLite in the run's folder.",
)


@click.command()
@RUN
@click.option(
    "--model",
    callback=named_model,
    help="Default: the best by validation score.",
)
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
    """Fit the configuration that a run chose on all data; save it with its preprocessing.

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
    from .fit import fit_chosen

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
    mirror: str | None,
    cache: str | None,
    csv: str | Path | None,
    **_: Any,
) -> None:
    """Log the file that `fit_chosen` has written with the first rows of its data as the example;
    print how it is loaded."""
    from ..outcome.chosen_fit import read_data, read_run
    from ..tracking.model import TRUST_VARIABLE, log_fitted
    from ..tracking.store import Unreachable, default_uri, redact

    table, _folds = read_data(read_run(run, dataset), mirror=mirror, cache=cache, csv=csv)
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
    from .predict import predict_file

    if given["trust"]:
        from ..running.request import import_folders

        import_folders(given["trust"])
    n = predict_file(model, file, out, warn=console.warn, **given)
    console.data({"rows": n, "out": str(out)})
    console.say(f"{n} predictions in {out}")
    return OK


@click.group()
def track() -> None:
    """Bring runs into MLflow."""


@track.command("sync", short_help="Bring MLflow up to date with a run.")
@RUN
@click.option(
    "--trials",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Write one MLflow run per trial if the sweep has at most this many trials.",
)
@STORE
@common
def track_sync(console: Console, run: Path, trials: int, tracking_uri: str | None) -> int:
    """Bring MLflow up to date with the run's ledger; a second call adds nothing."""
    check_run(run)
    from ..tracking.sync import sync
    from ..tracking.ui import place_of

    synced = sync(run, uri=tracking_uri, trials_shown=trials)
    console.data(synced.to_data())
    console.say(str(synced))
    console.say(place_of(run, tracking_uri))
    return OK


@click.command()
@RUN
@STORE
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=5000,
    show_default=True,
    help="Port of the page, on 127.0.0.1.",
)
@common
def ui(console: Console, run: Path, tracking_uri: str | None, port: int) -> int:
    """Serve the MLflow UI for a run, on this machine only."""
    check_run(run)
    from ..tracking.ui import serve_ui

    return OK if serve_ui(run, tracking_uri, port, say=console.say) else ENVIRONMENT
