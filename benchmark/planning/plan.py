"""The plan of a sweep: datasets x folds x models as studies, each with its space and sampler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...common.portable import LEVEL
from ...common.tasks import REGRESSION
from ...common.text import first_few
from ...datasets.passport import counted
from ...datasets.protocols import Fold
from ...datasets.table import Table
from ...models import registry
from ...reports.metrics import METRICS
from ...sweeps.fingerprint import versions
from ...sweeps.search.halving import Halving
from ...sweeps.search.samplers import make_sampler, n_distinct
from ...sweeps.search.space import Space
from ...sweeps.study import Needs, Study
from ...sweeps.study_state import CV
from ...sweeps.trial import DONE, Result, Trial, derive_seed, digest
from ..bag_members import is_bag
from ..column_encoding import encoding_identity
from ..console import count
from .chosen_metrics import target_notes
from .code_identity import PACKAGE, from_outside, own_code, source_alone, source_print
from .fold_facts import Data, bag_notes, bags_of, fold_facts, judged_by
from .options import Options as Options
from .own_models import nothing_counts, weight_notes, without_weights
from .plan_record import PlannedDataset, PlannedStudy, RunPlan, bag_words
from .pretrained import contamination_notes
from .settings import Settings
from .space_overrides import (
    default_first,
    device_notes,
    refuse_bags,
    refuse_empty_schedules,
    refuse_time_limits,
    refuse_weights,
    time_notes,
    time_words,
    transductive_note,
)
from .suite import Suite

INTERPRETER_MB = 600.0  # of a worker with its libraries, before a fit
SHOWN = 12  # models that a message names


@dataclass(frozen=True, kw_only=True)
class StudyPlan(PlannedStudy):
    """A study with all that its sampler and its trials need, which the ledger does not keep."""

    space_name: str
    space: Space
    sampler: str
    n_asked: int
    first: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    lag: int
    startup: int | None
    halving: Halving | None
    save_every: int | None
    time_limit_s: float | None


class Plan(Settings):
    """A suite under options, on the available datasets. A sweep makes one."""

    def __init__(
        self,
        suite: Suite,
        options: Options,
        data: Mapping[str, Data],
        left_out: Mapping[str, str],
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(suite, options, [each.table for each in data.values()])
        self.left_out = dict(left_out)
        self.notes = list(notes)
        self.hints: list[str] = []  # said when a sweep starts; no report repeats them
        self.dropped = ""  # what an earlier plan of the run had more
        self.data = {
            name: replace(each, table=replace(each.table, metric=self.metric[each.table.task]))
            for name, each in data.items()
        }
        self.bags = bags_of(self.data, self.n_members, seed=options.seed)
        self.notes += bag_notes(self.n_members, self.validation, self.bags, self.budget.seeds)
        self.notes += time_notes(self.study_s, self.time_limit_s, self.specs)
        if self.transductive:
            seeing = {model: self.sees(model) for model in self.models}
            self.notes += transductive_note({m: by for m, by in seeing.items() if by})
        self.notes += device_notes(self.specs) if options.device == "cuda" else []
        self.notes += contamination_notes(self.specs, self.data)
        weighted = [name for name, one in self.data.items() if one.table.weights is not None]
        self.notes += weight_notes(self.specs, weighted)
        transform, tables = options.target_transform, [one.table for one in self.data.values()]
        learnt = self.metric[REGRESSION], transform, tables
        self.notes += target_notes(self.specs, self.asked, *learnt)

    @cached_property
    def studies(self) -> list[StudyPlan]:
        """Every planned study, in the order of datasets, folds and models."""
        return [
            self._study(dataset, data, fold, model)
            for dataset, data in sorted(self.data.items())
            for fold in sorted(data.folds)
            for model in self.models
        ]

    @cached_property
    def nothing_runs(self) -> str:
        """Why no study of the plan runs, and which models would run; "" if any study runs."""
        folds = [(data.table, fold) for data in self.data.values() for fold in data.folds.values()]
        return all_absent((study.reason for study in self.studies), folds)

    def _study(self, dataset: str, data: Data, fold: int, model: str) -> StudyPlan:
        budget, options = self.budget, self.options
        of, spec = self.asked(model), self.specs[model]
        search = budget.search(self.given[model], dataset)
        task = data.table.task
        reason = search.absent or absence(spec, data.table, data.folds[fold])
        # a planned absence need not have a space
        space_name, space, sampler, n_asked = "none", Space({}), "random", 1
        first: tuple[dict[str, Any], ...] = ()
        if task in spec.tasks:
            n_asked = options.trials or search.trials or budget.trials
            space_name, space, sampler, _ = self.search(model, task, dataset)
            if budget.start_with_default and sampler != "grid":
                first = (default_first(of, task, space_name, space, search.choices),)
        # nothing is left to search after every point; a first one outside takes the trial of none
        n_trials = min(n_asked, n_distinct(space, first) or n_asked)
        rungs = search.halving or budget.halving
        asynchronous = options.asynchronous if spec.resource else None
        save_every = (search.save_every or budget.save_every) if spec.resource else None
        halving = None
        if spec.resource and (rungs or asynchronous):
            halving = Halving(rungs.eta, rungs.rungs) if rungs else Halving()
        if halving is not None or save_every is not None:
            refuse_time_limits(model, self.study_s, self.time_limit_s)
            refuse_empty_schedules(of, spec.resource, space, first)
            if data.table.weights is not None and not reason:
                refuse_weights(model)
            if self.validation == CV:
                refuse_bags(model, "halving, save_every or --async")
        bag = self.bags.get((dataset, fold))
        n_seeds = 1 if bag else options.seeds or search.seeds or budget.seeds
        return StudyPlan(
            dataset=dataset,
            task=task,
            fold=fold,
            model=model,
            space_name=space_name,
            space=space,
            sampler=sampler,
            n_trials=n_trials,
            n_seeds=n_seeds,
            rungs=tuple(halving.sizes(n_trials)) if halving else (),
            n_asked=n_asked,
            first=first,
            seeds=tuple(range(options.seed, options.seed + n_seeds)),
            lag=search.lag or budget.lag,
            startup=search.startup or budget.startup,
            halving=halving,
            asynchronous=asynchronous,
            save_every=save_every,
            bag=bag,
            validation=self.validation,
            study_s=self.study_s,
            time_limit_s=self.time_limit_s if spec.resource else None,
            reason=reason,
        )

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What may not change under one run name, besides options: {part: {who: value}}."""
        identity: dict[str, Any] = {
            "seed": {"sweep": self.options.seed},
            "metric": dict(self.metric),
            "protocol": {name: data.named_protocol for name, data in self.data.items()},
            "space": {},
            "sampler": {},
        }
        for study in self.studies:
            own = self.budget.dataset.get(study.dataset)
            names = {self.given[study.model], self.asked(study.model)}
            alone = own is not None and names & own.model.keys()
            key = f"{study.model} on {study.dataset if alone else f'{study.task} data'}"
            identity["space"][key] = digest([study.space.to_data(), list(study.first)], length=16)
            identity["sampler"][key] = f"{study.sampler}, lag {study.lag}"
            if study.startup is not None:
                identity["sampler"][key] += f", {study.startup} at random first"
            if study.halving:
                how = study.asynchronous or "halving"
                rungs = f"{study.halving.rungs} rungs, eta {study.halving.eta}"
                identity["sampler"][key] += f", {how} on {rungs}"
            elif study.save_every:
                identity["sampler"][key] += f", saved every {study.save_every} steps"
            identity["sampler"][key] += bag_words(self.n_members, self.validation)
            identity["sampler"][key] += time_words(study.study_s, study.time_limit_s)
        return identity

    def of_run(self, environment: Mapping[str, Any]) -> RunPlan:
        """The plan as the ledger keeps it: enough to report and resume without the suite file."""
        return RunPlan(
            suite_data=self.suite.model_dump(mode="json"),
            options=self.options.on(self.suite),
            identity=self.identity,
            metric=self.metric,
            datasets={
                name: PlannedDataset(
                    task=data.table.task,
                    n_rows=data.table.n_rows,
                    n_features=data.table.n_features,
                    kinds=dict(Counter(data.table.kinds.values())),
                    classes=data.table.classes,
                    sha256=data.table.sha256,
                    protocol=data.protocol,
                    **fold_facts(data.table, data.folds),
                    warnings=data.table.warnings,
                    facts=counted(data.table, data.folds.values()),
                    **data.description,
                )
                for name, data in self.data.items()
            },
            left_out=self.left_out,
            notes=self.notes,
            studies=self.studies,
            own_code=self._own_code(),
            samplers=sorted({study.sampler for study in self.studies}),
            spaces=sorted({study.space_name for study in self.studies}),
            environment=environment,
        )

    def _own_code(self) -> dict[str, Any]:
        """{class: its file, the fingerprint of its source, and the name by which an installed
        package registers it} of classes from outside tabsweep."""
        outside = from_outside(map(self.asked, self.models))
        return {
            target: {**own_code(target), **({"name": name} if name else {})}
            for target, name in sorted(outside.items())
        }

    # ------------------------------------------------------------------ studies that run

    def fingerprints(self) -> dict[str, dict[str, Any]]:
        """{model: what its source and libraries are}, computed once per plan."""
        prints = {}
        stepwise = {study.model for study in self.studies if study.halving or study.save_every}
        for model, spec in self.specs.items():
            print_ = source_print(spec.target, stepwise=model in stepwise)
            libraries = {**versions(spec.libraries), **print_["libraries"]}  # type: ignore[dict-item]
            prints[model] = {**print_, "libraries": dict(sorted(libraries.items()))}
        return prints

    def build(self) -> list[Study]:
        """The studies for the engine, unsupported ones left out."""
        prints = self.fingerprints()
        return [
            self._build(study, prints[study.model]) for study in self.studies if not study.reason
        ]

    def _build(self, plan: StudyPlan, print_: Mapping[str, Any]) -> Study:
        data = self.data[plan.dataset]
        spec = self.specs[plan.model]
        fold = data.folds[plan.fold]
        identity = {
            "target": spec.target,
            "task": plan.task,
            "threads": spec.threads,
            "device": self.device(spec),
            "precision": "native",
            "data": data.table.sha256,
            "split": fold.sha256,
            "source": print_["source"],
            "libraries": print_["libraries"],
        }
        identity |= {"time_limit_s": plan.time_limit_s} if plan.time_limit_s is not None else {}
        identity |= encoding_identity(spec, data.table)
        identity |= {"portable": LEVEL} if self.options.portable else {}  # other bytes

        of_bags = identity
        if plan.bag is not None:
            of_bags = identity | {"source": source_alone(spec.target, bag=True)}

        def make_trial(
            config: dict[str, Any], seed: int, fidelity: Mapping[str, Any] | None = None
        ) -> Trial:
            return Trial(
                dataset=plan.dataset,
                fold=plan.fold,
                model=plan.model,
                config=config,
                seed=seed,
                identity=of_bags if is_bag(fidelity) else identity,
                fidelity=fidelity,
            )

        def length_of(config: dict[str, Any]) -> int:
            in_config = spec.resource in config
            known = config if in_config else registry.defaults(self.asked(plan.model))
            return int(known[spec.resource])

        seed = derive_seed(self.options.seed, plan.name)
        size = len(fold.train) * (data.table.n_features + 5) * max(1, data.table.n_classes)
        return Study(
            name=plan.name,
            sampler=make_sampler(
                plan.sampler,
                plan.space,
                seed=seed,
                first=plan.first,
                lag=plan.lag,
                startup=plan.startup,
            ),
            n_trials=plan.n_trials,
            make_trial=make_trial,
            loss_of=loss_function(self.metric[plan.task]),
            seed=self.options.seed,
            seeds=plan.seeds[: plan.shape.n_seeds],
            limits=self.limits,
            needs=Needs(
                threads=spec.threads,
                memory_mb=INTERPRETER_MB
                + spec.memory_mb(len(fold.train), data.table.n_features, data.table.n_classes),
                gpu_mb=0.0
                if identity["device"] == "cpu"
                else spec.gpu_memory_mb(len(fold.train), data.table.n_features),
                outside="" if spec.target.startswith(f"{PACKAGE}.") else spec.target,
            ),
            data_key=plan.dataset,
            weight=float(size),
            model=plan.model,
            metric=self.metric[plan.task],
            judged_by=judged_by(data.table, fold, plan.bag),
            halving=plan.halving,
            save_every=plan.save_every,
            bag=plan.bag,
            cv=plan.validation == CV,
            study_s=plan.study_s,
            length_of=length_of,
        )

    def payload(self, dataset: str) -> tuple[Table, dict[int, Fold]]:
        """What a worker needs of a dataset."""
        return self.data[dataset].table, self.data[dataset].folds


def loss_function(metric: str) -> Callable[[Result], float | None]:
    """Validation score as something to minimise; None where it is undefined or there is none."""

    def loss(result: Result) -> float | None:
        value = result.val.get(metric) if result.status == DONE else None
        return None if value is None else METRICS[metric].loss(value)

    return loss


# ---------------------------------------------------------------------- planned absences


def absence(spec: registry.ModelSpec, table: Table, fold: Fold) -> str:
    """Why a model does not run on a fold of a table, or "" if it runs."""
    n_classes = max(table.n_classes, 1)
    reason = registry.unsupported(spec, table.task, len(fold.train), table.n_features, n_classes)
    if table.weights is None:
        return reason or ""
    return reason or without_weights(spec) or nothing_counts(table.weights, fold)


def all_absent(reasons: Iterable[str], folds: Iterable[tuple[Table, Fold]]) -> str:
    """One line on a sweep whose studies are all planned absences: why, and which registered models
    would run. "" for a sweep without studies, or with one that runs.

    reasons: of each study, "" for one that runs; folds: those of the sweep, with their tables.
    """
    said = list(reasons)
    if not said or not all(said):
        return ""
    why = "; ".join(
        reason if n == 1 else f"{reason} ({count(n, 'study')})"
        for reason, n in Counter(said).most_common()
    )
    pairs = list(folds)
    able = [
        name
        for name, spec in registry.MODELS.items()
        if any(not absence(spec, table, fold) for table, fold in pairs)
    ]
    way = f"models that can: {first_few(able, SHOWN)}"
    if not able:
        way = "no model can: the weights or the split must be others"
    return f"nothing runs, as every study is a planned absence: {why}; {way}"
