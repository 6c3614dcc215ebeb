"""Experiments of MLflow: found or made by name, one of one's own where another user's is closed.

On a server with users an experiment belongs to whoever made it, and others may look at it or not
even that. A second user of a name gets an experiment with the user's name added to it.
"""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .store import Refused, redact, scheme_of

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

KIND = "mlflow.experimentKind"
MODEL_TRAINING = "custom_model_development"  # which page the UI opens: runs, not traces


def user_of(uri: str) -> str:
    """The name that runs are written under: the server's user where one is named, else the
    system's."""
    if scheme_of(uri) in ("http", "https"):
        from mlflow.utils.credentials import read_mlflow_creds

        named = unquote(urlsplit(uri).username or "") or read_mlflow_creds().username
        if named:
            return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"


def experiment_of(client: MlflowClient, name: str, note: str, run: Path, uri: str) -> Any:
    """The experiment of this name that may be written to, made where it is not there.

    Raises Refused where it was deleted, or where the user may make none.
    """
    found = _open(client, name, note, run, uri)
    if found is None:
        name = f"{name} ({user_of(uri)})"
        found = _open(client, name, note, run, uri)
    if found is None:
        raise Refused(
            f"{redact(uri)} refuses {user_of(uri)!r} (403): neither the suite's experiment nor "
            f"{name!r} may be written to; ask its administrator for permission to make experiments"
        )
    return found


def _open(client: MlflowClient, name: str, note: str, run: Path, uri: str) -> Any:
    """The experiment, with the tag that opens it in the view of models; None for another user's."""
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_experiment_by_name(name) or _make(client, name, note, run, uri)
        if found.lifecycle_stage == "deleted":
            raise Refused(
                f"the experiment {name!r} was deleted in {redact(uri)}: restore it with "
                f"`mlflow experiments restore -x {found.experiment_id}`, then sync again"
            )
        if KIND not in found.tags or scheme_of(uri) in ("http", "https"):
            # On a server also to learn whether this user may write.
            client.set_experiment_tag(
                found.experiment_id, KIND, found.tags.get(KIND) or MODEL_TRAINING
            )
    except MlflowException as error:
        if error.error_code == "PERMISSION_DENIED":
            return None
        raise
    return found


def _make(client: MlflowClient, name: str, note: str, run: Path, uri: str) -> Any:
    from mlflow.exceptions import MlflowException

    local = scheme_of(uri) not in ("http", "https")
    place = (run.resolve() / "mlartifacts").as_uri() if local else None
    tags = {"mlflow.note.content": note, KIND: MODEL_TRAINING}
    try:
        return client.get_experiment(
            client.create_experiment(name, artifact_location=place, tags=tags)
        )
    except MlflowException:  # another process was faster
        found = client.get_experiment_by_name(name)
        if found is None:
            raise
        return found
