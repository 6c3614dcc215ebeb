"""A run as MLflow shows it: experiment, runs, params, tags and metric points, from its ledger.

A pure function of the ledger; it does not need MLflow. A study is a run with the scores of its
chosen configuration; its trials are runs below it where the sweep has few enough.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.store.records import latest_results
from ...sweeps.study_state import EVAL, TUNE, Shape, StudyState
from ...sweeps.trial import DONE, FAILED, canonical, digest
from ..planning.plan_record import plan_in, study_name
from ..results.evidence_builder import planned_rows
from ..results.learning_curves import learning_curve

Row = dict[str, Any]

RUNNING, FINISHED, STOPPED, NO_SCORE = "RUNNING", "FINISHED", "KILLED", "FAILED"  # MLflow's words
LISTED = 10  # failures written out in a run's description
TRIALS_SHOWN = 2000  # a sweep of at most so many trials has a run for each
STEPS = {"n_estimators": "boosting round", "epochs": "epoch", "steps": "training step"}
COSTS = ("fit_s", "predict_s", "cpu_s", "peak_ram_mb")


@dataclass(frozen=True)
class Point:
    """One value of a metric. `step`: the index of a trial, a seed, or a step of a fit; `time_ms`:
    when it became durable."""

    key: str
    value: float
    time_ms: int
    step: int

    @property
    def data(self) -> tuple[str, float, int, int]:
        """The point as the arguments of an MLflow metric."""
        return self.key, self.value, self.time_ms, self.step


@dataclass
class TrialRun:
    """One trial (configuration) as a run below that of its study."""

    index: int
    name: str
    status: str
    start_ms: int
    end_ms: int
    tags: dict[str, str]
    params: dict[str, str]
    points: list[Point]

    @property
    def data(self) -> list[Any]:
        """All that a store shows of it, but the choice, which comes later."""
        points = [point.data for point in self.points]
        return [self.index, self.status, self.params, points]


@dataclass
class StudyRun:
    """One study (dataset, fold, model) as one run.

    `start_ms` lies as long before `end_ms` as the study's trials took, and not before the first of
    them began: studies take turns, so that their first and last trials span most of a sweep.
    `trials` holds the points of trial 0, 1, ... up to the first that has not ended, so that it only
    grows at its end; `children` the runs of the same trials (of a study on rungs once it has ended:
    the highest rung of each), none where the sweep has too many. `finals` and `params` (of the
    chosen configuration, the trial `chosen`) are there once the study has ended. `held`: the points
    of trials wait for these, because MLflow lists metrics in the order of their coming. `dataset`
    names the data as MLflow does: digest, source, profile.
    """

    study: str
    key: str
    status: str
    start_ms: int
    end_ms: int | None
    tags: dict[str, str]
    dataset: dict[str, str]
    params: dict[str, str] = field(default_factory=dict)
    trials: list[list[Point]] = field(default_factory=list)
    finals: list[Point] = field(default_factory=list)
    children: list[TrialRun] = field(default_factory=list)
    chosen: int | None = None
    held: bool = False

    @cached_property
    def final_digest(self) -> str:
        """A hash of the final points, "-" where there are none."""
        return digest([point.data for point in self.finals], length=16) if self.finals else "-"

    def trials_digest(self, n: int) -> str:
        """A hash of the points of the first n trials; a store with another one is outdated."""
        return digest([[point.data for point in trial] for trial in self.trials[:n]], length=16)

    def children_digest(self, n: int) -> str:
        """A hash of the first n children, as `trials_digest`."""
        return digest([child.data for child in self.children[:n]], length=16)


@dataclass(frozen=True)
class Projection:
    """A run folder as an experiment with runs."""

    experiment: str
    note: str
    run_id: str
    runs: list[StudyRun]
    sweep: StudyRun


def run_id_of(ledger: Ledger) -> str:
    """The id of a run, kept when its folder is moved: the hash of its first plan.

    Raises LedgerError where nothing was planned yet.
    """
    plan_in(ledger)
    return digest(next(ledger.records("plan")), length=12)


def project(
    ledger: Ledger, *, live: bool, finished_only: bool = False, trials_shown: int = TRIALS_SHOWN
) -> Projection:
    """Every study of the last plan that has a result; `live` says that a driver is at work on it.

    With `finished_only`, studies that have not ended are left out. A sweep of more than
    `trials_shown` trials has no runs of single trials. Raises LedgerError.
    """
    run_id = run_id_of(ledger)
    plan, planned = planned_rows(ledger)
    by_study: dict[str, list[Row]] = defaultdict(list)
    for row in planned:
        by_study[row["study"]].append(row)
    common = _common_tags(plan, ledger.run.resolve().name)
    planned_trials = sum(study["n_trials"] for study in plan["studies"])
    alone = _studies_alone(planned_trials, trials_shown)
    results = latest_results(ledger)
    runs = []
    for study in plan["studies"]:
        name = study_name(study)
        rows = by_study.get(name)
        if not rows:
            continue
        key = f"{run_id}:{name}"
        run = _study_run(name, study, rows, plan, key, live=live, shown=not alone)
        if run.chosen is not None:
            chosen = next(row for row in rows if row["selected"])
            curve = learning_curve(ledger.at(results[chosen["id"]]).get("info", {}))
            run.finals += _curve_points(curve, max(p.time_ms for p in run.finals))
            run.tags["mlflow.note.content"] += _curve_note(curve)
        run.tags["mlflow.note.content"] += alone
        run.tags = {**common, "tabsweep.run_id": run_id, "tabsweep.key": run.key, **run.tags}
        if run.status in (FINISHED, NO_SCORE) or not finished_only:
            runs.append(run)
    suite = plan["suite"]
    note = f"{suite['title']}\n\n{' '.join(suite.get('note', '').split())}".strip()
    name = f"{suite['name']}-{plan['options']['budget']}"
    sweep = _sweep_run(ledger.run.resolve().name, runs, planned, common, run_id)
    sweep.tags["mlflow.note.content"] = f"{suite['title']}. The report is under Artifacts.{alone}"
    return Projection(name, note, run_id, runs, sweep)


def _studies_alone(planned: int, shown: int) -> str:
    """What descriptions say of a sweep with too many trials for runs of their own, else ""."""
    if planned <= shown:
        return ""
    return (
        f"\n\n{planned} trials are planned, more than {shown}: trials have no runs of their own "
        f"here. `bench track sync RUN --trials {planned}` writes them."
    )


def _sweep_run(
    name: str, runs: list[StudyRun], rows: list[Row], common: dict[str, str], run_id: str
) -> StudyRun:
    """The run of the whole sweep, which holds the report."""
    times = [_milliseconds(row["time"]) for row in rows]
    end = max(times, default=0)
    failed = sum(row["status"] == FAILED for row in rows)
    counts = {"n_studies": float(len(runs)), "n_trials": float(len(rows)), "n_failed": failed}
    key = f"{run_id}:"  # no study has this key: its name is not empty
    return StudyRun(
        study=f"{name} (report)",
        key=key,
        status=FINISHED,
        start_ms=end,  # the newest comes first in MLflow's list
        end_ms=end,
        tags={**common, "tabsweep.run_id": run_id, "tabsweep.key": key},
        dataset={},
        finals=list(_points(counts, end, 0)),
    )


def _study_run(
    name: str,
    study: Mapping[str, Any],
    rows: list[Row],
    plan: Record,
    key: str,
    *,
    live: bool,
    shown: bool,
) -> StudyRun:
    metric = plan["metric"][study["task"]]
    search = _search(rows)
    chosen = next((row for row in rows if row["selected"]), None)
    ended = _state(study, rows, metric).finished
    if ended:
        status = FINISHED if chosen is not None or not _failures(search) else NO_SCORE
    else:
        status = RUNNING if live else STOPPED
    times = [_milliseconds(row["time"]) for row in rows]
    took_s = [(row["fit_s"] or 0.0) + (row["predict_s"] or 0.0) for row in rows]
    began = min(time - round(1000 * s) for time, s in zip(times, took_s, strict=True))
    run = StudyRun(
        study=name,
        key=key,
        dataset=_dataset(study["dataset"], plan),
        status=status,
        start_ms=max(began, max(times) - round(1000 * sum(took_s))),
        end_ms=None if status == RUNNING else max(times),
        tags=_study_tags(study, rows, plan, metric),
        trials=[list(points) for points in _trial_points(search, metric, alone=not shown)],
    )
    run.tags["status"] = _status_text(status, len(search), study["n_trials"], search)
    run.tags["mlflow.note.content"] = _description(run.tags["status"], metric, chosen, rows)
    if shown and not study.get("rungs"):
        run.children = [_trial_run(row, metric) for row in search[: len(run.trials)]]
    elif shown and ended:
        run.children = [_trial_run(row, metric) for row in _search(rows, highest=True)]
    run.held = shown and not ended
    if ended:
        if chosen is not None:
            run.chosen = chosen["index"]
            run.params = {k: _text(v) for k, v in _config(chosen).items()}
            run.tags["tabsweep.trial_id"] = chosen["id"]
            run.tags["tabsweep.trial_index"] = str(chosen["index"])
        run.finals = list(_final_points(chosen, search, rows, metric, max(times)))
    return run


def _state(study: Mapping[str, Any], rows: list[Row], metric: str) -> StudyState:
    """Where a study stands by its rows."""
    from ...reports.metrics import METRICS

    state = StudyState(Shape.of(study))
    for row in rows:
        score = row.get(f"val_{metric}") if row["status"] == DONE else None
        loss = None if score is None else METRICS[metric].loss(score)
        state.add(row["stage"], row["index"], loss, row["cpu_s"] or 0.0)
    return state


def _search(rows: list[Row], *, highest: bool = False) -> list[Row]:
    """One row a configuration, in order: where there are rungs, that of its lowest (highest)."""
    found: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: (row["stage"] == TUNE, row["stage"]), reverse=highest):
        if row["stage"] != EVAL:
            found.setdefault(row["index"], row)
    return [found[index] for index in sorted(found)]


def _trial_run(row: Row, metric: str) -> TrialRun:
    """A trial as a run of its own: all its parameters, scores and costs."""
    end = _milliseconds(row["time"])
    done = row["status"] == DONE
    values = {name: row[name] for name in _scores_of(row, metric)} if done else {}
    values |= {name: row.get(name) for name in COSTS} if done else {}
    tags = {
        "dataset": row["dataset"],
        "model": row["model"],
        "fold": str(row["fold"]),
        "stage": row["stage"],
        "status": "done" if done else row["cause"] or row["status"],
        "tabsweep.trial_id": row["id"],
    }
    if row["selected"]:
        tags["chosen"] = "true"
    if row["status"] == FAILED:
        message = " ".join(row["message"].split()).replace("`", "'")[:300]
        tags["mlflow.note.content"] = f"{row['cause']} `{message or '-'}`"
    return TrialRun(
        index=row["index"],
        name=f"{row['model']} {row['index']}",
        status=NO_SCORE if row["status"] == FAILED else FINISHED,
        start_ms=end - round(1000 * (row["fit_s"] or 0.0)),
        end_ms=end,
        tags=tags,
        params={k: _text(v) for k, v in _config(row).items()},
        points=list(_points(values, end, 0)),
    )


def _scores_of(row: Row, metric: str) -> list[str]:
    """The names of the scores of a row, those by the metric of the study first."""
    names = [name for name in sorted(row) if name.startswith(("val_", "test_"))]
    return sorted(names, key=lambda name: name.partition("_")[2] != metric)


def _curve_points(curve: Any, time_ms: int) -> list[Point]:
    """The validation loss of the chosen configuration's fit, by its steps."""
    points = curve["points"] if curve else ()
    return [Point("curve/val_loss", float(loss), time_ms, int(step)) for step, loss in points]


def _curve_note(curve: Any) -> str:
    if not curve:
        return ""
    by = STEPS.get(curve["by"], curve["by"])
    return f"\n\n`curve/val_loss` is the validation loss of the chosen fit by {by}."


def _trial_points(
    search: list[Row], metric: str, *, alone: bool = True
) -> Iterator[Iterator[Point]]:
    """The points of each trial in the run of its study. `alone`: the trial has no run of its
    own, so its scores stand here too."""
    from ...reports.metrics import METRICS

    better = max if METRICS[metric].direction == "max" else min
    best: float | None = None
    failed = 0
    for expected, row in enumerate(search):
        if row["index"] != expected:
            return  # a trial before this one is still out: its points come first
        values: dict[str, float | None] = {}
        if row["status"] == DONE:
            value = row.get(f"val_{metric}")
            best = value if best is None else best if value is None else better(best, value)
            if alone:
                values[f"trial/val_{metric}"] = value
                values[f"trial/test_{metric}"] = row.get(f"test_{metric}")
                values["trial/fit_s"] = row["fit_s"]
        elif row["status"] == FAILED:
            failed += 1
            values["trial/failures"] = float(failed)
        values[f"trial/best_val_{metric}"] = best
        yield _points(values, _milliseconds(row["time"]), row["index"])


def _final_points(
    chosen: Row | None, search: list[Row], rows: list[Row], metric: str, time_ms: int
) -> Iterator[Point]:
    values: dict[str, float | None] = {}
    if chosen is not None:
        values |= {name: chosen[name] for name in _scores_of(chosen, metric)}
        values["fit_s"], values["predict_s"] = chosen["fit_s"], chosen["predict_s"]
    unique = {row["id"]: row for row in rows}.values()
    for cost in ("fit_s", "cpu_s"):
        values[f"total_{cost}"] = sum(row[cost] or 0.0 for row in unique)
    values["peak_ram_mb"] = max((row["peak_ram_mb"] or 0.0 for row in unique), default=0.0) or None
    values["n_trials"] = float(len(search))
    failures = _failures(rows)
    values["n_failed"] = float(sum(failures.values()))
    for cause, count in failures.items():
        values[f"n_failed_{cause}"] = float(count)
    # A store shows the newest step: that of a study after its extension.
    yield from _points(values, time_ms, len(search))
    for row in sorted((row for row in rows if row["stage"] == EVAL), key=lambda row: row["index"]):
        scores = {f"seed/{k}": v for k, v in sorted(row.items()) if k.startswith("test_")}
        yield from _points(scores, _milliseconds(row["time"]), row["index"])


def _points(values: Mapping[str, float | None], time_ms: int, step: int) -> Iterator[Point]:
    for key, value in values.items():
        if value is not None:
            yield Point(_key(key), float(value), time_ms, step)


# ---------------------------------------------------------------------- words


def _common_tags(plan: Record, run: str) -> dict[str, str]:
    found = plan["environment"]
    versions = [f"{k} {v}" for k, v in sorted(found["libraries"].items()) if v != "absent"]
    tags = {
        "suite": plan["suite"]["name"],
        "budget": plan["options"]["budget"],
        "run": run,
        "seed": str(plan["options"]["seed"]),
        "python": found["python"],
        "versions": ", ".join(versions),
        "code": found["code"],
        "hardware": f"{found['cores']} x {found['cpu']}, {found['memory_mb']} MB",
        "system": found["system"],
        "mlflow.source.name": "bench sweep",
        "mlflow.source.type": "LOCAL",
    }
    if len(plan["spaces"]) == 1:
        tags["space"] = plan["spaces"][0]
    return {name: value for name, value in tags.items() if value}


def _study_tags(
    study: Mapping[str, Any], rows: list[Row], plan: Record, metric: str
) -> dict[str, str]:
    samplers = plan["identity"]["sampler"]
    described = plan["datasets"].get(study["dataset"], {})
    tags = {
        "dataset": study["dataset"],
        "protocol": described.get("protocol", ""),
        "fold": str(study["fold"]),
        "model": study["model"],
        "task": study["task"],
        "metric": metric,
        "sampler": samplers.get(f"{study['model']} on {study['task']} data", ""),
        "rungs": ", ".join(map(str, study.get("rungs") or ())),
        "failures": _counts(_failures(_tuned(rows))) or "none",
    }
    return {name: value for name, value in tags.items() if value}


def _dataset(name: str, plan: Record) -> dict[str, str]:
    described = plan["datasets"].get(name, {})
    shape = {"num_rows": described.get("n_rows"), "num_features": described.get("n_features")}
    return {
        "name": name[:500],
        "digest": described.get("sha256", "")[:8] or "unknown",
        "source_type": "tabsweep",
        "source": canonical({"name": name, "sha256": described.get("sha256", "")}),
        "profile": canonical({k: v for k, v in shape.items() if v is not None}),
    }


def _status_text(status: str, n: int, planned: int, search: list[Row]) -> str:
    if status == RUNNING:
        return f"running: {n} of {planned} trials"
    if status == STOPPED:
        return f"stopped: {n} of {planned} trials"
    if not any(row["status"] == DONE for row in search):
        return "failed: every trial" if status == NO_SCORE else "unsupported"
    return "done"


def _description(status: str, metric: str, chosen: Row | None, rows: list[Row]) -> str:
    """The description at the top of a run's page."""
    n_done = sum(row["status"] == DONE for row in _search(rows))
    lines = [f"{status}; {n_done} configurations have a score"]
    if chosen is not None:
        lines[0] += f"; trial {chosen['index']} leads by validation {metric}"
    failed = [row for row in rows if row["status"] != DONE]
    for row in failed[:LISTED]:
        message = " ".join(row["message"].split()).replace("`", "'")[:300]
        lines.append(f"- {row['stage']} {row['index']}: {row['cause']} `{message or '-'}`")
    if len(failed) > LISTED:
        lines.append(f"- and {len(failed) - LISTED} more")
    return "\n".join(lines[:1] + ([""] if failed else []) + lines[1:])


def _tuned(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["stage"] != EVAL]


def _failures(rows: Iterable[Row]) -> Counter[str]:
    return Counter(row["cause"] for row in rows if row["status"] == FAILED)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{cause} {count}" for cause, count in sorted(counts.items()))


def _config(row: Row) -> dict[str, Any]:
    import json

    return json.loads(row["config"])


def _text(value: Any) -> str:
    """A parameter as text; MLflow keeps 6,000 characters of one."""
    return (value if isinstance(value, str) else canonical(value))[:6000]


def _key(name: str) -> str:
    """A name that MLflow accepts: letters, digits, and _ - . : / and blanks, at most 250."""
    return "".join(c if c.isalnum() and c.isascii() or c in "_-. :/" else "_" for c in name)[:250]


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
