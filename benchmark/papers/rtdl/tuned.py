"""Tuned trainings of RTDL's models for its experiments: sweeps of the suite `rtdl`, read back.

An experiment has no tuner of its own. It runs a sweep into its folder, which a second call resumes,
and reads the trials of the evaluation seeds. Trials that another experiment beside it has finished,
or a run of the suite `rtdl` under `runs/` in the working directory, are copied and not run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ....datasets import catalog
from ....datasets.errors import DatasetUnavailable, UnknownDataset
from ....datasets.protocols import Fold, make_folds
from ....datasets.table import Table
from ....sweeps.store.run_folder import is_run
from ....sweeps.study_state import EVAL
from ....sweeps.trial import DONE
from ...planning import suite as suites
from ...planning.own_tables import added_for, added_table
from ...planning.plan import Options
from ...planning.suite import Budget, OnDataset, Search, Suite
from ...results.evidence_builder import load_results
from ...running import sweep
from ...running.data import NoData
from ...running.request import Request
from ..experiment_result import Setting

SUITE, PAPER_BUDGET = "rtdl", "paper"
METRIC = {"regression": "rmse", "binary": "accuracy", "multiclass": "accuracy"}
NO_CARD = (
    "no card of this name; `bench data add PATH --format arrays` makes one of the authors' archive"
)


@dataclass(frozen=True)
class Small:
    """A sweep for minutes on a CPU: random ones of `rates`, then the chosen one under every seed.
    fixed: the other hyperparameters of each model. seeds: two or more, as a sweep does not evaluate
    a single one again."""

    trials: int
    seeds: int
    fixed: Mapping[str, Mapping[str, Any]]
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Tuned:
    """A tuned model on a dataset: what its evaluation seeds scored on the test rows (accuracy as a
    fraction, or RMSE), and the chosen configuration."""

    scores: tuple[float, ...]
    config: dict[str, Any]


Results = dict[tuple[str, str], Tuned]


# ---------------------------------------------------------------------- datasets


def split_of(table: Table) -> Fold:
    """The one split of a dataset that the suite `rtdl` has: the authors' own where it was added."""
    suite = suites.load(SUITE)
    added = added_for(suite, table.name)
    usual = suite.protocol.get(table.name) or catalog.card(table.name).protocol
    protocol = catalog.card(added).protocol if added else usual
    return make_folds(table, protocol, seed=0)[0]


def with_cards(names: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """(datasets that have a card, {those that have none: why}). Raises NoData for none."""
    known, left_out = [], {}
    for name in names:
        try:
            catalog.card(name)
            known.append(name)
        except UnknownDataset:
            left_out[name] = NO_CARD
    return _some(known, left_out), left_out


def available(names: Iterable[str], setting: Setting) -> tuple[dict[str, Table], dict[str, str]]:
    """(the datasets that can be had, {the others: why not}): those that the suite `rtdl` uses, the
    authors' own where they were added. Raises NoData where none can be had, and DataError for an
    added one that is not the dataset of its name."""
    known, left_out = with_cards(names)
    suite, tables = suites.load(SUITE), {}
    for name in known:
        added = added_for(suite, name)
        try:
            tables[name] = added_table(added, name) if added else setting.load(name)
        except DatasetUnavailable as error:
            left_out[name] = error.reason
    return _some(tables, left_out), left_out


def _some(known: Sized, left_out: Mapping[str, str]) -> Any:
    """The datasets, if there are any. Raises NoData, with the reasons, for none."""
    if not len(known):
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise NoData(f"no dataset of the experiment is available here ({reasons})")
    return known


def left_out_remarks(left_out: Mapping[str, str]) -> list[str]:
    """What an experiment says of the datasets that it had to leave out."""
    return [f"Left out: {name}: {why}." for name, why in sorted(left_out.items())]


def split_remarks(names: Iterable[str]) -> list[str]:
    """What an experiment says of the datasets whose split is the authors' own."""
    suite = suites.load(SUITE)
    own = [name for name in names if added_for(suite, name)]
    return [f"The authors' own rows and split (bench data add): {', '.join(own)}."] if own else []


# ---------------------------------------------------------------------- sweeps


def paper_suite(variants: Mapping[str, tuple[str, str]]) -> Suite:
    """The suite `rtdl` whose budget `paper` has variants, too.

    variants: {name: (what the registry is asked for, model whose space and trials it has)}.
    """
    found = suites.load(SUITE)
    budget = found.budgets[PAPER_BUDGET]
    models, datasets = dict(budget.model), dict(budget.dataset)
    for name, (target, like) in variants.items():
        models[name] = budget.search(like).model_copy(update={"of": target})
        for dataset, there in datasets.items():
            if like in there.model:
                own = {**there.model, name: there.model[like]}
                datasets[dataset] = OnDataset(model=own)
    changes = {"models": [*budget.models, *variants], "model": models, "dataset": datasets}
    budgets = {**found.budgets, PAPER_BUDGET: budget.model_copy(update=changes)}
    return found.model_copy(update={"budgets": budgets})


def small_suite(
    name: str, datasets: Sequence[str], small: Small, variants: Mapping[str, tuple[str, str]]
) -> Suite:
    """A suite of one budget, "paper" like that of the suite `rtdl`. variants: as in `paper_suite`,
    but for the model that they are like."""
    whole = suites.load(SUITE)
    models = {
        model: Search(
            of=variants[model][0] if model in variants else None,
            fixed=dict(fixed),
            choices={"lr": list(small.rates)},
        )
        for model, fixed in small.fixed.items()
    }
    budget = Budget(
        models=list(models),
        folds=1,
        trials=small.trials,
        seeds=small.seeds,
        sampler="random",
        start_with_default=False,
        model=models,
    )
    return Suite(
        name=name,
        title=name,
        datasets=list(datasets),
        protocol={d: p for d, p in whole.protocol.items() if d in datasets},
        metric=whole.metric,
        default_budget=PAPER_BUDGET,
        budgets={PAPER_BUDGET: budget},
    )


def run_tuned(
    setting: Setting,
    datasets: Sequence[str],
    models: Sequence[str],
    small: Small | None = None,
    variants: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> tuple[Results, dict[str, str]]:
    """Tune every model on every dataset that can be had, and read what the evaluation seeds gave.

    small: the sweep; None for the budget `paper` of the suite `rtdl`. variants: as in
    `paper_suite`. Returns ({(dataset, model): result}, {dataset left out: why}); a model that has
    no result at all on a dataset is absent. The run is a folder (`run_name`) in the experiment's;
    with one thread trials run in this process, with more on so many workers. Raises NoData where no
    dataset can be had, and what a sweep raises.
    """
    known, left_out = with_cards(datasets)
    suite = paper_suite(variants)
    if small is not None:
        suite = small_suite(setting.out.name, known, small, variants)
    request = Request(
        suite=suite.model_copy(update={"datasets": known}),
        options=Options(
            budget=PAPER_BUDGET,
            models=tuple(models),
            datasets=tuple(known),
            seed=setting.seed,
            device=setting.device,
            runs=setting.out,
            name=run_name(setting),
            workers=0 if setting.threads == 1 else setting.threads,
            mirror=setting.mirror,
            cache=setting.cache,
            allow_code_change=True,  # a result is of the code as it is: changed trials run again
            reuse=_other_runs(setting),
        ),
    )

    def listen(event: str, details: Mapping[str, Any]) -> None:
        if event == "study":
            setting.say(f"{details['study'].name}: done")
        elif event == "warning":
            setting.say(details["message"])

    outcome = sweep.run(request, listener=listen)
    return results_of(outcome.folder), {**left_out, **outcome.plan.left_out}


def run_name(setting: Setting) -> str:
    """The name of an experiment's run: another seed or device has another run."""
    seed = f"-seed-{setting.seed}" if setting.seed else ""
    device = "" if setting.device == "cpu" else f"-{setting.device}"
    return f"run-{setting.size}{seed}{device}"


def _other_runs(setting: Setting) -> tuple[Path, ...]:
    """Runs whose finished trials may be copied: of the suite under `runs/`, and of the other
    experiments beside this one."""
    folders = [*Path("runs").glob(f"{SUITE}-*"), *setting.out.parent.glob(f"{SUITE}-*/*")]
    own = setting.out / run_name(setting)
    return tuple(sorted({*filter(is_run, folders)} - {own}))


def results_of(run: Path) -> Results:
    """{(dataset, model): result} of a run's evaluation seeds."""
    frame = load_results(run)
    if not len(frame):
        return {}
    seeds = frame[(frame["status"] == DONE) & (frame["stage"] == EVAL)].sort_values("seed")
    return {
        (str(dataset), str(model)): Tuned(
            scores=tuple(map(float, trials[f"test_{METRIC[str(trials['task'].iloc[0])]}"])),
            config=json.loads(trials["config"].iloc[0]),
        )
        for (dataset, model), trials in seeds.groupby(["dataset", "model"], sort=True)
    }
