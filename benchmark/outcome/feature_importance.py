"""Permutation importance (Breiman 2001): what a chosen model loses on new rows without a feature.

Each chosen configuration is fitted again on its fold, and the cells of one column are shuffled over
the test rows; of bags over all rows out of fold, each of which is predicted by the member that was
fitted without it. Dates and texts are shuffled as the table has them, before any encoding. The
results are kept in the run, for its report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...common.files import write_atomically
from ...datasets.inner_parts import member_folds, out_of_fold
from ...models import registry
from ...models.discovery import runnable
from ...models.library.columns import is_cyclic
from ...reports.metrics import METRICS
from ..cell import run_cell
from ..errors import FitError
from .chosen_bags import ENSEMBLE, choose_bags
from .chosen_fit import Run, choose_model, importable, read_data, read_run

if TYPE_CHECKING:
    from ...common.columns.encoder import ColumnEncoder
    from ...datasets.protocols import Fold
    from ...datasets.table import Table
    from ...reports.evidence import Evidence

FILE = "feature-importance.csv"  # in the run's folder
REPEATS = 5  # shuffles of a column on a fold
MOST_ROWS = 5000  # rows of a fold that are shuffled, drawn by the run's seed
KEY = ["dataset", "model"]


@dataclass(frozen=True)
class Fitted:
    """The models of a fold, as `permutation_importance` takes an estimator. `parts`: (weight in the
    prediction, which of the rows it predicts, encoder of the columns, predict) of each."""

    parts: list[tuple[float, np.ndarray, ColumnEncoder, Callable[[pd.DataFrame], np.ndarray]]]

    def fit(self, X: Any, y: Any) -> Fitted:
        """Is fitted already; scikit-learn asks for the method."""
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """(n, C) probabilities or (n,) values for the rows that the parts know, in their order."""
        answers = [(at, w * ask(coder.transform(X.iloc[at]))) for w, at, coder, ask in self.parts]
        found = np.zeros((len(X), *answers[0][1].shape[1:]))
        for at, answer in answers:
            found[at] += answer
        return found


def fitted_on(
    run: Run,
    weights: Mapping[str, tuple[str, float]],
    table: Table,
    fold: Fold,
    members: Sequence[Fold],
    rows: np.ndarray,
) -> Fitted:
    """What the run chose on a fold, fitted as the run did, for predictions of `rows`. weights:
    {model: (the registry's name, weight in the prediction)}. members: of the bag, each of which
    predicts the rows of its part; () for a single fit."""
    parts = []
    for model, (asked, weight) in weights.items():
        spec = registry.spec(asked)
        for k, member in enumerate(members or [fold]):
            encoded, encoder = table.encoded(member.train, cyclic=is_cyclic(spec))
            cell = run_cell(
                target=runnable(spec.target),
                task=table.task,
                config=json.loads(run.chosen[model][fold.index]),
                seed=run.seed + k,
                threads=spec.threads,
                table=encoded,
                fold=member,
                time_limit_s=run.time_limit_s if spec.resource else None,
            )
            mine = np.flatnonzero(np.isin(rows, member.val)) if members else np.arange(len(rows))
            if len(mine):
                parts.append((weight, mine, encoder, cell.predict))
    return Fitted(parts)


def feature_importance(
    folder: str | Path,
    *,
    dataset: str | None = None,
    models: Iterable[str] = (),
    repeats: int = REPEATS,
    trust: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> pd.DataFrame:
    """How much the score on test rows (of bags: out of fold) worsens where a feature is shuffled.

    One row per (model, feature), the most important first: `importance`, the mean over the folds in
    the units of the run's metric, above 0 where the score worsens; `std` over the folds (ddof 1,
    NaN for one); `folds`. models: () for what `bench fit` takes: the best by validation, or the
    ensemble of the run's bags. trust: whether to import classes
    from outside that the run names; else only those in `models` are. The numbers of each fold go
    into FILE of the run. Errors: FitError, LedgerError, DataError.
    """
    from sklearn.inspection import permutation_importance

    run = read_run(Path(folder), dataset)
    table, folds = read_data(run)
    metric, bags = METRICS[run.metric], run.n_members > 0
    parts = []
    own = run.plan.outside if trust else []
    asked_for: list[str | None] = [*models]
    for given in asked_for or [None]:
        if bags:
            choice = choose_bags(run, given)
            name, shares = choice.name, choice.weights
        else:
            name = choose_model(run, given)
            shares = {name: 1.0}
        asked = {m: (importable(run, m, [given, *own]), share) for m, share in shares.items()}
        for fold in sorted(run.chosen[next(iter(shares))]):
            config = run.chosen[name][fold] if name in shares else weights_text(shares)
            note(f"{name}, fold {fold}: fitting and shuffling {table.n_features} features")
            rng = np.random.default_rng([run.seed, fold])
            members = member_folds(table, folds[fold], run.n_members, seed=run.seed) if bags else []
            rows = out_of_fold(folds[fold], members).val if bags else folds[fold].test
            if len(rows) > MOST_ROWS:
                rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
            weights = table.weights_of(rows)

            def score(
                fitted: Fitted, X: pd.DataFrame, y: np.ndarray, w: np.ndarray | None = weights
            ) -> float:
                value = metric.value(y, fitted.predict(X), w, table.costs)
                return np.nan if value is None else -metric.loss(value)

            losses = permutation_importance(
                fitted_on(run, asked, table, folds[fold], members, rows),
                table.rows(rows),
                table.target[rows],
                scoring=score,
                n_repeats=repeats,
                random_state=int(rng.integers(2**31)),
            ).importances_mean
            parts.append(
                pd.DataFrame(
                    {"dataset": run.dataset, "model": name, "fold": fold, "config": config}
                    | {"feature": table.frame.columns.astype(str), "importance": losses}
                )
            )
    made = pd.concat(parts, ignore_index=True)
    if made["importance"].isna().all():
        raise FitError(f"{metric.name} is undefined on the rows of every fold")
    _keep(run.folder / FILE, made)
    return over_folds(made)


def weights_text(weights: Mapping[str, float]) -> str:
    """What stands for the configuration of an ensemble: its weights as JSON."""
    return json.dumps({model: round(weights[model], 6) for model in sorted(weights)})


def over_folds(rows: pd.DataFrame) -> pd.DataFrame:
    """(model, feature, importance, std, folds) of the rows of folds, the best model's first."""
    rows = rows.dropna(subset="importance")
    grouped = rows.groupby(["model", "feature"], sort=False)["importance"]
    means = grouped.agg(importance="mean", std="std", folds="size").reset_index()
    order = {name: i for i, name in enumerate(rows["model"].unique())}
    place = means["model"].map(order)
    keys = means.assign(place=place, least=-means["importance"])
    return means.loc[keys.sort_values(["place", "least", "feature"], kind="stable").index]


def _keep(file: Path, made: pd.DataFrame) -> None:
    """Write the rows into the file, in place of those of the same datasets and models."""
    if file.exists():
        old = pd.read_csv(file)
        again = pd.MultiIndex.from_frame(old[KEY]).isin(pd.MultiIndex.from_frame(made[KEY]))
        made = pd.concat([old[~again], made], ignore_index=True)
    write_atomically(file, made.to_csv(index=False, lineterminator="\n").encode())


def with_features(evidence: Evidence, runs: Iterable[Path]) -> Evidence:
    """The evidence with what the runs keep of features, of configurations that are still chosen."""
    files = [run / FILE for run in runs if (run / FILE).is_file()]
    if not files:
        return evidence
    rows = pd.concat([pd.read_csv(file, dtype={"feature": str}) for file in files])
    trials = evidence.trials[evidence.trials["selected"].astype(bool)]
    key = [*KEY, "fold", "config"]
    chosen = pd.MultiIndex.from_frame(trials[key].astype(object))
    bags = {name: weights_text(of["weights"]) for name, of in evidence.facts.bags.items()}
    taken = (rows["model"] == ENSEMBLE) & (rows["config"] == rows["dataset"].map(bags))
    rows = rows[taken | pd.MultiIndex.from_frame(rows[key]).isin(chosen)]
    rows = rows.drop_duplicates([*key, "feature"])
    features = {name: over_folds(mine) for name, mine in rows.groupby("dataset", sort=True)}
    return evidence.knowing(features=features)
