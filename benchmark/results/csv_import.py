"""Results of another tool, read from a CSV and checked, as the report's evidence.

One line per score: method, dataset, metric, value, and what tells runs apart (`csv_lines.py`). From
the evidence on they are treated like the results of a sweep.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ...common.tasks import BINARY, REGRESSION, TASKS
from ...common.text import one_line, suggest
from ...reports.evidence import Evidence, EvidenceError
from ...reports.facts import Facts
from ...reports.metrics import DEFAULT_METRIC, METRICS, metrics_of
from ...sweeps.trial import CAUSES, DONE, FAILED, UNSUPPORTED, canonical
from .csv_lines import COSTS, ENSEMBLE, TEST, VAL, Lines, literal, scored_lines, some

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIAL = ["dataset", "split", "method", "kind", "seed"]  # what the lines of one trial share
ENSEMBLES = "Ensembles: as the file has them."
# What others call our metrics.
SYNONYMS = {word: m.name for m in METRICS.values() for word in m.synonyms}


def read_results(
    path: str | Path, *, untuned: str = "", tasks: Mapping[str, str] | None = None
) -> Evidence:
    """The evidence of a file of results. tasks: {dataset: task} where the file does not state it;
    untuned: see `scored_lines`.

    Required columns: method, dataset, metric (a name of ours) and value, or one column per metric
    instead of the last two. Optional columns: split (or fold), seed, part (train, val, test), kind
    (single, ensemble), variant (tuned, default, ...), task, config, cause and message of a failure
    (with an empty value), seconds (of the fit), predict_seconds, cpu_seconds, memory_mb. Other
    columns are named in a note.

    A method without any line of a dataset was not meant to run there. A method without a line of
    one split has a missing result. Lines of kind `ensemble` become the evidence's `ensembles`,
    unless the file has no other lines. Raises EvidenceError with the line and the broken rule,
    DataError for a file that is not a table.
    """
    path = Path(path)
    lines = scored_lines(path, untuned)
    cells = lines.cells
    known = cells["dataset"].map(dict(tasks or {})).fillna("")
    cells["task"] = cells["task"].where(cells["task"] != "", known)
    _check_words(lines)
    value = lines.floats("value")
    failed = (cells["cause"] != "").to_numpy()
    lines.refuse(failed & ~np.isnan(value), "a failed trial has no value, and this one has {value}")
    no_value = "value is empty; give a number, or the cause of a failure in a column 'cause'"
    lines.refuse(~failed & np.isnan(value), no_value)
    lines.refuse((cells["metric"] == "") & ~failed, "metric is empty")
    _check_ranges(lines, value)
    _refuse_twice(lines)

    notes = list(lines.notes)
    task_of, guessed = _tasks(lines)
    if guessed:
        notes.append(
            f"Tasks concluded from metrics (of classification: binary): {some(guessed)}. A column "
            "'task' says otherwise."
        )
    splits = _numbered(cells["split"])
    if any(name != str(number) for name, number in splits.items()):
        notes.append(f"Splits are numbered in this order: {some(splits)}.")
    ensemble = (cells["kind"] == ENSEMBLE).to_numpy()
    alone = bool(ensemble.all())  # a file of ensembles alone: each is a run
    run = ~ensemble | alone
    trials = _trials(lines.at(run), task_of, splits)
    tasks_of_runs = set(trials["task"])
    scored = ((cells["part"] == TEST) & ~np.isnan(value)).to_numpy()
    metric: dict[str, str] = {
        task: _headline(lines.at(scored & (run | (task not in tasks_of_runs))), task, task_of)
        for task in TASKS
        if task in task_of.values()
    }
    if alone:
        notes.append("Every line is of an ensemble; a seed is the number of an ensemble.")
    for task, name in metric.items():
        if task in tasks_of_runs and f"test_{name}" not in trials:
            trials[f"test_{name}"] = np.nan  # every trial of the task failed
    facts = Facts(
        title=lines.name,
        suite_hash=hashlib.sha256(path.read_bytes()).hexdigest(),
        metric=metric,
        notes=notes,
        foreign=True,
        kind=ENSEMBLE if alone else "",
        ensembles="" if run.all() else ENSEMBLES,
    )
    evidence = Evidence.of(trials, facts=facts)
    if run.all():
        return evidence
    groups = lines.at(~run)
    if only := sorted(set(groups.cells["dataset"]) - set(trials["dataset"])):
        notes.append(
            f"Ensembles without single runs, in no table but those of seeds: {some(only)}."
        )
    return evidence.but(ensembles=_ensembles(groups, task_of, splits))


def _check_words(lines: Lines) -> None:
    """Seeds that are whole numbers (of ensembles: any text), and words of a closed set."""
    cells = lines.cells
    whole = cells["seed"].str.fullmatch(r"-?\d{1,40}")
    ensemble = cells["kind"] == ENSEMBLE
    more = ", or the line of an ensemble (a column 'kind')"
    lines.refuse(~whole & ~ensemble, f"seed must be a whole number, not {{seed}}{more}")
    lines.refuse(cells["seed"] == "", "seed is empty; name the ensemble's seeds, such as 0-4")
    plain = {seed: str(int(seed)) for seed in cells["seed"][whole].unique()}  # 01 is 1
    cells["seed"] = cells["seed"].replace(plain)
    for column, known in (("metric", METRICS), ("task", TASKS), ("cause", CAUSES)):
        for word in sorted(set(cells[column].unique()) - {"", *known}):
            at = cells[column] == word
            near = suggest(word.lower(), known)
            if column == "metric":
                ours = SYNONYMS.get(word.lower()) or next(
                    (name for name in METRICS if name == word.lower().replace("-", "_")), ""
                )
                near += f"; here it is {ours!r}" * bool(ours) + ", or leave these lines out"
            lines.refuse(at, f"unknown {column} {{{column}}}; {literal(near)}")


def _check_ranges(lines: Lines, value: NDArray[np.float64]) -> None:
    """A value that its metric cannot have: percent for a fraction, a negative error."""
    name = lines.cells["metric"]
    lowest = name.map({m.name: m.lowest for m in METRICS.values()}).to_numpy(dtype=float)
    bounded = name.map({m.name: m.bounded for m in METRICS.values()}).to_numpy(dtype=bool)
    fraction = bounded & (lowest == 0.0)
    law = "{metric} {value} is not between 0 and 1"
    lines.refuse(fraction & (value > 1) & (value <= 100), f"{law}; divide percent by 100")
    lines.refuse(fraction & ((value < 0) | (value > 1)), law)
    lines.refuse(bounded & (value > 1), "{metric} {value} is above 1")
    lines.refuse(value < lowest, "{metric} {value} is below 0")


def _refuse_twice(lines: Lines) -> None:
    """Refuse a second value of the same run, and name the column that tells the two apart."""
    cells = lines.cells
    key = [*TRIAL, "part", "metric"]
    twice = cells.duplicated(key).to_numpy()
    if not twice.any():
        return
    second = int(np.flatnonzero(twice)[0])
    same = (cells[key] == cells.loc[second, key]).all(axis=1).to_numpy()
    first = int(np.flatnonzero(same)[0])
    way = "remove one, or tell them apart by seed, split, variant or kind"
    for name in lines.unread:
        one, other = (one_line(cells.loc[at, name], 40) for at in (first, second))
        if one != other:
            way = f"they differ in {name}, which is not read: keep the lines of one, such as {one}"
            break
    law = "a second value of {metric} for method {method}, dataset {dataset}, split {split}, seed"
    law += f" {{seed}} (the first: line {lines.numbers[first]}); a report counts each once: "
    lines.refuse(twice, law + literal(way))


def _tasks(lines: Lines) -> tuple[dict[str, str], list[str]]:
    """({dataset: task}, the datasets whose task was concluded from the metrics)."""
    cells = lines.cells
    tasks: dict[str, str] = {}
    guessed = []
    for name, rows in cells[["dataset", "task", "metric"]].drop_duplicates().groupby("dataset"):
        dataset = str(name)
        stated = sorted(set(rows["task"]) - {""})
        metrics = sorted(set(rows["metric"]) - {""})
        if len(stated) > 1:
            other = (cells["dataset"] == dataset) & (cells["task"] == stated[1])
            lines.refuse(other, f"a dataset has one task; {{dataset}} is {stated[0]} elsewhere")
        if not stated and not metrics:
            law = "dataset {dataset} has neither a metric nor a task; name its task"
            lines.refuse(cells["dataset"] == dataset, law)
        if not stated:
            guessed.append(dataset)
        guess = REGRESSION if metrics and REGRESSION in METRICS[metrics[0]].tasks else BINARY
        tasks[dataset] = task = stated[0] if stated else guess
        foreign = set(metrics) - set(metrics_of(task))
        if foreign:
            law = f"{{metric}} is no metric of {task}, the task of dataset {{dataset}}"
            law += "" if stated else " by its other metrics"
            lines.refuse((cells["dataset"] == dataset) & cells["metric"].isin(foreign), law)
    return tasks, guessed


def _numbered(labels: pd.Series) -> dict[str, int]:
    """{split: number}: itself where all splits are numbers, else its place in natural order."""
    names = sorted(labels.unique(), key=lambda s: [(len(p), p) for p in re.findall(r"\d+|\D", s)])
    if all(re.fullmatch(r"0|[1-9]\d{0,8}", name) for name in names):
        return {name: int(name) for name in names}
    return {name: number for number, name in enumerate(names)}


def _trials(lines: Lines, tasks: dict[str, str], splits: dict[str, int]) -> pd.DataFrame:
    """One row per trial: an evaluation of its configuration under its seed."""
    everything, lines = lines, lines.at(lines.cells["part"] == TEST)
    cells = lines.cells
    value = lines.floats("value")
    number = cells.groupby(TRIAL, sort=False).ngroup().to_numpy()
    first = ~cells.duplicated(TRIAL)
    trials = cells.loc[first, TRIAL].reset_index(drop=True)
    for column in ("config", "cause", "message"):
        trials[column] = _one_value(lines, number, column)
    for column, name in COSTS.items():
        numbers = lines.floats(column)
        lines.refuse(numbers < 0, f"{column} {{{column}}} is below 0")
        _one_value(lines, number, column)  # refuses lines of one trial that differ
        trials[name] = pd.Series(numbers).groupby(number).first()
    broken = trials["cause"].to_numpy()[number] != ""
    lines.refuse(broken & ~np.isnan(value), "this trial failed on another line, and has a value")
    _add_scores(TEST, lines, number, trials)
    _same_metrics(lines, trials, first.to_numpy())
    validation = everything.at(everything.cells["part"] == VAL)
    known = pd.MultiIndex.from_frame(trials[TRIAL])
    number = known.get_indexer(pd.MultiIndex.from_frame(validation.cells[TRIAL]))
    law = "a validation score of method {method}, dataset {dataset}, seed {seed}, which has no line"
    validation.refuse(number < 0, f"{law} of part test; add it, or leave out those of part val")
    _add_scores(VAL, validation, number, trials)
    trials["config"] = trials["config"].map(_config)
    status = np.where(trials["cause"] == UNSUPPORTED, UNSUPPORTED, FAILED)
    trials["status"] = np.where(trials["cause"] == "", DONE, status)
    trials["task"] = trials["dataset"].map(tasks)
    trials["fold"] = trials["split"].map(splits)
    seeds = trials["seed"]
    if not seeds.str.fullmatch(r"-?\d+").all():  # ensembles, whose labels are numbered
        seeds = seeds.map(_numbered(seeds))
    trials["seed"] = seeds.map(int)
    trials["stage"] = "eval"
    order = trials.sort_values(["dataset", "fold", "method", "seed"], kind="stable")
    trials["index"] = order.groupby(["dataset", "fold", "method"], sort=False).cumcount()
    return trials.rename(columns={"method": "model"}).drop(columns=["split", "kind"])


def _add_scores(part: str, lines: Lines, number: NDArray[np.integer], trials: pd.DataFrame) -> None:
    """Add the columns <part>_<metric>. number: the trial of each line, by its place."""
    value, metric = lines.floats("value"), lines.cells["metric"]
    for name in sorted(set(metric) - {""}):
        mine = (metric == name).to_numpy() & ~np.isnan(value)
        scores = np.full(len(trials), np.nan)
        scores[number[mine]] = value[mine]
        trials[f"{part}_{name}"] = scores


def _ensembles(lines: Lines, tasks: dict[str, str], splits: dict[str, int]) -> pd.DataFrame:
    """One row per ensemble with its test scores, as `Evidence.ensembles` has them."""
    lines.refuse(lines.cells["cause"] != "", "an ensemble cannot have failed; remove the line")
    lines = lines.at(lines.cells["part"] == TEST)
    ensembles = _trials(lines, tasks, splits)
    labels = lines.cells.loc[~lines.cells.duplicated(TRIAL), "seed"]
    scores = [name for name in ensembles if str(name).startswith("test_")]
    keys = ["dataset", "task", "fold", "model", "index"]
    return ensembles.assign(seeds=labels.to_numpy())[[*keys, "seeds", *scores]].sort_values(
        keys, kind="stable", ignore_index=True
    )


def _one_value(lines: Lines, number: NDArray[np.integer], name: str) -> NDArray[np.object_]:
    """The text that each trial has in a column. It may stand on one of its lines or on all of
    them."""
    text = lines.cells[name]
    values = text.where(text != "").groupby(number).first().fillna("").to_numpy(dtype=object)
    law = f"{name} {{{name}}} differs from that on another line of the same trial"
    lines.refuse((text != "").to_numpy() & (text.to_numpy() != values[number]), law)
    return values


def _same_metrics(lines: Lines, trials: pd.DataFrame, first: NDArray[np.bool_]) -> None:
    """On one split of a dataset every trial that did not fail has the same metrics."""
    places = np.flatnonzero(first)
    scores = [c for c in trials if str(c).startswith("test_")]
    good = trials[trials["cause"] == ""]
    for _, rows in good.groupby(["dataset", "split"], sort=True):
        held = rows[scores].notna()
        for column in held.columns[held.any() & ~held.all()]:
            lacking = np.zeros(len(first), dtype=bool)
            lacking[places[rows.index[~held[column]]]] = True
            name = str(column).removeprefix("test_")
            law = f"method {{method}} has no {name} here, which other trials of this split have"
            lines.refuse(lacking, f"{law}; add it, or leave that metric out")


def _config(text: str) -> str:
    """A configuration as a JSON object; any other text becomes {"config": text}."""
    if not text:
        return ""
    try:
        parsed = json.loads(text)
        return canonical(parsed if isinstance(parsed, dict) else {"config": text})
    except (ValueError, RecursionError):  # no JSON, or NaN in it
        return canonical({"config": text})


def _headline(lines: Lines, task: str, tasks: dict[str, str]) -> str:
    """The metric of the task's tables: our usual one if every dataset has it, else the first that
    every dataset has. lines: those with a test score. Raises EvidenceError where there is none."""
    every = lines.cells.groupby("dataset")["metric"].agg(set)
    held = {d: every[d] for d in sorted(every.index) if tasks[d] == task}
    for name in (DEFAULT_METRIC[task], *metrics_of(task)):
        if all(name in metrics for metrics in held.values()):
            return name
    some = {one_line(d, 60): ", ".join(sorted(metrics)) for d, metrics in held.items()}
    shown = "; ".join(f"{dataset!r} has {names}" for dataset, names in list(some.items())[:5])
    raise EvidenceError(
        f"{lines.name}: the {task} datasets have no metric in common ({shown}); give one to all of "
        "them, or report them apart"
    )
