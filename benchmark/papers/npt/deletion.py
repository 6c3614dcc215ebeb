"""Rows that NPT's predictions depend on: the others are deleted one by one.

Algorithm 2 of Kossen et al. 2021 (sec. 4.4, B.3.2): rows are taken out of the input as long as the
prediction for one row hardly moves. If NPT relies on similar rows, the kept rows lie closer to that
row than the deleted ones, and closer than equally many rows kept at random.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ....models.npt.batches import deal
from ....models.npt.prediction import TEST
from ....reports.metrics import rmse
from ....reports.statistics.ranking import standard_error
from ....reports.statistics.wilcoxon import wilcoxon_columns
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from .fitted_inputs import TINY, YACHT, TableInputs, fitted, inputs_of, last_row

AHEAD = 16  # proposals of one forward pass, at most

# -- the algorithm --------------------------------------------------------------------------------

Predict = Callable[[np.ndarray], np.ndarray]
"""(P, M) row numbers of P tables, the asked row last in each -> (P,) predictions there, in the
target's own units."""


@dataclass(frozen=True)
class Rule:
    """When a deletion is accepted, as shares of the prediction's size.

    per_step: change from which a proposal is rejected; it grows by `growth` after `retries`
    rejections in a row. total, share: the change, and the rest of the rows, that end the search.
    """

    per_step: float = 0.01
    total: float = 0.1
    share: float = 0.02
    retries: int = 50
    growth: float = 1.1


MAIN, STRICT = Rule(), Rule(per_step=0.005, share=0.01)


@dataclass
class Deletion:
    """What Algorithm 2 left of a table. kept, deleted: row numbers, the asked row in neither.
    changes: relative change of the prediction after each deletion; limits: what was allowed."""

    kept: np.ndarray
    deleted: list[int] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    proposals: int = 0


def delete(
    predict: Predict,
    n: int,
    asked: int,
    rule: Rule,
    rng: np.random.Generator,
    ahead: int = AHEAD,
) -> Deletion:
    """Deletes rows of 0..n-1 at random as long as the prediction at `asked` hardly changes.

    A rejected proposal leaves the table as it was, so the next ones are known before it is judged:
    after rejections up to `ahead` proposals share a forward pass. What is beyond the first accepted
    one is drawn again from the same random numbers, so the answer does not depend on `ahead`.

    DIFF(Kossen 2021, Algorithm 2, line 12): the change is relative to |prediction|; as printed, a
    negative prediction accepts every proposal. At least one other row is kept.

    ValueError where the prediction is 0 or not finite: nothing is relative to it.
    """
    kept = np.delete(np.arange(n), asked)
    found = Deletion(kept)
    first = float(predict(np.append(kept, asked)[None])[0])
    if not first or not np.isfinite(first):
        raise ValueError(
            f"a change relative to a prediction of {first} at row {asked} says nothing"
        )
    limit, rejected, width = rule.per_step, 0, 1
    drawn: deque[float] = deque()
    while len(kept) > 1 and len(kept) >= rule.share * n:
        drawn.extend(rng.random(max(0, width - len(drawn))))
        picks = [int(u * len(kept)) for u in list(drawn)[:width]]
        tables = np.stack([np.append(np.delete(kept, pick), asked) for pick in picks])
        changes = np.abs(predict(tables) - first) / abs(first)
        if not np.isfinite(changes).all():
            raise ValueError(f"without some rows the prediction at row {asked} is not finite")
        width = min(2 * width, ahead)
        for pick, change in zip(picks, changes, strict=True):
            drawn.popleft()
            found.proposals += 1
            if change < limit:
                if change >= rule.total:
                    return found
                found.deleted.append(int(kept[pick]))
                found.changes.append(float(change))
                found.limits.append(limit)
                found.kept = kept = np.delete(kept, pick)
                rejected, width = 0, 1
                break
            rejected += 1
            if rejected >= rule.retries:
                limit, rejected = limit * rule.growth, 0
    return found


# -- the experiment -------------------------------------------------------------------------------


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"dataset": "diabetes", "config": TINY, "rows": 30, "asked": 3, "strict_asked": 2},
    "reduced": {
        "dataset": "yacht",
        "config": {**YACHT, "n_heads": 2},
        "rows": 200,
        "asked": 31,
        "strict_asked": 10,
    },
    "full": {
        "dataset": "protein",
        "config": None,
        "rows": 2048,
        "asked": 0,
        "strict_asked": 398,
    },
}

PUBLISHED = (  # run, asked rows, share with at most a tenth kept, p-values (sec. 4.4, B.3.2)
    ("paper: main", 5567, None, 0.0, 8.77e-130),
    ("paper: strict", 398, 0.995, 5.26e-49, 8.38e-39),
)


@dataclass
class Comparison:
    """Mean distances of the asked rows to the kept, deleted and randomly kept ones, (A,) each;
    `deleted` is NaN where nothing was deleted. share: (A,) of the table that was kept."""

    kept: np.ndarray
    deleted: np.ndarray
    random: np.ndarray
    share: np.ndarray
    proposals: int

    def distances(self) -> dict[str, np.ndarray]:
        """The distances that are there, by the rows that they are to."""
        sides = {"kept": self.kept, "random": self.random, "deleted": self.deleted}
        return {side: values[np.isfinite(values)] for side, values in sides.items()}

    def beyond_kept(self, other: str) -> np.ndarray:
        """How much farther the `other` rows are than the kept ones, where there are any."""
        difference = getattr(self, other) - self.kept
        return difference[np.isfinite(difference)]

    def p_less(self, other: str) -> float:
        """One-sided Wilcoxon p-value; small if the kept rows lie closer than the `other` ones."""
        difference = -self.beyond_kept(other)
        if not len(difference):
            return 1.0
        return wilcoxon_columns(difference[:, None])[0].p_less


def compare(
    jobs: list[tuple[Predict, int, int, np.ndarray]],
    rule: Rule,
    seed: int,
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Runs Algorithm 2 for jobs of (predict, n, asked, (n,) distances to the asked row); as many
    rows as it kept are also kept at random."""
    found: list[tuple[float, float, float, float]] = []
    proposals = 0
    for i, (predict, n, asked, distance) in enumerate(jobs):
        rng = np.random.default_rng([seed, i])
        answer = delete(predict, n, asked, rule, rng)
        others = np.delete(np.arange(n), asked)
        chance = rng.choice(others, len(answer.kept), replace=False)
        deleted = distance[answer.deleted].mean() if answer.deleted else np.nan
        share = len(answer.kept) / n
        found.append((distance[answer.kept].mean(), deleted, distance[chance].mean(), share))
        proposals += answer.proposals
        say(f"row {i + 1} of {len(jobs)}: {len(answer.kept)} of {n} rows kept")
    kept, gone, random, shares = np.array(found).T
    return Comparison(kept, gone, random, shares, proposals)


def jobs_of(whole: TableInputs, rows: int, limit: int, seed: int) -> list[Any]:
    """A job for each asked test row: the table is cut into tables of about `rows` rows that keep
    the shares of its parts; test rows are taken from one after the other, `limit` in all."""
    jobs: list[tuple[Predict, int, int, np.ndarray]] = []
    for batch in deal(whole.parts, min(rows, len(whole.parts)), np.random.default_rng(seed)):
        seen = whole[batch]
        predict = predictor(seen)
        for asked in np.flatnonzero(seen.parts == TEST):
            jobs.append((predict, len(batch), int(asked), seen.distances(int(asked))))
    return jobs[: limit or None]


def predictor(seen: TableInputs) -> Predict:
    """Predictions of a fitted regression at the last rows of tables of rows of its table; in single
    precision, whose noise is far below the changes that count."""
    with torch.no_grad():
        embedded = seen.module.embedding(seen.cells)

    @torch.no_grad()
    def predict(tables: np.ndarray) -> np.ndarray:  # (P, M) -> (P,)
        rows = embedded[torch.from_numpy(tables).to(embedded.device)]
        return seen.decoded(last_row(seen.module, rows))

    return predict


def run(
    setting: Setting,
    *,
    dataset: str,
    config: Mapping[str, Any] | None,
    rows: int,
    asked: int,
    strict_asked: int,
) -> ExperimentResult:
    """`bench experiment npt-deletion`. dataset: a regression. config: of NPT, None for the paper's.
    rows: of each table that NPT sees. asked, strict_asked: test rows predicted in the main and the
    strict run, 0 for all."""
    data = setting.load(dataset)
    fold = setting.folds(data)[0]
    setting.say(f"fitting NPT on {data.name}")
    model = fitted(setting, data, fold, config)
    whole = inputs_of(model, data, fold)
    found = {}
    for name, rule, limit in (("main", MAIN, asked), ("strict", STRICT, strict_asked)):
        jobs = jobs_of(whole, rows, limit, setting.seed)
        found[name] = compare(jobs, rule, setting.seed, setting.say)
    error = rmse(data.target[fold.test], model.predict(data.rows(fold.test)))
    remark = (
        f"NPT on {data.name}: test RMSE {error:.3g}, standard deviation of the targets "
        f"{data.target.std():.3g}; {sum(c.proposals for c in found.values())} proposals."
    )
    return ExperimentResult([_table(found, data.name)], [_figure(found, setting)], [remark])


def _table(found: Mapping[str, Comparison], dataset: str) -> ExperimentTable:
    rows: list[dict[str, Any]] = []
    for name, c in found.items():
        row: dict[str, Any] = {
            "run": f"{dataset}: {name}",
            "asked rows": len(c.kept),
            "share kept": c.share.mean(),
            "kept at most a tenth": (c.share <= 0.1).mean(),
        }
        for side, values in c.distances().items():
            row[side] = float(values.mean()) if len(values) else None
            row[f"{side} s.e."] = float(standard_error(values)) if len(values) > 1 else None
        row |= {f"p kept < {other}": c.p_less(other) for other in ("deleted", "random")}
        rows.append(row)
    for name, n, tenth, p_deleted, p_random in PUBLISHED:
        printed = {"run": name, "asked rows": n, "kept at most a tenth": tenth}
        printed |= {"p kept < deleted": p_deleted, "p kept < random": p_random}
        rows.append(printed)
    return ExperimentTable(
        "npt-deletion",
        "Feature distance of the rows that NPT keeps, beside those it can do without",
        rows,
        "kept, random, deleted: mean squared distance of standardised features to the asked row; "
        "random: as many rows, kept by chance. p: one-sided Wilcoxon signed-rank tests over the "
        "asked rows; the paper's first is below the smallest number it could print. The paper's "
        "strict run kept at most a hundredth of the rows in 79.5 % of its cases.",
    )


def _figure(found: Mapping[str, Comparison], setting: Setting) -> Any:
    figure, axes = new_figure(2 * len(found))
    for (name, c), bars, hist in zip(found.items(), axes[0][::2], axes[0][1::2], strict=True):
        for side, values in c.distances().items():
            error = standard_error(values) if len(values) > 1 else 0.0
            bars.bar(side, values.mean() if len(values) else 0.0, yerr=error)
        bars.set(title=f"{name} run", ylabel="mean distance to the asked row")
        for side in ("random", "deleted"):
            hist.hist(c.beyond_kept(side), bins=12, alpha=0.6, label=f"{side} - kept")
        hist.axvline(0.0, color="black", linewidth=0.8)
        hist.set_xlabel("difference of distances, an asked row each")
        hist.legend()
    figure.tight_layout()
    return save_figure(figure, setting.out / "npt-deletion.png")
