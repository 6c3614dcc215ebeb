"""Tables that NPT takes, gaps that it fills, and how a fitted model is kept.

Several targets, one feature, categories alone, imputation, model files.
"""

from __future__ import annotations

import hashlib
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from small_tables import TINY, answers, table
from tabsweep.models.persistence.archive import ModelFileError, pack, to_json, unpack
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.persistence.schema import Schema
from tabsweep.models.registry import make_model

FEW = {**TINY["npt"], "steps": 6, "eval_every": 2}


def npt(task="regression", **given):
    return make_model("npt", task=task, **{**FEW, **given})


def fitted(task="regression", n=60, **given):
    return npt(task, **given).fit(*table(task, n))


# -- several targets, odd tables ------------------------------------------------------------------


def test_several_values_are_predicted_at_once_each_in_its_units():
    frame, y = table("regression", 120)
    both = np.column_stack([y, -1000 * y + 7])
    config = {**TINY["npt"], "steps": 60}
    model = make_model("npt", task="regression", **config).fit(frame, both, frame, both)
    found = model.predict(frame)
    assert found.shape == (120, 2) and np.isfinite(found).all()
    for j in range(2):
        assert np.corrcoef(found[:, j], both[:, j])[0, 1] > 0.7
        assert abs(found[:, j].mean() - both[:, j].mean()) < both[:, j].std()


def test_several_classes_are_predicted_at_once_each_with_its_labels():
    frame, y = table("multiclass", 120)
    both = np.column_stack([y.astype(object), np.where(frame["a"] > 0, "p", "n")])
    config = {**TINY["npt"], "steps": 60}
    model = make_model("npt", task="multiclass", **config).fit(frame, both, frame, both)
    p = model.predict_proba(frame)
    assert [x.shape for x in p] == [(120, 3), (120, 2)]
    assert all(np.allclose(x.sum(axis=1), 1) for x in p)
    found = model.predict(frame)
    assert found.shape == (120, 2) and set(found[:, 1]) <= {"p", "n"}
    assert (found == both).mean(axis=0).min() > 0.6


@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_a_single_column_of_targets_is_a_target(task):
    frame, y = table(task)
    val = table(task, 20, seed=5)
    plain = npt(task).fit(frame, y, *val)
    column = npt(task).fit(frame, y[:, None], val[0], val[1][:, None])
    assert answers(plain, frame).tobytes() == answers(column, frame).tobytes()


def kinds_of_tables():
    rng = np.random.default_rng(0)
    colour = pd.Series(rng.choice(list("abc"), 40), dtype="category")
    yield "one number", pd.DataFrame({"a": rng.normal(size=40)})
    yield "one category", pd.DataFrame({"c": colour})
    yield "categories", pd.DataFrame({"c": colour, "d": rng.choice(["x", "y"], 40)})
    yield "constants", pd.DataFrame({"a": rng.normal(size=40), "k": 3.0, "l": ["z"] * 40})
    yield (
        "empty category",
        pd.DataFrame({"a": rng.normal(size=40), "e": pd.Categorical([None] * 40)}),
    )


@pytest.mark.parametrize(
    ("name", "frame"), kinds_of_tables(), ids=[n for n, _ in kinds_of_tables()]
)
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_narrow_and_odd_tables_are_learnt_from(task, name, frame):
    y = np.arange(40.0) if task == "regression" else np.array(["no", "yes"] * 20)
    found = answers(npt(task).fit(frame, y), frame)
    assert np.isfinite(found).all() and np.ptp(found) > 0


def test_an_unseen_category_is_a_hidden_cell():
    frame, y = table("regression")
    model = npt().fit(frame, y)
    rows = frame.iloc[:3].assign(colour=["violet"] * 3)
    missing = frame.iloc[:3].assign(colour=pd.Categorical([None] * 3))
    assert np.array_equal(model.predict(rows), model.predict(missing))


# -- imputation -----------------------------------------------------------------------------------


def correlated(n=150, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    frame = pd.DataFrame(
        {"a": 5 + 2 * a, "b": -3 * a + 0.1 * rng.normal(size=n), "c": rng.normal(size=n)}
    )
    frame["level"] = pd.Categorical(np.where(a > 0, "up", "down"))
    return frame, a + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def imputer():
    frame, y = correlated()
    config = {**TINY["npt"], "steps": 150, "p_feature": 0.3, "tradeoff_schedule": "constant"}
    return make_model("npt", task="regression", **config, seed=1).fit(frame, y)


def test_gaps_are_filled_better_than_by_the_mean_and_nothing_else_is_touched(imputer):
    truth, _ = correlated(60, seed=8)
    gaps = truth.copy()
    gaps.loc[::3, "a"] = np.nan
    gaps.loc[1::3, "b"] = np.nan
    gaps.loc[2::3, "level"] = None
    filled = imputer.impute(gaps)
    assert gaps["a"].isna().sum() == 20 and not filled.isna().any().any()
    known = gaps.notna()
    for name in truth:
        assert (filled[name][known[name]] == truth[name][known[name]]).all()
        assert filled[name].dtype == truth[name].dtype
    for name, rows in (("a", slice(None, None, 3)), ("b", slice(1, None, 3))):
        error = ((filled[name] - truth[name]).iloc[rows] ** 2).mean()
        assert error < 0.3 * truth[name].iloc[rows].var()
    assert (filled["level"] == truth["level"]).iloc[2::3].mean() > 0.8
    pd.testing.assert_frame_equal(imputer.impute(truth), truth)
    # a filled row does not depend on the other rows
    np.testing.assert_allclose(imputer.impute(gaps.iloc[:1])["a"], filled["a"].iloc[:1], rtol=1e-5)


def test_any_kind_of_column_can_be_filled(imputer):
    truth, _ = correlated(30, seed=9)
    kinds = {
        "float32": truth["a"].astype(np.float32).where(np.arange(30) > 2),
        "nullable": pd.Series(np.round(truth["a"]), dtype="Int64").where(np.arange(30) > 2),
        "objects": truth["a"].astype(object).where(np.arange(30) > 2, None),
    }
    for name, column in kinds.items():
        filled = imputer.impute(truth.assign(a=column))
        assert filled["a"].dtype == np.float64 and np.isfinite(filled["a"]).all(), name
    fewer = truth.assign(level=pd.Categorical(["up"] * 20 + [None] * 10, categories=["up"]))
    filled = imputer.impute(fewer)  # a level that this frame's own column does not know
    assert set(filled["level"]) == {"up", "down"} and filled["level"].notna().all()
    filled = imputer.impute(truth.assign(level=[None] * 10 + ["up"] * 20))
    assert set(filled["level"]) <= {"up", "down"}


def test_a_column_without_a_value_in_training_keeps_its_gaps():
    model = fitted()
    frame, _ = table("regression", 12, seed=3)
    filled = model.impute(frame)
    assert filled["empty"].isna().all() and not filled.drop(columns="empty").isna().any().any()


# -- keeping --------------------------------------------------------------------------------------


def test_a_fitted_model_is_pickled_without_what_it_can_make_again():
    model = fitted(val_in_context=True)
    frame, _ = table("regression")
    before = model.predict(frame)
    assert model._loaded is not None and model._contexts
    back = pickle.loads(pickle.dumps(model))
    assert not {"_loaded", "_contexts"} & set(vars(back))
    assert back.predict(frame).tobytes() == before.tobytes()
    assert clone(model).get_params() == model.get_params()
    assert clone(model).fit(*table("regression")).predict(frame).tobytes() == before.tobytes()


def forged(path, change):
    """The file with another state, its checksums right."""
    members = dict(unpack(path.read_bytes()))
    manifest = json.loads(members.pop("manifest.json"))
    state = json.loads(members["state.json"])
    change(state)
    members["state.json"] = to_json(state)
    facts = manifest["members"]["state.json"]
    facts["bytes"] = len(members["state.json"])
    facts["sha256"] = hashlib.sha256(members["state.json"]).hexdigest()
    path.write_bytes(pack({**members, "manifest.json": to_json(manifest)}))


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(_loaded={"$": "object", "class": "subprocess:Popen", "state": {}}),
        lambda s: s.update(_contexts=[]),
        lambda s: s.update(_ready=3),
        lambda s: s.update(model_={"$": "object", "class": "torch.nn:Module", "state": {}}),
    ],
)
def test_a_model_file_that_says_more_than_a_fitted_model_is_refused(change, tmp_path):
    frame, _ = table("regression")
    path = save_model(fitted(), tmp_path / "m", schema=Schema.of(frame, "regression"))
    forged(path, change)
    with pytest.raises(ModelFileError):
        load_model(path)
