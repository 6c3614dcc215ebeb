"""A finished run as a black box: other samplers and other rungs, compared without a fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.search.black_box import BlackBox, replayed
from ...sweeps.search.samplers import SAMPLERS
from ...sweeps.search.space import Space
from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.study_state import TUNE, Shape, StudyState
from ...sweeps.trial import derive_seed, digest
from ..planning.plan import Options, Plan
from ..planning.plan_record import key_of, plan_in, sampler_of
from ..planning.space_overrides import PlanError
from ..planning.suite import parse

if TYPE_CHECKING:
    import pandas as pd

    from ...reports.evidence import Evidence

SHARE = 3  # a replay has a third of the recorded trials: a larger one would ask for all of them
ASKED = 6000  # suggestions of a sampler in all, of which the number of repeats follows
MOST_REPEATS = 10
LEAST_SHARE = 0.01  # of an axis in the distance: only a configuration itself is at distance 0


@dataclass(frozen=True)
class Replay:
    """steps: {sampler: a frame like `anytime.running`, with each repeat as a fold of its own, and
    its number in `repeat`}.
    known: what the box of each (dataset, model) can answer. notes: what was left out."""

    steps: dict[str, pd.DataFrame]
    known: pd.DataFrame
    notes: list[str]
    n_trials: int
    repeats: int

    @property
    def losses(self) -> pd.DataFrame:
        """The rows of all samplers, with the sampler's name in `tuner`."""
        import pandas as pd

        return pd.concat([part.assign(tuner=name) for name, part in self.steps.items()])


def spaces_of(plan: Record) -> tuple[dict[tuple[str, str], tuple[Space, tuple[Any, ...]]], str]:
    """({(dataset, model): (space, first configurations)}, why others are left out, or "").

    The plan keeps a space's hash alone, so the space is made anew from the suite and compared.
    """
    made = Plan(parse(plan["suite"], "the ledger's plan"), Options.of(plan["options"]), {}, {})
    found: dict[tuple[str, str], tuple[Space, tuple[Any, ...]]] = {}
    gone: set[str] = set()
    for study in plan["studies"]:
        pair = study["dataset"], study["model"]
        if pair in found or study["reason"] or study["model"] in gone:
            continue
        try:
            name, space, sampler, _ = made.search(study["model"], study["task"], study["dataset"])
        except (PlanError, KeyError):
            gone.add(study["model"])
            continue
        model, task, dataset = study["model"], study["task"], study["dataset"]
        first = made.first_of(model, task, dataset, name, space, sampler)
        is_same = digest([space.to_data(), list(first)], length=16)
        if plan["identity"]["space"].get(key_of(plan, study)) != is_same:
            gone.add(study["model"])
        elif space.axes:
            found[pair] = space, first
    models = ", ".join(sorted(gone))
    return found, f"Left out, as the space is another one by now: {models}." if gone else ""


def axis_weights(points: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """(axes,) how much each axis matters: its importance in extremely randomised trees (Geurts et
    al. 2006) that foretell the rank of the loss, a failed trial counting as the worst. Equal ones
    where all losses are equal.

    Without them axes that change nothing decide as much as the others which trial is the nearest.
    points: (n, axes), NaN where a parameter is absent; losses: (n,), NaN for a failed trial.
    """
    import pandas as pd
    from sklearn.ensemble import ExtraTreesRegressor

    ranked = pd.Series(losses).rank(na_option="bottom").to_numpy()
    trees = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=0)
    trees.fit(np.nan_to_num(points, nan=-1.0), ranked)
    return trees.feature_importances_ + LEAST_SHARE


def replay_of(run: Path, evidence: Evidence, n_trials: int | None = None) -> Replay:
    """Every sampler on the studies of a run, answered from its ledger. ValueError where the run has
    no study with enough trials."""
    import pandas as pd

    from ...reports.metrics import METRICS

    plan = plan_in(Ledger(run))
    spaces, gone = spaces_of(plan)
    notes = [gone] if gone else []
    stage_of = {
        (s["dataset"], s["fold"], s["model"]): "rung0" if s.get("rungs") else TUNE
        for s in plan["studies"]
        if not s.get("async") and (s["dataset"], s["model"]) in spaces
    }
    if any(s.get("async") for s in plan["studies"]):
        notes.append("Left out: asynchronous searches, whose trials end on different rungs.")
    boxes: dict[tuple[str, int, str], tuple[BlackBox, pd.DataFrame, np.ndarray]] = {}
    for key, trials in evidence.trials.groupby(["dataset", "fold", "model"], sort=True):
        if key not in stage_of:
            continue
        mine = trials[(trials["stage"] == stage_of[key]) & (trials["status"] != "unsupported")]
        if len(mine) < 2:
            continue
        metric = METRICS[evidence.headline(str(mine["task"].iloc[0]))]
        loss = metric.sign * mine[f"val_{metric.name}"].to_numpy(dtype=float)
        loss = np.where((mine["status"] == "done").to_numpy(dtype=bool), loss, np.nan)
        configs = [json.loads(text) for text in mine["config"].tolist()]
        space = spaces[key[0], key[2]][0]
        if not any(config in space for config in configs):
            continue
        losses = [None if np.isnan(v) else float(v) for v in loss]
        boxes[key] = BlackBox(space, configs, losses, axis_weights), mine, loss
    if not boxes:
        raise ValueError(f"{run} has no study whose space is known and that has two trials or more")
    if "rung0" in {stage_of[key] for key in boxes}:
        notes.append("Of studies with rungs the lowest one is replayed: no other has all trials.")
    drawn = {sampler_of(plan, s) for s in plan["studies"]} & {"tpe", "hyperopt"}
    if drawn:
        notes.append(
            f"The trials were found by {', '.join(sorted(drawn))}: they lie closer where losses "
            "are low, and a sampler that goes there is answered well. A random search is fairer."
        )
    least = min(len(mine) for _, mine, _ in boxes.values())
    n = n_trials or max(2, least // SHARE)
    repeats = int(np.clip(ASKED // (n * len(boxes)), 1, MOST_REPEATS))
    steps: dict[str, list[pd.DataFrame]] = {name: [] for name in SAMPLERS}
    away: dict[tuple[str, str], list[float]] = {}
    for (dataset, fold, model), (box, mine, loss) in boxes.items():
        first = spaces[dataset, model][1]
        test = mine[f"test_{evidence.headline(str(mine['task'].iloc[0]))}"].to_numpy(dtype=float)
        cpu = mine["cpu_s"].fillna(0.0).to_numpy()
        for name in SAMPLERS:
            if name == "grid" and (box.space.size is None or box.space.size < n):
                continue
            for repeat in range(repeats):
                seed = derive_seed(dataset, fold, model, name, repeat)
                begin = () if name == "grid" else first
                answers = replayed(box, name, n_trials=n, seed=seed, first=begin)
                rows = np.array([row for row, _ in answers])
                away.setdefault((dataset, model), []).extend(d for _, d in answers)
                part = pd.DataFrame({"loss": loss[rows], "n": np.arange(1, n + 1)})
                filled = np.where(np.isnan(loss[rows]), np.inf, loss[rows])
                best = np.minimum.accumulate(filled)
                at = [int(np.argmin(filled[: i + 1])) for i in range(n)]
                part["best"] = np.where(np.isinf(best), np.nan, best)
                part["test"] = np.where(np.isinf(best), np.nan, test[rows][at])
                part["cpu"] = cpu[rows].cumsum()
                part = part.assign(
                    dataset=dataset,
                    fold=fold * repeats + repeat,
                    model=model,
                    task=str(mine["task"].iloc[0]),
                    repeat=repeat,
                    study=f"{dataset}/{fold}/{model}/{repeat}",
                )
                steps[name].append(part)
    made = {name: pd.concat(parts, ignore_index=True) for name, parts in steps.items() if parts}
    if "grid" in made and len(steps["grid"]) < len(boxes) * repeats:
        del made["grid"]  # a sampler is compared where it has all studies
        notes.append("No grid: some space is continuous, or has fewer points than the replay asks.")
    known = pd.DataFrame(
        [
            {"dataset": d, "model": m, **_knowledge(d, m, boxes, values)}
            for (d, m), values in sorted(away.items())
        ]
    )
    return Replay(made, known, notes, n, repeats)


def _knowledge(
    dataset: str,
    model: str,
    boxes: dict[tuple[str, int, str], tuple[BlackBox, pd.DataFrame, np.ndarray]],
    distances: list[float],
) -> dict[str, Any]:
    """How well the boxes of a (dataset, model) answer: number of trials, share of exact answers,
    mean distance of answers and between neighbours, and the rank correlation of the loss of each
    trial with that of its nearest neighbour."""
    import pandas as pd

    mine = [v for (d, _, m), v in boxes.items() if (d, m) == (dataset, model)]
    own, near = [], []
    for box, _, loss in mine:
        rows, others, apart = box.neighbours()
        near.extend(apart.tolist())
        both = pd.DataFrame({"own": loss[rows], "other": loss[others]}).dropna()
        if len(both) > 2 and both.nunique().min() > 1:
            own.append(float(both.rank().corr().iloc[0, 1]))
    away = np.array(distances)
    return {
        "n_trials": min(len(frame) for _, frame, _ in mine),
        "n_axes": len(mine[0][0].space.axes),
        "exact": float((away == 0.0).mean()),
        "distance": float(away.mean()),
        "neighbour_distance": float(np.mean(near)) if near else np.nan,
        "neighbour_correlation": float(np.mean(own)) if own else np.nan,
    }


# Of the promotions of a halved run, what another setting keeps: {its name: divisor}.
FEWER = {
    "as run": 1,
    "half of the promotions": 2,
    "a quarter of the promotions": 4,
    "one goes on": 10**9,
}


def rungs_of(run: Path, evidence: Evidence) -> pd.DataFrame:
    """Halved studies as they would have gone with fewer promotions: one row per (setting, dataset,
    model), `loss` of the chosen configuration and `cpu` seconds of all rungs, means over the folds;
    none where a fit of such a search is not in the run. Empty without halving."""
    import pandas as pd

    from ...reports.metrics import METRICS

    columns = ["setting", "dataset", "model"]
    rows: list[dict[str, Any]] = []
    unknown: set[tuple[str, ...]] = set()
    groups = dict(list(evidence.trials.groupby(["dataset", "fold", "model"], sort=True)))
    for study in plan_in(Ledger(run))["studies"]:
        key = study["dataset"], study["fold"], study["model"]
        if not study.get("rungs") or study.get("async") or key not in groups:
            continue
        metric = METRICS[evidence.headline(study["task"])]
        trials = groups[key]
        loss = metric.sign * trials[f"val_{metric.name}"].astype(float)
        loss = loss.where(trials["status"] == "done")
        for setting, divisor in FEWER.items():
            found = _with_fewer(study["rungs"], trials.assign(loss=loss), divisor)
            where = {"setting": setting, "dataset": key[0], "model": key[2]}
            if found is None:
                unknown.add(tuple(where.values()))
            else:
                rows.append({**where, "loss": found[0], "cpu": found[1]})
    rows = [row for row in rows if tuple(row[name] for name in columns) not in unknown]
    if not rows:
        return pd.DataFrame(columns=[*columns, "loss", "cpu"])
    return pd.DataFrame(rows).groupby(columns, sort=False).mean().reset_index()


def _with_fewer(sizes: list[int], trials: pd.DataFrame, divisor: int) -> tuple[float, float] | None:
    """(loss of the choice, CPU seconds) with a part of the promotions; None where a fit is missing
    that this needs, or no score is there in the last rung."""
    fewer = (sizes[0], *(-(-size // divisor) for size in sizes[1:]))
    state = StudyState(Shape(sizes[0], rungs=fewer))
    rungs = [trials[trials["stage"] == stage] for stage in state.shape.stages]
    for stage, rung in zip(state.shape.stages, rungs, strict=True):
        state.add_all(stage, rung["index"].tolist(), rung["loss"].tolist())
    if not state.tuned or state.best_loss is None:
        return None
    cpu = 0.0
    for rung, members in zip(rungs, state.rungs, strict=True):
        cpu += float(rung.loc[rung["index"].isin(members), "cpu_s"].fillna(0.0).sum())
    return state.best_loss, cpu
