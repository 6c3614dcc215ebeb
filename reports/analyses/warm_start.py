"""A sweep with a warm start beside one without: validation and test after equal numbers of trials."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, p_text
from ..statistics.ranking import ranks
from ..statistics.tests import ALPHA, holm
from ..statistics.wilcoxon import wilcoxon
from . import tuners

COLD, WARM = "without", "with"
PARTS = ("validation", "test")


def frame(evidence: Evidence, steps: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per (n, dataset, model, part): `without` and `with`, the mean errors over the folds
    of what each study had chosen after n trials, and `gain`, 2 (without - with)/(without + with).

    steps: {COLD, WARM: `anytime.running`}. An error is 1 - score where more is better. Raises
    EvidenceError where no study is common to both.
    """
    found = tuners.frame(steps)
    metrics = [METRICS[evidence.headline(task)] for task in found["task"]]
    losses = zip(metrics, found["loss"], strict=True)
    found["validation"] = [m.error(m.sign * loss) for m, loss in losses]
    found["test"] = [m.error(score) for m, score in zip(metrics, found["test"], strict=True)]
    keys = ["n", "dataset", "task", "model", "tuner"]
    long = found.melt(keys, list(PARTS), var_name="part", value_name="error")
    wide = long.pivot(index=[*keys[:-1], "part"], columns="tuner", values="error").reset_index()
    wide.columns.name = None
    total = wide[COLD] + wide[WARM]
    wide["gain"] = np.where(total > 0, 2 * (wide[COLD] - wide[WARM]) / total.where(total > 0), 0.0)
    wide.loc[wide[[COLD, WARM]].isna().any(axis=1), "gain"] = np.nan
    order = ["part", "n", "dataset", "task", "model", COLD, WARM, "gain"]
    by = ["part", "n", "dataset", "model"]
    return wide[order].sort_values(by, ascending=[False, True, True, True]).reset_index(drop=True)


def section(found: pd.DataFrame, notes: tuple[str, ...] = ()) -> Section:
    """The file `warm-start`. found: `frame`; notes: how the two sweeps began."""
    last = int(found["n"].max())
    over_all = {
        part: {
            f"after {footnotes.plural(n, 'trial')}": rows
            for n, rows in found[found["part"] == part].groupby("n", sort=True)
        }
        for part in PARTS
    }
    at_end = found[found["n"] == last]
    by_model = {
        part: {
            escape.label(str(model)): rows
            for model, rows in at_end[at_end["part"] == part].groupby("model", sort=True)
        }
        for part in PARTS
    }
    how = (
        "gain: difference of the errors in percent of their mean, positive where the warm start is "
        "better; median and mean over the datasets. An error is 1 − score where more is better. "
        "Folds are averaged first, then the models of a dataset: one number per dataset.",
        "p: Wilcoxon's signed-rank test over the datasets, exact, two-sided, zeros by Pratt; Holm's "
        f"correction within each part. Bold: below {ALPHA:g}. A line that is not bold shows no "
        "gain, and no equality either.",
        "validation: the rows that both sweeps search on; test: of what validation had chosen.",
    )
    header = ("gain of the warm start", "median %", "mean %", "better", "equal", "worse", "p",
              "p Holm")  # fmt: skip
    n_datasets = found["dataset"].nunique()
    tables = (
        ReportTable(
            "warm-start",
            f"Warm start after equal numbers of trials, over all models: "
            f"{footnotes.plural(n_datasets, 'dataset')}.",
            header,
            tuple(Panel(_rows(lines), part) for part, lines in over_all.items()),
            (*notes, *how),
        ),
        ReportTable(
            "warm-start-models",
            f"Warm start by model, after {footnotes.plural(last, 'trial')}.",
            header,
            tuple(Panel(_rows(lines), part) for part, lines in by_model.items()),
            how,
        ),
    )
    return Section("warm-start", "Warm start", tables, found)


def _rows(lines: dict[str, pd.DataFrame]) -> tuple[tuple[TableCell, ...], ...]:
    """A row for each name: the gains of these (dataset, model) pairs, one number per dataset."""
    gains = {
        name: rows.groupby("dataset", sort=True)["gain"].mean().dropna().to_numpy(dtype=float)
        for name, rows in lines.items()
    }
    gains = {name: values for name, values in gains.items() if len(values)}
    p = [wilcoxon(values).p for values in gains.values()]
    found = []
    for (name, values), raw, adjusted in zip(gains.items(), p, holm(p), strict=True):
        place = ranks(np.stack([-values, np.zeros(len(values))], axis=1), "min")[:, 0]
        better, worse = int((place < 1.5).sum()), int((place > 1.5).sum())
        counts = [better, len(values) - better - worse, worse]
        middle, mean = (f"{100 * v:+.2f}".replace("-", "−")
                        for v in (float(np.median(values)), float(values.mean())))  # fmt: skip
        texts = [name, middle, mean, *map(str, counts), p_text(raw)]
        cells = [*map(TableCell, texts), TableCell(p_text(adjusted), bold=adjusted < ALPHA)]
        found.append(tuple(cells))
    return tuple(found)
