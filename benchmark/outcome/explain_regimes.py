"""`bench explain regimes`: the trials and weights behind default, tuned and ensembled scores."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..console import OK, Console, count
from ..errors import SweepError
from ..results.evidence_builder import evidence_of
from .regimes import regimes_of

if TYPE_CHECKING:
    import pandas as pd


def explain_regimes(
    console: Console,
    dataset: str,
    model: str,
    folders: Sequence[Path],
    *,
    again: str,
    differences: Sequence[str] = (),
    mirror: str | None = None,
    cache: str | None = None,
) -> int:
    """Compute the scores of a model's regimes again from the stored predictions, and print what
    they follow from. model: of the run, or "all models"; again: the command that makes the trials
    from nothing. Raises SweepError for a model that is not there."""
    from ...common.text import suggest
    from ...reports.explain import direction_of

    evidence = evidence_of(folders)
    made = regimes_of(evidence, folders, mirror=mirror, cache=cache, only=dataset)
    mine = made.frame[made.frame["model"] == model]
    if not len(mine):
        known = sorted(set(made.frame["model"]))
        raise SweepError(f"no model {model!r} on {dataset!r}; {suggest(model, known)}")
    trials = evidence.trials.drop_duplicates("id").set_index("id")
    metric = str(mine["metric"].iloc[0])
    words = ["bench", "explain", "regimes", dataset, model]
    words += [word for folder in folders for word in ("--run", str(folder))]
    found = [_regime(rows, str(name)) for name, rows in mine.groupby("regime", sort=False)]
    console.data(
        {
            "table": "regimes",
            "dataset": dataset,
            "model": model,
            "metric": metric,
            "regimes": found,
            "folds": [{k: v for k, v in row.items() if v == v} for row in mine.to_dict("records")],
            "command": shlex.join(words),
            "trials_command": again,
            "notes": made.notes,
            "differences": list(differences),
        }
    )
    console.say(f"regimes, {dataset}, {model}; metric {metric}, {direction_of(metric)}\n")
    for regime, rows in mine.groupby("regime", sort=False):
        console.say(f"{regime}")
        for row in rows.to_dict("records"):
            console.say(f"  fold {row['fold']}: {_step(row, trials)}")
        console.say(f"  {_mean(rows)}")
    for note in [*made.notes, *made.damage]:
        console.warn(note)
    console.say("\nComputed now from the stored predictions, by:")
    console.say(f"  {shlex.join(words)}")
    console.say("The trials themselves are made from nothing by:")
    for text in differences:
        console.say(f"  ! {text}")
    console.say(f"  {again}")
    return OK


def _regime(rows: pd.DataFrame, name: str) -> dict[str, Any]:
    known = rows["score"].dropna()
    value = float(np.mean(known.to_numpy())) if len(known) == len(rows) else None
    reasons = sorted({reason for reason in rows["reason"] if reason})
    return {"regime": name, "value": value, "reasons": reasons}


def _step(row: dict[str, Any], trials: pd.DataFrame) -> str:
    """A sentence on the score of one fold."""
    if row["score"] != row["score"]:
        return f"no score; {row['reason'] or 'the metric is undefined'}"
    score = f"{row['score']:.12g}"
    if not isinstance(row["members"], str):
        return f"{score}, the study's score in all tables (bench explain scores)"
    members = json.loads(row["members"])
    weights = [
        f"{n} x {trials.at[id, 'model']} trial {trials.at[id, 'index']} ({id[:12]})"
        for id, n in members.items()
    ]
    if row["regime"] == "default":
        return f"{score}, test score of the study's first trial, the default ({id_of(members)})"
    chosen = f"chosen of {count(int(row['n_candidates']), 'trial')} by validation"
    return (
        f"{score}, test score of the mean prediction of {', '.join(weights)}; {chosen}, "
        f"where it has {row['val']:.12g}"
    )


def id_of(members: dict[str, int]) -> str:
    """The beginning of the id of the one member."""
    return next(iter(members))[:12]


def _mean(rows: pd.DataFrame) -> str:
    known = rows["score"].dropna()
    if not len(known):
        return "no score"
    mean = f"{np.mean(known.to_numpy()):.12g}"
    whole = len(known) == len(rows)
    return f"mean over {count(len(known), 'fold')}: {mean}" + ("" if whole else " (some only)")
