"""Notes of a plan: models on GPUs, limits of time, checkpoints of pretrained models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...datasets import catalog
from ...datasets.errors import DataError
from ...models.in_context.checkpoint_file import CheckpointError, CheckpointFile, checkpoint_of
from ...models.model_spec import ModelSpec
from .space_overrides import PlanError


def device_notes(specs: Mapping[str, ModelSpec]) -> list[str]:
    """Which models of a sweep with GPUs compute on them, and why one that could does not."""
    places = {name: spec.on_gpu() for name, spec in specs.items()}
    on_gpus = ", ".join(name for name, (device, _) in places.items() if device != "cpu")
    on_cpus = ", ".join(name for name, (device, _) in places.items() if device == "cpu")
    notes = [f"Trials on GPUs: {on_gpus or 'none'}; on CPUs: {on_cpus or 'none'}."]
    notes += [f"{name} runs on CPUs: {why}." for name, (_, why) in places.items() if why]
    return notes


def time_notes(
    study_s: float | None, time_limit_s: float | None, specs: Mapping[str, ModelSpec]
) -> list[str]:
    """What limits of time mean for the tables, one sentence a limit; none without."""
    found = []
    if study_s is not None:
        found.append(
            "These tables depend on the machine: a study searches no further once its tuning "
            f"trials have taken {study_s:g} CPU seconds."
        )
    if time_limit_s is not None:
        whole = sorted(name for name, spec in specs.items() if not spec.resource)
        never = f"; fits of {', '.join(whole)} know no such limit" if whole else ""
        found.append(
            f"These tables depend on the machine: a fit ends after {time_limit_s:g} s with its "
            f"best steps so far{never}."
        )
    return found


def refuse_time_limits(model: str, study_s: float | None, time_limit_s: float | None) -> None:
    """Raises PlanError for a limit of time on a model whose fits are in pieces."""
    limits = {"study_s": study_s, "time_limit_s": time_limit_s}
    given = [name for name, limit in limits.items() if limit is not None]
    if given:
        raise PlanError(
            f"{' and '.join(given)} of model {model!r}: does not go with halving, save_every or "
            "--async, whose fits end at given steps; leave one of them out"
        )


def pinned(spec: ModelSpec, task: str) -> dict[str, str]:
    """{"checkpoint": sha256} of a model that needs a file of the user's, else {}. Raises
    PlanError."""
    if not spec.checkpoint:
        return {}
    return {"checkpoint": _file(spec, task).sha256}


def _file(spec: ModelSpec, task: str) -> CheckpointFile:
    try:
        return checkpoint_of(spec.target.rpartition(".")[2].partition(":")[0], task)
    except CheckpointError as error:
        raise PlanError(str(error)) from None


class HasTask(Protocol):
    """A table, of which the task counts here."""

    task: str


class Described(Protocol):
    """A dataset of a plan (`plan.Data`)."""

    @property
    def table(self) -> HasTask:
        """Its table."""

    @property
    def description(self) -> Mapping[str, Any]:
        """What the plan keeps of it; "added" names the added dataset that it is."""


def contamination_notes(specs: Mapping[str, ModelSpec], data: Mapping[str, Described]) -> list[str]:
    """One sentence for each checkpoint of the plan: which of the plan's datasets it was pretrained
    on, by the list beside it."""
    notes: list[str] = []
    if not any(spec.checkpoint for spec in specs.values()):
        return notes
    tasks = {name: one.table.task for name, one in data.items()}
    added = {name: str(one.description.get("added") or "") for name, one in data.items()}
    for model, spec in sorted(specs.items()):
        if not spec.checkpoint:
            continue
        by_file: dict[CheckpointFile, list[str]] = {}
        for dataset, task in sorted(tasks.items()):
            if task in spec.tasks:
                by_file.setdefault(_file(spec, task), []).append(dataset)
        for file, datasets in by_file.items():
            notes.append(_note(model, file, datasets, added))
    return notes


def _note(
    model: str, file: CheckpointFile, datasets: Iterable[str], added: Mapping[str, str]
) -> str:
    known = file.trained_on
    named = f"{model} (checkpoint {file.sha256[:12]})"
    if known is None:
        return (
            f"Pretrained: {named}; no list of its pretraining datasets lies beside the file, so it "
            "is not known whether it has seen datasets of this sweep."
        )
    seen = [d for d in datasets if _names(d, added.get(d, "")) & {k.lower() for k in known}]
    if not seen:
        return (
            f"Pretrained: {named}; none of the {len(known)} datasets on its list is in this sweep."
        )
    return (
        f"Contamination: {named} was pretrained on {', '.join(seen)} by the list beside the file: "
        "its scores there are not scores on unseen data."
    )


def _names(dataset: str, added: str) -> set[str]:
    """What a list may call a dataset."""
    names = {dataset.lower(), added.lower()} - {""}
    try:
        options = catalog.card(added or dataset).options
    except DataError:  # a file of this sweep alone
        return names
    return names | ({f"openml:{options['dataset']}"} if "dataset" in options else set())
