"""Facts of results beside their scores: whose they are, of which rows, how they were computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Named = Mapping[str, Any]  # {name of a dataset or model: what is known of it}


@dataclass(frozen=True)
class Facts:
    """What a report knows of results beside their trials; all of it may be unknown but `metric`.

    Of the run
        metric: {task: name of its headline metric}. title: what results are called that are no
        run's. suite, suite_hash, budget (its name, with its numbers if wanted), sampler, seed;
        code: commit or hash of the package's source; lock: hash of the lock file; last_record_utc:
        time of the last record; versions: {library: version}; environment: {part of the hardware or
        system: text}; runs: the folders, as they were named; damage: what of these was found
        damaged.
    Of datasets, {name: value} where nothing else is said
        rows: their number. protocol: how rows became folds, in words. overlapping: names of those
        whose stored test parts overlap, so that their spread is no standard error; None: those
        whose protocol begins with "official". sizes: {fold: training rows}, where several sizes
        were drawn. test_over_train: n_test / n_train of folds that partition it. constants:
        {metric: test score of a constant prediction}. subset: names of the independent, learnable
        ones that tests are repeated on, None: all; subset_note: why the others are not. left_out:
        why it could not be had. of_datasets: what its page shows (`page_facts.py` of benchmark).
        bags: its ensemble of bags (`sections/out_of_fold.py`). features: what models lose without
        a feature, a frame. answers: of the one dataset of a run, {model: (targets (n,), predictions
        (n, C) or (n,))} on its test rows.
    Of models, {name: value} where nothing else is said
        families: (family, summary, paper). names: how a paper calls a model or dataset. of_papers:
        names of those that a paper proposes whose tables the package reproduces. default_first:
        names of those whose first trial in a study is the default configuration. seedless: names of
        those whose rows are means of several runs, or need no seeds. curves: learning curves of
        chosen fits, [{dataset, fold, by (steps of), points}]. intervals: what a dataset's intervals
        are worth (`statistics/conformal.py`). fit_warnings: {category: number of warnings in fits}.
    In words
        notes: sentences at the head of the report and in the notes of its tables. notes_of: {note:
        the datasets that it is about}, where these are not all. tuned: {source: how models were
        tuned that are no trials of the run}. foreign: whether these are results of another tool,
        whose rows are not known. kind: "ensemble" where a row of the trials is an ensemble, not one
        run of a model; ensembles: how ensembles were made.
    """

    metric: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    suite: str = ""
    suite_hash: str = ""
    budget: str = ""
    sampler: str = ""
    seed: int | None = None
    code: str = ""
    lock: str = ""
    last_record_utc: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    runs: Sequence[str] = ()
    damage: Sequence[str] = ()

    rows: Mapping[str, int] = field(default_factory=dict)
    protocol: Mapping[str, str] = field(default_factory=dict)
    overlapping: Collection[str] | None = None
    sizes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    test_over_train: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    subset: Collection[str] | None = None
    subset_note: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    of_datasets: Named = field(default_factory=dict)
    bags: Named = field(default_factory=dict)
    features: Named = field(default_factory=dict)
    answers: Named = field(default_factory=dict)

    families: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    of_papers: Sequence[str] = ()
    default_first: Collection[str] = ()
    seedless: Sequence[str] = ()
    curves: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    intervals: Named = field(default_factory=dict)
    fit_warnings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    notes: Sequence[str] = ()
    notes_of: Mapping[str, Collection[str]] = field(default_factory=dict)
    tuned: Mapping[str, str] = field(default_factory=dict)
    foreign: bool = False
    kind: str = ""
    ensembles: str = ""

    def of_models(self, called: Mapping[str, str]) -> dict[str, Any]:
        """The facts of some models that stay true when other results stand beside them, as {fact:
        value}. called: {model: its new name}; other models are left out."""
        tables = {"families": self.families, "names": self.names}
        lists = {"of_papers": self.of_papers, "seedless": self.seedless}
        of = {n: {to: t[m] for m, to in called.items() if m in t} for n, t in tables.items()}
        return {**of, **{n: [called[m] for m in some if m in called] for n, some in lists.items()}}
