"""Changes that a suite makes to a model's search: pins, cuts, sight of test rows, limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...common.errors import Error
from ...common.text import did_you_mean, suggest
from ...models import registry
from ...sweeps.search.space import Choice, Fixed, Space, Variants
from ...sweeps.trial import canonical, digest

if TYPE_CHECKING:
    from .options import Options
    from .suite import Budget, Search

TRANSDUCTIVE = {
    "transductive": "saw the features of validation and test rows, without their targets, while "
    "training, and predicts rows together",
    "batch_prediction": "predicts test rows in batches in which they see each other's features",
}  # hyperparameters that let a model see test rows, and the meaning of the value true


class PlanError(Error):
    """A request that cannot be planned; the message names the fault and a request that works."""

    id = "BENCH-E002"


def resolve_space(model: str, name: str, task: str) -> tuple[Space, str]:
    """(space, its name). A model without a declared space has one point, its default configuration,
    under any name. Raises PlanError if the model declares other spaces only."""
    spaces = registry.spaces(model, task)
    if name not in spaces and list(spaces) == ["default"] and not spaces["default"]["params"]:
        name = "default"
    if name not in spaces:
        raise PlanError(
            f"model {model!r} has no space {name!r} for {task} data; {suggest(name, spaces)}"
        )
    try:
        return Space.parse(spaces[name]), name
    except ValueError as error:
        raise PlanError(f"space {name!r} of model {model!r}: {error}") from None


def space_and_sampler(
    budget: Budget, search: Search, name: str, task: str, options: Options
) -> tuple[str, str]:
    """(name of the space, name of the sampler) for a model of a budget. search: the model's
    settings. A model that the budget does not name and that lacks the budget's space has its
    default space, with TPE in place of a grid."""
    space, sampler = search.space or budget.space, search.sampler or budget.sampler
    named = name in budget.models or name in budget.model
    if not named and space not in registry.spaces(name, task):
        space, sampler = "default", "tpe" if sampler == "grid" else sampler
    return options.space or space, options.sampler or sampler


def narrow(
    space: Space, fixed: Mapping[str, Any], choices: Mapping[str, list[Any]], model: str
) -> Space:
    """The same space with parameters pinned or cut to a stated list, as a suite may ask. `fixed`
    may also name a hyperparameter of the model that the space does not search."""
    _check_values(model, {**{name: [value] for name, value in fixed.items()}, **choices})
    data = space.to_data()
    params = dict(data["params"])
    for name, value in fixed.items():
        if not _pin(params, name, value) and name not in registry.defaults(model):
            raise _unknown(name, model, params)
        params[name] = {"kind": "fixed", "value": value}
    for name, values in choices.items():
        if name not in params:
            raise _unknown(name, model, params)
        params[name] = {"kind": "choice", "values": list(values)}
    try:
        return Space.parse({**data, "params": params})
    except ValueError as error:
        raise PlanError(f"the suite narrows the space of {model!r}: {error}") from None


def _check_values(model: str, values: Mapping[str, list[Any]]) -> None:
    """Raises PlanError for a value that its hyperparameter's rule refuses. values: {name: values}.
    A class of the user has no rules; its constructor checks the values."""
    spec = registry.MODELS.get(model)
    rules = registry.load_class(spec.target).rules if spec is not None else {}
    for name, given in values.items():
        for value in given:
            if name in rules and not rules[name].accepts(value):
                raise PlanError(
                    f"the suite gives {name!r} of {model!r} the value {value!r}; it must be "
                    f"{rules[name]}"
                )


def default_first(
    model: str, task: str, name: str, space: Space, choices: Mapping[str, list[Any]]
) -> dict[str, Any]:
    """The default configuration of a model, with which a study of `space` begins.

    `space` is the model's space `name` as the suite changed it. Values that the suite pins beyond
    that space are part of the configuration. If the suite's `choices` lack a default value, their
    first value replaces it.
    """
    default = registry.default_config(model, task, name)
    searched = set(registry.spaces(model, task)[name]["params"])
    fixed = {k: p.value for k, p in space.params.items() if isinstance(p, Fixed)}
    kept = {k: v for k, v in fixed.items() if k in default or k not in searched}
    config = {**default, **kept}
    for key, values in choices.items():
        if key in config and canonical(config[key]) not in map(canonical, values):
            config[key] = values[0]
    return config


def _unknown(name: str, model: str, params: Mapping[str, Any]) -> PlanError:
    hint = did_you_mean(name, {*params, *registry.defaults(model)} - {name})
    return PlanError(
        f"the suite narrows {name!r} of {model!r}{hint}; its space has: {', '.join(params)}"
    )


def _pin(params: dict[str, Any], name: str, value: Any) -> bool:
    """Remove `name` from the variants of a space, and variants that are then repeated. Returns
    whether the space has it."""
    known = name in params
    for key, param in list(params.items()):
        if param["kind"] == "variants" and name in param["values"][0]:
            known = True
            rest = [{k: v for k, v in one.items() if k != name} for one in param["values"]]
            params[key] = {
                "kind": "variants",
                "values": list({digest(r): r for r in rest}.values()),
            }
    return known


def transductive_by(model: str) -> str | None:
    """The hyperparameter that lets a model see test rows; None if it has none."""
    return next((name for name in TRANSDUCTIVE if name in registry.defaults(model)), None)


def refuse_transductive(space: Space, model: str) -> None:
    """Raises PlanError if a configuration sees test rows and the suite is not transductive."""
    for name in TRANSDUCTIVE:
        values: list[Any] = []
        for key, param in space.params.items():
            if key == name:
                values += [param.point(i) for i in range(param.size or 0)]
            elif isinstance(param, Variants):
                values += [one.get(name) for one in param.values]
        if name not in space.params and model not in registry.MODELS:
            values.append(registry.defaults(model).get(name))
        if any(value is True for value in values):
            raise PlanError(
                f"{model!r} with {name} = true lets the rows that it is tested on be seen while it "
                "trains or predicts others: a suite that wants this says `transductive = true` at "
                "its top"
            )


def transductive_note(models: Mapping[str, str]) -> list[str]:
    """The report's sentences on a transductive sweep. models: {model: how it sees test rows}."""
    notes = []
    for name, meaning in TRANSDUCTIVE.items():
        of = [model for model, by in models.items() if by == name]
        if of:
            notes.append(f"Transductive: {', '.join(of)} {meaning}; the other models did not.")
    return notes or ["Transductive: without effect, as none of these models can see other rows."]


# ---------------------------------------------------------------------- the machine


def device_notes(specs: Mapping[str, registry.ModelSpec]) -> list[str]:
    """Sentences that name the models on GPUs and on CPUs, and why a GPU model runs on CPUs."""
    places = {name: spec.on_gpu() for name, spec in specs.items()}
    on_gpus = ", ".join(name for name, (device, _) in places.items() if device != "cpu")
    on_cpus = ", ".join(name for name, (device, _) in places.items() if device == "cpu")
    notes = [f"Trials on GPUs: {on_gpus or 'none'}; on CPUs: {on_cpus or 'none'}."]
    notes += [f"{name} runs on CPUs: {why}." for name, (_, why) in places.items() if why]
    return notes


def time_notes(
    study_s: float | None, time_limit_s: float | None, specs: Mapping[str, registry.ModelSpec]
) -> list[str]:
    """One sentence for each time limit on its meaning for the tables."""
    notes = []
    if study_s is not None:
        notes.append(
            "These tables depend on the machine: a study searches no further once its tuning "
            f"trials have taken {study_s:g} CPU seconds."
        )
    if time_limit_s is not None:
        whole = sorted(name for name, spec in specs.items() if not spec.resource)
        never = f"; fits of {', '.join(whole)} know no such limit" if whole else ""
        notes.append(
            f"These tables depend on the machine: a fit ends after {time_limit_s:g} s with its "
            f"best steps so far{never}."
        )
    return notes


def time_words(study_s: float | None, time_limit_s: float | None) -> str:
    """The time limits as text that is added to a search's description; "" without any."""
    words = f", at most {study_s:g} CPU s a study" if study_s is not None else ""
    return words + (f", at most {time_limit_s:g} s a fit" if time_limit_s is not None else "")


def refuse_bags(model: str, pieces: str) -> None:
    """Raises PlanError: a bag is fitted in one piece."""
    raise PlanError(
        f"model {model!r}: --validation cv does not go with {pieces}, whose trials are fitted in "
        "pieces; use --bag alone, which makes a bag of the chosen configuration"
    )


def refuse_weights(model: str) -> None:
    """Raises PlanError: fits in pieces do not count rows by weights."""
    raise PlanError(
        f"model {model!r}: weights of rows do not go with halving, save_every or --async, whose "
        "fits are in pieces; leave the weight column out (--drop), or take another budget"
    )


def refuse_time_limits(model: str, study_s: float | None, time_limit_s: float | None) -> None:
    """Raises PlanError for a limit of time on a model whose fits are in pieces."""
    limits = {"study_s": study_s, "time_limit_s": time_limit_s}
    given = [name for name, limit in limits.items() if limit is not None]
    if given:
        raise PlanError(
            f"{' and '.join(given)} of model {model!r}: does not go with halving, save_every or "
            "--async, whose fits end at given steps; leave one of them out"
        )


def refuse_empty_schedules(
    model: str, resource: str, space: Space, first: Iterable[Mapping[str, Any]]
) -> None:
    """Raises PlanError if a configuration may have less than one step, which the hyperparameter
    `resource` counts: a fit in pieces has at least one."""
    given = [config[resource] for config in first if resource in config]
    for name, param in space.params.items():
        if name == resource:
            points = range(param.size) if isinstance(param, Choice) else [0]  # a range: its low end
            given += [param.point(index) for index in points]
        elif isinstance(param, Variants) and resource in param.names:
            given += [value[resource] for value in param.values]
    given = given or [registry.defaults(model).get(resource)]
    wrong = [n for n in given if not (isinstance(n, int | float) and 1 <= n < math.inf)]
    if wrong:
        raise PlanError(
            f"{resource} = {wrong[0]!r} of model {model!r}: a fit in pieces (halving, save_every, "
            "--async) has one step at least"
        )
