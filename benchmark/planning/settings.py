"""The settings of a sweep: its models, their searches, limits and bags, before data is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...models import registry
from ...sweeps.search.samplers import make_sampler, n_distinct
from ...sweeps.search.space import Fixed, Space
from ...sweeps.trial import Limits
from .chosen_metrics import chosen_metrics, told
from .fold_facts import members_asked
from .options import Options
from .own_models import check_constructor, find_model
from .pretrained import pinned
from .space_overrides import (
    PlanError,
    narrow,
    refuse_transductive,
    resolve_space,
    space_and_sampler,
    transductive_by,
)
from .suite import Suite

if TYPE_CHECKING:
    from ...datasets.table import Table


class Settings:
    """A suite under options. Raises UnknownModel, and PlanError for options that contradict each
    other or the suite.

    metric: {task: the metric that selects and ranks}; with `tables`, one that fits their tasks.
    given: {name of a model in the tables: its name in the budget}.
    n_members: of a bag if the data allow, 0 for single fits.
    """

    def __init__(self, suite: Suite, options: Options, tables: Iterable[Table] = ()) -> None:
        self.suite = suite
        self.options = options
        self.budget = suite.budget(options.budget)[1]
        self.metric = chosen_metrics(suite.metric, options.metric, tables)
        self.given: dict[str, str] = {}
        self.specs: dict[str, registry.ModelSpec] = {}
        for asked in dict.fromkeys(options.models or self.budget.models):
            spec = self._spec(asked)
            if spec.name in self.specs:
                raise PlanError(
                    f"{asked!r} and {self.given[spec.name]!r} are both called {spec.name!r}: give "
                    "one of the classes another `name`"
                )
            self.specs[spec.name] = spec
            self.given[spec.name] = asked
        self.models = tuple(self.specs)
        self.limits = Limits(
            timeout_s=options.timeout_s or self.budget.timeout_s,
            memory_mb=options.memory_mb or self.budget.memory_mb,
        )
        self.study_s = options.study_s or self.budget.study_s
        self.time_limit_s = options.time_limit_s or self.budget.time_limit_s
        self.validation = options.validation or self.budget.validation
        self.n_members = members_asked(options, self.budget.bag, self.validation)
        self.transductive = bool(suite.transductive or options.transductive)

    def _spec(self, asked: str) -> registry.ModelSpec:
        """The model behind a name of the budget, under that name; UnknownModel, PlanError."""
        of = self.budget.asked(asked)
        if of == asked:
            return find_model(asked)
        if asked in registry.names():
            raise PlanError(f"{asked!r} is a model: call what is to stand for {of!r} otherwise")
        return replace(find_model(of), name=asked)

    def sees(self, model: str, dataset: str | None = None) -> str | None:
        """The hyperparameter by which a model of a transductive suite sees the rows to predict, or
        None if it has none or the suite switches it off."""
        by = transductive_by(self.asked(model))
        search = self.budget.search(self.given[model], dataset)
        pinned = by is None or search.fixed.get(by, True)
        return by if pinned is True else None

    def asked(self, model: str) -> str:
        """The registry's name of a model of the tables, or "module:Class" of one's own."""
        return self.budget.asked(self.given[model])

    def device(self, spec: registry.ModelSpec) -> str:
        """The `device` of a model: a GPU if the sweep has one, the model uses it and the installed
        library can."""
        return spec.on_gpu()[0] if self.options.device == "cuda" else "cpu"

    def search(
        self, model: str, task: str, dataset: str | None = None
    ) -> tuple[str, Space, str, int]:
        """(name of the space, space, sampler, trials) of a model's studies, where the default
        takes no trial of its own. Raises PlanError."""
        budget, options, of = self.budget, self.options, self.asked(model)
        search = budget.search(self.given[model], dataset)
        asked, sampler = space_and_sampler(budget, search, self.given[model], task, options)
        space, space_name = resolve_space(of, asked, task)
        fixed = told(of, self.metric[task], options.target_transform) | dict(search.fixed)
        if self.transductive and (by := self.sees(model, dataset)) is not None:
            fixed[by] = True
        fixed |= pinned(self.specs[model], task)
        space = narrow(space, fixed, search.choices, of)
        if not self.transductive:
            refuse_transductive(space, of)
        if options.asynchronous and self.specs[model].resource and sampler != "grid":
            sampler = "random"  # an asynchronous search has no complete history to learn from
        n_asked = options.trials or search.trials or budget.trials
        return space_name, space, sampler, min(n_asked, n_distinct(space, ()) or n_asked)

    def check_searches(self, tasks: Mapping[str, str]) -> None:
        """Refuse what would fail in every study, such as a grid over a range. tasks: {dataset: its
        task}. Raises PlanError."""
        places: list[tuple[str, str | None]] = [(task, None) for task in sorted({*tasks.values()})]
        places += [
            (task, name) for name, task in sorted(tasks.items()) if name in self.budget.dataset
        ]
        for model, spec in self.specs.items():
            for task, dataset in places:
                if task not in spec.tasks:
                    continue
                name, space, sampler, _ = self.search(model, task, dataset)
                try:
                    make_sampler(sampler, space, seed=0)
                except ValueError as error:
                    raise PlanError(
                        f"space {name!r} of model {model!r} with sampler {sampler!r}: {error}"
                    ) from None
                fixed = {k: p.value for k, p in space.params.items() if isinstance(p, Fixed)}
                starts = self.budget.start_with_default and sampler != "grid"
                of = self.asked(model)
                check_constructor(of, task, name, fixed, starts_with_default=starts)
