"""The models of a run as a DataFrame, the best first: `tabsweep.leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import check_run

if TYPE_CHECKING:
    import pandas as pd


def leaderboard(run: str | Path) -> pd.DataFrame:
    """The models of a run, the best first.

    Scores are those of the test rows, means over folds, of the configuration that validation chose.

    Parameters
    ----------
    run : str or Path
        The folder of a run, finished or not.

    Returns
    -------
    DataFrame
        One row for each model: `model`; `rank`, its mean rank (1 is best) as in the run's report:
        ranked are the models with a score on all folds of at least 80 % of the run's datasets, on
        the datasets on which each of them has one, and the others have NaN; `best_on`, datasets on
        which no model is better; `n_datasets`, datasets with a score on all folds. For a run of one
        dataset also `test_<metric>` and `test_<metric>_se`, the mean and its standard error over
        folds. Then `fit_s` and `predict_s`, seconds on average over the model's trials;
        `predict_1k_s` and `predict_1k_single_s`, seconds that the median trial's model takes to
        predict 1,000 rows, in one batch and one by one (NaN where it was not measured); and
        `trials` and `failed`, their numbers.

    Raises
    ------
    NoRun, LedgerError
        Where `run` is not the folder of a run, or holds no plan yet.
    """
    import numpy as np
    import pandas as pd

    from ...reports.aggregation.cells import headline_cells, studies
    from ...reports.aggregation.ranking_matrix import RankingMatrix, loss_table, scopes
    from ...reports.statistics.ranking import snap
    from ..results.evidence_builder import evidence_of

    run = Path(run)
    check_run(run)
    evidence = evidence_of([run])
    cells = headline_cells(evidence, studies(evidence))
    everything = [scope for scope in scopes(evidence) if not scope.subset][-1]
    matrix = RankingMatrix.of(evidence, cells, everything)
    table = loss_table(cells, everything, evidence.subset).reindex(columns=evidence.models)
    losses = snap(table.fillna(np.inf).to_numpy(dtype=float))  # (n_datasets, n_models)
    best = np.isfinite(losses) & (losses == losses.min(axis=1, keepdims=True))
    found = pd.DataFrame(index=pd.Index(evidence.models, name="model"))
    means = matrix.ranks().mean(axis=0) if matrix.datasets else np.nan
    found["rank"] = pd.Series(means, index=matrix.models, dtype=float)
    found["best_on"] = best.sum(axis=0)
    found["n_datasets"] = table.notna().sum().astype(int)
    if len(cells["dataset"].unique()) == 1:
        metric = evidence.headline(cells["task"].iloc[0])
        mine = cells.set_index("model")
        found[f"test_{metric}"] = mine["mean"]
        found[f"test_{metric}_se"] = mine["spread"]
    trials = evidence.trials.assign(model=evidence.trials["model"].astype(object))
    by_model = trials.groupby("model")
    for cost in ("fit_s", "predict_s"):
        found[cost] = by_model[cost].mean() if cost in trials else np.nan
    for cost in ("predict_1k_s", "predict_1k_single_s"):
        found[cost] = by_model[cost].median()
    found["trials"] = by_model.size()
    found["failed"] = trials[trials["status"] == "failed"].groupby("model").size()
    counts = found[["trials", "failed"]].fillna(0).astype(int)
    return (
        found.assign(**counts)
        .reset_index()
        .sort_values(["rank", "model"], kind="stable", na_position="last")
        .reset_index(drop=True)
    )
