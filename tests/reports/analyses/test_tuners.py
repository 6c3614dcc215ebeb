"""What repeats tell apart, over the studies that the regrets beside it are computed from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports.analyses.tuners import _rung_table, frame, separations
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.output.tables import p_text
from tabsweep.reports.statistics.welch import welch
from tabsweep.reports.statistics.wilcoxon import wilcoxon

REPEATS, FOLDS, TRIALS = 4, 3, 5


@pytest.fixture
def steps():
    """{tuner: a row per trial}, as a replay has them: each repeat of a fold is a fold of its own.
    One tuner's first trial failed in one of them, another one had no score at all in another."""
    rng = np.random.default_rng(0)
    found = {}
    for tuner in ("random", "tpe"):
        rows = []
        for fold in range(FOLDS):
            for repeat in range(REPEATS):
                best = np.minimum.accumulate(10.0 * fold + rng.random(TRIALS))
                if (tuner, fold, repeat) == ("random", 2, 1):
                    best[0] = np.nan
                if (tuner, fold, repeat) == ("tpe", 0, 3):
                    best[:] = np.nan
                number = fold * REPEATS + repeat
                where = {"dataset": "d", "model": "m", "task": "regression", "fold": number}
                where |= {"repeat": repeat, "study": number}
                rows += [
                    {**where, "n": i + 1, "best": b, "test": b, "loss": b, "cpu": 1.0 + i}
                    for i, b in enumerate(best)
                ]
        found[tuner] = pd.DataFrame(rows)
    return found


def test_repeats_are_compared_on_the_studies_of_the_regrets(steps):
    losses = pd.concat([part.assign(tuner=tuner) for tuner, part in steps.items()])
    (found,) = separations(losses, TRIALS).to_dict("records")
    last = losses[(losses["n"] == TRIALS) & ~losses["fold"].isin([2 * REPEATS + 1, 3])]
    means = last.groupby(["tuner", "repeat"])["best"].mean()
    wanted = welch(means["random"].to_numpy(), means["tpe"].to_numpy())
    assert (found["tuner"], found["against"]) == ("random", "tpe")
    assert (found["mean"], found["low"], found["high"]) == pytest.approx(tuple(wanted))
    # a fold that one tuner lacks would have put them 2.5 apart, more than any loss within a fold
    assert abs(found["mean"]) < 1.0

    regrets = frame(steps)
    regrets = regrets[regrets["n"] == TRIALS].set_index("tuner")["loss"]
    shown = last.groupby("tuner")["best"].mean()
    assert regrets.to_dict() == pytest.approx(shown.to_dict())


def test_searches_without_folds_are_compared_repeat_by_repeat(steps):
    losses = pd.concat([part.assign(tuner=tuner) for tuner, part in steps.items()])
    losses = losses[losses["fold"] < REPEATS].drop(columns="fold")  # the first fold alone
    (found,) = separations(losses, 2).to_dict("records")
    last = losses[(losses["n"] == 2) & (losses["repeat"] != 3)].groupby("tuner")["best"]
    assert found["mean"] == pytest.approx(last.mean()["random"] - last.mean()["tpe"])


def test_without_a_common_study_there_is_no_pair(steps):
    losses = pd.concat([part.assign(tuner=tuner) for tuner, part in steps.items()])
    found = separations(losses[losses["fold"] == 3], TRIALS)
    assert not len(found) and "separable" in found


def halved(unit):
    """Evidence of seven accuracies and one RMSE in this unit, and the losses of two settings."""
    tasks = {f"d{i}": "regression" if i == 7 else "binary" for i in range(8)}
    metrics = {"binary": "accuracy", "regression": "rmse"}
    trials = pd.DataFrame(
        {
            "dataset": list(tasks),
            "task": list(tasks.values()),
            **{"fold": 0, "model": "m", "index": 0, "stage": "tune", "seed": 0},
            **{"status": "done", "selected": True, "test_accuracy": 0.8, "test_rmse": 3.0},
        }
    )
    rungs = []
    for i, (dataset, task) in enumerate(tasks.items()):
        own, half = (3.0 * unit, 2.96 * unit) if task == "regression" else (-0.8, -0.79 + 0.01 * i)
        for setting, loss in (("as run", own), ("half", half)):
            rungs.append({"setting": setting, "dataset": dataset, "model": "m", "loss": loss})
    return Evidence.of(trials, meta={"metric": metrics}), pd.DataFrame(rungs).assign(cpu=1.0)


def test_the_unit_of_a_target_does_not_matter_to_the_test_of_halving_settings():
    shown = set()
    for unit in (0.01, 1.0, 1000.0):
        evidence, rungs = halved(unit)
        (_, half) = _rung_table(evidence, rungs).panels[0].rows
        shown.add(tuple(cell.text for cell in half))
    ((name, known, better, worse, cpu, p),) = shown
    assert (name, known, better, worse, cpu) == ("half", "8 of 8", "1", "7", "100")
    d = np.arange(1, 8)
    assert p == p_text(wilcoxon(np.array([*2 * d / (40 + d), -0.04 / 2.98])).p)
