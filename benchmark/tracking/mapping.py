"""A run as MLflow shows it: experiment, runs, params, tags and metric points, from its ledger.

A pure function of the ledger, without MLflow. A study becomes a run with the scores of its chosen
configuration; in a small sweep its trials become runs below it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ...sweeps.store.ledger import Ledger
from ...sweeps.store.records import latest_results
from ...sweeps.study_state import EVAL, TUNE, StudyState
from ...sweeps.trial import DONE, FAILED, canonical, digest
from ..planning.plan_record import PlannedStudy, RunPlan
from ..results.evidence_builder import planned_rows
from ..results.learning_curves import CURVE

Row = dict[str, Any]

FINISHED, NO_SCORE = "FINISHED", "FAILED"  # MLflow's words
LISTED = 10  # failures written out in a run's description
TRIALS_SHOWN = 1000  # largest sweep in which each trial has a run
STEPS = {"n_estimators": "boosting round", "epochs": "epoch", "steps": "training step"}
COSTS = ("fit_s", "predict_s", "cpu_s", "peak_ram_mb")
TRIAL_ID = "tabsweep.trial_id"  # tag: the id of a trial, or of a study's chosen trial


class Point(NamedTuple):
    """One value of a metric, as MLflow's `Metric` takes it. time_ms: when the value became durable;
    step: the index of a trial, a seed, or a step of a fit."""

    key: str
    value: float
    time_ms: int
    step: int


@dataclass
class Shown:
    """The content of one MLflow run."""

    name: str
    status: str
    start_ms: int
    end_ms: int
    tags: dict[str, str]
    params: dict[str, str] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)

    @property
    def content(self) -> list[Any]:
        """The content without the tags, as JSON values."""
        return [self.name, self.status, self.start_ms, self.end_ms, self.params, self.points]


@dataclass
class StudyRun(Shown):
    """One study (dataset, fold, model) that has ended, as one run.

    `start_ms` lies as long before `end_ms` as the study's trials took, and not before the first of
    them began: studies take turns, so that their first and last trials span most of a sweep.
    `params` and scores belong to the chosen configuration. trials: the runs below it, empty in a
    large sweep; with rungs, each configuration's highest rung. loss: the chosen configuration's
    test loss. rank: the model's rank by test score on this dataset and fold, known once the studies
    of all models have ended. `dataset` names the data as MLflow does: digest, source, profile.
    """

    dataset: dict[str, str] = field(default_factory=dict)
    trials: list[Shown] = field(default_factory=list)
    loss: float | None = None
    rank: Point | None = None

    @property
    def digest(self) -> str:
        """A hash of the run's content. A stored run with another hash is outdated."""
        trials = [trial.content for trial in self.trials]
        tags = {k: v for k, v in self.tags.items() if k != "mlflow.note.content"}
        return digest([self.content, trials, tags], length=16)


@dataclass(frozen=True)
class Projection:
    """A run folder as an MLflow experiment with its runs. metrics: the suite's metrics;
    common: tags of every run (machine, versions, commit); sweep: the run that holds the report."""

    experiment: str
    note: str
    run_id: str
    metrics: list[str]
    common: dict[str, str]
    runs: list[StudyRun]
    sweep: Shown


def project(ledger: Ledger, *, trials_shown: int = TRIALS_SHOWN) -> Projection:
    """Every study of the last plan that has ended.

    A sweep of more than `trials_shown` trials has no runs of single trials. Raises LedgerError.
    """
    plan, planned = planned_rows(ledger)
    by_study: dict[str, list[Row]] = defaultdict(list)
    for row in planned:
        by_study[row["study"]].append(row)
    planned_trials = sum(study.n_trials for study in plan.studies if not study.reason)
    alone = _studies_alone(planned_trials, trials_shown)
    results = latest_results(ledger)
    runs = []
    for study in plan.studies:
        rows = by_study[study.name]
        if not (rows and _ended(study, rows, plan.metric[study.task])):
            continue
        run = _study_run(study, rows, plan, shown=not alone)
        if id := run.tags.get(TRIAL_ID):
            _add_curve(run, ledger.at(results[id]).get("info", {}).get(CURVE))
        run.tags["mlflow.note.content"] += alone
        runs.append(run)
    _rank(runs, plan)
    suite = plan.suite
    name = ledger.run.resolve().name
    note = f"{suite.title}. The report is under Artifacts.{alone}"
    return Projection(
        experiment=f"{suite.name}-{plan.options.budget}",
        note=f"{suite.title}\n\n{' '.join(suite.note.split())}".strip(),
        run_id=digest(next(ledger.records("plan")), length=12),
        metrics=list(dict.fromkeys(plan.metric[study.task] for study in plan.studies)),
        common=_common_tags(plan, name),
        runs=runs,
        sweep=_sweep_run(name, note, len(runs), planned),
    )


def _rank(runs: list[StudyRun], plan: RunPlan) -> None:
    """Give the runs of studies their ranks: 1 is the best test score on a dataset and fold."""
    ended = {run.name: run for run in runs}
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for study in plan.studies:
        if not study.reason:
            groups[study.dataset, study.fold].append(study.name)
    for names in groups.values():
        if len(names) < 2 or not ended.keys() >= set(names):
            continue
        end = max(ended[name].end_ms for name in names)
        losses = {name: loss for name in names if (loss := ended[name].loss) is not None}
        for name, loss in losses.items():
            place = 1.0 + sum(other < loss for other in losses.values())
            ended[name].rank = Point("rank", place, end, 0)


def _studies_alone(planned: int, shown: int) -> str:
    """The sentence for a sweep with too many trials for runs of their own; "" for others."""
    if planned <= shown:
        return ""
    return (
        f"\n\n{planned} trials are planned, more than {shown}: trials have no runs of their own "
        f"here. `bench track sync RUN --trials {planned}` writes them."
    )


def _sweep_run(name: str, note: str, n_studies: int, rows: list[Row]) -> Shown:
    """The run of the whole sweep, which holds the report."""
    end = max((_milliseconds(row["time"]) for row in rows), default=0)
    failed = sum(row["status"] == FAILED for row in rows)
    counts = {"n_studies": n_studies, "n_trials": len(rows), "n_failed": failed}
    return Shown(
        name=f"{name} (report)",
        status=FINISHED,
        start_ms=end,  # the newest comes first in MLflow's list
        end_ms=end,
        tags={"mlflow.note.content": note},
        points=list(_points(counts, end, 0)),
    )


def _study_run(study: PlannedStudy, rows: list[Row], plan: RunPlan, *, shown: bool) -> StudyRun:
    from ...reports.metrics import METRICS

    metric, bag = plan.metric[study.task], bool(study.bag)
    search = _search(rows)
    chosen = next((row for row in rows if row["selected"]), None)
    status = FINISHED if chosen is not None or not _failures(search) else NO_SCORE
    times = [_milliseconds(row["time"]) for row in rows]
    took_s = [(row["fit_s"] or 0.0) + (row["predict_s"] or 0.0) for row in rows]
    began = min(time - round(1000 * s) for time, s in zip(times, took_s, strict=True))
    tags = _study_tags(study, rows, plan, metric)
    tags["status"] = _status_text(status, search)
    tags["mlflow.note.content"] = _description(tags["status"], metric, chosen, rows)
    run = StudyRun(
        name=study.name,
        status=status,
        start_ms=max(began, max(times) - round(1000 * sum(took_s))),
        end_ms=max(times),
        tags=tags,
        dataset=_dataset(study.dataset, plan),
    )
    # MLflow lists metrics in the order in which they were logged.
    if chosen is not None:
        run.params = _params(chosen)
        tags[TRIAL_ID] = chosen["id"]
        tags["tabsweep.trial_index"] = str(chosen["index"])
        score = _scores(chosen, rows, metric, bag).get(f"test_{metric}")
        run.loss = None if score is None else METRICS[metric].loss(score)
    run.points += _final_points(chosen, search, rows, metric, run.end_ms, bag=bag)
    run.points += _trial_points(search, metric, alone=not shown)
    if shown:
        run.trials = [_trial_run(row, metric) for row in _search(rows, highest=True)]
    return run


def _ended(study: PlannedStudy, rows: list[Row], metric: str) -> bool:
    """Whether the search and the evaluation of a study have ended."""
    from ...reports.metrics import METRICS

    state = StudyState(study.shape)
    for row in rows:
        score = row.get(f"val_{metric}") if row["status"] == DONE else None
        loss = None if score is None else METRICS[metric].loss(score)
        state.add(row["stage"], row["index"], loss, row["cpu_s"] or 0.0)
    return state.finished


def _search(rows: list[Row], *, highest: bool = False) -> list[Row]:
    """One row a configuration, in order; with rungs the row of its lowest (highest) one."""
    found: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: (row["stage"] == TUNE, row["stage"]), reverse=highest):
        if row["stage"] != EVAL:
            found.setdefault(row["index"], row)
    return [found[index] for index in sorted(found)]


def _trial_run(row: Row, metric: str) -> Shown:
    """A trial as a separate run with its parameters, scores and costs."""
    end = _milliseconds(row["time"])
    done = row["status"] == DONE
    names = [*_scores_of(row, metric), *COSTS] if done else []
    tags = {
        "dataset": row["dataset"],
        "model": row["model"],
        "fold": str(row["fold"]),
        "stage": row["stage"],
        "status": "done" if done else row["cause"] or row["status"],
        "tabsweep.trial": str(row["index"]),
        TRIAL_ID: row["id"],
    }
    if row["selected"]:
        tags["chosen"] = "true"
    if row["status"] == FAILED:
        tags["mlflow.note.content"] = _failure(row)
    return Shown(
        name=f"{row['model']} {row['index']}",
        status=NO_SCORE if row["status"] == FAILED else FINISHED,
        start_ms=end - round(1000 * (row["fit_s"] or 0.0)),
        end_ms=end,
        tags=tags,
        params=_params(row),
        points=list(_points({name: row.get(name) for name in names}, end, 0)),
    )


def _scores_of(row: Row, metric: str) -> list[str]:
    """The names of a row's scores; the scores by the study's metric come first."""
    names = [name for name in sorted(row) if name.startswith(("val_", "test_"))]
    return sorted(names, key=lambda name: name.partition("_")[2] != metric)


def _scores(chosen: Row, rows: list[Row], metric: str, bag: bool) -> dict[str, float | None]:
    """The scores of a study as in the tables. With evaluation seeds, a test score is their mean, or
    None if a seed has no score; with a bag, validation and test scores are the bag's."""
    counting = [row for row in rows if row["stage"] == EVAL] or [chosen]
    scores: dict[str, float | None] = {}
    for name in _scores_of(chosen, metric):
        of_all = name.startswith("test_") or bag
        known = [row[name] for row in (counting if of_all else [chosen])]
        scores[name] = None if None in known else sum(known) / len(known)
    return scores


def _add_curve(run: StudyRun, curve: Any) -> None:
    """Add the validation loss of the chosen configuration's fit by step, if it was recorded."""
    if curve:
        by = STEPS.get(curve["by"], curve["by"])
        note = f"\n\n`curve/val_loss` is the validation loss of the chosen fit by {by}."
        run.tags["mlflow.note.content"] += note
        for step, loss in curve["points"]:
            run.points.append(Point("curve/val_loss", float(loss), run.end_ms, int(step)))


def _trial_points(search: list[Row], metric: str, *, alone: bool) -> Iterator[Point]:
    """The trials' points in the run of their study. alone: the trials have no runs of their own, so
    the points include their scores."""
    from ...reports.metrics import METRICS

    better = max if METRICS[metric].direction == "max" else min
    best: float | None = None
    for row in search:
        values: dict[str, float | None] = {}
        if row["status"] == DONE:
            value = row.get(f"val_{metric}")
            best = value if best is None else best if value is None else better(best, value)
            if alone:
                values[f"trial/val_{metric}"] = value
                values[f"trial/test_{metric}"] = row.get(f"test_{metric}")
                values["trial/fit_s"] = row["fit_s"]
        values[f"trial/best_val_{metric}"] = best
        yield from _points(values, _milliseconds(row["time"]), row["index"])


def _final_points(
    chosen: Row | None, search: list[Row], rows: list[Row], metric: str, time_ms: int, *, bag: bool
) -> Iterator[Point]:
    values: dict[str, float | None] = {}
    if chosen is not None:
        values |= _scores(chosen, rows, metric, bag)
        values["fit_s"], values["predict_s"] = chosen["fit_s"], chosen["predict_s"]
    unique = {row["id"]: row for row in rows}.values()
    for cost in ("fit_s", "cpu_s"):
        values[f"total_{cost}"] = sum(row[cost] or 0.0 for row in unique)
    values["peak_ram_mb"] = max((row["peak_ram_mb"] or 0.0 for row in unique), default=0.0) or None
    values["n_trials"] = float(len(search))
    values["n_failed"] = float(sum(_failures(rows).values()))
    yield from _points(values, time_ms, 0)
    if bag:
        return
    for row in sorted((row for row in rows if row["stage"] == EVAL), key=lambda row: row["index"]):
        scores = {f"seed/{k}": v for k, v in sorted(row.items()) if k.startswith("test_")}
        yield from _points(scores, _milliseconds(row["time"]), row["index"])


def _points(values: Mapping[str, float | None], time_ms: int, step: int) -> Iterator[Point]:
    for key, value in values.items():
        if value is not None:
            yield Point(key, float(value), time_ms, step)


# ---------------------------------------------------------------------- words


def _common_tags(plan: RunPlan, run: str) -> dict[str, str]:
    found = plan.environment
    versions = [f"{k} {v}" for k, v in sorted(found["libraries"].items()) if v != "absent"]
    tags = {
        "suite": plan.suite.name,
        "budget": str(plan.options.budget),
        "run": run,
        "seed": str(plan.options.seed),
        "python": found["python"],
        "versions": ", ".join(versions),
        "code": found["code"],
        "hardware": f"{found['cores']} x {found['cpu']}, {found['memory_mb']} MB",
        "system": found["system"],
        "mlflow.source.name": "bench sweep",
        "mlflow.source.type": "LOCAL",
    }
    if len(plan.spaces) == 1:
        tags["space"] = plan.spaces[0]
    return {name: value for name, value in tags.items() if value}


def _study_tags(study: PlannedStudy, rows: list[Row], plan: RunPlan, metric: str) -> dict[str, str]:
    failures = _failures(row for row in rows if row["stage"] != EVAL)
    tags = {
        "dataset": study.dataset,
        "protocol": plan.datasets[study.dataset].protocol,
        "fold": str(study.fold),
        "model": study.model,
        "task": study.task,
        "metric": metric,
        "sampler": plan.search_of(study),
        "rungs": ", ".join(map(str, study.rungs)),
        "fits": f"bag of {study.n_members}" if study.bag else "",
        "failures": ", ".join(f"{cause} {n}" for cause, n in sorted(failures.items())) or "none",
    }
    return {name: value for name, value in tags.items() if value}


def _dataset(name: str, plan: RunPlan) -> dict[str, str]:
    described = plan.datasets[name]
    return {
        "name": name[:500],
        "digest": described.sha256[:8],
        "source_type": "tabsweep",
        "source": canonical({"name": name, "sha256": described.sha256}),
        "profile": canonical({"num_rows": described.n_rows, "num_features": described.n_features}),
    }


def _status_text(status: str, search: list[Row]) -> str:
    if not any(row["status"] == DONE for row in search):
        return "failed: every trial" if status == NO_SCORE else "unsupported"
    return "done"


def _description(status: str, metric: str, chosen: Row | None, rows: list[Row]) -> str:
    """The description at the top of a run's page."""
    n_done = sum(row["status"] == DONE for row in _search(rows))
    text = f"{status}; {n_done} configurations have a score"
    if chosen is not None:
        text += f"; trial {chosen['index']} leads by validation {metric}"
    failed = [row for row in rows if row["status"] != DONE]
    lines = [f"- {row['stage']} {row['index']}: {_failure(row)}" for row in failed[:LISTED]]
    if len(failed) > LISTED:
        lines.append(f"- and {len(failed) - LISTED} more")
    return "\n".join([text, "", *lines] if lines else [text])


def _failure(row: Row) -> str:
    message = " ".join(row["message"].split()).replace("`", "'")[:300]
    return f"{row['cause']} `{message or '-'}`"


def _failures(rows: Iterable[Row]) -> Counter[str]:
    return Counter(row["cause"] for row in rows if row["status"] == FAILED)


def _params(row: Row) -> dict[str, str]:
    """The configuration of a row as texts of at most the 6,000 characters that MLflow keeps."""
    config = json.loads(row["config"])
    return {k: (v if isinstance(v, str) else canonical(v))[:6000] for k, v in config.items()}


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
