"""`bench track sync` and `ui`: runs in MLflow, and its page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from click.core import ParameterSource

from ..arguments import RUN
from ..console import ENVIRONMENT, OK, Console, common
from ..errors import check_run


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


@click.group()
def track() -> None:
    """Bring runs into MLflow."""


@track.command("sync", short_help="Bring MLflow up to date with a run.")
@RUN
@click.option(
    "--trials",
    type=click.IntRange(min=0),
    help="Write one MLflow run per trial if the sweep has at most this many trials.  "
    "[default: as in the run's last sync; at first 1000]",
)
@STORE
@common
def track_sync(console: Console, run: Path, trials: int | None, tracking_uri: str | None) -> int:
    """Bring MLflow up to date with the run's ledger; a second call adds nothing."""
    check_run(run)
    from ..tracking.sync import sync
    from ..tracking.ui import place_of

    synced = sync(run, uri=tracking_uri, trials_shown=trials)
    console.data(asdict(synced))
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
