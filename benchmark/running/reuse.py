"""Other runs as read-only caches: finished trials copied after their scores are computed again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from ...sweeps.engine import Reused
from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.store.run_folder import is_run, runs_below
from ...sweeps.trial import DONE, Result, Trial
from ..bag_members import scored_fold
from ..planning.plan import Plan
from ..results.trial_scores import check_scores, rescored
from .request import Request


def siblings(request: Request) -> list[Path]:
    """The other runs in the same --runs folder, and those named by --reuse."""
    others = [*runs_below(request.options.runs), *filter(is_run, request.options.reuse)]
    own = request.folder.resolve()
    return sorted({path for path in others if path.resolve() != own})


def reuse_from(
    folders: list[Path], plan: Plan, warnings: list[str]
) -> Callable[[Trial], Reused | None]:
    """A function that returns a trial's result from other runs, or None if they do not have it.

    The ledgers are read at its first call. An unreadable ledger adds a line to `warnings`.
    """

    @cache
    def places() -> dict[str, tuple[Ledger, int]]:
        positions: dict[str, tuple[Ledger, int]] = {}
        for folder in folders:
            try:
                ledger = Ledger(folder)
                for at, head in ledger.heads("result"):
                    if head.status == DONE:
                        positions.setdefault(head.id, (ledger, at))
            except Exception as error:
                warnings.append(f"{folder} is not used as a cache: {error}")
        return positions

    def reuse(trial: Trial) -> Reused | None:
        if trial.id not in places():
            return None
        ledger, at = places()[trial.id]
        try:
            return recomputed(trial, ledger, ledger.at(at), plan)
        except Exception:  # damage in another run must not stop this one: the trial runs here
            return None

    return reuse


def recomputed(trial: Trial, ledger: Ledger, record: Record, plan: Plan) -> Reused:
    """The recorded result with its scores computed again from the stored predictions, because the
    id alone proves nothing. Raises an exception where predictions are missing, damaged or those of
    other rows, or give other scores than the recorded ones."""
    arrays = ledger.predictions.get(record["predictions"])
    data = plan.data[trial.dataset]
    fold = scored_fold(data.table, data.folds[trial.fold], trial.fidelity)
    scores = rescored(data.table, fold, arrays)
    check_scores(record, scores)
    result = Result(
        status=DONE,
        val=scores["val"],
        test=scores["test"],
        costs={str(name): float(value) for name, value in record["costs"].items()},
        info=record["info"],
        predictions=arrays,
    )
    return reused(ledger, record, result)


def reused(ledger: Ledger, record: Record, result: Result) -> Reused:
    """A result of another run, with what of its record is kept in this one."""
    more = {name: record[name] for name in ("time", "attempt", "limits", "worker")}
    return Reused(record.get("origin") or ledger.run.resolve().name, result, more)
