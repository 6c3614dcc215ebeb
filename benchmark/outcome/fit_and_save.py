"""The best configuration of a run, fitted on all rows and saved."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...datasets import catalog
from ...models import registry
from ...models.base import Estimator
from ...models.persistence.model_file import save_model
from ...models.persistence.schema import Schema
from ...reports.metrics import METRICS
from ..errors import check_gpu, file_to_replace
from .chosen_fit import (
    choose_config,
    choose_model,
    fit_all,
    importable,
    read_data,
    read_run,
    residuals_of,
)

SUFFIX = ".tabsweep"


def _told(described: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(the column that the owner of a file has to be predicted, the texts that he named as marks of
    missing values) of a planned dataset; ("", []) of others."""
    if described.get("added"):
        card = catalog.card(described["added"])
        target = card.target if card.parser in ("file", "openml") else ""
        return target, list(card.options.get("missing", ()))
    csv = described.get("csv") or {}
    return csv.get("target", ""), list(csv.get("missing", ()))


def fit_chosen(
    run: str | Path,
    *,
    model: str | None = None,
    dataset: str | None = None,
    out: str | Path | None = None,
    mirror: str | None = None,
    cache: str | None = None,
    csv: str | Path | None = None,
    device: str = "cpu",
    note: Callable[[str], None] = lambda text: None,
) -> Path:
    """Fit the chosen configuration (see `chosen_fit.py`) on all rows and save it.

    Returns the path of the file.

    out: a file, or a folder; default `<run>/fitted/<dataset>--<model>.tabsweep`. csv: where the
    run's CSV lies now, if it moved. device: "cuda" for a fit on a GPU, where the model uses one.
    note: called with each line of progress. Errors: FitError, NoGpu, LedgerError, DataError,
    ModelFileError. The same run gives the same bytes on a CPU.
    """
    run = Path(run)
    results = read_run(run, dataset)
    name = choose_model(results, model)
    asked = importable(results, name, [model])
    path = place(run, out, results.dataset, name)
    if device != "cpu" and registry.spec(asked).gpu_mb:
        check_gpu(device, [name])
        results.device = registry.spec(asked).on_gpu()[0]
    table, folds = read_data(results, mirror=mirror, cache=cache, csv=csv)
    choice = choose_config(results, name, asked, (table, folds), note)
    estimator, encoder, training, weights, fitted_on = fit_all(
        asked, choice, table, folds, results.seed, results.time_limit_s, results.device
    )
    target, marks = _told(results.described)
    schema = Schema.of(
        table.frame,
        table.task,
        classes=table.classes,
        target=target,
        styles=table.styles,
    )
    score = METRICS[results.metric].loss(choice.loss)
    n_folds = len(results.chosen[name])
    about = {
        "dataset": results.dataset,
        "data_sha256": table.sha256,
        "suite": results.plan["suite"]["name"],
        "budget": results.plan["options"]["budget"],
        "seed": results.seed,
        "chosen_config": choice.config,
        "chosen_among": choice.n_configs,
        "validation": {"metric": results.metric, "mean": score, "folds": n_folds},
        "named": model is not None,
        "fitted_on": fitted_on,
    }
    if table.task == "regression":
        about["residuals"] = residuals_of(results, name, table, folds).tolist()
    if table.costs:
        about["costs"] = table.costs
    if marks:
        about["missing"] = marks
    path.parent.mkdir(parents=True, exist_ok=True)
    config = None if isinstance(estimator, Estimator) else choice.config
    save_model(
        estimator,
        path,
        schema=schema,
        encoder=encoder,
        name=asked,
        config=config,
        training=training,
        weights=weights,
        about=about,
    )
    note(
        f"{name} on {results.dataset}: validation {results.metric} {score:.4g} (mean of {n_folds} "
        f"fold{'s' * (n_folds > 1)}); fitted on {fitted_on}; saved in {path}"
    )
    return path


def place(run: Path, out: str | Path | None, dataset: str, model: str) -> Path:
    """Where to save; FitError before any fit where that cannot be."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-.")[:60] or "model"
    if slug != model:  # names that differ in odd signs alone have files of their own
        slug += "-" + hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    file = f"{dataset}--{slug}{SUFFIX}"
    if out is None:
        return run / "fitted" / file
    path = Path(out)
    if path.is_dir():
        return path / file
    return file_to_replace(path)
