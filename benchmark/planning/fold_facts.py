"""Datasets of a plan with their folds and bags: sizes, a constant's scores, members of the bags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...datasets.protocols import Fold, make_folds
from ...datasets.table import Table
from ...reports.metrics import METRICS, score_all
from ...sweeps.study_state import CV
from ..bag_members import fidelity_of, scored_fold
from .own_models import nothing_counts
from .space_overrides import PlanError

if TYPE_CHECKING:
    from .options import Options

USUAL_MEMBERS = 5  # members of a bag in a search by inner cross-validation without --bag


@dataclass(frozen=True)
class Data:
    """An available dataset with the folds in use. description: further fields of `PlannedDataset`,
    from its card, its file ("csv") or the added dataset ("added": its name)."""

    table: Table
    protocol: str
    folds: dict[int, Fold]
    description: Mapping[str, Any] = field(default_factory=dict)

    @property
    def named_protocol(self) -> str:
        """The protocol, followed by the added dataset that the split comes from, if any."""
        added = self.description.get("added")
        return f"{self.protocol}, of the added dataset {added}" if added else self.protocol


def choose_folds(table: Table, protocol: str, *, seed: int, folds: int | None) -> dict[int, Fold]:
    """{number: fold} of the protocol's first `folds` folds; None for all folds."""
    made = make_folds(table, protocol, seed=seed, most=folds or None)
    return {fold.index: fold for fold in made}


def bags_of(
    data: Mapping[str, Data], n_members: int, *, seed: int
) -> dict[tuple[str, int], dict[str, Any]]:
    """{(dataset, fold): fidelity of its bags}, the same for all models; {} without bags."""
    return {
        (name, index): fidelity_of(each.table, fold, n_members, seed=seed)
        for name, each in data.items()
        for index, fold in each.folds.items()
        if n_members
    }


def judged_by(table: Table, fold: Fold, bag: Mapping[str, Any] | None) -> str:
    """The rows whose score compares a study with other studies, in words."""
    n_rows = len(scored_fold(table, fold, bag).val)
    return f"out of fold of {n_rows:,} rows" if bag else f"on {n_rows:,} validation rows"


def members_asked(options: Options, of_budget: int | None, validation: str) -> int:
    """Members of a bag where the data allow so many, 0 for no bags. --bag 0 or --seeds switch the
    budget's bags off. Raises PlanError for options that exclude each other."""
    given = 0 if options.seeds and options.bag is None and validation != CV else options.bag
    if options.seeds and (given or validation == CV):
        raise PlanError("a bag takes the place of evaluation seeds: leave --seeds or the bag out")
    asked = of_budget if given is None else given
    if asked == 1:
        raise PlanError("a bag has at least 2 members; --bag 0 fits the chosen configuration once")
    if validation == CV and given == 0:
        raise PlanError("--validation cv makes a bag of every trial: leave --bag 0 out")
    return asked or (USUAL_MEMBERS if validation == CV else 0)


def bag_notes(
    n_members: int,
    validation: str,
    bags: Mapping[tuple[str, int], Mapping[str, Any]],
    n_seeds: int,
) -> list[str]:
    """Notes for tables with bags. bags: {(dataset, fold): fidelity}; n_seeds: the budget's
    evaluation seeds, which a bag replaces."""
    if not n_members:
        return []
    least: dict[str, int] = {}
    for (dataset, _), bag in bags.items():
        least[dataset] = min(bag["bag"], least.get(dataset, bag["bag"]))
    fewer = {dataset: n for dataset, n in least.items() if n < n_members}
    what = "every trial of the search" if validation == CV else "the chosen configuration"
    notes = [
        f"Scores are of bags: {what} is fitted {n_members} times, each time without one part of "
        "the rows for training and validation, by which it stops early and which it predicts; a "
        "test prediction is the mean of the members'."
    ]
    if validation != CV:
        notes.append(
            "Single fits are the trials of the search; in the table of default and tuned, also "
            "what stands under default and tuned + ensembled."
        )
    if fewer:
        some = ", ".join(f"{n} on {dataset}" for dataset, n in sorted(fewer.items()))
        notes.append(f"Bags have fewer members where classes, groups or times are few: {some}.")
    if n_seeds > 1:
        notes.append(f"The bag takes the place of the budget's {n_seeds} evaluation seeds.")
    return notes


def fold_facts(table: Table, folds: Mapping[int, Fold]) -> dict[str, Any]:
    """sizes: rows to train, validate and test, of each fold in order. constant: {metric: mean test
    score over the folds} of the training rows' mean (the quantile where the table's metric is the
    pinball loss of one), or of the frequencies of their classes; a metric without a meaning on a
    fold is left out, a fold with a part of no weight, too."""
    known = [fold for _, fold in sorted(folds.items())]
    scores = [
        constant_scores(table, fold) for fold in known if not nothing_counts(table.weights, fold)
    ]
    return {
        "sizes": [[len(fold.train), len(fold.val), len(fold.test)] for fold in known],
        "constant": {
            name: float(np.mean([one[name] for one in scores]))
            for name in (scores[0] if scores else ())
            if all(one[name] is not None for one in scores)
        },
    }


def constant_scores(table: Table, fold: Fold) -> dict[str, float | None]:
    """{metric: score} on a fold's test rows of the constant fitted on its training rows."""
    weights, y = table.weights_of(fold.train), table.target[fold.train]
    if table.task == "regression":
        q = METRICS[table.metric].quantile if table.metric else None
        if q is None:
            answer = np.average(y, weights=weights)
        elif weights is None:
            answer = np.quantile(y, q)
        else:
            answer = np.quantile(y, q, weights=weights, method="inverted_cdf")
        answers = np.full(len(fold.test), answer)
    else:
        shares = np.bincount(y, weights, minlength=table.n_classes)
        answers = np.tile(shares / shares.sum(), (len(fold.test), 1))
    return score_all(
        table.task,
        table.target[fold.test],
        answers,
        table.n_classes,
        table.weights_of(fold.test),
        chosen=table.metric,
        costs=table.costs,
    )
