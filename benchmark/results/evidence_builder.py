"""Ledger records as tidy frames, and these frames as evidence; no other module does either."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...common.counting import count
from ...common.text import first_few
from ...reports.facts import Facts
from ...sweeps.store.integrity import damage_of
from ...sweeps.store.ledger import Ledger
from ...sweeps.study_state import EVAL, TUNE, StudyState
from ...sweeps.trial import DONE
from ..planning.plan_record import PlannedDataset, RunPlan, bag_words, fits_apart, plan_in
from .overlap import Part, first_of_each, without_repeats
from .page_facts import behind, facts_of, families_of, names_of, of_papers
from .slots_frame import Columns, columns_of, last_of, results_frame, study_ends, warnings_by_model

if TYPE_CHECKING:
    import pandas as pd

    from ...reports.evidence import Evidence


IDENTITY = ("metric", "protocol", "seed")  # what all runs of a report must have in common


def load_results(run: str | Path) -> pd.DataFrame:
    """The results of a run, one row per trial of a study.

    Columns: dataset, task, fold, model, index, stage, seed, config (JSON text), status, cause,
    message, selected, val_<metric>, test_<metric>, fit_s, predict_s, cpu_s (seconds), peak_ram_mb,
    study, id, origin, time, cpu. Raises LedgerError where `run` is not the folder of a run.
    """
    ledger = Ledger(Path(run))
    return planned_frame(ledger, columns_of(ledger.columns()))[1].infer_objects()


def planned_rows(ledger: Ledger) -> tuple[RunPlan, list[dict[str, Any]]]:
    """`planned_frame` with its rows as dictionaries; a number that is missing is None."""
    plan, frame = planned_frame(ledger, columns_of(ledger.columns()))
    return plan, frame.astype(object).where(frame.notna(), None).to_dict("records")


def planned_frame(
    ledger: Ledger, columns: Columns, plan: RunPlan | None = None, *, compact: bool = False
) -> tuple[RunPlan, pd.DataFrame]:
    """(the plan in force, the rows that belong to it, each with its `task` and `selected`).
    Consumes `columns`. plan: the one in force, where it is known. compact: see `results_frame`."""
    plan = plan or plan_in(ledger)
    frame = results_frame(columns, compact=compact)
    import pandas as pd

    from ...reports.evidence import starts

    tasks = {study.dataset: study.task for study in plan.studies}
    first = starts(frame, ["dataset"])
    words = pd.array([tasks.get(name, "") for name in frame.loc[first, "dataset"]], dtype="str")
    frame = frame.assign(task=words.take(np.cumsum(first) - 1))
    frame = frame.assign(loss=losses(frame, plan.metric))
    counted, selected = counted_rows(frame, plan)
    frame = frame.assign(selected=selected)
    frame = frame if counted.all() else frame[counted]
    gone = outdated(frame)
    frame = frame.drop(columns="loss")
    return plan, (frame.drop(index=gone) if len(gone) else frame).reset_index(drop=True)


def outdated(frame: pd.DataFrame) -> pd.Index:
    """Index of the evaluation rows whose configuration is no longer the chosen one."""
    evals = frame.loc[frame["stage"] == EVAL, ["study", "config"]]
    if not len(evals):
        return evals.index
    picked = frame.loc[frame["selected"], ["study", "config"]]
    config = dict(zip(picked["study"], picked["config"], strict=True))
    return evals.index[[config.get(s) != c for s, c in evals.itertuples(index=False, name=None)]]


def losses(frame: pd.DataFrame, metric: Mapping[str, str]) -> np.ndarray:
    """The validation loss of each row, lower is better; NaN where it has none.

    `metric` maps a task to the metric that selects; every row carries its `task`.
    """
    from ...reports.metrics import METRICS

    values = np.full(len(frame), np.nan)
    done = (frame["status"] == DONE).to_numpy()
    for task, name in metric.items():
        if f"val_{name}" in frame:
            mine = done & (frame["task"] == task).to_numpy()
            values[mine] = METRICS[name].sign * frame[f"val_{name}"].to_numpy()[mine]
    return values


def counted_rows(frame: pd.DataFrame, plan: RunPlan) -> tuple[np.ndarray, np.ndarray]:
    """(mask of the rows that count under a plan, mask of the rows that validation chose).

    The rows of a study stand together, and those of a stage within them.
    """
    from ...reports.evidence import starts

    shapes = {study.name: study.shape for study in plan.studies}
    first = np.flatnonzero(starts(frame, ["study", "stage"]))
    places = list(frame.iloc[first][["study", "stage"]].itertuples(index=False, name=None))
    parts = [slice(*ends) for ends in pairwise([*first.tolist(), len(frame)])]
    index, loss = frame["index"].to_numpy(), frame["loss"].to_numpy()
    timed = any(shape.study_s is not None for shape in shapes.values())
    cpu_s = frame["cpu_s"].fillna(0.0).to_numpy() if timed else np.zeros(len(frame))
    states: dict[str, StudyState] = {}
    for (study, stage), rows in zip(places, parts, strict=True):
        if study in shapes:
            state = states.setdefault(study, StudyState(shapes[study]))
            columns = (values[rows].tolist() for values in (index, loss, cpu_s))
            state.add_all(stage, *columns)
    counted, selected = np.zeros(len(frame), dtype=bool), np.zeros(len(frame), dtype=bool)
    for (study, stage), rows in zip(places, parts, strict=True):
        if study in shapes:
            state, indices = states[study], index[rows]
            counted[rows] = (
                [state.has(stage, i) for i in indices.tolist()]
                if state.shape.selective
                else indices < state.shape.bounds.get(stage, 0)
            )
            if stage == TUNE and (best := state.best) is not None:
                selected[rows] = indices == best
    return counted, selected


def evidence_of(runs: Iterable[str | Path], *, newest_first: bool = False) -> Evidence:
    """One or several runs as the report reads them. Several must agree on metric and protocol.

    A study of several runs counts once (`without_repeats`). newest_first: the runs may have
    computed the same cells differently; the first that completed one counts (`first_of_each`).
    Raises LedgerError, or ValueError naming what two runs disagree on.
    """
    folders = [Path(run) for run in runs]
    ledgers = [Ledger(run) for run in folders]
    parts: list[Part] = []
    ends = []
    times: list[str] = [""]
    cpus: set[str] = set()
    gpus: set[str] = set()
    warned: dict[str, Counter[str]] = {}
    for ledger in ledgers:
        columns, plan = columns_of(ledger.columns()), plan_in(ledger)
        ends.append(slots_in_the_end(columns, plan))
        for model, counts in warnings_by_model(columns).items():
            warned.setdefault(model, Counter()).update(counts)
        times += last_of(columns.pop("time"))
        plan, frame = planned_frame(ledger, columns, plan, compact=True)
        cpus |= set(frame.pop("cpu"))
        gpus |= set(frame.pop("gpu"))
        parts.append((plan, frame))
    import pandas as pd

    from ...reports.evidence import Evidence

    plans = [plan for plan, _ in parts]
    for one, other in combinations(plans, 2):
        agree(one, other, content=newest_first)
    parts, repeated = first_of_each(parts) if newest_first else without_repeats(folders, parts)
    plans = [plan for plan, _ in parts]
    frames = [frame for _, frame in parts if len(frame)] or [parts[0][1]]
    trials = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    kinds = {"cpus": sorted(cpus - {""}), "gpus": sorted(gpus - {""})}
    damage = [text for ledger in ledgers for text in damage_of(ledger)]
    notices = [f"{text}." for ledger in ledgers for text in ledger.notices]
    known = facts_of_plans(plans, trials, last_record=max(times), **kinds)
    facts = replace(
        known,
        runs=[str(run) for run in folders],
        damage=damage,
        notes=[*known.notes, *repeated, *notices, *(f"Incomplete: {text}." for text in damage)],
        fit_warnings={model: dict(sorted(warned[model].items())) for model in sorted(warned)},
    )
    planned = [
        {
            "dataset": study.dataset,
            "task": study.task,
            "fold": study.fold,
            "model": study.model,
            "n_trials": ended.get(study.name, study.shape.n_slots),
            "reason": study.reason,
        }
        for plan, ended in zip(plans, ends, strict=True)
        for study in plan.studies
    ]
    for task in {study.task for plan in plans for study in plan.studies}:
        column = f"test_{plans[0].metric[task]}"
        if column not in trials:
            trials[column] = float("nan")  # nothing succeeded: a table of failures
    trials = trials.drop(columns="study", errors="ignore")
    return Evidence.of(trials, pd.DataFrame(planned), facts)


def noting(evidence: Evidence, *notes: str, damage: Iterable[str] = ()) -> Evidence:
    """The evidence with these notes and these sentences on damage added, each once."""
    damaged = [*evidence.facts.damage, *damage]
    said = [*evidence.facts.notes, *notes]
    return evidence.knowing(notes=said, damage=list(dict.fromkeys(damaged)))


def slots_in_the_end(columns: Columns, plan: RunPlan) -> dict[str, int]:
    """{study: its number of slots} for studies that ended as planned. After failures, the higher
    rungs and the evaluation may have fewer slots than the plan."""
    planned = {study.name: study.n_trials for study in plan.studies}
    return {
        study: n_slots
        for study, n_trials, n_slots in study_ends(columns)
        if planned.get(study) == n_trials
    }


def agree(first: RunPlan, other: RunPlan, *, content: bool) -> None:
    """Raises ValueError where the scores of two runs cannot share a table. content: whether data
    and folds of the datasets that both runs have are compared too."""
    parts = [(part, first.identity[part], other.identity[part]) for part in IDENTITY]
    if content:
        shared = sorted(first.datasets.keys() & other.datasets.keys())
        for part, of in (
            ("data", lambda plan: {name: plan.datasets[name].sha256 for name in shared}),
            ("folds", lambda plan: {name: plan.folds_of(name) for name in shared}),
        ):
            parts.append((part, of(first), of(other)))
    if (apart := fits_apart(first, other)) is not None:
        raise ValueError(
            f"the runs cannot share a table: scores of one are of {apart[0]}, of the other of "
            f"{apart[1]}; write a report for each, or bench compare"
        )
    for part, a, b in parts:
        for key in sorted(set(a) & set(b)):
            if a[key] != b[key]:
                raise ValueError(
                    f"the runs cannot share a table: {part} of {key} is {a[key]!r} in one and "
                    f"{b[key]!r} in the other; write a report for each"
                )


def facts_of_plans(
    plans: list[RunPlan], frame: pd.DataFrame, *, last_record: str, cpus: list[str], gpus: list[str]
) -> Facts:
    """The settings, versions and notes that tables show. last_record: time of the newest record;
    cpus, gpus: the processors that trials ran on."""
    first = plans[0]
    names = [str(plan.options.budget) for plan in plans]
    budgets = [plan.budget for plan in plans]
    seeds = sorted({budget.seeds for budget in budgets})
    datasets = {name: described for plan in plans for name, described in plan.datasets.items()}
    subset, why = independent({n: (one.learnable, one.overlaps) for n, one in datasets.items()})
    trials = sorted({study.n_trials for plan in plans for study in plan.studies})
    folds = sorted({study.fold for plan in plans for study in plan.studies})
    notes = [note for plan in plans for note in plan.notes]
    notes = [*(budget.note for budget in budgets if budget.note), *notes]
    if first.suite.folds_mean:
        notes.append(first.suite.folds_mean)
    failed = frame.loc[(frame["status"] != DONE).to_numpy(dtype=bool), ["study", "cause"]]
    struck = sorted(set(failed.loc[failed["cause"].isin(LIMITED), "study"]))
    promises = promises_of(plans, struck)
    warnings = warnings_of(datasets)
    notes += [*promises, *warnings]
    where = sorted({study.rsplit("/", 2)[0] for study in struck})
    limits = {note: where for note in promises[-1:] if where}  # the note on limits is the last
    environment = first.environment
    mixed = f" (results come from {len(cpus)} types)" if len(cpus) > 1 else ""
    return Facts(
        suite=", ".join(dict.fromkeys(plan.suite.name for plan in plans)),
        budget=f"{', '.join(dict.fromkeys(names))}: {count(len(folds), 'fold')}, "
        f"{_range(trials, 'configuration')} a study, {_evaluated(plans, seeds)}",
        seed=first.options.seed,
        sampler=", ".join(sorted({name for plan in plans for name in plan.samplers})),
        metric=first.metric,
        **of_protocols(
            {name: described.protocol for name, described in sorted(datasets.items())},
            [name for name, described in datasets.items() if described.added],
        ),
        rows={name: described.n_rows for name, described in sorted(datasets.items())},
        constants={name: described.constant for name, described in datasets.items()},
        subset=subset,
        subset_note=why,
        default_first=default_first(plans, all(b.start_with_default for b in budgets)),
        left_out={n: r for plan in plans for n, r in plan.left_out.items()},
        notes=list(dict.fromkeys(notes)),
        notes_of={**limits, **warnings},
        families=families_of(behind(plans)),
        of_papers=of_papers(behind(plans)),
        names=names_of(plans),
        of_datasets=facts_of(datasets),
        last_record_utc=last_record,
        versions=environment["libraries"],
        environment={
            "cpu": ("; ".join(cpus) or environment["cpu"]) + mixed,
            **({"gpu": "; ".join(gpus) + ": equal bytes are not promised"} if gpus else {}),
            **{name: str(environment[name]) for name in ("cores", "memory_mb", "system")},
            **{k: v for k, v in environment.items() if k == "instructions"},
        },
        code=environment["code"],
        lock=environment["lock"],
    )


def _evaluated(plans: Sequence[RunPlan], seeds: Sequence[int]) -> str:
    """How the chosen configuration of a study is evaluated, in words."""
    most = max((s for plan in plans for s in plan.studies), key=lambda study: study.n_members)
    if not most.n_members:
        return _range(seeds, "evaluation seed")
    return bag_words(most.n_members, most.validation).removeprefix(", ")


def of_protocols(protocols: Mapping[str, str], added: Sequence[str] = ()) -> dict[str, Any]:
    """The facts `protocol`, `overlapping`, `sizes`, `test_over_train` of {dataset: protocol}.
    added: datasets with one stored split, whose test parts do not overlap."""
    from ...datasets.protocols import N_FOLDS, NUMBERS, described, draws_of

    official = [name for name, protocol in protocols.items() if protocol.startswith("official")]
    draws = {name: draws_of(one) for name, one in protocols.items() if draws_of(one)}
    return {
        "protocol": {name: described(one) for name, one in protocols.items()},
        "overlapping": [*(name for name in official if name not in added), *draws],
        "sizes": {
            name: {NUMBERS * size + k: size for size, n in of.items() for k in range(1, n + 1)}
            for name, of in draws.items()
        },
        "test_over_train": {
            name: 1.0 / (N_FOLDS - 1) for name, one in protocols.items() if one == "kfold"
        },
    }


def _range(numbers: Sequence[int], what: str) -> str:
    """Ascending numbers in words.

    >>> _range([1], "seed"), _range([2, 3, 5], "seed")
    ('1 seed', '2 to 5 seeds')
    """
    last = count(numbers[-1], what)
    return last if numbers[0] == numbers[-1] else f"{numbers[0]} to {last}"


def default_first(plans: list[RunPlan], start_with_default: bool) -> list[str]:
    """The models whose studies all try the default configuration first. Grids, asynchronous
    searches and halving do not, even if the budget starts with the default."""
    others, names = set(), set()
    for plan in plans:
        for study in plan.studies:
            names.add(study.model)
            grid = plan.search_of(study).partition(",")[0] == "grid"
            if study.rungs or study.asynchronous or grid:
                others.add(study.model)
    return sorted(names - others) if start_with_default else []


LIMITED = ("timeout", "oom", "gpu_oom", "killed")


def promises_of(plans: list[RunPlan], struck: Sequence[str]) -> list[str]:
    """Notes on why another sweep of the same suite may give other tables. struck: the studies in
    which a trial hit a limit."""
    promises = []
    studies = [study for plan in plans for study in plan.studies]
    for how in sorted({study.asynchronous for study in studies if study.asynchronous}):
        models = sorted({study.model for study in studies if study.asynchronous == how})
        promises.append(
            f"Another run may differ: {', '.join(models)} searched by asynchronous {how.upper()}, "
            "whose choices depend on the order in which trials finish."
        )
    if struck:
        shown = first_few(struck, 5)
        promises.append(f"Another run may differ: trials hit a limit of time or memory in {shown}.")
    return promises


def warnings_of(datasets: Mapping[str, PlannedDataset]) -> dict[str, list[str]]:
    """{sentence: the datasets that it is about}. For files, each warning; for datasets with a card,
    one sentence for each kind of problem."""
    own: dict[tuple[str, str], list[str]] = {}
    known: dict[str, list[str]] = {}
    for name, described in sorted(datasets.items()):
        file = bool(described.csv)
        see = "inspect" if file else "passport"  # a passport is of a dataset that has a name
        for warning in described.warnings:
            if file or described.added:
                own.setdefault((warning, see), []).append(name)
            else:
                known.setdefault(warning.partition(":")[0], []).append(name)
    sentences = {
        f"{', '.join(names)}: {text} (see bench data {see}).": names
        for (text, see), names in own.items()
    }
    return sentences | {
        f"{kind}: {', '.join(names)} (see bench data passport).": names
        for kind, names in known.items()
    }


def independent(datasets: Mapping[str, tuple[bool, Iterable[str]]]) -> tuple[list[str], str]:
    """(learnable datasets of which no two share rows, why the others are left out). datasets:
    {name: (whether it is learnable, names of datasets that share rows with it)}.

    Where datasets share rows, the first one by name is kept.
    """
    kept: list[str] = []
    reasons = []
    for name, (learnable, overlaps) in sorted(datasets.items()):
        if not learnable:
            reasons.append(f"{name} cannot be learned beyond the majority class")
            continue
        twin = next((other for other in overlaps if other in kept), None)
        if twin:
            reasons.append(f"{name} shares rows with {twin}")
            continue
        kept.append(name)
    note = f"Left out of the subset: {'; '.join(reasons)}." if reasons else ""
    return kept, note
