"""Importance of hyperparameters: the one that the score depends on is found."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tabsweep.benchmark.outcome import importance
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts


def configs_of(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "rate": float(10 ** rng.uniform(-4, 0)),
            "kind": str(rng.choice(["a", "b", "c"])),
            "depth": int(rng.integers(1, 9)),
            "fixed": 3,
            **({"momentum": 0.9} if i % 2 else {}),
        }
        for i in range(n)
    ]


def evidence_of(losses, configs, folds):
    place = {"dataset": "d", "task": "regression", "fold": folds, "model": "m"}
    trial = {"index": range(len(configs)), "stage": "tune", "seed": 0, "status": "done"}
    scores = {"val_rmse": losses, "test_rmse": losses}
    texts = [json.dumps(config) for config in configs]
    frame = pd.DataFrame({**place, **trial, "config": texts, **scores})
    return Evidence.of(frame, None, Facts(metric={"regression": "rmse"}))


@pytest.mark.parametrize("cause", ["rate", "kind", "depth"])
def test_the_hyperparameter_that_decides_the_score_gets_most_of_it(cause):
    configs = configs_of()
    effect = {
        "rate": [np.log10(c["rate"]) for c in configs],
        "kind": ["abc".index(c["kind"]) for c in configs],
        "depth": [c["depth"] for c in configs],
    }
    shares = importance.importance_of(configs, np.array(effect[cause], dtype=float))
    assert next(iter(shares)) == cause and shares[cause] > 0.9
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-4)
    assert set(shares) == {"rate", "kind", "depth"}  # neither the constant nor the conditional one


@pytest.mark.timeout(60)
def test_many_words_beside_numbers_cost_no_more_than_numbers():
    """One column for each word would make the cost exponential: 2**100 terms here."""
    rng = np.random.default_rng(0)
    gammas = ["scale", *np.sort(10 ** rng.uniform(-4, 0, 99))]
    words = [f"word {i:03}" for i in range(100)]
    order = rng.permutation(100)
    configs = [
        {"C": float(rng.uniform()), "gamma": gammas[i], "word": words[-1 - i], "on": bool(i % 2)}
        for i in order
    ]
    shares = importance.importance_of(configs, order.astype(float) ** 2)
    assert set(shares) == {"C", "gamma", "word", "on"}
    assert shares["gamma"] + shares["word"] > 0.8


def test_few_trials_and_configurations_in_words_leave_the_evidence_as_it_is():
    one = evidence_of(np.arange(19.0), configs_of(19), np.zeros(19, dtype=int))
    assert importance.with_importance(one) is one
    one = evidence_of(np.arange(60.0), configs_of(), np.zeros(60, dtype=int))
    one.trials["config"] = "depth=3, rate=0.1"  # of another tool
    assert importance.with_importance(one) is one


def test_scores_that_do_not_differ_and_configurations_that_do_not_say_nothing():
    assert importance.importance_of(configs_of(), np.zeros(60)) == {}
    assert importance.importance_of([{"a": 1}] * 30, np.arange(30.0)) == {}


def test_what_differs_between_folds_explains_nothing():
    configs = configs_of()
    folds = np.arange(60) // 30
    losses = np.array([c["depth"] for c in configs]) * 0.01 + 100.0 * folds
    found = importance.with_importance(evidence_of(losses, configs, folds)).importance
    assert found.iloc[0]["parameter"] == "depth" and found.iloc[0]["importance"] > 0.9
    assert (found["n_trials"] == 60).all()


def test_the_trials_of_a_model_on_all_datasets_are_put_together():
    configs = configs_of()
    one = evidence_of([c["depth"] for c in configs], configs, np.arange(60) // 15)
    frame = one.trials.assign(dataset=[f"d{fold}" for fold in one.trials["fold"]])
    found = importance.with_importance(Evidence.of(frame, None, one.facts)).importance
    assert set(found["model"]) == {one.trials["model"].iloc[0]}
    assert found.iloc[0]["parameter"] == "depth" and found.iloc[0]["importance"] > 0.9


def test_of_too_many_models_nothing_is_computed_and_a_note_says_so():
    configs, n = configs_of(), importance.MOST_MODELS + 1
    one = evidence_of(np.arange(60.0), configs, np.zeros(60, dtype=int))
    frame = pd.concat([one.trials.assign(model=f"m{i}") for i in range(n)])
    found = importance.with_importance(Evidence.of(frame, None, one.facts))
    assert found.importance is None and f"{n} models" in found.facts.notes[-1]
