"""A model that `bench fit` saved, as MLflow knows models: logged, registered, and loaded by pyfunc.

MLflow stores the model file itself; no pickle is written. `mlflow.pyfunc.load_model` reads it
through `_load_pyfunc` below, so tabsweep must be installed wherever the model is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...models.persistence.model_file import Fitted, load_model
from ...sweeps.store.ledger import Ledger
from .experiments import experiment_of
from .mapping import project
from .store import Refused, check, default_uri, opened, user_of

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

TRUST_VARIABLE = "TABSWEEP_TRUST"  # classes from outside that a loaded model may import
EXAMPLE_ROWS = 5


class PyFunc:
    """What `mlflow.pyfunc.load_model` gives: `predict` of a frame with the columns of training."""

    def __init__(self, fitted: Fitted) -> None:
        self.fitted = fitted

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """(N,) values or class labels; with params={"probabilities": True} a frame (N, C) of the
        probabilities of the classes."""
        if (params or {}).get("probabilities"):
            names = [str(label) for label in self.fitted.labels]
            return pd.DataFrame(self.fitted.predict_proba(model_input), columns=names)
        return self.fitted.predict(model_input)


def _load_pyfunc(path: str) -> PyFunc:
    """MLflow's way in. Classes from outside tabsweep are imported only where TABSWEEP_TRUST names
    them, separated by commas."""
    trust = [name for name in os.environ.get(TRUST_VARIABLE, "").split(",") if name]
    return PyFunc(load_model(path, trust=trust))


@dataclass(frozen=True)
class Logged:
    """Where a model went: its registered name and version, its address and its run in MLflow."""

    name: str
    version: str
    uri: str
    run_id: str


def log_fitted(
    path: Path,
    run: Path,
    example: pd.DataFrame,
    *,
    name: str | None = None,
    uri: str | None = None,
    trust: tuple[str, ...] = (),
) -> Logged:
    """Log a model file with its signature and an input example, and register it.

    run: the folder of the sweep that chose the model; its experiment shows it. example: rows of its
    training data. name: the registered name; default <dataset>-<model>. Raises TrackingError.
    """
    from mlflow.exceptions import MlflowException

    uri = check(uri or default_uri(run))
    fitted = load_model(path, trust=trust)
    dataset = str(fitted.about.get("dataset", "table"))
    registered = name or re.sub(r"[/:]+", "-", f"{dataset}-{fitted.name}")
    shown = project(Ledger(run))
    with opened(uri, run) as client:
        found = experiment_of(client, shown, run, uri)
        tags = {
            "dataset": dataset,
            "model": fitted.name,
            "run": run.resolve().name,
            "fitted_run_id": shown.run_id,
            "mlflow.user": user_of(uri),
            "mlflow.source.name": "bench fit",
            "mlflow.source.type": "LOCAL",
            "mlflow.note.content": f"{fitted.name} fitted on {fitted.about.get('fitted_on')}",
        }
        made = client.create_run(
            found.experiment_id, tags=tags, run_name=f"{dataset}/{fitted.name} (fit)"
        )
        id = made.info.run_id
        try:
            version = _log(id, uri, path, fitted, example, registered)
        except MlflowException as error:
            if error.error_code != "PERMISSION_DENIED":
                raise
            raise Refused(
                f"the registered model {registered!r} belongs to somebody else: name another with "
                f"--register-as ({type(error).__name__})"
            ) from None
    return Logged(registered, version, f"models:/{registered}/{version}", id)


def _log(
    id: str, uri: str, path: Path, fitted: Fitted, example: pd.DataFrame, registered: str
) -> str:
    """Write what a run of MLflow shows of a model, with the model; returns its version in the
    registry."""
    import mlflow

    about = fitted.about
    needed = fitted.libraries
    validation = about.get("validation", {})
    mlflow.set_tracking_uri(uri)
    with mlflow.start_run(run_id=id):  # which has failed where anything is raised within
        if isinstance(validation, Mapping) and "mean" in validation:
            mlflow.log_metric(f"val_{validation['metric']}", float(validation["mean"]))
        config = dict(about.get("chosen_config", {}))
        mlflow.log_params({key: str(value)[:6000] for key, value in config.items()})
        info = mlflow.pyfunc.log_model(
            name="model",
            loader_module=__name__,
            data_path=str(path),
            signature=signature_of(fitted, example),
            input_example=plain_rows(example.iloc[:EXAMPLE_ROWS], fitted),
            registered_model_name=registered,
            pip_requirements=[f"{name}=={v}" for name, v in needed.items() if v != "absent"],
        )
    return str(info.registered_model_version)


def plain_rows(frame: pd.DataFrame, fitted: Fitted) -> pd.DataFrame:
    """Rows as a client would send them: numbers as float64, dates and texts as texts, categories as
    texts or numbers."""
    parts = {}
    for column in fitted.schema.columns:
        values = frame[column.name]
        if column.kind == "numeric":
            parts[column.name] = values.astype("float64")
        elif column.kind == "date":
            parts[column.name] = values.dt.strftime("%Y-%m-%dT%H:%M:%S").astype(object)
        else:
            plain = values.astype(object)
            parts[column.name] = plain.where(plain.notna(), None)
    return pd.DataFrame(parts).reset_index(drop=True)


def signature_of(fitted: Fitted, frame: pd.DataFrame) -> ModelSignature:
    """Columns by name, what comes out, and the one parameter, from the training rows.

    Doubles and texts; any type where whole numbers were seen, because MLflow refuses integers for
    a double and fractions for a long, and where the file of the training rows wrote numbers in a
    style ("13,3"), so that its cells can be sent as they are. Categories may be missing.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import AnyType

    columns: list[Any] = []
    for column in fitted.schema.columns:
        numeric = column.kind == "numeric"
        if numeric:
            values = frame[column.name].astype("float64").dropna()
            plain = bool((values % 1 != 0).any()) and not column.style
        else:
            texts = all(isinstance(level, str) for level in column.categories)
            plain = texts and column.kind != "date"
        kind = (DataType.double if numeric else DataType.string) if plain else AnyType()
        columns.append(ColSpec(kind, str(column.name), required=numeric))
    rows = plain_rows(frame.iloc[:EXAMPLE_ROWS], fitted)
    out = fitted.predict(rows)
    kind = DataType.double if fitted.schema.task == "regression" else DataType.string
    if kind is DataType.string and not all(isinstance(value, str) for value in out):
        outputs = None  # labels that are numbers: MLflow's types would change them
    else:
        answer: Any = [ColSpec(kind)]
        outputs = Schema(answer)
    flag = ParamSpec("probabilities", DataType.boolean, default=False)
    params: Any = None if fitted.schema.task == "regression" else ParamSchema([flag])
    return ModelSignature(inputs=Schema(columns), outputs=outputs, params=params)
