"""Evidence: the tidy frames that a report reads, their columns, and the laws that they must obey.

`benchmark` builds an Evidence from a ledger, or from a CSV file of another tool. Everything in a
report is computed from its frames and its `facts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import infer_dtype

from ..common.errors import Error
from ..common.tasks import TASKS
from .facts import Facts
from .metrics import METRICS, metric, metrics_of

STAGES = ("tune", "eval")
STATUSES = ("done", "failed", "unsupported")

# Columns of `trials` besides the metric columns val_<metric> and test_<metric>.
TRIAL_COLUMNS: dict[str, str] = {
    "dataset": "id of the dataset",
    "task": "binary, multiclass or regression",
    "fold": "number of the fold, from 0",
    "model": "id of the model",
    "index": "position in the study (stage tune) or number of the evaluation run (stage eval)",
    "stage": "tune: a tuning trial; rung0, rung1, ...: one that stopped on a lower rung; "
    "eval: the chosen configuration run again under a seed",
    "seed": "seed of the trial",
    "status": "done, failed or unsupported",
    "cause": "why it failed, one word of a closed set; empty when done",
    "message": "first line of the error; empty when done",
    "config": "the hyperparameters as JSON",
    "selected": "True for the one tuning trial of the study that validation chose",
    "fit_s": "wall seconds of the fit",
    "predict_s": "wall seconds of the predictions",
    "cpu_s": "CPU seconds of the trial",
    "peak_ram_mb": "largest resident memory in MiB",
    "peak_vram_mb": "peak of the tensors on the GPU in MiB",
    "step_s": "wall seconds of a training step, of models that count steps",
    "predict_1k_s": "wall seconds to predict 1,000 rows in one batch, measured apart and warm",
    "predict_1k_single_s": "wall seconds to predict 1,000 rows one by one, measured likewise",
    "id": "content address of the trial; rows with the same id are one trial that ran once",
    "origin": "the run that the result was copied from; empty when this run computed it",
}
_REQUIRED_TRIALS = ("dataset", "task", "fold", "model", "index", "stage", "seed", "status")
_TEXT_DEFAULTS = ("cause", "message", "config", "id", "origin")
LARGEST = 1e100  # of a score or cost; larger ones are missing, as their spread is no number
_COST_COLUMNS = [name for name in TRIAL_COLUMNS if name.endswith(("_s", "_mb"))]

PLANNED_COLUMNS: dict[str, str] = {
    "dataset": "id of the dataset",
    "task": "its task",
    "fold": "number of the fold",
    "model": "id of the model",
    "n_trials": "rows of `trials` that the plan holds for this study, all stages",
    "reason": "empty, or why the study is a planned absence (unsupported, left out)",
}

STUDY = ["dataset", "fold", "model"]

# Attributes computed from the frames alone; a copy with the same frames keeps them.
_OF_FRAMES = ["_held", "_blocks", "_masks", "_in_strict_order", "study_numbers", "tasks", "models"]
_OF_FRAMES += ["_evaluation_runs", "n_seeds", "fewer_seeds"]


class EvidenceError(Error, ValueError):
    """Results that a report cannot use; the message names the law and the row."""

    id = "BENCH-E008"


@dataclass(frozen=True)
class Evidence:
    """The results of one or several runs, as a report reads them.

    `trials` has one row per trial (TRIAL_COLUMNS and, for any metric of `metrics.METRICS`, the
    columns val_<metric> and test_<metric>; NaN or None where a metric is undefined or the trial has
    no result). `planned` has one row per study (PLANNED_COLUMNS): a (dataset, fold, model) of the
    plan, run or not. `facts` is what else is known (`Facts`).

    The score of a study is the mean over its `eval` trials if the plan has any, all of them done;
    otherwise the test score of the one tuning trial marked `selected`. `ensembles`, where there are
    any, has one row per ensemble of evaluation seeds (dataset, task, fold, model, index, seeds,
    test_<metric>); it enters no study's score. `importance`, where it was computed, has one
    row per hyperparameter (model, parameter, importance, n_trials): the part of the validation
    score's variance that it explains alone, divided by the sum of these parts. Evidence.of(...)
    fills optional columns, sorts the rows and validates.
    """

    trials: pd.DataFrame
    planned: pd.DataFrame
    facts: Facts = field(default_factory=Facts)
    ensembles: pd.DataFrame | None = None
    importance: pd.DataFrame | None = None

    @classmethod
    def of(
        cls,
        trials: pd.DataFrame,
        planned: pd.DataFrame | None = None,
        facts: Facts | None = None,
    ) -> Evidence:
        """Evidence with optional columns filled, rows in canonical order, and every law checked.

        Without `planned`, the plan is every model of a dataset on every fold of it that the trials
        name, with as many trials as were recorded. Raises EvidenceError.
        """
        trials = _canonical_trials(trials).reset_index(drop=True)
        planned = _plan_of(trials) if planned is None else _canonical_plan(planned)
        evidence = cls(trials, planned, facts or Facts())
        if not evidence._in_strict_order:  # rows from a ledger are, and need no copy
            keys = [*STUDY, "stage", "index", "seed"]
            trials = trials.sort_values(keys, kind="stable", ignore_index=True)
            evidence = cls(trials, planned, evidence.facts)
        evidence.validate()
        return evidence

    def but(self, **changes: Any) -> Evidence:
        """A copy with other `facts`, `ensembles` or `importance`; frames are not checked again."""
        made = replace(self, **changes)
        if made.trials is self.trials and made.planned is self.planned:
            known = {name: self.__dict__[name] for name in _OF_FRAMES if name in self.__dict__}
            made.__dict__.update(known)
            made._check_metrics()
        return made

    def knowing(self, **facts: Any) -> Evidence:
        """A copy with these of its facts."""
        return self.but(facts=replace(self.facts, **facts))

    def changed(self, change: Callable[[pd.DataFrame], pd.DataFrame], **facts: Any) -> Evidence:
        """The evidence of the frames that `change` makes of each of these, checked again; with
        these of its facts."""
        made = Evidence.of(change(self.trials), change(self.planned), replace(self.facts, **facts))
        more = {"ensembles": self.ensembles, "importance": self.importance}
        return made.but(**{name: change(f) for name, f in more.items() if f is not None})

    def called(
        self, models: Mapping[str, str], datasets: Mapping[str, str] | None = None, **facts: Any
    ) -> Evidence:
        """The evidence under other names of models, in the frames and the facts, and of datasets,
        in the frames; with these of its facts."""

        def renamed(frame: pd.DataFrame) -> pd.DataFrame:
            names = {"model": dict(models), "dataset": dict(datasets or {})}
            there = {column: of for column, of in names.items() if column in frame}
            return frame.assign(
                **{column: frame[column].replace(of) for column, of in there.items()}
            )

        known = self.facts.of_models({model: models.get(model, model) for model in self.models})
        return self.changed(renamed, **{**known, **facts})

    def joined(self, other: Evidence, **facts: Any) -> Evidence:
        """This evidence with the trials, the plan, the ensembles and what is known of the models of
        another one, checked again; with these of its facts."""
        trials = pd.concat([self.trials, other.trials], ignore_index=True)
        planned = pd.concat([self.planned, other.planned], ignore_index=True)
        known = other.facts.of_models({model: model for model in other.models})
        for name, theirs in known.items():
            mine = getattr(self.facts, name)
            known[name] = {**mine, **theirs} if isinstance(theirs, dict) else [*mine, *theirs]
        made = Evidence.of(trials, planned, replace(self.facts, **{**known, **facts}))
        groups = [one.ensembles for one in (self, other) if one.ensembles is not None]
        ensembles = pd.concat(groups, ignore_index=True) if groups else None
        return made.but(ensembles=ensembles, importance=self.importance)

    def validate(self) -> None:
        """Raise EvidenceError for missing columns, unknown words, duplicates or contradictions.

        The result is remembered: the frames of an Evidence must not be changed.
        """
        if self.__dict__.get("_held"):
            return
        _need_columns(self.trials, TRIAL_COLUMNS, "trials")
        _need_columns(self.planned, PLANNED_COLUMNS, "planned")
        _need_words(self.trials, "stage", STAGES, besides=r"rung\d+")
        _need_words(self.trials, "status", STATUSES)
        _need_words(self.trials, "task", TASKS)
        _need_words(self.planned, "task", TASKS)
        self._refuse_duplicates()
        self._refuse_two_tasks()
        self._refuse_unplanned()
        self._check_metrics()
        self.__dict__["_held"] = True

    def _refuse_duplicates(self) -> None:
        trials = self.trials[[*STUDY, "stage", "index", "seed", "status", "selected"]]
        evaluated = self.having("stage", "eval")
        tune, evals = trials[~evaluated], trials[evaluated]
        selected = tune[tune["selected"].astype(bool)]
        _refuse_duplicate(self.planned, STUDY, "planned studies")
        if not self._in_strict_order:  # strictly ascending rows have no duplicates
            _refuse_duplicate(tune, [*STUDY, "stage", "index"], "tuning trials")
        _refuse_duplicate(selected, STUDY, "selected trials")
        _refuse_duplicate(evals, [*STUDY, "seed"], "evaluation trials")
        if (selected["status"] != "done").any():
            row = selected[selected["status"] != "done"].iloc[0]
            raise EvidenceError(f"a selected trial must be done, not {row['status']}: {_name(row)}")
        if (selected["stage"] != "tune").any():
            row = selected[selected["stage"] != "tune"].iloc[0]
            raise EvidenceError(f"a selected trial must be of stage tune: {_name(row)}")

    def _refuse_two_tasks(self) -> None:
        names = ["dataset", "task"]
        new = self._blocks | starts(self.trials, ["task"])
        both = pd.concat([self.trials.loc[new, names], self.planned[names]]).drop_duplicates()
        tasks = both.groupby("dataset", sort=True)["task"].nunique()
        if (tasks > 1).any():
            raise EvidenceError(f"a dataset has one task; {tasks[tasks > 1].index[0]!r} has two")

    def _refuse_unplanned(self) -> None:
        planned = set(self.planned[STUDY].itertuples(index=False, name=None))
        there = self.trials.loc[self._blocks, STUDY]
        for key in sorted(set(there.itertuples(index=False, name=None)) - planned):
            raise EvidenceError(
                f"every trial belongs to a planned study; there is none for dataset {key[0]!r}, "
                f"fold {key[1]}, model {key[2]!r}"
            )

    def _check_metrics(self) -> None:
        for task in self.tasks:
            name = self.headline(task)
            known = metrics_of(task)
            if name not in known:
                raise EvidenceError(f"{name!r} is no metric of {task}; known: {', '.join(known)}")
            if f"test_{name}" not in self.trials:
                raise EvidenceError(f"trials lack the column 'test_{name}', the metric of {task}")

    @cached_property
    def _blocks(self) -> np.ndarray:
        """Rows at which the trials of another study or stage begin."""
        return starts(self.trials, [*STUDY, "stage"])

    @cached_property
    def _masks(self) -> dict[tuple[str, str], np.ndarray]:
        return {}

    def having(self, column: str, word: str) -> np.ndarray:  # (n_trials,)
        """Mask of the trials with this value in the column; computed once, read-only."""
        if (column, word) not in self._masks:
            values = self.trials[column]
            if values.dtype == object:  # numpy compares these in half of pandas's time
                values = values.to_numpy()
            self._masks[column, word] = np.asarray(values == word, dtype=bool)
            self._masks[column, word].flags.writeable = False  # it is shared
        return self._masks[column, word]

    @cached_property
    def _in_strict_order(self) -> bool:
        """Whether the trials are strictly ascending by study, stage and index."""
        new = self._blocks
        places = self.trials.loc[new, [*STUDY, "stage"]]
        blocks = list(places.itertuples(index=False, name=None))
        rising = new[1:] | (np.diff(self.trials["index"].to_numpy()) > 0)
        return bool(rising.all()) and blocks == sorted(set(blocks))

    @cached_property
    def study_numbers(self) -> tuple[np.ndarray, pd.DataFrame]:
        """(number of each trial's study, the studies by number, sorted by STUDY).

        Only neighbouring rows are compared, which is faster than hashing the names of every trial.
        """
        blocks = self.trials.loc[self._blocks, STUDY]
        ranks = blocks.groupby(STUDY, sort=True).ngroup().to_numpy()
        keys = blocks.drop_duplicates().sort_values(STUDY, kind="stable").reset_index(drop=True)
        return ranks[np.cumsum(self._blocks) - 1], keys

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks that the plan holds, in the order binary, multiclass, regression."""
        present = set(self.planned["task"])
        return [task for task in TASKS if task in present]

    @cached_property
    def models(self) -> list[str]:
        """Every planned model, sorted by name."""
        return sorted(set(self.planned["model"]))

    @cached_property
    def own(self) -> list[str]:
        """The models that are classes of the user's own, sorted by name."""
        families = self.facts.families
        return [m for m in self.models if m in families and families[m][0] == "external"]

    def datasets(self, task: str | None = None) -> list[str]:
        """Every planned dataset (of the task), sorted by name."""
        rows = self.planned if task is None else self.planned[self.planned["task"] == task]
        return sorted(set(rows["dataset"]))

    def headline(self, task: str) -> str:
        """Name of the metric that the task's tables show; EvidenceError where no fact names it."""
        if task not in self.facts.metric:
            raise EvidenceError(f"facts.metric must name a metric for the task {task!r}")
        return metric(self.facts.metric[task]).name

    def test_metrics(self, task: str) -> list[str]:
        """Metrics of the task that its trials carry test scores of, the headline first."""
        head = self.headline(task)
        mine = self.having("task", task)
        carried = [m for m in metrics_of(task) if f"test_{m}" in self.trials and m != head]
        return [head, *(m for m in carried if (self.trials[f"test_{m}"].notna() & mine).any())]

    @cached_property
    def _evaluation_runs(self) -> pd.DataFrame:
        """STUDY and `n`: the runs that evaluated its choice; without those of `seedless` models."""
        runs = self.trials.loc[self.having("stage", "eval"), STUDY]
        runs = runs[~runs["model"].isin(self.facts.seedless)]
        return runs.groupby(STUDY, sort=True).size().rename("n").reset_index()

    @cached_property
    def n_seeds(self) -> dict[tuple[str, str], int]:
        """{(dataset, model): the fewest evaluation seeds of any fold}, where there are such."""
        fewest = self._evaluation_runs.groupby(["dataset", "model"])["n"].min()
        return {(d, m): int(n) for (d, m), n in fewest.items()}

    @cached_property
    def fewer_seeds(self) -> dict[tuple[str, str], tuple[int, int]]:
        """{(dataset, model): (seeds, most)} of the cells that were evaluated under fewer seeds than
        another model was on the same fold; without those whose rows are means of runs."""
        counts = self._evaluation_runs.copy()
        counts["most"] = counts.groupby(["dataset", "fold"])["n"].transform("max")
        fewer: dict[tuple[str, str], tuple[int, int]] = {}
        for row in counts[counts["n"] < counts["most"]].itertuples(index=False):
            fewer.setdefault((row.dataset, row.model), (int(row.n), int(row.most)))
        return fewer

    @cached_property
    def overlapping(self) -> set[str]:
        """Datasets whose spread over folds must not be called a standard error."""
        if self.facts.overlapping is not None:
            return set(self.facts.overlapping)
        return {d for d, t in self.facts.protocol.items() if t.lower().startswith("official")}

    @property
    def subset(self) -> list[str]:
        """The independent, learnable datasets, sorted; all datasets where no fact names them."""
        named = self.facts.subset
        return self.datasets() if named is None else sorted(set(named) & set(self.datasets()))


def _canonical_trials(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials with optional columns filled and fixed types."""
    _need_columns(trials, dict.fromkeys(_REQUIRED_TRIALS, ""), "trials")
    frame = trials.copy(deep=False)
    for name in _TEXT_DEFAULTS:
        frame[name] = "" if name not in frame else _texts(frame[name])
    for name in _COST_COLUMNS:
        frame[name] = np.nan if name not in frame else frame[name]
    frame["selected"] = False if "selected" not in frame else _flags(frame["selected"])
    for name in ("dataset", "model"):
        frame[name] = _words(frame[name]).astype(object)  # to be grouped by
    for name in ("task", "stage", "status"):
        frame[name] = _words(frame[name]).astype("str")  # to be compared with
    for name in ("fold", "index"):
        frame[name] = _integers(frame, name)
    try:
        if frame["seed"].dtype.kind != "i":
            frame["seed"] = frame["seed"].map(int)  # may need more than 64 bits
    except (TypeError, ValueError):
        raise EvidenceError("column 'seed' must hold whole numbers") from None
    scores = [f"{part}_{m}" for part in ("val", "test") for m in METRICS]
    for name in [*_COST_COLUMNS, *(c for c in scores if c in frame)]:
        if frame[name].dtype != np.float64:
            frame[name] = pd.to_numeric(frame[name]).astype(float)
        if (large := frame[name].abs() > LARGEST).any():
            if np.isinf(frame[name]).any():
                row = frame[np.isinf(frame[name])].iloc[0]
                raise EvidenceError(
                    f"{name} must be a number or missing, not infinite: {_name(row)}"
                )
            frame[name] = frame[name].mask(large)
    return frame


def starts(frame: pd.DataFrame, keys: list[str]) -> np.ndarray:
    """Mask of the rows that differ from the row before in a column of `keys`, and the first row."""
    first = np.ones(len(frame), dtype=bool)
    first[1:] = False
    for name in keys:
        column = frame[name]  # pandas compares its own strings faster, numpy all else
        values = column.array if isinstance(column.dtype, pd.StringDtype) else column.to_numpy()
        first[1:] |= np.asarray(values[1:] != values[:-1], dtype=bool)
    return first


def _canonical_plan(planned: pd.DataFrame) -> pd.DataFrame:
    _need_columns(planned, dict.fromkeys(("dataset", "task", "fold", "model"), ""), "planned")
    frame = planned.copy()
    frame["reason"] = "" if "reason" not in frame else _texts(frame["reason"]).astype(object)
    frame["n_trials"] = 0 if "n_trials" not in frame else _integers(frame, "n_trials")
    for name in ("dataset", "task", "model"):
        frame[name] = _words(frame[name]).astype(object)
    frame["fold"] = _integers(frame, "fold")
    return frame.sort_values(STUDY, kind="stable").reset_index(drop=True)


def _plan_of(trials: pd.DataFrame) -> pd.DataFrame:
    """Every model of a dataset on every fold of it that the trials name."""
    folds = trials[["dataset", "task", "fold"]].drop_duplicates()
    plan = folds.merge(trials[["dataset", "task", "model"]].drop_duplicates())
    counts = trials.groupby(STUDY, sort=True).size().rename("n_trials").reset_index()
    plan = plan.merge(counts, on=STUDY, how="left")
    plan["n_trials"] = plan["n_trials"].fillna(1).astype(int)
    return _canonical_plan(plan)


def _words(column: pd.Series) -> pd.Series:
    """The values as strings."""
    return column if _all_texts(column) else column.map(str)


def _texts(column: pd.Series) -> pd.Series:
    """The column with "" for missing values; a column of strings is returned unchanged."""
    if _all_texts(column):
        return column
    return column.map(lambda v: "" if v is None or v is pd.NA or v != v else str(v)).astype(object)


def _all_texts(column: pd.Series) -> bool:
    kind = column.dtype
    if isinstance(kind, pd.StringDtype) or (
        isinstance(kind, pd.ArrowDtype) and pa.types.is_dictionary(kind.pyarrow_dtype)
    ):
        return not column.hasnans
    return infer_dtype(column, skipna=False) == "string"


def _flags(column: pd.Series) -> pd.Series:
    if column.dtype == bool:
        return column
    return column.map(lambda v: bool(v) if v is not None and v is not pd.NA and v == v else False)


def _integers(frame: pd.DataFrame, name: str) -> pd.Series:
    if frame[name].dtype == np.int64:
        return frame[name]
    numbers = pd.to_numeric(frame[name], errors="coerce")
    bad = numbers.isna() | (numbers % 1 != 0)
    if bad.any():
        value = frame[name][bad].iloc[0]
        raise EvidenceError(f"column {name!r} must hold whole numbers; it holds {value!r}")
    return numbers.astype("int64")


def _need_columns(frame: pd.DataFrame, wanted: Mapping[str, str], what: str) -> None:
    missing = [name for name in wanted if name not in frame]
    if missing:
        raise EvidenceError(
            f"{what} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            f"it has: {', '.join(map(str, frame.columns))}"
        )


def _need_words(
    frame: pd.DataFrame, column: str, words: tuple[str, ...], *, besides: str = ""
) -> None:
    there = {str(word) for word in frame[column].unique()}
    wrong = sorted(w for w in there - set(words) if not (besides and re.fullmatch(besides, w)))
    if wrong:
        raise EvidenceError(f"{column} must be one of {', '.join(words)}; got {wrong[0]!r}")


def _refuse_duplicate(frame: pd.DataFrame, keys: list[str], what: str) -> None:
    twice = frame.duplicated(keys, keep=False)
    if twice.any():
        row = frame[twice].iloc[0]
        n = int((frame[keys] == row[keys]).all(axis=1).sum())
        key = ", ".join(f"{k} {v!r}" if isinstance(v := row[k], str) else f"{k} {v}" for k in keys)
        raise EvidenceError(f"{n} {what} have the same {key}; a report counts each once")


def _name(row: pd.Series) -> str:
    return (
        f"dataset {row['dataset']!r}, fold {row['fold']}, model {row['model']!r}, "
        f"{row['stage']} index {row['index']}"
    )
