"""What a run chose, fitted on all rows and saved."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.counting import count
from ...common.files import write_atomically
from ...common.tasks import REGRESSION
from ...datasets import catalog
from ...models import registry
from ...models.base import Estimator
from ...models.persistence.archive import MAX_BYTES
from ...models.persistence.ensemble_file import save_ensemble
from ...models.persistence.fitted import Fitted, FittedEnsemble
from ...models.persistence.model_file import model_bytes
from ...models.persistence.schema import Schema
from ...reports.analyses.ensemble_selection import bounds
from ...reports.metrics import METRICS
from ..errors import check_gpu, file_to_replace
from ..planning.plan_record import PlannedDataset
from .chosen_bags import BagChoice, choose_bags, fit_bag
from .chosen_fit import (
    FittedPart,
    Run,
    choose_config,
    choose_model,
    fit_all,
    importable,
    read_data,
    read_run,
    residuals_of,
    thinned,
)

if TYPE_CHECKING:
    from ...datasets.protocols import Fold
    from ...datasets.table import Table

SUFFIX = ".tabsweep"


def _told(described: PlannedDataset) -> tuple[str, list[str]]:
    """(the column that the owner of a file has to be predicted, the texts that he named as marks of
    missing values) of a planned dataset; ("", []) of others."""
    if described.added:
        card = catalog.card(described.added)
        target = card.target if card.parser in ("file", "openml") else ""
        return target, list(card.options.get("missing", ()))
    return described.csv.get("target", ""), list(described.csv.get("missing", ()))


def fit_chosen(
    run: str | Path,
    *,
    model: str | None = None,
    single: bool = False,
    dataset: str | None = None,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    device: str = "cpu",
    note: Callable[[str], None] = lambda text: None,
) -> Path:
    """Fit what a run chose on all rows and save it: an ensemble of bags or the bag of one model
    (`chosen_bags.py`); of a run without bags the chosen configuration (`chosen_fit.py`).

    Returns the path of the file.

    single: no ensemble. out: a file, or a folder; default
    `<run>/fitted/<dataset>--<model>.tabsweep`. csv: where the run's CSV lies now, if it moved.
    device: "cuda" for a fit on a GPU, where the model uses one. note: called with each line of
    progress. Errors: FitError, NoGpu, LedgerError, DataError, ModelFileError. The same run gives
    the same bytes on a CPU.
    """
    results = read_run(Path(run), dataset)
    files = [Path(csv)] if csv else []

    def choose() -> BagChoice:
        return choose_bags(results, model, single=single, files=files)

    choice = choose() if results.n_members else None
    models = list(choice.weights) if choice else [choose_model(results, model)]
    asked = {each: importable(results, each, [model]) for each in models}
    name = choice.name if choice else models[0]
    path = place(results.folder, out, results.dataset, name)
    users = [registry.spec(each) for each in asked.values() if registry.spec(each).gpu_mb]
    if device != "cpu" and users:
        check_gpu(device, [spec.name for spec in users])
        results.device = users[0].on_gpu()[0]
    table, folds = read_data(results, csv)
    job = Job(results, asked, table, folds, {"named": model is not None}, note)
    while choice is not None and (large := _fit_bags(job, choice)):
        size, most = (f"{n / 1e6:,.0f} MB" for n in (job.bytes_of(large), MAX_BYTES))
        note(f"{large} is left out: its fits take {size}, and a file of models at most {most}")
        del results.chosen[large]
        choice = choose()
        job.asked.update({each: importable(results, each, [model]) for each in choice.weights})
        name = choice.name
        path = place(results.folder, out, results.dataset, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    words = _save_one(job, path) if choice is None else _save_bags(job, choice, path)
    note(f"{name} on {results.dataset}: {words}; saved in {path}")
    return path


@dataclass(frozen=True)
class Job:
    """A fit to save, with what is said `about` it: of the models `asked` {name: the registry's
    name} that a run chose, on a table with the run's folds. `note` is called with each line of
    progress. bags: {name: fitted members, each with its model file}."""

    run: Run
    asked: dict[str, str]
    table: Table
    folds: Mapping[int, Fold]
    about: dict[str, Any]
    note: Callable[[str], None]
    bags: dict[str, list[tuple[FittedPart, bytes]]] = field(default_factory=dict)

    def bytes_of(self, name: str) -> int:
        """The bytes of a model's bag, 0 before it is fitted."""
        return sum(len(file) for _, file in self.bags.get(name, ()))


def _save_one(job: Job, path: Path) -> str:
    """Fit and save the chosen configuration of one model; returns what it is, in words."""
    run, table, folds, about = job.run, job.table, job.folds, job.about
    ((name, registered),) = job.asked.items()
    choice = choose_config(run, name, registered, (table, folds), job.note)
    part, fitted_on = fit_all(
        registered, choice, table, folds, run.seed, run.time_limit_s, run.device
    )
    score, n_folds = METRICS[run.metric].loss(choice.loss), len(run.chosen[name])
    about |= {
        "chosen_config": choice.config,
        "chosen_among": choice.n_configs,
        "validation": {"metric": run.metric, "mean": score, "folds": n_folds},
        "fitted_on": fitted_on,
    }
    if table.task == REGRESSION:
        about["residuals"] = residuals_of(run, name, table, folds).tolist()
    schema = schema_of(run, table)
    data = _bytes_of(part, schema, registered, choice.config, about | remarks(run, table))
    write_atomically(path, data)
    mean = f"mean of {count(n_folds, 'fold')}"
    return f"validation {run.metric} {score:.4g} ({mean}); fitted on {fitted_on}"


def _fit_bags(job: Job, choice: BagChoice) -> str | None:
    """Fit the bags of a choice that are not fitted yet. Returns the largest model of an ensemble
    that one file does not hold, as soon as that is known."""
    run, asked, table = job.run, job.asked, job.table
    schema = schema_of(run, table)
    for name, share in choice.weights.items():
        if name not in job.bags:
            config = choice.configs[name]
            job.note(f"fitting {name}, {share:.0%} of the prediction, {run.n_members} times")
            members = fit_bag(run, name, asked[name], config, table, run.device)
            files = [_bytes_of(one, schema, asked[name], config) for one in members]
            job.bags[name] = list(zip(members, files, strict=True))
        if len(choice.weights) > 1 and sum(map(job.bytes_of, choice.weights)) > MAX_BYTES:
            return max(choice.weights, key=job.bytes_of)
    return None


def _save_bags(job: Job, choice: BagChoice, path: Path) -> str:
    """Save the fitted bags of a choice; returns what they are, in words."""
    run, asked, table = job.run, job.asked, job.table
    schema = schema_of(run, table)
    parts: list[tuple[float, bytes]] = []
    fitted: list[Fitted] = []
    for name, share in choice.weights.items():
        members = job.bags[name]
        parts += [(share / len(members), file) for _, file in members]
        fitted += [Fitted(m.estimator, schema, asked[name], "", {}, m.encoder) for m, _ in members]
    rows = f"all {table.n_rows} rows, {count(len(fitted), 'model')} each without one part of them"
    rows += ", by their weights" if table.weights is not None else ""
    about = job.about | {
        "chosen_config": choice.configs.get(choice.name, choice.configs),
        "weights": choice.weights,
        "validation": {
            "metric": run.metric,
            "mean": choice.val,
            "rows": choice.n_rows,
            "kind": "out of fold",
        },
        "fitted_on": rows,
    }
    if choice.residuals is not None:
        about["residuals"] = thinned(choice.residuals).tolist()
    within = bounds(table.target) if table.task == REGRESSION and len(choice.weights) > 1 else None
    about |= remarks(run, table) | ({"bounds": within} if within else {})
    save_ensemble(parts, path, schema=schema, name=asked.get(choice.name, choice.name), about=about)
    weights = tuple(weight for weight, _ in parts)
    whole = FittedEnsemble(None, schema, choice.name, "", about, None, tuple(fitted), weights)
    of = ", ".join(f"{name} {share:.0%}" for name, share in choice.weights.items())
    words = [
        f"{of}; " if len(choice.weights) > 1 else "",
        f"{run.metric} {choice.val:.4g} out of fold",
    ]
    words += [f" of {choice.n_rows} rows", f" ({choice.remark})" if choice.remark else ""]
    if within:
        words.append(", each model's values cut at {:.4g} and {:.4g}".format(*within))
    size_mb = path.stat().st_size / 1e6
    words += [f"; fitted on {rows}; a row is predicted in {_one_row_ms(whole, table):.3g} ms"]
    return "".join(words) + f", the file has {size_mb:.3g} MB"


def _one_row_ms(model: Fitted, table: Table) -> float:
    """Milliseconds in which a model predicts one row, the best of three."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        model.predict(table.frame.iloc[:1], warn=lambda text: None)
        times.append(1000 * (time.perf_counter() - began))
    return min(times)


def schema_of(run: Run, table: Table) -> Schema:
    """The columns that a model of a run's table is asked with."""
    target, _ = _told(run.described)
    return Schema.of(
        table.frame, table.task, classes=table.classes, target=target, styles=table.styles
    )


def remarks(run: Run, table: Table) -> dict[str, Any]:
    """Where a fitted model of a run comes from, and how it decides and reads."""
    _, marks = _told(run.described)
    return {
        "dataset": run.dataset,
        "data_sha256": table.sha256,
        "suite": run.plan.suite.name,
        "budget": run.plan.options.budget,
        "seed": run.seed,
        **({"costs": table.costs} if table.costs else {}),
        **({"missing": marks} if marks else {}),
    }


def _bytes_of(
    part: FittedPart,
    schema: Schema,
    name: str,
    config: Mapping[str, Any],
    about: Mapping[str, Any] | None = None,
) -> bytes:
    return model_bytes(
        part.estimator,
        schema=schema,
        encoder=part.encoder,
        name=name,
        config=None if isinstance(part.estimator, Estimator) else config,
        training=part.training,
        weights=part.weights,
        about=about,
    )


def place(run: Path, out: str | Path | None, dataset: str, model: str) -> Path:
    """The path of the file to save. Raises FitError, before any fit, where it cannot be written."""
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
