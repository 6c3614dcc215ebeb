"""Notes of a plan on its machine: which models compute on GPUs, and limits of time."""

from __future__ import annotations

from collections.abc import Mapping

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
