"""The stored predictions of trials, beside their targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...common.tasks import REGRESSION
from ...sweeps.store.ledger import Ledger, LedgerError
from ...sweeps.store.records import latest_results
from ...sweeps.trial import DONE
from ..bag_members import scored_fold
from ..errors import SweepError
from ..planning.plan_record import RunPlan, plan_in
from .evidence_builder import losses, planned_frame
from .slots_frame import columns_of

if TYPE_CHECKING:
    import pandas as pd

    from ...datasets.protocols import Fold
    from ...datasets.table import Table

PARTS = ("val", "test")


@dataclass(frozen=True)
class Predicted:
    """A finished trial. loss: validation loss by the sweep's metric, lower is better, NaN without a
    score; counts: whether the trial is part of its study's score."""

    model: str
    index: int
    seed: int
    id: str
    loss: float
    stage: str
    counts: bool
    ledger: Ledger
    position: int

    def arrays(self, *parts: str) -> dict[str, np.ndarray]:
        """{part: (n, C) probabilities or (n,) values} of `parts`, by default "val" and "test".
        Raises LedgerError if they are gone."""
        where = self.ledger.at(self.position)["predictions"]
        return self.ledger.predictions.get({part: where[part] for part in parts or PARTS})


@dataclass
class Block:
    """A fold of a dataset: targets and row weights (if any) by part, costs of classes, and the
    trials of all runs that predicted these rows. bag: whether the trials are bags, which predict
    more validation rows than single fits do."""

    dataset: str
    task: str
    fold: int
    n_classes: int
    y: dict[str, np.ndarray]
    weights: dict[str, np.ndarray | None]
    costs: tuple[tuple[float, ...], ...] = ()
    bag: bool = False
    trials: list[Predicted] = field(default_factory=list)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value that an ensemble takes from a model: by the validation
        targets of a regression, infinite for classes."""
        from ...reports.analyses.ensemble_selection import bounds

        return bounds(self.y["val"]) if self.task == REGRESSION else (-np.inf, np.inf)


def blocks_of(
    runs: Iterable[str | Path],
    *,
    files: Sequence[Path] = (),
    only: str | None = None,
    stage: str | None = None,
    bags: bool = False,
) -> tuple[list[Block], dict[str, str]]:
    """(blocks in the order of the folds, {dataset that is left out: why}). files: new paths of
    files that moved; only: a single dataset; stage: of the trials to take; bags: whether to take
    bags only. A fold with single fits and bags has a block of each.

    The targets are read from the datasets again; a dataset that is not available or has changed is
    left out. Raises LedgerError for a folder that is not a run's.
    """
    blocks: dict[tuple[str, int, bool], Block] = {}
    left_out: dict[str, str] = {}
    seen: set[tuple[Any, ...]] = set()  # a trial of several runs counts once
    for run in runs:
        ledger = Ledger(Path(run))
        fidelities = plan_in(ledger).bags
        if bags and not fidelities:
            continue
        plan, frame = planned_frame(ledger, columns_of(ledger.columns()))
        frame = frame.assign(loss=losses(frame, plan.metric), counts=counting(frame))
        frame = frame[frame["status"] == DONE]
        frame = frame if only is None else frame[frame["dataset"] == only]
        frame = frame if stage is None else frame[frame["stage"] == stage]
        if bags:
            places = zip(frame["study"], frame["stage"], strict=True)
            # without loc an empty list selects columns
            frame = frame.loc[[place in fidelities for place in places]]
        positions = latest_results(ledger)
        for dataset, mine in frame.groupby("dataset", sort=True):
            try:
                table, folds = planned_data(
                    plan,
                    str(dataset),
                    files=files,
                    runs=ledger.run.parent,
                    features=False,
                )
                _check_rows(ledger, positions, mine, table, folds)
            except (SweepError, ValueError, OSError, LedgerError) as error:
                left_out.setdefault(str(dataset), str(error))
                continue
            for row in mine.itertuples(index=False):
                place = (row.study, row.stage, row.index, row.id)
                if place in seen:
                    continue
                seen.add(place)
                bag = fidelities.get((row.study, row.stage))
                key = row.dataset, row.fold, bag is not None
                block = blocks.get(key)
                if block is None:
                    fold = scored_fold(table, folds[row.fold], bag)
                    rows = {"val": fold.val, "test": fold.test}
                    y = {part: table.target[rows[part]] for part in PARTS}
                    weights = {part: table.weights_of(rows[part]) for part in PARTS}
                    known = row.dataset, table.task, row.fold, table.n_classes
                    block = Block(*known, y, weights, table.costs, bag is not None)
                    blocks[key] = block
                values = {name: getattr(row, name) for name in ("model", "index", "seed", "id")}
                values |= {name: getattr(row, name) for name in ("loss", "stage", "counts")}
                block.trials.append(Predicted(**values, ledger=ledger, position=positions[row.id]))
    return [blocks[key] for key in sorted(blocks)], left_out


def planned_data(plan: RunPlan, dataset: str, **where: Any) -> tuple[Table, dict[int, Fold]]:
    """The table and folds of a dataset of a plan, up to the last one that it uses. `where`: see
    `planned_table`. Raises SweepError where the data has changed or a file is gone, DataError."""
    from ..planning.fold_facts import choose_folds
    from ..planning.own_tables import planned_table

    described = plan.datasets[dataset]
    table = planned_table(dataset, described, **where)
    if table.sha256 != described.sha256:
        raise SweepError(
            f"the data is not what the run was made with: {dataset} had sha256 "
            f"{described.sha256[:16]}... then, {table.sha256[:16]}... now; bring the former "
            "back, or start a new run with another --name"
        )
    table = replace(table, metric=plan.metric[table.task])
    most = 1 + max(plan.folds_of(dataset), default=0)  # no fold's number is less than its place
    return table, choose_folds(table, described.protocol, seed=plan.options.seed, folds=most)


def _check_rows(
    ledger: Ledger,
    positions: Mapping[str, int],
    rows: pd.DataFrame,
    table: Table,
    folds: Mapping[int, Fold],
) -> None:
    """Raise ValueError if the number of a fold's rows is not that of the predictions."""
    for row in rows.drop_duplicates(["fold", "stage"]).itertuples(index=False):
        record = ledger.at(positions[row.id])
        where, fold = record["predictions"], folds[row.fold]
        had = [int(where[part]["shape"][0]) for part in PARTS]
        scored = scored_fold(table, fold, record.get("fidelity"))
        now = [len(getattr(scored, part)) for part in PARTS]
        if had != now:
            raise ValueError(f"fold {row.fold} is not what the run had: {had} rows then, {now} now")


def counting(frame: pd.DataFrame) -> Any:
    """Mask of the rows that make up a study's score: its evaluations, else the chosen trial."""
    evaluated = set(frame.loc[frame["stage"] == "eval", "study"])
    return np.where(
        frame["study"].isin(list(evaluated)), frame["stage"] == "eval", frame["selected"]
    )
