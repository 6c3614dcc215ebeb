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
from ..aggregation.ranking_matrix import as_errors
from ..evidence import Evidence, EvidenceError
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.curves_svg import Curve, curves_svg
from ..output.gains import gain
from ..output.tables import Panel, ReportTable, Section, TableCell, p_text
from ..statistics.ranking import TIE_TOLERANCE, ranks
from ..statistics.tests import ALPHA, holm
from ..statistics.welch import welch
from ..statistics.wilcoxon import wilcoxon

KEYS = ["dataset", "model", "fold"]
_APART = ["dataset", "model", "tuner", "against", "mean", "low", "high", "separable"]


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


def regrets(found: pd.DataFrame, n: int, unit: Sequence[str] = ("dataset",)) -> pd.DataFrame:
    """Datasets, or what else `unit` names (rows) by tuners (columns): mean regret over the models
    after n trials."""
    mine = found[found["n"] == n]
    return mine.groupby([*unit, "tuner"], sort=True)["regret"].mean().unstack()


def separations(losses: pd.DataFrame, n: int) -> pd.DataFrame:
    """What repeats tell apart: one row per (dataset, model, tuner, against) with the `mean`
    difference of the lowest validation losses after n trials, its 95 % interval by Welch (`low`,
    `high`), and `separable`, whether that leaves out zero.

    `losses`: tuner, dataset, model, repeat, n, best, one row for each of them, or for each `fold`
    of them where there is that column; folds are averaged. As in `frame`, studies in which some
    tuner has no score after its first trial are left out for all tuners.
    """
    study = [name for name in ("dataset", "model", "repeat", "fold") if name in losses]
    first, last = (
        losses[losses["n"] == k].set_index([*study, "tuner"])["best"].unstack().dropna()
        for k in (1, n)
    )
    common = last[last.index.isin(first.index)]
    means = common.groupby(level=study[:3], sort=True).mean()
    found = []
    for (dataset, model), part in means.groupby(level=study[:2], sort=True):
        for a, b in combinations(sorted(part.columns), 2):
            apart = welch(part[a].to_numpy(dtype=float), part[b].to_numpy(dtype=float))
            row = {"dataset": dataset, "model": model, "tuner": a, "against": b}
            found.append({**row, **apart._asdict(), "separable": apart.is_separable})
    return pd.DataFrame(found, columns=_APART)


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


def replay_section(
    evidence: Evidence,
    found: pd.DataFrame,
    known: pd.DataFrame,
    rungs: pd.DataFrame,
    apart: pd.DataFrame,
    *,
    repeats: int,
    notes: Sequence[str] = (),
) -> Section:
    """The file `tuners` of a run that was replayed. `found`: `frame` of the replays, with each of
    the `repeats` as a fold; `known`: a row per (dataset, model) with what its recorded trials can
    answer; `rungs`: a row per (setting, dataset, model), see `_rung_table`, empty without halving;
    `apart`: `separations` of the repeats."""
    more = (
        "Replayed: nothing was fitted. A suggestion is answered by the recorded trial of the same "
        "study that is nearest in the scaled space, see the table of reliability; mean over "
        f"{footnotes.count(repeats, 'repeat')} under other seeds.",
        *notes,
    )
    tables = [_regret_table(evidence, found, more), _pair_table(found, KEYS[:2], apart)]
    tables.append(_knowledge_table(known))
    if len(rungs):
        tables.append(_rung_table(evidence, rungs))
    return Section("tuners", "Tuner against tuner, replayed", tuple(tables), found)


def _knowledge_table(known: pd.DataFrame) -> ReportTable:
    rows = []
    for row in known.itertuples(index=False):
        rho = row.neighbour_correlation
        texts = [
            str(row.n_trials),
            str(row.n_axes),
            f"{100 * row.exact:.0f}",
            f"{row.distance:.3f}",
            f"{row.neighbour_distance:.3f}",
            "n/a" if np.isnan(rho) else f"{rho:.2f}",
        ]
        names = (TableCell(escape.label(str(row.dataset))), TableCell(escape.label(str(row.model))))
        rows.append((*names, *map(TableCell, texts)))
    header: tuple[str, ...] = ("dataset", "model", "trials", "axes", "exact %", "distance")
    header += ("between neighbours", "neighbours' correlation")
    notes = (
        "Trials: of the smallest fold. Exact: suggestions that had run as they are. Distance: of "
        "the answers, then of each trial and its nearest other one, as root mean square over the "
        "axes of the space, each from 0 to 1, weighted by "
        "importance for the loss. Correlation: Spearman's, of each trial's loss with "
        "that of its nearest other one: near 1 a trial's loss can be predicted from its "
        "neighbours; near 0 it cannot, and the ranking of tuners above should be ignored for this "
        "model. Not covered by any replay: configurations better than all recorded ones, fit times "
        "elsewhere, and rungs on which a configuration did not run.",
    )
    panels = (Panel(tuple(rows)),)
    title = "Reliability of the replay."
    return ReportTable("tuners-known", title, header, panels, notes, n_labels=2)


def _rung_table(evidence: Evidence, rungs: pd.DataFrame) -> ReportTable:
    """`rungs`: setting, dataset, model, `loss` of the chosen configuration and `cpu`, CPU seconds,
    means over the folds, where they are known; the first setting is that of the run. The changes
    are of errors relative to their mean, as the pairs' metrics and units differ."""
    settings = list(dict.fromkeys(rungs["setting"]))
    loss = rungs.pivot(index=KEYS[:2], columns="setting", values="loss")[settings]
    cpu = rungs.pivot(index=KEYS[:2], columns="setting", values="cpu")[settings]
    task_of = dict(zip(evidence.planned["dataset"], evidence.planned["task"], strict=True))
    metrics = [METRICS[evidence.headline(task_of[dataset])] for dataset, _ in loss.index]
    bounded = np.array([metric.bounded for metric in metrics], dtype=bool)
    error = as_errors(loss.to_numpy(dtype=float), bounded)  # (n_pairs, n_settings)
    changes = zip(settings, (gain(e, error[:, 0]) for e in error.T), strict=True)
    apart = {s: change[~np.isnan(change)] for s, change in changes}
    tests = [wilcoxon(apart[s]) for s in settings[1:]]
    adjusted = [None, *holm([t.p for t in tests])]
    rows = []
    for setting, p in zip(settings, adjusted, strict=True):
        shares = (cpu[setting] / cpu[settings[0]].where(cpu[settings[0]] > 0)).dropna()
        rows.append(
            (
                TableCell(escape.label(setting)),
                TableCell(f"{len(apart[setting])} of {len(loss)}"),
                TableCell(str(int((apart[setting] < 0).sum()))),
                TableCell(str(int((apart[setting] > 0).sum()))),
                TableCell(f"{100 * shares.mean():.0f}" if len(shares) else "n/a"),
                TableCell("" if p is None else p_text(p), bold=p is not None and p < ALPHA),
            )
        )
    title = "Halving settings, from the rungs that were recorded."
    notes = (
        "Fewer promotions at every rung than the run's own, which is the first line. Known: pairs "
        "of dataset and model of which every fit that such a search needs is in the run; where "
        "fewer go on, another configuration may be the best of the next rung, which the run took "
        "no further. More promotions, more rungs and other lengths were never run: no replay "
        "knows them. Better, worse: pairs with a lower or a higher validation loss of the chosen "
        "configuration than the run's, mean over the folds; CPU: share of the run's seconds. p: "
        "Wilcoxon's signed-rank test against the run over the known pairs, on the differences of "
        "the errors relative to their mean (an error is 1 − score where more is better), with "
        "Holm's correction.",
    )
    header = ("promotions", "known", "better", "worse", "CPU %", "p Holm")
    return ReportTable("tuners-rungs", title, header, (Panel(tuple(rows)),), notes)


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


def _pair_table(
    found: pd.DataFrame, unit: Sequence[str] = ("dataset",), apart: pd.DataFrame | None = None
) -> ReportTable:
    """`apart`: `separations`; with it a pair of dataset and model counts as better or worse only
    where the repeats tell the two tuners apart."""
    wide = regrets(found, int(found["n"].max()), unit).dropna()
    each = "dataset" if len(unit) == 1 else "pair"
    counted = footnotes.count(len(wide), each) + " of dataset and model" * (each == "pair")
    pairs = list(combinations(wide.columns, 2))
    tests = [wilcoxon((wide[a] - wide[b]).to_numpy(dtype=float)) for a, b in pairs]
    rows = []
    for (a, b), test, adjusted in zip(pairs, tests, holm([t.p for t in tests]), strict=True):
        better, worse = _counts(wide, a, b) if apart is None else _separable(apart, wide, a, b)
        counts = [better, len(wide) - better - worse, worse]
        texts = [escape.label(str(a)), escape.label(str(b)), *map(str, counts)]
        p = TableCell(p_text(adjusted), bold=adjusted < ALPHA)
        rows.append((*map(TableCell, [*texts, p_text(test.p)]), p))
    middle = "equal" if apart is None else "not separable"
    header = ("tuner", "against", "better", middle, "worse", "p", "p Holm")
    title = f"Regret after the last trial, pair by pair over {counted}."
    notes = [
        f"p: Wilcoxon's signed-rank test, exact, two-sided, zeros by Pratt, one number per {each}; "
        f"Holm's correction over the pairs. Bold: below {ALPHA:g}. A pair that is not "
        "bold is not shown to be equal.",
    ]
    if apart is not None:
        notes.append(
            "Better, worse: pairs of dataset and model on which the repeats tell the two tuners "
            "apart, as Welch's 95 % interval of the difference of their validation losses leaves "
            "out zero. Not separable: it does not, and which mean is lower says nothing."
        )
    panels = (Panel(tuple(rows)),)
    return ReportTable("tuners-tests", title, header, panels, tuple(notes), n_labels=2)


def _counts(wide: pd.DataFrame, a: str, b: str) -> tuple[int, int]:
    """(better, worse): on how many units a has a lower, and a higher, regret than b."""
    place = ranks(wide[[a, b]].to_numpy(dtype=float), "min")
    return int((place[:, 0] < 1.5).sum()), int((place[:, 0] > 1.5).sum())


def _separable(apart: pd.DataFrame, wide: pd.DataFrame, a: str, b: str) -> tuple[int, int]:
    """(better, worse) of those pairs of dataset and model, rows of `wide`, whose repeats tell a and
    b apart."""
    pairs = zip(apart["dataset"], apart["model"], strict=True)
    there = np.array([pair in wide.index for pair in pairs], dtype=bool)
    mine = apart[(apart["tuner"] == a) & (apart["against"] == b) & apart["separable"] & there]
    return int((mine["mean"] < 0).sum()), int((mine["mean"] > 0).sum())


def figure(found: pd.DataFrame) -> str:
    """Mean regret over n as SVG."""
    ns = sorted(set(found["n"]))
    means = pd.DataFrame({n: regrets(found, n).mean() for n in ns})
    x = np.array(ns)
    drawn = [Curve(str(t), x, means.loc[t].to_numpy(dtype=float)) for t in means.index]
    return curves_svg(drawn, "Regret after n trials", "trials a study", "mean regret", log_x=True)
