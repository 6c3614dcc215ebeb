"""Results of another tool, read from a CSV and checked, as the report's evidence.

One line per score: method, dataset, split, seed, metric, value. From the evidence on they are
treated like the results of a sweep.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...common.tasks import BINARY, REGRESSION, TASKS
from ...common.text import one_line, suggest
from ...datasets.infer import as_numbers, check_size, read_cells
from ...reports.evidence import LARGEST, Evidence, EvidenceError
from ...reports.metrics import METRICS, metrics_of
from ...sweeps.trial import CAUSES, DONE, FAILED, UNSUPPORTED, canonical
from ..planning.suite import DEFAULT_METRIC

if TYPE_CHECKING:
    from numpy.typing import NDArray

REQUIRED = ("method", "dataset", "split", "seed", "metric", "value")
COSTS = {"seconds": "fit_s", "predict_seconds": "predict_s", "cpu_seconds": "cpu_s"}
COSTS |= {"memory_mb": "peak_ram_mb"}
OPTIONAL = ("task", "config", "cause", "message", *COSTS)

TRIAL = ["dataset", "split", "method", "seed"]  # what the lines of one trial share


class Lines:
    """The cells of the file, and errors that name the line."""

    def __init__(self, path: Path) -> None:
        check_size(path)
        self.name = one_line(path.name, 100)
        cells, numbers, self.delimiter = read_cells(path)
        self.cells = cells.astype(object)  # faster to go through than Arrow's strings
        self.numbers = np.array(numbers)

    def refuse(self, bad: NDArray[np.bool_] | pd.Series, law: str) -> None:
        """Raise EvidenceError for the first line where `bad`; `law` may use its cells by name."""
        at = np.flatnonzero(np.asarray(bad))
        if not len(at):
            return
        cells = {k: repr(one_line(v, 60)) for k, v in self.cells.iloc[int(at[0])].items()}
        more = f" (and {len(at) - 1} lines more)" if len(at) > 1 else ""
        raise EvidenceError(f"{self.name}: line {self.numbers[at[0]]}: {law.format(**cells)}{more}")

    def floats(self, column: str) -> NDArray[np.float64]:
        """A column of finite numbers, NaN where it is empty. Raises EvidenceError."""
        text = self.cells[column]
        numbers, _ = as_numbers(text, self.delimiter)
        law = f"{column} must be a finite number or empty, not {{{column}}}"
        self.refuse((text != "") & ~np.isfinite(numbers), law)
        law = f"{column} {{{column}}} is larger than {LARGEST:g}; no spread follows from it"
        self.refuse(np.abs(numbers) > LARGEST, law)
        return numbers


def read_results(path: str | Path) -> Evidence:
    """The evidence of a file of results.

    Columns: method, dataset, split, seed, metric (a name of ours), value; if wanted task, config,
    cause and message of a failure (its value is empty), seconds (of the fit), predict_seconds,
    cpu_seconds, memory_mb; others are passed over. A method that stands on no line of a dataset was
    not meant to run there; on one of its splits, its result is missing. Raises EvidenceError that
    names the line and the law, DataError for a file that is no table.
    """
    path = Path(path)
    lines = Lines(path)
    _check_columns(lines)
    notes = [
        f"Results of another tool, from {lines.name}: how its methods were tuned, and on which "
        "rows they were scored, is not recorded here."
    ]
    cells = lines.cells.assign(**{c: "" for c in OPTIONAL if c not in lines.cells})
    lines.cells = cells
    _check_words(lines)
    plain = {seed: str(int(seed)) for seed in cells["seed"].unique()}  # 01 is 1
    cells["seed"] = cells["seed"].map(plain)
    value = lines.floats("value")
    failed = (cells["cause"] != "").to_numpy()
    lines.refuse(failed & ~np.isnan(value), "a failed trial has no value, and this one has {value}")
    no_value = "value is empty; give a number, or the cause of a failure in a column 'cause'"
    lines.refuse(~failed & np.isnan(value), no_value)
    lines.refuse((cells["metric"] == "") & ~failed, "metric is empty")
    _check_ranges(lines, value)
    twice = cells.duplicated([*TRIAL, "metric"])
    law = "a second value of {metric} for method {method}, dataset {dataset}, split {split}, seed"
    lines.refuse(twice, f"{law} {{seed}}; a report counts each once")

    tasks, guessed = _tasks(lines)
    if guessed:
        notes.append(
            f"Tasks concluded from metrics (of classification: binary): {_some(guessed)}. A column "
            "'task' says otherwise."
        )
    splits = _numbered(cells["split"])
    if any(name != str(number) for name, number in splits.items()):
        notes.append(f"Splits are numbered in this order: {_some(splits)}.")
    trials = _trials(lines, value, tasks, splits)
    metric = {
        task: _headline(lines, value, task, tasks) for task in TASKS if task in tasks.values()
    }
    meta: dict[str, Any] = {
        "suite": lines.name,
        "suite_hash": hashlib.sha256(path.read_bytes()).hexdigest(),
        "metric": metric,
        "notes": notes,
    }
    return Evidence.of(trials, _planned(trials), meta)


def _check_columns(lines: Lines) -> None:
    known = list(lines.cells.columns)
    missing = [name for name in REQUIRED if name not in known]
    if missing:
        others = [name for name in known if name not in (*REQUIRED, *OPTIONAL)]
        hint = f"; {suggest(missing[0], others)}" if others else ""
        raise EvidenceError(
            f"{lines.name}: line 1: no column {' and no column '.join(missing)}{hint}; needed: "
            f"{', '.join(REQUIRED)}"
        )


def _check_words(lines: Lines) -> None:
    """Names that are there, seeds that are whole numbers, words of a closed set."""
    cells = lines.cells
    for column in ("method", "dataset", "split"):
        lines.refuse(cells[column] == "", f"{column} is empty")
    whole = cells["seed"].str.fullmatch(r"-?\d{1,40}")
    lines.refuse(~whole, "seed must be a whole number, not {seed}")
    for column, known in (("metric", METRICS), ("task", TASKS), ("cause", CAUSES)):
        for word in sorted(set(cells[column].unique()) - {"", *known}):
            at = cells[column] == word
            near = suggest(word.lower(), known)
            more = "" if "known" in near else f"; known: {', '.join(known)}"
            lines.refuse(at, f"unknown {column} {{{column}}}; {near}{more}")


def _check_ranges(lines: Lines, value: NDArray[np.float64]) -> None:
    """A value that its metric cannot have: percent for a fraction, a negative error."""
    name = lines.cells["metric"]
    fraction = name.isin(["accuracy", "balanced_accuracy", "roc_auc"]).to_numpy()
    law = "{metric} {value} is not between 0 and 1"
    percent = fraction & (value > 1) & (value <= 100)
    lines.refuse(percent, f"{law}; divide percent by 100")
    lines.refuse(fraction & ((value < 0) | (value > 1)), law)
    lines.refuse((name == "r2") & (value > 1), "{metric} {value} is above 1")
    errors = [m.name for m in METRICS.values() if m.direction == "min"]
    lines.refuse(name.isin(errors) & (value < 0), "{metric} {value} is below 0")


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


def _some(names: Iterable[str], most: int = 12) -> str:
    shown = [one_line(name, 60) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if shown[most:] else "")


def _numbered(labels: pd.Series) -> dict[str, int]:
    """{split: number}: itself where all splits are numbers, else its place in natural order."""
    names = sorted(labels.unique(), key=lambda s: [(len(p), p) for p in re.findall(r"\d+|\D", s)])
    if all(re.fullmatch(r"0|[1-9]\d{0,8}", name) for name in names):
        return {name: int(name) for name in names}
    return {name: number for number, name in enumerate(names)}


def _trials(
    lines: Lines, value: NDArray[np.float64], tasks: dict[str, str], splits: dict[str, int]
) -> pd.DataFrame:
    """One row per trial: an evaluation of its configuration under its seed."""
    cells = lines.cells
    number = cells.groupby(TRIAL, sort=False).ngroup().to_numpy()
    first = ~cells.duplicated(TRIAL)
    trials = cells.loc[first, TRIAL].reset_index(drop=True)
    for column in ("config", "cause", "message"):
        trials[column] = _one_value(lines, number, cells[column], column)
    for column, name in COSTS.items():
        numbers = lines.floats(column)
        lines.refuse(numbers < 0, f"{column} {{{column}}} is below 0")
        text = _one_value(lines, number, cells[column], column)
        position = pd.Series(numbers).groupby(number, sort=True).first()
        trials[name] = np.where(text == "", np.nan, position.to_numpy())
    broken = trials["cause"].to_numpy()[number] != ""
    lines.refuse(broken & ~np.isnan(value), "this trial failed on another line, and has a value")
    for name in sorted(set(cells["metric"].unique()) - {""}):
        mine = (cells["metric"] == name).to_numpy() & ~np.isnan(value)
        scores = np.full(len(trials), np.nan)
        scores[number[mine]] = value[mine]
        trials[f"test_{name}"] = scores
    _same_metrics(lines, trials, first.to_numpy())
    trials["config"] = trials["config"].map(_config)
    status = np.where(trials["cause"] == UNSUPPORTED, UNSUPPORTED, FAILED)
    trials["status"] = np.where(trials["cause"] == "", DONE, status)
    trials["task"] = trials["dataset"].map(tasks)
    trials["fold"] = trials["split"].map(splits)
    trials["seed"] = trials["seed"].map(int)
    trials["stage"] = "eval"
    order = trials.sort_values(["dataset", "fold", "method", "seed"], kind="stable")
    trials["index"] = order.groupby(["dataset", "fold", "method"], sort=False).cumcount()
    return trials.rename(columns={"method": "model"}).drop(columns="split")


def _one_value(
    lines: Lines, number: NDArray[np.int64], column: pd.Series, name: str
) -> NDArray[np.object_]:
    """The text of each trial, which may stand on one of its lines or on all of them."""
    text = column.reset_index(drop=True)
    if not (text != "").any():
        return np.full(int(number.max()) + 1, "", dtype=object)
    found = text.where(text != "").groupby(number, sort=True).first()
    found = found.reindex(range(int(number.max()) + 1)).fillna("").to_numpy(dtype=object)
    law = f"{name} {{{name}}} differs from that on another line of the same trial"
    lines.refuse((text != "").to_numpy() & (text.to_numpy() != found[number]), law)
    return found


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
            lines.refuse(lacking, law)


def _config(text: str) -> str:
    """A configuration as a JSON object; any other text becomes {"config": text}."""
    if not text:
        return ""
    try:
        found = json.loads(text)
        return canonical(found if isinstance(found, dict) else {"config": text})
    except (ValueError, RecursionError):  # no JSON, or NaN in it
        return canonical({"config": text})


def _headline(lines: Lines, value: NDArray[np.float64], task: str, tasks: dict[str, str]) -> str:
    """The metric of the task's tables: our usual one if every dataset has it, else the first that
    every dataset has. Raises EvidenceError where there is none."""
    pairs = lines.cells.loc[~np.isnan(value), ["dataset", "metric"]].drop_duplicates()
    groups = {str(name): set(part) for name, part in pairs.groupby("dataset")["metric"]}
    datasets = sorted(d for d, t in tasks.items() if t == task)
    held = {d: groups.get(d, set()) for d in datasets}
    scored = [d for d in datasets if held[d]]  # on the others everything failed
    names: Iterable[str] = dict.fromkeys([DEFAULT_METRIC[task], *metrics_of(task)])
    for name in names:
        if all(name in held[d] for d in scored):
            return name
    some = {one_line(d, 60): ", ".join(sorted(held[d])) for d in scored}
    shown = "; ".join(f"{dataset!r} has {names}" for dataset, names in list(some.items())[:5])
    raise EvidenceError(
        f"{lines.name}: the {task} datasets have no metric in common ({shown}); give one to all of "
        "them, or report them apart"
    )


def _planned(trials: pd.DataFrame) -> pd.DataFrame:
    """The plan: every method of a dataset on every split of it."""
    pairs = trials[["dataset", "task", "model"]].drop_duplicates()
    plan = pairs.merge(trials[["dataset", "fold"]].drop_duplicates(), on="dataset")
    counts = trials.groupby(["dataset", "fold", "model"], sort=True).size().rename("n_trials")
    plan = plan.merge(counts.reset_index(), on=["dataset", "fold", "model"], how="left")
    plan["n_trials"] = plan["n_trials"].fillna(1).astype(int)
    return plan
