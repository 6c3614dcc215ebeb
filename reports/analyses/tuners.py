"""Comparison of tuners (search algorithms) by regret after n trials.

The same studies (dataset, fold, model) on the same spaces, searched by two tuners or more. The
lowest validation loss so far is scaled to a regret between the best (0) and the worst (1) that any
tuner had on that (dataset, model). One number per dataset enters the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from ..aggregation.anytime import after, budgets
from ..evidence import Evidence, EvidenceError
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.curves_svg import Curve, curves_svg
from ..output.tables import Panel, ReportTable, Section, TableCell, p_text
from ..statistics.ranking import TIE_TOLERANCE, ranks
from ..statistics.tests import ALPHA, holm
from ..statistics.wilcoxon import wilcoxon

KEYS = ["dataset", "model", "fold"]


def frame(steps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per (tuner, n, dataset, model): mean over the folds of `loss` (lowest validation loss
    of the first n trials), the `regret` of that mean, and `test`, the test score of the trial with
    that loss.

    `steps`: {tuner: `anytime.running` of its trials}. n goes up to the length of the shortest
    study. Studies in which some tuner has no score after its first trial are left out for all
    tuners. Raises EvidenceError if no study is common to all.
    """
    if len(steps) < 2:
        raise EvidenceError(
            f"a comparison needs two tuners or more; found {', '.join(steps) or 'none'}"
        )
    common = set.intersection(*(_studies(part) for part in steps.values()))
    if not common:
        raise EvidenceError(f"no study was searched by all of {', '.join(steps)}")
    kept = {tuner: part[[k in common for k in _keys(part)]] for tuner, part in steps.items()}
    most = min(int(part.groupby("study")["n"].max().min()) for part in kept.values())
    parts = []
    for n in [*(b for b in budgets(pd.concat(kept.values())) if b < most), most]:
        for tuner, part in kept.items():
            chosen = after(part, n).groupby(["dataset", "task", "model"], sort=True)
            means = chosen[["best", "test"]].mean().reset_index()
            parts.append(means.rename(columns={"best": "loss"}).assign(tuner=tuner, n=n))
    found = pd.concat(parts, ignore_index=True)
    spans = found.groupby(["dataset", "model"], sort=True)["loss"]
    low, span = spans.transform("min"), spans.transform("max") - spans.transform("min")
    found["regret"] = np.where(span > 0, (found["loss"] - low) / span.where(span > 0, 1.0), 0.0)
    return found[["tuner", "n", "dataset", "task", "model", "loss", "regret", "test"]]


def _keys(steps: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(steps[KEYS].itertuples(index=False, name=None))


def _studies(steps: pd.DataFrame) -> set[tuple[object, ...]]:
    """The studies that have a score after their first trial."""
    return set(_keys(steps[(steps["n"] == 1) & steps["best"].notna()]))


def regrets(found: pd.DataFrame, n: int) -> pd.DataFrame:
    """Datasets (rows) by tuners (columns): mean regret over the models after n trials."""
    mine = found[found["n"] == n]
    return mine.groupby(["dataset", "tuner"], sort=True)["regret"].mean().unstack()


def section(evidence: Evidence, found: pd.DataFrame, notes: Sequence[str] = ()) -> Section:
    """The file `tuners`. `found`: `frame`; `evidence`: names the metrics; `notes`: further ones."""
    tables = (_regret_table(evidence, found, notes), _pair_table(found))
    return Section("tuners", "Tuner against tuner", tables, found, (verdict(found),))


def verdict(found: pd.DataFrame) -> str:
    """Which tuner has the lowest regret after the last trial, and how many pairs are told apart."""
    n = int(found["n"].max())
    wide = regrets(found, n).dropna()
    if not len(wide):
        return "No verdict: no dataset has every tuner."
    means = wide.mean().sort_values(kind="stable")
    first = [str(n) for n, mean in means.items() if mean - means.iloc[0] <= TIE_TOLERANCE]
    who = f"{first[0]} has" if len(first) == 1 else f"{footnotes.join(first, whole=True)} have"
    pairs = list(combinations(wide.columns, 2))
    p = holm([wilcoxon((wide[a] - wide[b]).to_numpy(dtype=float)).p for a, b in pairs])
    apart = sum(value < ALPHA for value in p)
    return (
        f"After {footnotes.count(n, 'trial')} {who} the lowest mean regret "
        f"({means.iloc[0]:.3f}) over {footnotes.count(len(wide), 'dataset')}; {apart} of "
        f"{footnotes.count(len(pairs), 'pair')} of tuners differ significantly (Wilcoxon, Holm)."
    )


def _regret_table(evidence: Evidence, found: pd.DataFrame, more: Sequence[str]) -> ReportTable:
    ns = sorted(set(found["n"]))
    means = pd.DataFrame({n: regrets(found, n).mean() for n in ns})
    last = found[found["n"] == ns[-1]]
    by_val, by_test = (_mean_ranks(evidence, last, column) for column in ("loss", "test"))
    rows = []
    for tuner in means.index:
        figures = [*(f"{means.loc[tuner, n]:.3f}" for n in ns)]
        figures += [f"{by_val[tuner]:.2f}", f"{by_test[tuner]:.2f}"]
        rows.append((TableCell(escape.label(str(tuner))), *map(TableCell, figures)))
    n_datasets = last["dataset"].nunique()
    title = (
        "Regret after n trials: the lowest validation loss so far, between the best (0) and the "
        f"worst (1) of all tuners; mean over {footnotes.count(n_datasets, 'dataset')}."
    )
    notes = (
        *more,
        "Folds are averaged within a (dataset, model), models within a dataset. Every study stops "
        f"at {ns[-1]} trials, the length of the shortest. Seen on the validation rows, which all "
        "tuners search; the last columns rank (dataset, model) pairs after the last trial, by "
        "validation loss and by the test score of what was chosen.",
    )
    header = ("tuner", *(f"n = {n}" for n in ns), "rank, validation", "rank, test")
    return ReportTable("tuners", title, header, (Panel(tuple(rows)),), notes)


def _mean_ranks(evidence: Evidence, last: pd.DataFrame, column: str) -> pd.Series:
    wide = last.pivot(index=["dataset", "task", "model"], columns="tuner", values=column).dropna()
    losses = wide.to_numpy(dtype=float, copy=True)
    if column == "test":
        metrics = [METRICS[evidence.headline(str(task))] for _, task, _ in wide.index]
        losses *= np.array([m.sign for m in metrics])[:, None]
    means = ranks(losses, "min").mean(axis=0) if len(wide) else np.full(wide.shape[1], np.nan)
    return pd.Series(means, index=wide.columns)


def _pair_table(found: pd.DataFrame) -> ReportTable:
    wide = regrets(found, int(found["n"].max())).dropna()
    pairs = list(combinations(wide.columns, 2))
    tests = [wilcoxon((wide[a] - wide[b]).to_numpy(dtype=float)) for a, b in pairs]
    rows = []
    for (a, b), test, adjusted in zip(pairs, tests, holm([t.p for t in tests]), strict=True):
        better, worse = _counts(wide, a, b)
        counts = [better, len(wide) - better - worse, worse]
        texts = [escape.label(str(a)), escape.label(str(b)), *map(str, counts)]
        p = TableCell(p_text(adjusted), bold=adjusted < ALPHA)
        rows.append((*map(TableCell, [*texts, p_text(test.p)]), p))
    header = ("tuner", "against", "better", "equal", "worse", "p", "p Holm")
    counted = footnotes.count(len(wide), "dataset")
    title = f"Regret after the last trial, pair by pair over {counted}."
    notes = (
        "p: Wilcoxon's signed-rank test, exact, two-sided, zeros by Pratt, one number per dataset; "
        f"Holm's correction over the pairs. Bold: below {ALPHA:g}. A pair that is not "
        "bold is not shown to be equal.",
    )
    return ReportTable("tuners-tests", title, header, (Panel(tuple(rows)),), notes, n_labels=2)


def _counts(wide: pd.DataFrame, a: str, b: str) -> tuple[int, int]:
    """(better, worse): on how many datasets a has a lower, and a higher, regret than b."""
    place = ranks(wide[[a, b]].to_numpy(dtype=float), "min")
    return int((place[:, 0] < 1.5).sum()), int((place[:, 0] > 1.5).sum())


def figure(found: pd.DataFrame) -> str:
    """Mean regret over n as SVG."""
    ns = sorted(set(found["n"]))
    means = pd.DataFrame({n: regrets(found, n).mean() for n in ns})
    x = np.array(ns)
    drawn = [Curve(str(t), x, means.loc[t].to_numpy(dtype=float)) for t in means.index]
    return curves_svg(drawn, "Regret after n trials", "trials a study", "mean regret", log_x=True)
