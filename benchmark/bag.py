"""The body of a bag's trial: a fit for each member, predictions out of fold and their mean.

As `cell.py`, this module takes part in the ids of the trials that it computes, and holds the
computation and nothing else.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

# Under a public name in cell.py, the keeper would change the ids of all trials.
from .cell import Cell, _Keeper, run_cell

if TYPE_CHECKING:
    from ..datasets.protocols import Fold
    from ..datasets.table import Table
    from ..sweeps.store.checkpoints import Checkpoints

SUMMED = ("fit_s", "predict_s", "cpu_s")  # costs of a bag; of the others, its largest member's
UNSAVED_S = 1.0  # seconds of fits after which the finished members are kept


@dataclass(frozen=True)
class Member:
    """What is kept of a fitted member: its predictions of its own part ("val") and of the test
    rows, costs, and facts of its fit."""

    predictions: Mapping[str, np.ndarray]
    costs: Mapping[str, float]
    info: Mapping[str, Any]


def run_bag(
    members: Sequence[Fold],
    tables: Callable[[Fold], tuple[Table, float]],
    *,
    seed: int,
    key: str = "",
    checkpoints: Checkpoints | None = None,
    **how: Any,
) -> Cell:
    """Fit one configuration as a bag: member k on `members[k].train` with the seed `seed` + k; it
    predicts `members[k].val`, by which it stops early if it does, and the test rows.

    The cell's predictions are of "val" the members' own parts, in the order of rows, and of "test"
    the mean of all members. Its `predict` takes as long as the whole bag and predicts with the last
    member alone: it is for measuring. `tables(fold)`: (the table as a member sees it, seconds that
    its columns took to encode). `how`: what else `run_cell` is given, the same for all members.
    `checkpoints` keep the finished members under `key`. Raises what `run_cell` raises.
    """
    keeper = _Keeper(key, checkpoints)
    done = _kept(keeper, len(members))
    resumed, unsaved_s = len(done), 0.0
    last: Cell | None = None
    for k in range(min(resumed, len(members) - 1), len(members)):  # the last one is for `predict`
        table, encoding_s = tables(members[k])
        last = run_cell(table=table, fold=members[k], seed=seed + k, **how)
        fit_s = last.costs["fit_s"] + encoding_s
        done[k:] = [Member(last.predictions, {**last.costs, "fit_s": fit_s}, last.info)]
        unsaved_s += fit_s
        if unsaved_s > UNSAVED_S and k + 1 < len(members):
            keeper.save(k + 1, packed(done), stop=k + 1)
            unsaved_s = 0.0
    assert last is not None
    single, n = last.predict, len(members)

    def predict(X: Any) -> np.ndarray:
        return np.mean([single(X) for _ in range(n)], axis=0)

    info = _info(done) | ({"checkpoints": "; ".join(keeper.trouble)} if keeper.trouble else {})
    return Cell(
        _predictions(done, members), _costs(done), info | {"resumed_from": resumed}, predict
    )


def _kept(keeper: _Keeper, n_members: int) -> list[Member]:
    """The finished members that were kept; none where they cannot be read."""
    kept = keeper.get(n_members)
    try:
        return unpacked(kept[1]) if kept is not None else []
    except (ValueError, LookupError, OSError, EOFError, BadZipFile) as error:
        keeper.note("the checkpoint is of no use", error)
        return []


def _predictions(done: Sequence[Member], members: Sequence[Fold]) -> dict[str, np.ndarray]:
    parts = np.concatenate([member.predictions["val"] for member in done])
    order = np.argsort(np.concatenate([member.val for member in members]), kind="stable")
    tests = [member.predictions["test"] for member in done]
    return {"val": parts[order], "test": np.mean(tests, axis=0)}


def _costs(done: Sequence[Member]) -> dict[str, float]:
    costs = {name for member in done for name in member.costs}
    return {
        name: (sum if name in SUMMED else max)(m.costs[name] for m in done if name in m.costs)
        for name in sorted(costs)
    }


def _info(done: Sequence[Member]) -> dict[str, Any]:
    """Facts of a bag: the number of its members, the rounds or steps of each member if all report
    them, and facts of the whole bag."""
    info: dict[str, Any] = {"members": len(done)}
    for name in ("best_iteration", "n_iter"):
        if all(name in member.info for member in done):
            info[f"{name}s"] = [member.info[name] for member in done]
    if any(member.info.get("out_of_time") for member in done):
        info["out_of_time"] = True
    if "precision" in done[0].info:
        info["precision"] = done[0].info["precision"]
    warned: dict[str, int] = {}
    for member in done:
        for category, count in member.info.get("warnings", {}).items():
            warned[category] = warned.get(category, 0) + count
    return info | ({"warnings": warned} if warned else {})


def packed(done: Sequence[Member]) -> bytes:
    """Finished members as bytes, without pickles."""
    about = [{"costs": dict(m.costs), "info": dict(m.info)} for m in done]
    arrays: dict[str, Any] = {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}
    for k, member in enumerate(done):
        arrays |= {f"{part}{k}": values for part, values in member.predictions.items()}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def unpacked(state: bytes) -> list[Member]:
    """The members in the bytes of `packed`."""
    with np.load(io.BytesIO(state)) as arrays:
        about = json.loads(arrays["about"].tobytes())
        parts = [
            {part: arrays[f"{part}{k}"] for part in ("val", "test")} for k in range(len(about))
        ]
    return [Member(part, one["costs"], one["info"]) for part, one in zip(parts, about, strict=True)]
