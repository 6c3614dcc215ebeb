"""The plan for tables of one's own: which models with how many configurations, and how large a bag.

`SLOTS` is in the order of what a second is worth (`benchmark/perf/portfolio.py` measures it). The
usual plan takes the first ones; `--minutes` takes those that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...models import registry
from ...sweeps.fingerprint import versions
from .suite import Budget, Search, load

BAGS = ((3_000, 8), (100_000, 5))  # members of a bag up to so many rows; above, one fit
MANY = 10**9
TABM_K = 8  # networks in a TabM: as good as 16 here, as the members of a bag are averaged anyway


@dataclass(frozen=True)
class Slot:
    """A model with so many configurations in all, on tables of at most `most_rows` rows.
    `usual`: whether it belongs to the plan that nobody has set a time for."""

    model: str
    trials: int
    most_rows: int = MANY
    usual: bool = True


SLOTS = (
    Slot("lightgbm", 1),
    Slot("linear", 1),
    Slot("extra-trees", 1, 100_000),
    Slot("catboost", 1, 30_000),
    Slot("xrfm", 1, 2_000),
    Slot("xgboost", 1),
    Slot("hist-gradient-boosting", 1),
    Slot("random-forest", 1, 30_000),
    Slot("tabm", 1, 10_000),
    Slot("lightgbm", 3),
    Slot("linear", 3, 30_000),
    Slot("xgboost", 2, 30_000),
    Slot("realmlp", 1, 10_000, usual=False),
    Slot("catboost", 1, usual=False),
    Slot("mlp-ple", 1, usual=False),
    Slot("catboost", 3, usual=False),
    Slot("tabm", 1, 100_000, usual=False),
    Slot("extra-trees", 3, 100_000, usual=False),
    Slot("mlp-ple", 3, 100_000, usual=False),
    Slot("tabm", 3, 30_000, usual=False),
    Slot("resnet", 1, 100_000, usual=False),
    Slot("realmlp", 3, 100_000, usual=False),
    Slot("modern-nca", 1, 20_000, usual=False),
    Slot("lightgbm", 8, usual=False),
    Slot("xgboost", 6, usual=False),
    Slot("catboost", 6, usual=False),
    Slot("tabr", 1, 20_000, usual=False),
)


def bag_for(n_rows: int) -> int | None:
    """How many members the bags of a table have, None for no bags."""
    return next((n for most, n in BAGS if n_rows <= most), None)


def settings() -> Mapping[str, Search]:
    """Sizes of networks, and rows that stand for another model: those of the budget `modern`, but
    for TabM."""
    sizes = load("uci-small").budgets["modern"].model
    tabm = sizes["tabm"]
    fewer = tabm.model_copy(update={"fixed": {**tabm.fixed, "k": TABM_K}})
    return {**sizes, "tabm": fewer}


def slots_for(n_rows: int, *, usual: bool) -> list[Slot]:
    """The slots for a table of so many rows, in their order. Models with a library that is not
    installed are left out."""
    searches = settings()
    names = {slot.model for slot in SLOTS}
    here = {name: _is_here(searches.get(name, Search()).of or name) for name in names}
    return [
        slot
        for slot in SLOTS
        if n_rows <= slot.most_rows and (slot.usual or not usual) and here[slot.model]
    ]


def _is_here(model: str) -> bool:
    return "absent" not in versions(registry.spec(model).libraries).values()


def budget_of(slots: Iterable[Slot], n_rows: int, note: str) -> Budget:
    """The budget of these slots for a table of so many rows: each model with the largest number of
    configurations that one of its slots has."""
    sizes = settings()
    trials: dict[str, int] = {}
    for slot in slots:
        trials[slot.model] = max(slot.trials, trials.get(slot.model, 0))
    searches = {
        model: sizes.get(model, Search()).model_copy(update={"trials": n})
        for model, n in trials.items()
    }
    bag = bag_for(n_rows)
    return Budget(
        note=note,
        models=list(trials),
        model={**load("uci-small").budgets["quick"].model, **searches},  # if they are asked for
        folds=1 if bag else 2,
        trials=4,
        sampler="random",
        bag=bag,
        timeout_s=1800,
        memory_mb=8192,
    )
