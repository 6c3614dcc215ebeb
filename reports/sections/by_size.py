"""Who leads at how many rows: ranks at each training size, and networks against boosting."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd

from ..aggregation import by_size
from ..aggregation.by_size import More, Ranked, Sides
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.curves import Curve, Plot
from ..output.looks import SHADES, hue_of, looks
from ..output.tables import Panel, ReportTable, Section, TableCell

NAME, TITLE = "by-size", "By number of training rows"
FAMILY_WORDS = {"gbdt": "boosted trees"}
MOST = 6  # models with a line of their own in a figure, beside families and papers' models
Y = "normalised error (0: lowest of all, 1: a constant)"
READ = (
    "A score at a size is the mean over its draws, all tested on the same rows; a smaller training "
    "set is part of a larger one. 95 % interval: of the mean rank over resamples of the datasets "
    "(bootstrap)."
)


def section(evidence: Evidence) -> Section:
    """The file `by-size`: a table a size, and one of networks against boosting."""
    folds = by_size.sized(evidence)
    ranked = by_size.ranked(folds)
    sides = by_size.networks_and_boosting(evidence, folds)
    tables = [_ranks(evidence, one) for one in ranked]
    remarks = [said for name in evidence.datasets() if (said := sentence(evidence, folds, name))]
    if len(evidence.datasets()) > 1:
        remarks = [crossing_words(sides)] if sides is not None else []
    if sides is not None and sides.n > 1:
        tables.append(_against(sides))
    about = "ranks at each number of training rows, networks against boosting"
    return Section(NAME, TITLE, tuple(tables), _frame(ranked), tuple(remarks), about)


def _ranks(evidence: Evidence, one: Ranked) -> ReportTable:
    rows = [
        (
            TableCell(escape.label(model)),
            TableCell(f"{mean:.2f}", bold=mean == one.mean[0]),
            TableCell(f"{low:.1f} to {high:.1f}" if one.n > 1 else ""),
            TableCell(str(best)),
        )
        for model, mean, low, high, best in zip(
            one.models, one.mean, one.low, one.high, one.best, strict=True
        )
    ]
    some = f", {one.draws} of {one.of} draws, which all have" if one.draws < one.of else ""
    over = footnotes.count(one.n, "dataset")
    title = f"{one.size:,} training rows{some}: mean rank over {over}."
    header = ("model", "mean rank", "95 % interval", "best on")
    notes = (*_lacking(one), *footnotes.setting(evidence), READ)
    name = f"{NAME}-{one.size}" + (f"-{one.draws}-of-{one.of}" if some else "")
    return ReportTable(name, title, header, (Panel(tuple(rows)),), notes)


def _lacking(one: Ranked) -> list[str]:
    """Which models are not ranked, and why."""
    others = sorted({*map(str, one.errors)} - {*one.models})
    why = "a draw" if one.of > 1 else "a score"
    return [f"Not ranked, as they lack {why}: {', '.join(others)}."] if others else []


def _against(sides: Sides) -> ReportTable:
    rows = [
        (
            TableCell(f"{size:,.0f}"),
            TableCell(f"{100 * mean:+.1f} %"),
            TableCell(f"{100 * low:+.1f} to {100 * high:+.1f} %"),
        )
        for size, mean, low, high in zip(
            sides.sizes, sides.mean, sides.low, sides.high, strict=True
        )
    ]
    n = footnotes.count(sides.n, "dataset")
    notes = (
        f"What validation chooses of {sides.k} networks against what it chooses of {sides.k} "
        "boosting models, fold by fold: the expectation over all choices of as many models from "
        "the larger side, which would have more chances otherwise. Gain: how much lower the "
        "network's test error is, as a share of the larger one; mean over datasets.",
        crossing_words(sides),
    )
    title = f"The best network against the best boosting, over {n}."
    header = ("training rows", "mean gain", "95 % interval")
    return ReportTable(f"{NAME}-networks", title, header, (Panel(tuple(rows)),), notes)


def crossing_words(sides: Sides) -> str:
    """From how many rows on the best network leads, with an interval."""
    first, last = sides.sizes[0], sides.sizes[-1]

    def rows(n: float) -> str:
        if n == 0:
            return f"fewer than {first:,.0f}"
        return f"more than {last:,.0f}" if math.isinf(n) else f"{n:,.0f}"

    where = sides.where
    ends = dict.fromkeys((rows(where.low), rows(where.high)))  # one where they are the same
    span = f"95 % interval: {' to '.join(ends)}"
    if where.low == 0 and math.isinf(where.high):
        said = "These datasets do not tell from how many rows on the best network leads boosting"
        return f"{said} ({span})."
    if where.rows == 0:
        return f"The best network leads boosting at all sizes from {first:,.0f} rows ({span})."
    if math.isinf(where.rows):
        return f"The best network does not lead boosting at {last:,.0f} training rows ({span})."
    return f"The best network leads boosting from {rows(where.rows)} training rows on ({span})."


def sentence(evidence: Evidence, folds: pd.DataFrame, dataset: str) -> str:
    """Whether more rows would help on a dataset; "" where fewer than two sizes have scores."""
    more = by_size.more_rows(folds, dataset)
    if more is None:
        return ""
    task = str(folds.loc[folds["dataset"] == dataset, "task"].iloc[0])
    metric = METRICS[evidence.headline(task)]
    what = f"1 - {metric.label}" if metric.bounded else metric.label
    return f"{escape.label(dataset)}: {words(more, what)}"


def words(more: More, what: str) -> str:
    """The sentence on what more rows gave. what: the name of the error."""
    (m, n), (before, after) = more.sizes[-2:], more.errors[-2:]
    step = f"from {m:,} to {n:,} training rows the {what} of validation's choice went from "
    step += f"{before:.3g} to {after:.3g} ({-100 * more.saved:+.0f} %)"
    if more.helps is None:
        return f"{step}; no size was drawn twice, so that chance is not known."
    chance = f"two draws of one size differ by {np.sqrt(2) * more.deviation:.2g}"
    if not more.helps:
        return f"More rows would hardly help: {step}, and {chance} by chance."
    return (
        f"More rows would help: {step}, where {chance} by chance; at {2 * n:,} rows one may expect "
        f"about {more.doubled:.3g}, if it goes on like this."
    )


def _frame(ranked: list[Ranked]) -> pd.DataFrame:
    """dataset, size, draws, model, error, and mean_rank, rank_low, rank_high of the model at the
    size over so many of its draws."""
    parts = []
    for one in ranked:
        tidy = one.errors.rename_axis(columns="model").stack().rename("error").reset_index()
        ends = {"mean_rank": one.mean, "rank_low": one.low, "rank_high": one.high}
        parts.append(
            tidy.assign(size=one.size, draws=one.draws).join(
                pd.DataFrame(ends, index=one.models), on="model"
            )
        )
    columns = ["dataset", "size", "draws", "model", "error", "mean_rank", "rank_low", "rank_high"]
    return pd.concat([pd.DataFrame(columns=columns), *parts])[columns]


def plot(evidence: Evidence) -> Plot | None:
    """Normalised error against training rows: a line with a band for each family of several models
    and each own model, and a line for the MOST models that are best at the largest size; None
    without several datasets."""
    if not by_size.has_sizes(evidence) or len(evidence.datasets()) < 2:
        return None
    folds = by_size.sized(evidence)
    errors = by_size.errors_at(folds)
    ranked = [one for one in by_size.ranked(folds) if one.draws == one.of]
    if not ranked:
        return None
    known = evidence.facts.families
    families = {model: known[model][0] for model in evidence.models if model in known}
    drawn = []
    of = looks(evidence.models, known)
    own = evidence.own
    shown = {*ranked[-1].models[:MOST], *evidence.facts.of_papers, *own}
    n_models = Counter(families.values())
    shown |= {f"all of {name}" if n_models[name] > 1 else model for model, name in families.items()}
    for line in by_size.lines(errors, families):
        whole = line.name == f"all of {line.family}"
        if len(line.sizes) > 1 and line.name in shown and line.family != "baseline":
            look = (SHADES * hue_of(line.family), 1) if whole else of[line.name]
            name = f"{FAMILY_WORDS.get(line.family, line.family)} (mean)" if whole else line.name
            band = (line.low, line.high) if whole or line.name in own else None
            drawn.append(Curve(name, line.sizes, line.mean, look, band))
    drawn.sort(key=lambda curve: float(curve.y[-1]))
    title = "Error against training rows"
    return Plot(drawn, title, "training rows", Y) if drawn else None
