"""The plan of a run as its ledger keeps it: written and read here alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.text import shell_word
from ...sweeps.store.ledger import Ledger, LedgerError, Record
from ...sweeps.study_state import CV, EVAL, HOLDOUT, TUNE, Shape
from .options import Options

if TYPE_CHECKING:
    from .suite import Budget, Suite

SINGLE = "single fits"  # what the scores of a run without bags are of

# The type of each part of the record; a ledger may come from somebody else, with right checksums.
PARTS = {
    **dict.fromkeys(("suite", "options", "datasets", "left_out", "metric", "environment"), dict),
    **dict.fromkeys(("studies", "spaces", "samplers", "notes"), list),
}


@dataclass(frozen=True)
class PlannedStudy:
    """A study of a plan: one model on one fold of a dataset.

    n_seeds: of the evaluation of the chosen configuration. rungs: how many configurations each
    rung holds, the lowest first; empty without rungs. asynchronous: the rule of an asynchronous
    search, None without. reason: why nothing of it runs. bag: the fidelity of its bags, None for
    single fits. study_s: CPU seconds after which its search ends.
    """

    dataset: str
    task: str
    fold: int
    model: str
    n_trials: int
    n_seeds: int
    reason: str = ""
    rungs: tuple[int, ...] = ()
    asynchronous: str | None = None
    bag: Mapping[str, Any] | None = None
    validation: str = HOLDOUT
    study_s: float | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> PlannedStudy:
        """The study in its part of a plan's record. Raises KeyError, TypeError."""
        required = ("dataset", "task", "fold", "model", "n_trials", "n_seeds", "reason")
        return cls(
            **{name: record[name] for name in required},
            rungs=tuple(record.get("rungs") or ()),
            asynchronous=record.get("async"),
            bag=record.get("bag"),
            validation=record.get("validation", HOLDOUT),
            study_s=record.get("study_s"),
        )

    def to_record(self) -> dict[str, Any]:
        """Its part of a plan's record."""
        return {
            "dataset": self.dataset,
            "task": self.task,
            "fold": self.fold,
            "model": self.model,
            "n_trials": self.n_trials,
            "n_seeds": self.n_seeds,
            "rungs": list(self.rungs) or None,
            "async": self.asynchronous,
            "reason": self.reason,
            **({"bag": dict(self.bag), "validation": self.validation} if self.bag else {}),
            **({"study_s": self.study_s} if self.study_s is not None else {}),
        }

    @property
    def name(self) -> str:
        """dataset/fold/model."""
        return f"{self.dataset}/{self.fold}/{self.model}"

    @property
    def n_members(self) -> int:
        """The members of its bags; 0 for single fits."""
        return int(self.bag["bag"]) if self.bag else 0

    @property
    def shape(self) -> Shape:
        """Its slots; none for one that is planned to be absent. A single evaluation seed is the one
        of the search and adds no slot; a bag of the chosen configuration is one slot, unless all
        trials of the search are bags."""
        if self.reason:
            return Shape(0)
        n_seeds = self.n_seeds if self.n_seeds > 1 else 0
        if self.bag:
            n_seeds = 0 if self.validation == CV else 1
        return Shape(
            n_trials=self.n_trials,
            n_seeds=n_seeds,
            rungs=self.rungs,
            study_s=self.study_s,
            asynchronous=bool(self.asynchronous),
        )


@dataclass(frozen=True)
class PlannedDataset:
    """A dataset of a plan.

    kinds: {kind: number of features}, None where no plan counted them. sizes: rows to train,
    validate and test, of each fold. constant: {metric: test score of a constant}. facts: counts of
    the passport. learnable, overlaps, title: of its card. added: the name of the added dataset that
    it is, "" for none. csv: how a file of the user is read, its path and sha256; {} for others.
    """

    task: str
    n_rows: int
    n_features: int
    sha256: str
    protocol: str
    classes: Sequence[str] = ()
    kinds: Mapping[str, int] | None = None
    sizes: Sequence[Sequence[int]] = ()
    constant: Mapping[str, float] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    learnable: bool = True
    overlaps: Sequence[str] = ()
    title: str = ""
    added: str = ""
    csv: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> PlannedDataset:
        """The dataset in its part of a plan's record. Raises TypeError."""
        known = cls.__dataclass_fields__
        return cls(**{n: v for n, v in record.items() if n in known and v is not None})

    def to_record(self) -> dict[str, Any]:
        """Its part of a plan's record."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {name: list(getattr(self, name)) for name in ("classes", "warnings", "overlaps")}
        found |= lists | {"sizes": [list(one) for one in self.sizes]}
        return {name: v for name, v in found.items() if v or name not in ("added", "csv")}


@dataclass(frozen=True)
class RunPlan:
    """A plan: what its run holds, and what is needed to report and resume it without its suite.

    suite_data: the suite as JSON. identity: what may not change under one name of a run, {part:
    {who: value}}. metric: {task: the metric that selects}. left_out: {dataset, or study: reason}.
    own_code: {class from outside: its file and the fingerprint of its source}.
    """

    suite_data: Mapping[str, Any]
    options: Options
    identity: Mapping[str, Mapping[str, Any]]
    metric: Mapping[str, str]
    datasets: Mapping[str, PlannedDataset]
    studies: Sequence[PlannedStudy]
    left_out: Mapping[str, str]
    notes: Sequence[str]
    samplers: Sequence[str]
    spaces: Sequence[str]
    environment: Mapping[str, Any]
    own_code: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> RunPlan:
        """The plan in a record. Raises LedgerError where bench did not write it so."""
        for part, kind in PARTS.items():
            value = record.get(part, kind())
            if not isinstance(value, kind):
                raise LedgerError(
                    f"its plan was not written by bench: its {part} is a {type(value).__name__}, "
                    f"not a {kind.__name__}"
                )
        try:
            return cls(
                suite_data=record["suite"],
                options=Options.of(record["options"]),
                identity=record["identity"],
                metric=record["metric"],
                datasets={n: PlannedDataset.of(one) for n, one in record["datasets"].items()},
                studies=[PlannedStudy.of(one) for one in record["studies"]],
                left_out=record.get("left_out", {}),
                notes=record.get("notes", []),
                samplers=record.get("samplers", []),
                spaces=record.get("spaces", []),
                environment=record.get("environment", {}),
                own_code=record.get("own_code", {}),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LedgerError(f"its plan was not written by bench: {error!r}") from None

    def to_record(self) -> Record:
        """The record of the plan, but for its time."""
        return {
            "kind": "plan",
            "suite": self.suite_data,
            "options": self.options.to_data(),
            "identity": self.identity,
            "metric": dict(self.metric),
            "datasets": {name: one.to_record() for name, one in self.datasets.items()},
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            "studies": [study.to_record() for study in self.studies],
            **({"own_code": self.own_code} if self.own_code else {}),
            "samplers": list(self.samplers),
            "spaces": list(self.spaces),
            "environment": dict(self.environment),
        }

    @cached_property
    def suite(self) -> Suite:
        """The suite. Raises SuiteError."""
        from .suite import parse

        return parse(self.suite_data, "the ledger's plan")

    @property
    def budget(self) -> Budget:
        """The budget of the suite. Raises SuiteError."""
        return self.suite.budget(self.options.budget)[1]

    @property
    def models(self) -> list[str]:
        """The models of the studies, in their order."""
        return list(dict.fromkeys(study.model for study in self.studies))

    @property
    def variants(self) -> dict[str, str]:
        """{name: the model behind it} of the rows of the budget that are variants of a model."""
        return {name: search.of for name, search in self.budget.model.items() if search.of}

    @property
    def outside(self) -> list[str]:
        """The classes from outside that the run was started with."""
        named = dict.fromkeys([*self.options.models, *self.budget.models])
        return [name for name in named if ":" in name]

    def studies_of(self, dataset: str) -> list[PlannedStudy]:
        """The studies on a dataset."""
        return [study for study in self.studies if study.dataset == dataset]

    def folds_of(self, dataset: str) -> list[int]:
        """The numbers of the planned folds of a dataset, ascending."""
        return sorted({study.fold for study in self.studies_of(dataset)})

    def drawn(self, dataset: str) -> tuple[str, str]:
        """(protocol, seed) of a dataset's folds; the seed is "" where the folds do not depend on
        it. Two plans with the same answer have the same rows in each fold of the dataset."""
        from ...datasets.protocols import seeded

        protocol = self.datasets[dataset].protocol
        return protocol, str(self.options.seed) if seeded(protocol) else ""

    def search_of(self, study: PlannedStudy) -> str:
        """The words of the identity on the sampler that searches a study, "" for none."""
        return str(self.identity["sampler"].get(search_key(self.identity, study), ""))

    @property
    def fits(self) -> dict[str, str]:
        """{dataset: what its scores are of, "single fits" or "bags of K"}."""
        found: dict[str, int] = {}
        for study in self.studies:
            found[study.dataset] = max(study.n_members, found.get(study.dataset, 0))
        return {name: f"bags of {n}" if n else SINGLE for name, n in sorted(found.items())}

    @property
    def bags(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """{(study, stage): fidelity of its trials} of the stages whose trials are bags."""
        return {
            (study.name, TUNE if study.validation == CV else EVAL): study.bag
            for study in self.studies
            if study.bag
        }


def search_key(identity: Mapping[str, Mapping[str, Any]], study: PlannedStudy) -> str:
    """The key of a study's search in a plan's identity: "model on dataset" where the dataset has
    settings of its own, else "model on task data"."""
    alone = f"{study.model} on {study.dataset}"
    return alone if alone in identity["sampler"] else f"{study.model} on {study.task} data"


def by_reason(reasons: Mapping[str, str]) -> list[str]:
    """{name: reason} as one line per reason, with the names that share it.

    >>> by_reason({"a": "no network", "b": "no network", "c": "too large"})
    ['a, b: no network', 'c: too large']
    """
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(those)}: {reason}" for reason, those in names.items()]


# ---------------------------------------------------------------------- in a ledger


def last_plan(ledger: Ledger) -> RunPlan | None:
    """The plan in force: the last one that was written, None before the first. Raises LedgerError
    where its record is not one of a plan."""
    positions = list(ledger.positions("plan"))
    return RunPlan.of(ledger.at(positions[-1])) if positions else None


def plan_in(ledger: Ledger) -> RunPlan:
    """The plan in force. Raises LedgerError where there is none: not yet, or it was damaged."""
    plan = last_plan(ledger)
    if plan is None:
        raise no_plan(ledger.run, sum(1 for _ in ledger.positions("result")))
    return plan


def no_plan(run: Path, n_results: int) -> LedgerError:
    """The error for a ledger with `n_results` results and no plan, which should be the first
    record."""
    if not n_results:
        return LedgerError(f"{run} holds no plan yet: nothing was started in it")
    return LedgerError(
        f"{run} holds no plan: its record is damaged; {n_results} results are whole. The `bench "
        f"sweep` that began it, with --name {shell_word(run.name)}, writes the plan again and runs "
        "none of their trials"
    )


# ---------------------------------------------------------------------- single fits and bags


def fits_apart(first: RunPlan, other: RunPlan) -> tuple[str, str] | None:
    """The fits of both plans, such as ("single fits", "bags of 5"), if their scores cannot share a
    table; None if they can. They cannot where one has single fits and the other bags on any
    dataset, or bags of another size on the same dataset."""
    ours, theirs = first.fits, other.fits
    for name in ours.keys() & theirs.keys():
        if ours[name] != theirs[name]:
            return ours[name], theirs[name]
    mixed = {*ours.values(), *theirs.values()}
    if SINGLE in mixed and len(mixed) > 1:
        return next(iter(ours.values())), next(iter(theirs.values()))
    return None


def bag_words(n_members: int, validation: str) -> str:
    """Bags as they are added to the words on a search; "" without."""
    if not n_members:
        return ""
    every = validation == CV
    return f", every trial a bag of {n_members}" if every else f", then a bag of {n_members}"
