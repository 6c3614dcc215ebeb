"""Importance of hyperparameters: fANOVA on the trials of a run, one number each.

Optuna's evaluator (Hutter et al. 2014: a forest is fitted to the scores, and its variance split by
hyperparameter) reads a study; here one is rebuilt from the rows of a run. The studies of a model on
all datasets and folds are put together, their validation scores standardised within each study, so
that what differs between datasets and folds explains nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .run_export import range_of

if TYPE_CHECKING:
    import pandas as pd
    from optuna.distributions import BaseDistribution

    from ...reports.evidence import Evidence

FEWEST = 20  # trials of a model, for a forest to say anything
MOST_MODELS = 32  # in a report that has this
MOST_ROWS = 100_000  # trials in such a report: the importances would be most of its time
TOGETHER = 1600  # trials of all models, drawn at random: rebuilding a study is quadratic
AT_LEAST, AT_MOST = 50, 200  # of a model
STUDIES = 60  # of a model, evenly chosen, whose trials are put together
MOST_WORDS = 6  # of a categorical hyperparameter: a forest's variance is a sum over 2**n terms
TREES = 16  # Optuna's 64 cost four times as much and moved no share by more than 0.08


def with_importance(evidence: Evidence) -> Evidence:
    """The evidence with `importance`, a row per (model, parameter); as it is where no model has
    FEWEST trials with a validation score, and, with a note, where there are too many models or
    trials."""
    import pandas as pd

    from ..results.evidence_builder import noting

    losses = _losses(evidence)
    number, studies = evidence.study_numbers
    known = np.bincount(number[losses.notna()], minlength=len(studies))
    sizes = studies.assign(n=known).groupby("model")["n"].sum()
    models = list(sizes.index[sizes >= FEWEST])
    if len(models) > MOST_MODELS or (models and len(losses) > MOST_ROWS):
        note = (
            f"Hyperparameter importance of {len(models)} models is not computed: more than "
            f"{MOST_MODELS} models or {MOST_ROWS:,} trials."
        )
        return noting(evidence, note)
    most = max(AT_LEAST, min(AT_MOST, TOGETHER // max(1, len(models))))
    of_model = {str(m): rows.index.to_numpy() for m, rows in studies[known > 1].groupby("model")}
    shares: list[tuple[str, str, float, int]] = []
    for model in map(str, models):
        mine = of_model.get(model, np.zeros(0, dtype=int))
        if len(mine) > STUDIES:
            mine = mine[np.linspace(0, len(mine) - 1, STUDIES).round().astype(int)]
        inside = np.flatnonzero(np.isin(number, mine) & losses.notna().to_numpy())
        rows = evidence.trials.iloc[inside][["config"]]
        rows = rows.assign(study=number[inside], loss=losses.to_numpy()[inside])
        rows = rows.assign(scores=_standardised(rows))
        if len(rows) > most:
            rows = rows.sample(most, random_state=0)
        configs = [_parsed(text) for text in rows["config"]]
        if len(rows) >= FEWEST and all(isinstance(config, dict) for config in configs):
            share_of = importance_of(configs, rows["scores"].to_numpy())
            shares += [(model, name, share, len(rows)) for name, share in share_of.items()]
    columns = ["model", "parameter", "importance", "n_trials"]
    return evidence.but(importance=pd.DataFrame(shares, columns=columns)) if shares else evidence


def _losses(evidence: Evidence) -> pd.Series:
    """The validation loss of each tuning trial by the headline metric of its task, else NaN."""
    import pandas as pd

    from ..results.evidence_builder import losses

    trials = evidence.trials
    values = losses(trials, {task: evidence.headline(task) for task in evidence.tasks})
    return pd.Series(values, index=trials.index).where(evidence.having("stage", "tune"))


def _parsed(text: str) -> Any:
    """The configuration, or None where another tool wrote it in words of its own."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _standardised(rows: pd.DataFrame) -> np.ndarray:
    """The losses of each study less their mean, over their standard deviation."""
    grouped = rows.groupby("study")["loss"]
    centred = rows["loss"] - grouped.transform("mean")
    return (centred / grouped.transform("std").replace(0.0, np.nan)).fillna(0.0).to_numpy()


def importance_of(
    configs: Sequence[Mapping[str, Any]], losses: np.ndarray
) -> dict[str, float]:  # (n_trials,)
    """{hyperparameter: share}, the largest first: the part of the losses' variance that it explains
    alone, divided by the sum of these parts.

    A hyperparameter counts if every configuration has it and its values vary. The result is empty
    if none does, or if all losses are equal. The same trials give the same numbers.
    """
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    # a conditional hyperparameter has no share of its own
    shared = sorted(set.intersection(*map(set, configs)))
    columns = {name: _as_numbers([c[name] for c in configs]) for name in shared}
    spread = {name: d for name, values in columns.items() if (d := _distribution(values))}
    if not spread or float(np.ptp(losses)) == 0.0:
        return {}
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # no line for each study
    storage = optuna.storages.InMemoryStorage()  # add_trial would validate each against all
    number = storage.create_new_study([optuna.study.StudyDirection.MINIMIZE], "importance")
    for k, loss in enumerate(losses.tolist()):
        params = {name: columns[name][k] for name in spread}
        trial = optuna.trial.create_trial(params=params, distributions=spread, value=loss)
        storage.create_new_trial(number, trial)
    study = optuna.load_study(study_name="importance", storage=storage)
    evaluator = FanovaImportanceEvaluator(n_trees=TREES, seed=0)
    shares = get_param_importances(study, evaluator=evaluator)
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return {name: round(float(share), 6) for name, share in ordered}


def _as_numbers(values: Sequence[Any]) -> list[float] | list[str]:
    """The values of a hyperparameter: numbers as they are, else as words; of more than MOST_WORDS
    different words (numbers beside words, as SVM's gamma) each one's place in their order."""
    if all(_is_number(value) for value in values):
        return [float(value) for value in values]
    words = [json.dumps(value, sort_keys=True) for value in values]
    of_word = dict(zip(words, values, strict=True))
    if len(of_word) <= MOST_WORDS:
        return words
    numbers = sorted((w for w in of_word if _is_number(of_word[w])), key=lambda w: of_word[w])
    others = sorted(w for w in of_word if not _is_number(of_word[w]))
    place = {word: float(k) for k, word in enumerate([*numbers, *others])}
    return [place[word] for word in words]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _distribution(values: list[float] | list[str]) -> BaseDistribution | None:
    """The values of a hyperparameter as Optuna sees them; None where they do not vary."""
    from optuna.distributions import CategoricalDistribution

    if len(set(values)) < 2:
        return None
    words = sorted({value for value in values if isinstance(value, str)})
    return CategoricalDistribution(words) if words else range_of(list(map(float, values)))
