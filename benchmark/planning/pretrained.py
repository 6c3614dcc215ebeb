"""Pretrained models in a plan: their checkpoint in every trial, and notes for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...datasets import catalog
from ...datasets.errors import DataError
from ...models.in_context.checkpoint_file import CheckpointError, CheckpointFile, checkpoint_of
from ...models.model_spec import ModelSpec
from .space_overrides import PlanError


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


def contamination_notes(specs: Mapping[str, ModelSpec], data: Mapping[str, Any]) -> list[str]:
    """One sentence for each checkpoint of the plan: which of the plan's datasets it was pretrained
    on, by the list beside it. data: {dataset: its `plan.Data`}."""
    notes: list[str] = []
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
    """The names under which a list of pretraining data may have a dataset."""
    names = {dataset.lower(), added.lower()} - {""}
    try:
        options = catalog.card(added or dataset).options
    except DataError:  # a file of this sweep alone
        return names
    return names | ({f"openml:{options['dataset']}"} if "dataset" in options else set())
