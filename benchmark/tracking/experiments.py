"""Experiments of MLflow: found by name, or made; a second user of a name gets one of their own.

On a server with users an experiment belongs to whoever made it. Others may at most look at it. The
experiment of a second user has the user's name added to its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .mapping import Projection
from .store import Refused, is_server, redact, user_of

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

VIEW = "tabsweep"  # the name of the view, which an address selects by ?viewStateShareKey=
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"  # where MLflow's UI looks for it


def experiment_of(client: MlflowClient, shown: Projection, run: Path, uri: str) -> Any:
    """The experiment of a run that may be written to, made where it is not there.

    Raises Refused where it was deleted, or where the user may make none.
    """
    from mlflow.exceptions import MlflowException

    own = f"{shown.experiment} ({user_of(uri)})"
    for name in (shown.experiment, own):
        try:
            return _opened(client, name, shown, run, uri)
        except MlflowException as error:
            if error.error_code != "PERMISSION_DENIED":
                raise
    raise Refused(
        f"{redact(uri)} refuses {user_of(uri)!r} (403): neither the suite's experiment nor "
        f"{own!r} may be written to; ask its administrator for permission to make experiments"
    )


def _view(metrics: list[str]) -> str:
    """The first view of an experiment's runs as MLflow's UI keeps one: which columns are shown.

    Every run has the names of its dataset and model as tags; the column of its duration is always
    shown.
    """
    columns = ["tags.`dataset`", "tags.`model`", "metrics.`rank`"]
    columns += [f"metrics.`test_{name}`" for name in metrics]
    columns.append("metrics.`total_fit_s`")
    return json.dumps({"selectedColumns": columns, "columnOrder": columns})


def _opened(client: MlflowClient, name: str, shown: Projection, run: Path, uri: str) -> Any:
    from mlflow.exceptions import MlflowException

    experiment: Any = client.get_experiment_by_name(name)
    if experiment is None:
        place = None if is_server(uri) else (run.resolve() / "mlartifacts").as_uri()
        described = {"mlflow.note.content": shown.note}
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
    view = _view(shown.metrics)
    if is_server(uri) or experiment.tags.get(VIEW_TAG) != view:
        client.set_experiment_tag(experiment.experiment_id, VIEW_TAG, view)
    return experiment
