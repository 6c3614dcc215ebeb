"""Weights of rows (`--weight`): in fits, in scores, in cards, in plans and in reports."""

from __future__ import annotations

import inspect
import json
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as oracle
from calls import bench
from sklearn.ensemble import ExtraTreesClassifier
from small_sweeps import FAST, answer
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.running.run_trial import run_trial
from tabsweep.datasets import catalog
from tabsweep.datasets.added import store
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.protocols import Fold
from tabsweep.models.persistence.model_file import fit_rows, load_model, save_model
from tabsweep.models.persistence.schema import Schema
from tabsweep.models.registry import MODELS, load_class, make_model
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import DONE, Trial

pytestmark = pytest.mark.usefixtures("work", "own_store")

TAKERS = [name for name, spec in MODELS.items() if spec.sample_weight]
# Leaves of one class: no weight moves them.
GROWN_FULL = ("decision-tree", "extra-trees", "random-forest")
MINE = """
from sklearn.ensemble import ExtraTreesClassifier

class Mine(ExtraTreesClassifier):
    tasks = ("binary",)
    name = "mine"

    def __init__(self, n_estimators=5, random_state=0):
        super().__init__(n_estimators=n_estimators, random_state=random_state)
"""


def people(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 2)).round(6)
    y = x[:, 0] + rng.normal(0, 0.7, n)
    frame = pd.DataFrame({"age": x[:, 0], "pay": x[:, 1], "w": rng.integers(0, 4, n)})
    return frame.assign(bought=np.where(y > 0, "yes", "no"), spent=y.round(6))


def table_of(frame: pd.DataFrame, target: str, weight: str | None):
    frame.to_csv("people.csv", index=False)
    drop = {"w", "bought", "spent"} - {target, weight}
    return table_from_file("people.csv", Reading(target, weight=weight, drop=tuple(drop)))


def trial(model: str, config=None) -> Trial:
    identity = {"target": MODELS[model].target, "threads": 1}
    return Trial("people", 0, model, config or {}, 0, identity)


def held(part: np.ndarray) -> Fold:
    return Fold(0, *(np.flatnonzero(part == k) for k in range(3)))


@pytest.mark.parametrize(
    ("model", "config", "all_twice"),
    [
        ("constant", {}, False),
        ("constant", {"statistic": "median"}, False),
        ("decision-tree", {"max_depth": 3}, False),
        # features are standardised over rows, so that a penalty sees other scales, unless all
        # rows stand there equally often
        ("linear", {}, True),
    ],
)
def test_a_row_of_weight_two_is_a_row_that_stands_there_twice(model, config, all_twice):
    frame = people().assign(w=2) if all_twice else people()
    part = np.repeat([0, 1, 2], len(frame) // 3)
    copies = np.repeat(np.arange(len(frame)), frame["w"])
    by_weight, by_copies = held(part), held(part[copies])
    for target in ("spent", "bought"):
        weighted = table_of(frame, target, "w")
        repeated = table_of(frame.iloc[copies], target, None)
        one = run_trial(trial(model, config), (weighted, {0: by_weight}))
        two = run_trial(trial(model, config), (repeated, {0: by_copies}))
        assert (one.status, two.status) == (DONE, DONE), (one.message, two.message)
        there = np.repeat(np.arange(len(by_weight.test)), frame["w"].iloc[by_weight.test])
        np.testing.assert_allclose(
            one.predictions["test"][there], two.predictions["test"], rtol=1e-4, atol=1e-5
        )
        assert dict(one.test) == pytest.approx(dict(two.test), rel=1e-4)
        assert dict(one.val) == pytest.approx(dict(two.val), rel=1e-4)


def test_all_models_that_take_weights_are_fitted_with_them_and_scored_as_by_scikit_learn():
    frame = people()
    weights = np.where(frame["bought"] == "yes", 20.0, 1.0)
    weighted = table_of(frame.assign(w=weights), "bought", "w")
    alike = replace(weighted, weights=None)
    part = np.arange(len(frame)) % 3
    fold = held(part)
    for model in TAKERS:
        taken = inspect.signature(load_class(MODELS[model].target)).parameters
        config = {"n_estimators": 20} if "n_estimators" in taken else {}
        config |= {"max_depth": 2} if model in GROWN_FULL else {}
        one, two = (run_trial(trial(model, config), (t, {0: fold})) for t in (weighted, alike))
        assert (one.status, two.status) == (DONE, DONE), one.message
        heavy, light = (r.predictions["test"][:, 1].mean() for r in (one, two))
        assert heavy > light + 0.05, (model, heavy, light)
        for name, scores, rows in (("val", one.val, fold.val), ("test", one.test, fold.test)):
            y, p = weighted.target[rows], one.predictions[name][:, 1]
            want = oracle.roc_auc_score(y, p, sample_weight=weights[rows])
            assert scores["roc_auc"] == pytest.approx(want, rel=1e-12)
            want = oracle.accuracy_score(y, p > 0.5, sample_weight=weights[rows])
            assert scores["accuracy"] == pytest.approx(want, rel=1e-12)


def test_a_fit_by_weights_is_saved_as_its_attributes(tmp_path):
    table = table_of(people(), "bought", "w")
    training = (table.frame, table.target)
    given = {"weights": table.weights, "val_weights": table.weights[:0]}
    schema = Schema.of(table.frame, "binary", classes=table.classes, target="bought")
    for model in TAKERS:
        taken = inspect.signature(load_class(MODELS[model].target)).parameters
        config = {"n_estimators": 5} if "n_estimators" in taken else {}
        estimator = make_model(model, task="binary", seed=0, threads=1, **config)
        fit_rows(estimator, training, given)
        path = tmp_path / model
        # "state": what was read back has predicted the same bytes
        save_model(estimator, path, schema=schema, training=training, weights=given)
        manifest = json.loads(zipfile.ZipFile(path).read("manifest.json"))
        assert manifest["how"] == "state", (model, manifest.get("refit"))


def test_a_sweep_by_weights_from_the_file_to_the_saved_model():
    people().drop(columns="spent").to_csv("people.csv", index=False)
    Path("mine_by_weight.py").write_text(MINE)
    seen = answer("data", "inspect", "people.csv", "--target", "bought", "--weight", "w")
    assert seen["columns"]["w"]["role"] == "weight"
    added = ("data", "add", "people.csv", "--target", "bought", "--weight", "w")
    assert bench(*added).code == 0
    card = tomllib.loads((store.folder() / "people" / "card.toml").read_text())
    assert card["options"] == {"weight": "w"} and card["columns"] == ["age", "pay"]
    again = catalog.load_dataset("people")
    np.testing.assert_array_equal(again.weights, people()["w"])
    models = [w for m in ("constant", "svm", "mine_by_weight.py:Mine") for w in ("--model", m)]
    asked = ("--csv", "people.csv", "--target", "bought", "--weight", "w", *models, *FAST)
    found = answer("sweep", *asked, "--trials", 1, "--folds", 1, "--bag", 0, "--name", "w")
    assert found["done"] == 2 and found["planned"] == 2
    run = Path("runs/w")
    plan = plan_in(Ledger(run))
    reasons = {study.model: study.reason for study in plan.studies}
    assert reasons == {"constant": "", "mine": "", "svm": "svm takes no weights of rows"}
    assert plan.datasets["people"].csv["weight"] == "w"
    assert "count by their weights" in (run / "report" / "scores.md").read_text()
    assert bench("analyse", run, "--metric", "accuracy", "--out", "c").code == 0
    again = pd.read_csv("c/metric-accuracy.csv").query("model == 'constant'")
    results = load_results(run).query("model == 'constant' and selected")
    assert list(again["mean"]) == pytest.approx(list(results["test_accuracy"]))
    assert bench("fit", run, "--model", "constant").code == 0
    w, yes = people()["w"], people()["bought"] == "yes"
    saved = load_model(run / "fitted" / "people--constant.tabsweep")
    share = saved.predict_proba(people()[["age", "pay"]])[0, 1]
    assert saved.how == "state" and share == pytest.approx(w[yes].sum() / w.sum())
    # a class of the user's is saved as its rows and their weights, and fitted again on loading
    asked = ("fit", run, "--model", "mine_by_weight.py:Mine")
    assert bench(*asked).code == 0
    (file,) = (run / "fitted").glob("*mine*")
    mine = load_model(file, trust=["mine_by_weight:Mine"], warn=pytest.fail)
    assert mine.how == "refit" and "by their weights" in mine.about["fitted_on"]
    there = w > 0
    again = ExtraTreesClassifier(n_estimators=5, random_state=0)
    again.fit(people()[["age", "pay"]][there], yes[there], sample_weight=w[there])
    np.testing.assert_array_equal(
        mine.predict_proba(people()[["age", "pay"]]), again.predict_proba(people()[["age", "pay"]])
    )


def test_a_fold_with_a_part_of_no_weight_is_a_planned_absence():
    frame = people().drop(columns="spent").sort_values("age", kind="stable")
    frame["w"] = np.where(np.arange(len(frame)) < 80, 0, 1)  # the times of a fold's training rows
    frame.to_csv("people.csv", index=False)
    asked = ("--csv", "people.csv", "--target", "bought", "--weight", "w", "--time", "age")
    late = bench("sweep", *asked, "--model", "constant", *FAST, "--trials", 1, "--name", "late")
    (said,) = [line for line in late.err.splitlines() if "nothing runs" in line]
    assert late.code == 0 and "weight 0" in said and "no model can" in said
    (reason,) = {study.reason for study in plan_in(Ledger(Path("runs/late"))).studies[:1]}
    assert reason.startswith("all training") and reason.endswith("of fold 0 have weight 0")


def test_a_sweep_without_a_model_that_takes_weights_is_refused_before_it_starts():
    people().drop(columns="spent").to_csv("people.csv", index=False)
    asked = ("--csv", "people.csv", "--target", "bought", "--weight", "w", *FAST)
    found = bench("sweep", *asked, "--model", "knn", "--name", "none")
    assert found.code == 2 and not Path("runs/none").exists()
    assert "lightgbm" in found.err and "knn" in found.err
    found = bench("sweep", *asked, "--budget", "halving", "--name", "none")
    assert found.code == 2 and "halving" in found.err


@pytest.mark.parametrize("odd", ["-1", "", "many", "inf"])
def test_a_weight_that_is_none_is_refused_with_its_line(odd):
    frame = people().astype({"w": object})
    frame.loc[4, "w"] = odd
    with pytest.raises(DataError, match="line 6"):
        table_of(frame, "bought", "w")
    with pytest.raises(DataError, match="0 in all rows"):
        table_of(people().assign(w=0), "bought", "w")


def test_weights_are_part_of_what_a_table_is_and_no_weights_change_no_hash():
    plain = table_of(people(), "bought", None).sha256
    weighted = table_of(people(), "bought", "w").sha256
    other = table_of(people().assign(w=1), "bought", "w").sha256
    assert len({plain, weighted, other}) == 3
