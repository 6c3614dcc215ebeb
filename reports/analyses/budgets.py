"""Mean ranks for a budget of n trials, in the order in which they ran and expected over all orders.

After n trials validation would have chosen the best so far, and its test score is recorded, so
nothing is fitted again. If trials are drawn independently of each other (random search), their
order carries no information, and the expectation over all orders is computed exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..aggregation.anytime import budgets, cells_after, running
from ..aggregation.cells import COMPLETE
from ..evidence import Evidence, EvidenceError
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.curves_svg import Curve, curves_svg
from ..output.tables import Panel, ReportTable, Section, TableCell
from ..statistics.ranking import TIE_TOLERANCE, ranks

AS_RUN, EXPECTED = "as run", "any order"

Array = np.ndarray


def expected_choice(losses: Array, tests: Array, ns: Sequence[int], fixed: int = 0) -> Array:
    """Expected test score of the trial that validation chooses among the first n, for each n of
    `ns`, (len(ns),), over all orders of the trials; the first `fixed` trials keep their places.

    `losses` (N,), NaN for a failed trial; `tests` (N,). Of k trials drawn from m without
    replacement, the j-th best is the best one drawn with probability C(m - 1 - j, k - 1) / C(m, k);
    trials of equal loss share theirs. Orders whose first n trials all failed are left out; NaN if
    that leaves none, and for n > N.
    """
    n_all = len(losses)
    order = fixed + np.argsort(losses[fixed:], kind="stable")  # NaN comes last
    free, test = losses[order], _shared(losses[order], tests[order])
    first = np.flatnonzero(~np.isnan(losses[:fixed]))
    lead = first[np.argmin(losses[first])] if len(first) else None
    if lead is not None:  # a trial that is not better than it is never chosen
        beats = int((free < losses[lead]).sum())
        reach, rest = beats, tests[lead]
    else:
        reach, rest = int((~np.isnan(free)).sum()), np.nan
    m = len(free)
    found = np.full(len(ns), np.nan)
    for at, n in enumerate(ns):
        k = n - fixed
        if n > n_all or n < 1:
            continue
        if k < 1:
            known = [(loss, i) for i, loss in enumerate(losses[:n]) if not np.isnan(loss)]
            found[at] = tests[min(known)[1]] if known else np.nan
            continue
        chance = _best_of(m, k)[:reach]
        if lead is not None:
            left = 0.0 if m - reach < k else max(0.0, 1.0 - float(chance.sum()))
            found[at] = float(chance @ test[:reach]) + left * rest
        elif reach:
            found[at] = float(chance @ test[:reach]) / float(chance.sum())
    return found


def _best_of(m: int, k: int) -> Array:  # (m,)
    """The probability of each of m ranked trials to be the best of k drawn from them."""
    j = np.arange(m - 1)
    steps = np.maximum(0, m - j - k) / np.maximum(1, m - 1 - j)
    return k / m * np.cumprod(np.append(1.0, steps))


def _shared(losses: Array, tests: Array) -> Array:
    """The mean test score of the trials that share each trial's loss; `losses` are ascending."""
    starts = np.append(True, losses[1:] != losses[:-1])[: len(losses)]
    group = np.cumsum(starts) - 1
    sums = np.bincount(group, weights=tests)
    return (sums / np.bincount(group))[group] if len(losses) else tests


# --- the analysis' part ---------------------------------------------------------------------------


def frame(
    evidence: Evidence, headline: pd.DataFrame, independent: Mapping[tuple[str, str], int]
) -> pd.DataFrame:
    """One row per (order, n, dataset, model): `mean` test score over the folds after n trials.

    `headline`: `cells.headline_cells`. `independent` maps each (dataset, model) whose trials are
    drawn independently to the number of trials that nevertheless always come first. Raises
    EvidenceError if no study has two trials with a validation score.
    """
    steps = running(evidence)
    if not len(steps) or steps["n"].max() < 2:
        raise EvidenceError("no study has two trials with a validation score: no budget to vary")
    ns = [*budgets(steps), int(steps["n"].max())]
    parts = []
    for n in ns:
        mine = cells_after(steps, headline, n)
        parts.append(
            mine.assign(order=AS_RUN, n=n)[["order", "n", "dataset", "task", "model", "mean"]]
        )
    expected = _expected(evidence, steps, headline, independent, ns)
    return pd.concat([*parts, expected], ignore_index=True)


def _expected(
    evidence: Evidence,
    steps: pd.DataFrame,
    headline: pd.DataFrame,
    independent: Mapping[tuple[str, str], int],
    ns: Sequence[int],
) -> pd.DataFrame:
    trials = evidence.trials
    trials = trials[trials["stage"] == "tune"]
    heads = {task: evidence.headline(task) for task in evidence.tasks}
    whole = headline[headline["state"] == COMPLETE]
    folds = dict(
        zip(zip(whole["dataset"], whole["model"], strict=True), whole["n_folds"], strict=True)
    )
    sums: dict[tuple[str, str, str], list[Array]] = {}
    for (dataset, model, _), mine in trials.groupby(["dataset", "model", "fold"], sort=True):
        if (dataset, model) not in independent or (dataset, model) not in folds:
            continue
        task = str(mine["task"].iloc[0])
        metric = METRICS[heads[task]]
        done = mine["status"] == "done"
        losses = (metric.sign * mine[f"val_{metric.name}"].astype(float)).where(done).to_numpy()
        tests = mine[f"test_{metric.name}"].astype(float).to_numpy()
        upto = [min(n, len(losses)) for n in ns]
        found = expected_choice(losses, tests, upto, independent[dataset, model])
        sums.setdefault((dataset, task, model), []).append(found)
    rows = [
        {"order": EXPECTED, "n": n, "dataset": d, "task": t, "model": m, "mean": mean}
        for (d, t, m), those in sums.items()
        if len(those) == folds[d, m]
        for n, mean in zip(ns, np.mean(those, axis=0), strict=True)
    ]
    return pd.DataFrame(rows, columns=["order", "n", "dataset", "task", "model", "mean"])


def mean_ranks(evidence: Evidence, cells: pd.DataFrame) -> pd.DataFrame:
    """One row per (order, n, model): mean rank over the datasets on which every model has a score
    after every n, so the same datasets for all n; `n_datasets` is their number."""
    rows = []
    for order, part in cells.groupby("order", sort=True):
        ns = sorted(set(part["n"]))
        table = part.pivot(index="dataset", columns=["n", "model"], values="mean").dropna()
        models = sorted(set(part["model"]))
        if len(models) < 2 or not len(table):
            continue
        task = dict(zip(part["dataset"], part["task"], strict=True))
        signs = [METRICS[evidence.headline(task[d])].sign for d in table.index]
        for n in ns:
            losses = table[n][models].to_numpy(dtype=float) * np.array(signs)[:, None]
            for model, rank in zip(models, ranks(losses, "min").mean(axis=0), strict=True):
                rows.append({"order": order, "n": n, "model": model, "mean_rank": rank})
                rows[-1]["n_datasets"] = len(table)
    columns = ["order", "n", "model", "mean_rank", "n_datasets"]
    return pd.DataFrame(rows, columns=columns)


def section(evidence: Evidence, cells: pd.DataFrame, more: Sequence[str] = ()) -> Section:
    """The file `budgets`, from `frame`; `more`: further remarks."""
    found = mean_ranks(evidence, cells)
    tables = []
    for order, part in found.groupby("order", sort=True):
        wide = part.pivot(index="model", columns="n", values="mean_rank")
        best = wide.min()
        rows = [
            (
                TableCell(escape.label(str(model))),
                *(TableCell(f"{v:.2f}", bold=v == best[n]) for n, v in wide.loc[model].items()),
            )
            for model in wide.sort_values([wide.columns[-1]], kind="stable").index
        ]
        how = (
            "in the order in which the studies ran"
            if order == AS_RUN
            else "expected over all orders of independently drawn trials"
        )
        n_datasets = int(part["n_datasets"].iloc[0])
        title = (
            f"Mean rank after n trials a study, {how}; {footnotes.count(n_datasets, 'dataset')}."
        )
        notes = (
            *footnotes.setting(evidence),
            "After n trials, validation's choice among them counts with its own test score, not "
            "that of evaluation seeds. A study with fewer trials keeps its last choice. Over the "
            "datasets on which every model has a score after every n. Bold: the lowest rank.",
        )
        slug = "as-run" if order == AS_RUN else "any-order"
        header = ("model", *(f"n = {n}" for n in wide.columns))
        tables.append(ReportTable(f"budgets-{slug}", title, header, (Panel(tuple(rows)),), notes))
    title = "What if the budget had been n trials"
    return Section("budgets", title, tuple(tables), cells, (verdict(found), *more))


def verdict(found: pd.DataFrame) -> str:
    """Who leads after all trials, and since which number of them, in a sentence. `found`:
    `mean_ranks`."""
    if not len(found):
        return "No verdict: no dataset has a score of two models after every number of trials."
    orders = set(found["order"])
    part = found[found["order"] == (EXPECTED if EXPECTED in orders else AS_RUN)]
    leaders = {}
    for n, mine in part.groupby("n", sort=True):
        rank = float(mine["mean_rank"].min())
        first = mine.loc[mine["mean_rank"] - rank <= TIE_TOLERANCE, "model"]
        leaders[int(n)] = footnotes.join(sorted(map(str, first)), whole=True), rank, len(first) > 1
    last = max(leaders)
    name, rank, several = leaders[last]
    other = [n for n in sorted(leaders) if leaders[n][0] != name]
    over = footnotes.count(int(part["n_datasets"].iloc[0]), "dataset")
    said = (
        f"After {footnotes.count(last, 'trial')} {name} {'lead together' if several else 'leads'} "
        f"with mean rank {rank:.2f} on {over}"
    )
    if not other:
        as_now = "as they do" if several else "as it does"
        return f"{said}, {as_now} after every smaller number of trials."
    n = other[-1]
    return f"{said}; after {footnotes.count(n, 'trial')} it was {leaders[n][0]}."


def figure(evidence: Evidence, cells: pd.DataFrame) -> str:
    """Mean rank against n as SVG: EXPECTED over all orders if all models have that, else AS_RUN."""
    found = mean_ranks(evidence, cells)
    everyone = set(cells["model"])
    order = EXPECTED if set(found.loc[found["order"] == EXPECTED, "model"]) == everyone else AS_RUN
    part = found[found["order"] == order]
    drawn = [
        Curve(str(model), mine["n"].to_numpy(), mine["mean_rank"].to_numpy())
        for model, mine in part.groupby("model", sort=True)
    ]
    title = f"Mean rank after n trials ({order})"
    return curves_svg(drawn, title, "trials a study", "mean rank", log_x=True)
