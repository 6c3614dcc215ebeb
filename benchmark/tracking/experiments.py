"""Experiments of MLflow: found or made by name, one of one's own where another user's is closed.

On a server with users an experiment belongs to whoever made it, and others may look at it or not
even that. A second user of a name gets an experiment with the user's name added to it.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .store import Refused, is_server, redact

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

VIEW = "tabsweep"  # the name of the view, which an address selects by ?viewStateShareKey=
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"  # where MLflow's UI looks for it


def user_of(uri: str) -> str:
    """The name that runs are written under: the server's user where one is named, else the
    system's."""
    if is_server(uri):
        from mlflow.utils.credentials import read_mlflow_creds

        named = unquote(urlsplit(uri).username or "") or read_mlflow_creds().username
        if named:
            return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"


def view_of(metrics: Iterable[str]) -> str:
    """The first view of an experiment's runs as MLflow's UI keeps one: which columns are shown.

    metrics: the metrics that the suite judges by. Every run has the names of its dataset and model
    as tags; the column of its duration is always shown.
    """
    columns = ["tags.`dataset`", "tags.`model`", "metrics.`rank`"]
    columns += [f"metrics.`test_{name}`" for name in dict.fromkeys(metrics)]
    columns.append("metrics.`total_fit_s`")
    return json.dumps({"selectedColumns": columns, "columnOrder": columns})


def page_of(experiment_id: str) -> str:
    """The part of an address that opens an experiment's runs in the view `view_of`."""
    return (
        f"/#/experiments/{experiment_id}/runs"
        f"?workflowType=machine_learning&viewStateShareKey={VIEW}"
    )


def experiment_of(
    client: MlflowClient, name: str, note: str, view: str, run: Path, uri: str
) -> Any:
    """The experiment of this name that may be written to, made where it is not there. note: its
    description; view: see `view_of`.

    Raises Refused where it was deleted, or where the user may make none.
    """
    from mlflow.exceptions import MlflowException

    own = f"{name} ({user_of(uri)})"
    for tried in (name, own):
        try:
            return _opened(client, tried, note, view, run, uri)
        except MlflowException as error:
            if error.error_code != "PERMISSION_DENIED":
                raise
    raise Refused(
        f"{redact(uri)} refuses {user_of(uri)!r} (403): neither the suite's experiment nor "
        f"{own!r} may be written to; ask its administrator for permission to make experiments"
    )


def _opened(client: MlflowClient, name: str, note: str, view: str, run: Path, uri: str) -> Any:
    from mlflow.exceptions import MlflowException

    experiment: Any = client.get_experiment_by_name(name)
    if experiment is None:
        place = None if is_server(uri) else (run.resolve() / "mlartifacts").as_uri()
        described = {"mlflow.note.content": note}
        try:
            client.create_experiment(name, artifact_location=place, tags=described)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
                raise
        experiment = client.get_experiment_by_name(name)
    if experiment.lifecycle_stage == "deleted":
        raise Refused(
            f"the experiment {name!r} was deleted in {redact(uri)}: restore it with "
            f"`mlflow experiments restore -x {experiment.experiment_id}`, then sync again"
        )
    # On a server always: its answer says whether this user may write.
    if is_server(uri) or experiment.tags.get(VIEW_TAG) != view:
        client.set_experiment_tag(experiment.experiment_id, VIEW_TAG, view)
    return experiment
