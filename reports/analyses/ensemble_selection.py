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

ROUNDS = 50  # at most so many members, the same one counted again
LIBRARY = 100  # the best of so many candidates by validation score may become members
EVERYONE = "all models"

Array = np.ndarray
Loss = Callable[[Array], float | None]


@dataclass(frozen=True)
class Ensemble:
    """`members`: candidates in the order of their choice, one as often as it was chosen; `losses`:
    the validation loss after each choice, in the end the least of the path."""

    members: tuple[int, ...]
    losses: tuple[float, ...]

    def predict(self, predictions: Array) -> Array:  # (n_candidates, n_rows, ...) -> (n_rows, ...)
        return predictions[list(self.members)].mean(axis=0)


def greedy(predictions: Array, loss: Loss, rounds: int = ROUNDS) -> Ensemble | None:
    """The ensemble that forward selection finds: the best candidate, then in every round the one
    that lowers the mean's loss most or raises it least, and of that path the best beginning.

    `predictions` (n_candidates, n_rows, ...) of the validation rows; `loss` of their mean, None
    where it has no meaning. Ties go to the lower number and the shorter beginning. Never worse on
    these rows than the best candidate. None without candidates or where no loss has a meaning.

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
    """The file `greedy`. `frame` (COLUMNS) has a row a (dataset, fold, library): a library is a
    model's own trials or EVERYONE's; `single` is the trial that validation chose from it."""
    if not len(frame):
        raise EvidenceError("no fold has two trials with predictions: nothing to put together")
    frame = frame.sort_values(["dataset", "fold", "library"], kind="stable").reset_index(drop=True)
    return Section("greedy", "Greedy ensembles", _tables(evidence, frame), frame[COLUMNS])


def _tables(evidence: Evidence, frame: pd.DataFrame) -> tuple[ReportTable, ...]:
    tables = [
        _table(evidence, task, frame[frame["task"] == task])
        for task in evidence.tasks
        if (frame["task"] == task).any()
    ]
    return (*tables, _tests(frame))


def _table(evidence: Evidence, task: str, frame: pd.DataFrame) -> ReportTable:
    name = evidence.headline(task)
    scale = 100.0 if name in footnotes.PERCENT else 1.0
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
        "members: different trials in the ensemble, mean over the folds. The choice is one of the "
        "validation rows' own, on which an ensemble is never worse than its best member.",
    )
    header = ("trials of", "chosen", "ensemble", "members")
    return ReportTable(f"greedy-{task}", title, header, tuple(panels), notes)


def _tests(frame: pd.DataFrame) -> ReportTable:
    """Ensemble against choice over the datasets, for each library."""
    rows = []
    figures: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    for library, part in frame.groupby("library", sort=True):
        signs = [METRICS[m].sign for m in part["metric"]]
        losses = part[["test_single", "test_ensemble"]].mul(signs, axis=0)
        means = losses.assign(dataset=part["dataset"]).groupby("dataset", sort=True).mean().dropna()
        if len(means):
            rank = ranks(means.to_numpy(dtype=float), "min")  # near-equal scores tie
            figures[str(library)] = [int((sign * (rank[:, 1] - 1.5) < 0).sum()) for sign in (1, -1)]
            sizes[str(library)] = len(means)
    p = [sign_test(better, worse) for better, worse in figures.values()]
    for (library, (better, worse)), raw, adjusted in zip(figures.items(), p, holm(p), strict=True):
        counts = [sizes[library], better, sizes[library] - better - worse, worse]
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
