"""Greedy ensembles of stored predictions, chosen on the validation rows.

Forward selection with replacement on the validation rows (Caruana, Niculescu-Mizil, Crew and
Ksikes 2004, sec. 2 and 2.1). Only what is chosen is scored on test rows; nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..evidence import Evidence, EvidenceError
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed, p_text
from ..statistics.ranking import ranks
from ..statistics.tests import ALPHA, holm, sign_test

ROUNDS = 50  # members at most, repetitions counted
LIBRARY = 100  # candidates at most: the best ones by validation score
EVERYONE = "all models"

Array = np.ndarray
Loss = Callable[[Array], float | None]


@dataclass(frozen=True)
class Ensemble:
    """`members`: the chosen candidates' numbers in the order of choice, with repetitions;
    `losses`: the validation loss after each choice."""

    members: tuple[int, ...]
    losses: tuple[float, ...]

    def predict(self, predictions: Array) -> Array:  # (n_candidates, n_rows, ...) -> (n_rows, ...)
        """The mean of the members' predictions."""
        return predictions[list(self.members)].mean(axis=0)


def greedy(predictions: Array, loss: Loss, rounds: int = ROUNDS) -> Ensemble | None:
    """Forward selection with replacement: start with the best candidate, add in each of `rounds`
    rounds the candidate that gives the lowest loss of the mean, and keep the best prefix.

    `predictions` (n_candidates, n_rows, ...) are of the validation rows; `loss` maps a mean
    prediction to its loss, or to None if it is undefined. Ties go to the lower number and the
    shorter prefix. On these rows the ensemble is never worse than the best candidate. Returns None
    without candidates or if every loss is undefined.

    DIFF(Caruana 2004, sec. 2.2 and 2.3): it starts from the one best candidate, without bagging.
    """
    total = np.zeros(predictions.shape[1:])
    members: list[int] = []
    path: list[float] = []
    for n in range(1, rounds + 1):
        found = [loss((total + candidate) / n) for candidate in predictions]
        known = [(value, i) for i, value in enumerate(found) if value is not None]
        if not known:
            break
        value, best = min(known)
        members.append(best)
        path.append(value)
        total = total + predictions[best]
    if not path:
        return None
    end = path.index(min(path)) + 1
    return Ensemble(tuple(members[:end]), tuple(path[:end]))


# --- the analysis' part ---------------------------------------------------------------------------

COLUMNS = """dataset task fold library metric n_candidates n_members n_rounds val_single
    val_ensemble test_single test_ensemble members""".split()


def section(evidence: Evidence, frame: pd.DataFrame) -> Section:
    """The file `greedy`. `frame` (COLUMNS) has one row per (dataset, fold, library). A library is
    the trials of one model or of all (EVERYONE); `single` is the trial that validation chose."""
    if not len(frame):
        raise EvidenceError(
            "no fold has two trials with stored predictions, so there are no ensembles"
        )
    frame = frame.sort_values(["dataset", "fold", "library"], kind="stable").reset_index(drop=True)
    tables = _tables(evidence, frame)
    return Section("greedy", "Greedy ensembles", tables, frame[COLUMNS], (verdict(frame),))


def verdict(frame: pd.DataFrame) -> str:
    """On how many datasets the ensemble of all trials is better than the chosen trial, in a
    sentence; of the first model's trials where there is one model."""
    libraries = sorted(set(frame["library"]), key=lambda name: (name != EVERYONE, name))
    wins = _wins(frame)
    library = next((name for name in libraries if name in wins), None)
    if library is None:
        return "No verdict: no dataset has test scores of both."
    n, better, worse = wins[library]
    p = sign_test(better, worse)
    of = "all models" if library == EVERYONE else library
    return (
        f"A greedy ensemble of the trials of {of} is better than the trial that validation chose "
        f"on {better} of {footnotes.count(n, 'dataset')}, and worse on {worse} (sign test: p = "
        f"{p_text(p)})."
    )


def _tables(evidence: Evidence, frame: pd.DataFrame) -> tuple[ReportTable, ...]:
    tables = [
        _table(evidence, task, frame[frame["task"] == task])
        for task in evidence.tasks
        if (frame["task"] == task).any()
    ]
    return (*tables, _tests(frame))


def _table(evidence: Evidence, task: str, frame: pd.DataFrame) -> ReportTable:
    name = evidence.headline(task)
    scale = METRICS[name].factor
    panels = []
    for dataset, part in frame.groupby("dataset", sort=True):
        means = part.groupby("library", sort=True)[["test_single", "test_ensemble"]].mean()
        members = part.groupby("library", sort=True)["n_members"].mean()
        decimals = 2 if scale != 1.0 else max(3, decimals_for(means.to_numpy().ravel().tolist()))
        rows = [
            (
                TableCell(escape.label(str(library))),
                *(
                    TableCell(fixed(scale * v, decimals) if v == v else "n/a")
                    for v in means.loc[library]
                ),
                TableCell(f"{members[library]:.1f}"),
            )
            for library in sorted(means.index, key=lambda lib: (lib != EVERYONE, lib))
        ]
        panels.append(Panel(tuple(rows), escape.label(str(dataset))))
    title = (
        f"Test {footnotes.metric_title(name)} on {footnotes.TASK_TITLES[task]}: the trial that "
        "validation chose beside a greedy ensemble of the same trials, mean over the folds."
    )
    notes = (
        *footnotes.setting(evidence),
        f"Ensembles: forward selection with replacement on the validation rows (Caruana et al. "
        f"2004), from the best trial on, of the {LIBRARY} best by validation score, at most "
        f"{ROUNDS} members; probabilities, or predictions, are averaged. Nothing was fitted again.",
        "members: different trials in the ensemble, mean over the folds. The ensemble is chosen on "
        "the validation rows, on which it is never worse than its best member.",
    )
    header = ("trials of", "chosen", "ensemble", "members")
    return ReportTable(f"greedy-{task}", title, header, tuple(panels), notes)


def _wins(frame: pd.DataFrame) -> dict[str, tuple[int, int, int]]:
    """{library: (datasets, those on which the ensemble is better, those on which it is worse)}."""
    found = {}
    for library, part in frame.groupby("library", sort=True):
        signs = [METRICS[m].sign for m in part["metric"]]
        losses = part[["test_single", "test_ensemble"]].mul(signs, axis=0)
        means = losses.assign(dataset=part["dataset"]).groupby("dataset", sort=True).mean().dropna()
        if len(means):
            rank = ranks(means.to_numpy(dtype=float), "min")  # near-equal scores tie
            better, worse = (int((sign * (rank[:, 1] - 1.5) < 0).sum()) for sign in (1, -1))
            found[str(library)] = len(means), better, worse
    return found


def _tests(frame: pd.DataFrame) -> ReportTable:
    """The ensemble against the chosen trial over the datasets, for each library."""
    rows = []
    wins = _wins(frame)
    p = [sign_test(better, worse) for _, better, worse in wins.values()]
    for (library, (n, better, worse)), raw, adjusted in zip(wins.items(), p, holm(p), strict=True):
        counts = [n, better, n - better - worse, worse]
        texts = [escape.label(library), *map(str, counts), p_text(raw), p_text(adjusted)]
        rows.append(
            tuple(TableCell(t, bold=i == 6 and adjusted < ALPHA) for i, t in enumerate(texts))
        )
    header = ("trials of", "datasets", "better", "equal", "worse", "p", "p Holm")
    title = "Ensemble against chosen trial over datasets, by test score."
    notes = (
        "p: two-sided exact sign test, one comparison a dataset, equal ones left out: gains in "
        "different metrics have no common size. Holm's correction over the rows.",
    )
    return ReportTable("greedy-tests", title, header, (Panel(tuple(rows)),), notes)
