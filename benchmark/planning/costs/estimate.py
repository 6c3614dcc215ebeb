"""The expected cost of a sweep: its trials, their CPU seconds, time on a clock, memory and disk."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from ....common.counting import count
from ....models.discovery import runnable
from ....models.registry_entries import MODELS
from ....sweeps.scheduling.estimates import LIMIT_TIMES
from ....sweeps.search.samplers import make_sampler
from ....sweeps.store.ledger import Ledger, LedgerError
from ....sweeps.store.records import slot_places
from ....sweeps.study import Study
from ....sweeps.study_state import CV
from ....sweeps.trial import DONE
from ..plan import INTERPRETER_MB, Plan, StudyPlan
from .history import costs_in
from .measured import Cost, Lookup, Settings, Work, settings_of, shipped

DRAWS = 12  # configurations of a space whose mean cost stands for a trial's
START_S = 12.0  # of Ray, the first workers and the imports of their libraries
ALONE_S = 4.0  # of workers without Ray and the imports of their libraries
TRIAL_S = 0.03  # of a trial around its fit: scores, predictions, records
RECORD_MB = 0.01  # of a trial's records and curve
RAY_MB = 900.0  # of the driver, Ray and its processes
MOST = 150  # how many measured costs of a model are looked up
GUESSES = ("lightgbm", "random-forest")  # whose mean stands for a model that nobody has measured
MODULES = ("mlp", "ft-transformer")  # of a torch module


@dataclass(frozen=True)
class TrialCost:
    """The expected cost of one trial of a study. seconds: CPU seconds; high: the upper end of their
    likely range; most: of its costliest configuration, often the one that is chosen; mb: peak
    memory of the process, MB; guess: whether the model was never measured; slots: how many trials
    the study is expected to run."""

    seconds: float
    high: float
    most: float
    mb: float
    guess: bool
    slots: int


@dataclass
class Estimate:
    """The work of a sweep. cells: all its trials; finished: trials that the run has; cached: trials
    that other runs have; basis: which measurements the times come from; guessed: {model that was
    never measured: number of trials}; models: {model: CPU hours}."""

    studies: int
    unsupported: dict[str, str]
    memory_mb_limit: float
    cells: int = 0
    finished: int = 0
    cached: int = 0
    to_run: int = 0
    cpu_hours: float = 0.0
    cpu_hours_high: float = 0.0
    wall_hours: float = 0.0
    basis: str = "nothing to run"
    memory_mb: float = 0.0
    disk_mb: float = 0.0
    guessed: dict[str, int] = field(default_factory=dict)
    models: dict[str, float] = field(default_factory=dict)


def estimate(
    plan: Plan, *, own: Ledger | None, others: Iterable[Path], workers: int, start_s: float
) -> Estimate:
    """Count the trials of a plan and say what they will cost. workers: CPUs for trials, 0 for this
    process. start_s: seconds before the first trial.

    Configurations of a sampler that learns from results are unknown before it suggests them, so
    only those of grid and random search are counted as cached.
    """
    ledgers = [*([own] if own is not None else []), *_readable(others)]
    ids = {r["id"] for ledger in ledgers for r in ledger.records("result") if r["status"] == DONE}
    costs = TrialCosts(plan, ledgers)
    finished_slots = slot_places(own) if own is not None else {}
    ends = own.records("study") if own is not None else ()
    at_end = {(end["study"], end.get("n_trials")): end.get("n_slots") for end in ends}
    planned = {study.name: study for study in plan.studies}
    total = Estimate(
        studies=len(plan.studies),
        unsupported={s.name: s.reason for s in plan.studies if s.reason},
        memory_mb_limit=plan.limits.memory_mb,
    )
    low = high = longest = mb = disk = 0.0
    models: dict[str, float] = defaultdict(float)
    ended = Counter(slot.study for slot in finished_slots)
    for study in plan.build():
        n = planned[study.name].shape.n_slots
        if study.study_s is not None:
            likely = min(n, max(costs(planned[study.name]).slots, ended[study.name] + 1))
            n = at_end.get((study.name, study.n_trials)) or likely
        already = min(n, ended[study.name])
        left = n - already
        total.cells += n
        total.finished += already
        while already < n and (slot := study.next_slot()) is not None:
            id = study.open(slot).id
            if slot not in finished_slots and id in ids:
                total.cached += 1
                left -= 1
            if not study.sampler.history_free:
                break
        if not left:
            continue
        cost = costs(planned[study.name])
        fits = left - _copied(study, left) + _more_fits(planned[study.name], left)
        disk += left * (RECORD_MB + _predictions_mb(plan, planned[study.name]))
        low += fits * cost.seconds
        high += fits * cost.high
        models[study.model] += fits * cost.seconds
        in_turn = 1 if study.sampler.history_free else math.ceil(fits / max(1, study.sampler.lag))
        longest = max(longest, cost.seconds * in_turn)
        mb = max(mb, cost.mb)
        if cost.guess:
            total.guessed[study.model] = total.guessed.get(study.model, 0) + left
    total.to_run = total.cells - total.finished - total.cached
    around = TRIAL_S * total.to_run
    wall = max((low + around) / max(1, workers), longest) + start_s
    total.cpu_hours = round((low + around) / 3600, 6)
    total.cpu_hours_high = round((high + around) / 3600, 6)
    total.wall_hours = round(wall / 3600, 6) if total.to_run else 0.0
    costly = sorted(models.items(), key=lambda item: -item[1])
    total.models = {name: round(s / 3600, 6) for name, s in costly}
    total.memory_mb = round(max(1, workers) * mb + (RAY_MB if workers else 0.0)) if mb else 0.0
    total.disk_mb = round(disk, 1)
    total.basis = costs.basis if total.to_run else total.basis
    return total


def _predictions_mb(plan: Plan, study: StudyPlan) -> float:
    """MB of a trial's stored predictions: a float64 for each row (and each class)."""
    data = plan.data[study.dataset]
    fold = data.folds[study.fold]
    return (len(fold.val) + len(fold.test)) * max(1, data.table.n_classes) * 8 / 1e6


def _copied(study: Study, left: int) -> int:
    """How many of the last `left` slots of a study copy an earlier result. If the search's seed is
    one of the evaluation seeds, the best configuration has a result under it already."""
    again = study.halving is None and study.seed in study.seeds
    return int(again and left >= len(study.seeds) > 1)


def _more_fits(study: StudyPlan, left: int) -> int:
    """Fits in the last `left` slots of a study beyond one a slot: a bag takes several."""
    if not study.bag:
        return 0
    bags = left if study.validation == CV else min(left, 1)
    return bags * (study.bag["bag"] - 1)


class TrialCosts:
    """The expected cost of a trial of each study, from the shipped costs and from the ledgers of
    earlier runs on this machine."""

    def __init__(self, plan: Plan, ledgers: Iterable[Ledger] = ()) -> None:
        self._plan = plan
        self._table = shipped()
        self._history: dict[tuple[str, bool], list[Cost]] = defaultdict(list)
        self._runs = 0
        for ledger in ledgers:
            here = costs_in(ledger, self._defaults)
            for place, costs in here.items():
                self._history[place] += costs
            self._runs += bool(here)
        self._lookups: dict[tuple[str, bool], Lookup | None] = {}
        self._known: dict[Any, TrialCost] = {}

    @property
    def basis(self) -> str:
        """Which measurements the estimates come from, in words."""
        runs = f", corrected by {count(self._runs, 'earlier run')} here" if self._runs else ""
        return f"costs measured on {self._table.machine['cpu']}{runs}"

    def __call__(self, study: StudyPlan) -> TrialCost:
        """The expected cost of a trial of a study, the mean over its search."""
        data = self._plan.data[study.dataset]
        fold = data.folds[study.fold]
        rows = len(fold.train)
        shape = (rows, data.table.n_features, max(1, data.table.n_classes))
        key = study.model, study.dataset, study.space_name, round(20 * math.log(max(rows, 1)))
        if key not in self._known:
            self._known[key] = self._cost(study, shape)
        return self._known[key]

    def _cost(self, study: StudyPlan, shape: tuple[int, int, int]) -> TrialCost:
        spec = self._plan.specs[study.model]
        asked = self._plan.asked(study.model)
        model = asked if asked in MODELS else study.model
        gpu = self._plan.device(spec) != "cpu"
        defaults = self._defaults(model)
        works = [Work(settings_of(config, defaults), *shape) for config in _drawn(study)]
        lookup = self._lookup(model, gpu)
        if lookup is None:
            names: Iterable[str] = [model]  # its own, on a CPU
            if model not in self._table.costs:
                names = GUESSES if runnable(spec.target) == spec.target else MODULES
            known = [(self._lookup(name, False), self._defaults(name)) for name in names]
            like = [one(Work(default, *shape))[0] for one, default in known if one is not None]
            seconds = [geometric_mean(like)]
            highs = [10 * seconds[0]]
        else:
            told = [lookup(work) for work in works]
            seconds = [s for s, _ in told]
            highs = [s * math.exp(sd) for s, sd in told]
        limit = math.inf if limits_follow(self._plan) else self._plan.limits.timeout_s
        limit = min(limit, study.time_limit_s or math.inf)
        share = _share(study)
        mean = share * sum(min(s, limit) for s in seconds) / len(seconds)
        slots = study.shape.n_slots
        if study.study_s is not None:  # CPU seconds that end the search; evaluation seeds follow
            searched = math.ceil(study.study_s / max(mean, TRIAL_S))
            slots -= study.n_trials - min(study.n_trials, max(1, searched))
        return TrialCost(
            seconds=mean,
            high=share * sum(min(s, limit) for s in highs) / len(highs),
            most=share * min(max(seconds), limit),
            mb=INTERPRETER_MB + spec.memory_mb(*shape),
            guess=lookup is None,
            slots=slots,
        )

    def _defaults(self, model: str) -> Settings:
        return self._table.defaults.get(model, {})

    def _lookup(self, model: str, gpu: bool) -> Lookup | None:
        """The `Lookup` of a model: costs measured in runs here, and the shipped costs scaled by the
        ratio of the two. None where the model has no costs."""
        if (model, gpu) not in self._lookups:
            own = sorted(self._history[model, gpu], key=lambda cost: -cost.fits)[:MOST]
            table = [] if gpu else self._table.costs.get(model, [])
            ratio = 1.0
            if own and table:
                of_table = Lookup(table)
                ratio = median(cost.seconds / of_table(cost.work)[0] for cost in own)
            costs = [*own, *(replace(cost, seconds=cost.seconds * ratio) for cost in table)]
            self._lookups[model, gpu] = Lookup(costs) if costs else None
        return self._lookups[model, gpu]


def _drawn(study: StudyPlan) -> list[dict[str, Any]]:
    """A sample of the configurations of a study, whose mean cost is taken."""
    free = study.n_trials - len(study.first)
    sampler = make_sampler("random", study.space, seed=0)
    drawn = [sampler.ask(index) for index in range(min(DRAWS, max(free, 0)))]
    # the given first ones weigh as much as their share of the trials
    n_first = max(1, round(len(drawn) * len(study.first) / max(free, 1))) if study.first else 0
    first = [dict(config) for config in study.first for _ in range(n_first)][:DRAWS]
    return [*first, *drawn] or [sampler.ask(0)]


def _share(study: StudyPlan) -> float:
    """The mean share of a whole fit that a slot of a study takes: less than 1 with halving."""
    rungs = study.halving
    if rungs is None:
        return 1.0
    stops = [rungs.eta ** (rung - rungs.rungs + 1) for rung in range(rungs.rungs)]
    steps = [stop - before for before, stop in zip([0.0, *stops], stops, strict=False)]
    sizes = rungs.sizes(study.n_trials)
    fits = sum(size * step for size, step in zip(sizes, steps, strict=True))
    n_seeds = study.shape.n_seeds
    slots = study.n_trials if study.asynchronous else sum(sizes)
    return (fits + n_seeds) / (slots + n_seeds)


def searched_whole(studies: Iterable[StudyPlan]) -> list[str]:
    """One sentence that names the searches whose space has fewer points than the trials asked for;
    an empty list if there is none. Spaces of one point are not named."""
    ends: dict[str, set[str]] = defaultdict(set)
    for study in studies:
        if not study.reason and study.n_trials < study.n_asked and study.space.size != 1:
            ends[study.model].add(f"{study.n_trials} of {study.n_asked}")
    named = ", ".join(f"{model} after {' or '.join(sorted(n))}" for model, n in ends.items())
    sentence = f"A search ends when it has tried each point of its space once: {named} trials."
    return [sentence] if ends else []


def by_study(plan: Plan) -> dict[str, float]:
    """{study: expected seconds of one of its planned trials} from the shipped costs: a first idea
    of how long a sweep runs, before its own trials tell. A study that a time limit ends has fewer
    trials than planned: the seconds of all of them are spread over the planned ones."""
    costs = TrialCosts(plan)
    expected: dict[str, float] = defaultdict(float)
    for study in plan.studies:
        if not study.reason:
            cost, planned = costs(study), study.shape.n_slots
            part = (cost.slots + _more_fits(study, planned)) / planned
            expected[study.name] = part * (cost.seconds + TRIAL_S)
    return dict(expected)


def limits_follow(plan: Plan) -> bool:
    """Whether the time limits of a plan come from its estimate: the data are files of --csv, whose
    sizes the budgets of uci-small do not know, and the user gave no --timeout."""
    files = any("csv" in data.description for data in plan.data.values())
    return files and not plan.suite.file and plan.options.timeout_s is None


def set_limits(plan: Plan, studies: Iterable[Study]) -> None:
    """Give each study a time limit of LIMIT_TIMES the estimated seconds of one of its trials, but
    no less than the limit of its budget. Nothing changes in a plan whose limits do not follow the
    estimate."""
    if not limits_follow(plan):
        return
    costs, planned = TrialCosts(plan), {study.name: study for study in plan.studies}
    for study in studies:
        study.limit_follows = True
        least = math.ceil(LIMIT_TIMES * costs(planned[study.name]).seconds)
        study.limits = replace(study.limits, timeout_s=max(study.limits.timeout_s, float(least)))


def _readable(folders: Iterable[Path]) -> Iterable[Ledger]:
    for folder in folders:
        try:
            yield Ledger(folder)
        except LedgerError:
            continue
