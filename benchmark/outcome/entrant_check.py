"""Random rows of an entrant, fitted again and compared with the stored scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets import catalog
from ...datasets.errors import DataError
from ...models import registry
from ...sweeps.trial import Trial
from ..results.entrants import CARD, RESULTS, DatasetFacts, folder_of, read_card
from ..running.run_trial import run_trial
from .chosen_fit import identity_of

CLOSE = 0.05  # of a score: as far as another rounding moves the training of a network
TELLING = ("roc_auc", "accuracy", "log_loss", "rmse")  # metrics that are compared, where they are


@dataclass(frozen=True)
class Repeated:
    """One row, fitted again. `stored` and `found` are its test scores by metric."""

    dataset: str
    fold: int
    model: str
    seed: int
    stored: Mapping[str, float]
    found: Mapping[str, float]
    problem: str = ""

    @property
    def same(self) -> bool:
        """Whether every score is the stored one to the last digit."""
        return not self.problem and dict(self.stored) == dict(self.found)

    @property
    def near(self) -> bool:
        """Whether every score is within CLOSE of the stored one (of 1, where that is larger)."""
        return not self.problem and all(
            abs(self.found[name] - value) <= CLOSE * max(abs(value), 1.0)
            for name, value in self.stored.items()
        )


def check_entrant(
    name: str,
    n: int,
    seed: int,
    *,
    tell: Callable[[Repeated], None] = lambda repeated: None,
) -> list[Repeated]:
    """Fit `n` random rows of an entrant again, chosen by `seed`. Only an entrant that was exported
    from runs of our own can be checked (`bench beside export`). Raises DataError."""
    folder = folder_of(Path(name))
    card = read_card(folder)
    if not any(facts.rows for facts in card.datasets.values()):
        raise DataError(
            f"{name}: its {CARD} does not say which rows its folds have; nothing to fit"
        )
    rows = pd.read_csv(folder / RESULTS, keep_default_na=False, dtype=str)
    rows = rows[(rows["cause"] == "") & rows["dataset"].isin(list(card.datasets))]
    checked = []
    for _, row in rows.sample(min(n, len(rows)), random_state=seed).iterrows():
        facts, model = card.datasets[row["dataset"]], card.models.get(row["method"], row["method"])
        checked.append(_repeat(row, facts, model))
        tell(checked[-1])
    return checked


def _repeat(row: pd.Series, facts: DatasetFacts, model: str) -> Repeated:
    stored = {m: float(row[f"test_{m}"]) for m in TELLING if row.get(f"test_{m}", "")}
    about: dict[str, Any] = {
        "dataset": row["dataset"],
        "fold": int(row["split"]),
        "model": row["method"],
        "seed": int(row["seed"]),
        "stored": stored,
    }
    table = catalog.load_dataset(facts.ours)
    if table.sha256 != facts.rows:
        return Repeated(**about, found={}, problem="other data than the entrant's")
    protocol, drawn = facts.drawn
    seed = int(drawn or 0)
    folds = catalog.splits(facts.ours, protocol, seed=seed)
    fold = next(one for one in folds if one.index == about["fold"])
    trial = Trial(
        dataset=about["dataset"],
        fold=about["fold"],
        model=about["model"],
        config=json.loads(row["config"] or "{}"),
        seed=about["seed"],
        identity=identity_of(registry.spec(model), table),
    )
    result = run_trial(trial, (table, {about["fold"]: fold}))
    scores = {m: score for m in stored if (score := result.test.get(m)) is not None}
    problem = f"{result.cause}: {result.message}" if result.cause else ""
    if not problem and len(scores) < len(stored):
        problem = "a metric is undefined that was not"
    return Repeated(**about, found=scores, problem=problem)
