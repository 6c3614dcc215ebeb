"""`bench fit --mlflow`: the saved model logged to MLflow and registered there."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ..console import Console
from ..outcome.chosen_fit import read_data, read_run
from ..tracking.model import TRUST_VARIABLE, log_fitted
from ..tracking.store import Unreachable, default_uri, redact


def log_chosen(
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
