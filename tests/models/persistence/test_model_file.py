"""Saved models predict after loading, byte for byte, what they predicted before."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from saved_models import (
    LATER,
    QUIET,
    X,
    Y,
    as_json,
    assert_predicts_alike,
    forge,
    make,
    same,
    saved,
    set_,
)
from tabsweep.models import registry
from tabsweep.models.persistence import archive as container
from tabsweep.models.persistence.model_file import (
    ModelFileError,
    ModelWarning,
    load_model,
    open_members,
    save_model,
)
from tabsweep.models.persistence.schema import Schema, SchemaError
from tabsweep.sweeps.fingerprint import closure

REFITTED = {"ebm", "realmlp", "xrfm"}  # objects of extras, which have no plain form


def read_here(path):
    """The model in a file, without the process that reads it first."""
    return open_members(container.unpack(path.read_bytes()))


@pytest.mark.parametrize("name", sorted(registry.MODELS))
def test_a_loaded_model_predicts_the_same_bytes_and_a_second_fit_saves_the_same_file(
    name, tmp_path
):
    tasks = registry.spec(name).tasks
    for task in tasks:
        estimator = make(name, task)
        path = saved(tmp_path, estimator, task, training=(X, Y[task], X, Y[task]))
        fitted = load_model(path) if task == tasks[0] else read_here(path)
        how = "refit" if name in REFITTED else "state"
        assert (fitted.how, fitted.name) == (how, name), task
        assert as_json(fitted.estimator.get_params()) == as_json(estimator.get_params()), task
        assert_predicts_alike(fitted, estimator, task)
        if name in REFITTED:
            continue
        first = path.read_bytes()
        assert saved(tmp_path, fitted.estimator, task).read_bytes() == first, task
        assert b"pickle" not in first
        if task == tasks[0]:
            assert saved(tmp_path, make(name, task), task).read_bytes() == first


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("hist-gradient-boosting", {"categorical": "ordinal", "early_stopping_rounds": 0}),
        ("xgboost", {"categorical": "native"}),
        ("lightgbm", {"categorical": "one-hot", "boosting_type": "dart"}),
        ("catboost", {"categorical": "one-hot"}),
        ("gaussian-process", {"kernel": "matern-2.5"}),
        ("random-forest", {"criterion": "log_loss", "max_depth": 3}),
        ("gradient-boosting", {"subsample": 0.5, "early_stopping_rounds": 2}),
        ("knn", {"weights": "distance", "p": 1}),
        ("mlp-sklearn", {"early_stopping": True, "hidden_layer_sizes": [5, 3]}),
        ("decision-tree", {"ccp_alpha": 0.02}),
    ],
)
def test_the_law_holds_off_the_default_configuration(name, config, tmp_path):
    estimator = make(name, "multiclass", **config)
    fitted = read_here(saved(tmp_path, estimator, "multiclass"))
    assert fitted.how == "state"
    assert_predicts_alike(fitted, estimator, "multiclass")


def test_a_constant_target_and_labels_that_are_texts_survive(tmp_path):
    flat = registry.make_model("svm", task="regression").fit(X, np.full(len(X), 7.0))
    assert load_model(saved(tmp_path, flat, "regression")).predict(LATER, **QUIET)[0] == 7.0
    words = np.array(["no", "yes"])[Y["binary"]]
    named = registry.make_model("linear", task="binary").fit(X, words)
    assert same(load_model(saved(tmp_path, named, "binary")).predict(X), named.predict(X))


def test_columns_of_many_rows_pass_the_brute_force_search_of_wide_tables(tmp_path):
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.normal(size=(60, 30)), columns=[f"c{i}" for i in range(30)])
    model = registry.make_model("knn", task="binary").fit(wide, Y["binary"][:60])
    path = save_model(model, tmp_path / "m", schema=Schema.of(wide, "binary"))
    assert same(load_model(path).predict_proba(wide), model.predict_proba(wide))


def test_no_models_source_fingerprint_depends_on_how_models_are_saved():
    for name, spec in registry.MODELS.items():
        modules, _ = closure([spec.target.partition(":")[0]])
        saving = [module for module in modules if ".models.persistence" in module]
        assert not saving, name


def test_a_model_without_a_plain_form_is_fitted_again_from_its_rows(outside, tmp_path):
    trace = outside()
    name = "foreign_mean:Mean"
    model = registry.make_model(name, task="regression", shift=2.0).fit(X, Y["regression"])
    more = {"name": name, "config": {"shift": 2.0}}
    with pytest.raises(ModelFileError, match="there is no safe format; give its training rows"):
        saved(tmp_path, model, "regression", **more)
    path = saved(tmp_path, model, "regression", training=(X, Y["regression"]), **more)
    fitted = load_model(path, trust=[name])
    assert fitted.how == "refit"
    assert same(fitted.predict(LATER, **QUIET), model.predict(LATER))
    manifest = json.loads(container.unpack(path.read_bytes())["manifest.json"])
    assert "not tabsweep's" in manifest["refit"]["reason"]
    # Without trust the module is not even imported.
    sys.modules.pop("foreign_mean")
    trace.unlink()
    with pytest.raises(ModelFileError, match="foreign_mean:Mean.*is code from outside"):
        load_model(path)
    assert not trace.exists()


def test_a_refit_that_predicts_otherwise_says_so(outside, tmp_path):
    outside()
    name = "foreign_mean:Mean"
    model = registry.make_model(name, task="regression").fit(X, Y["regression"])
    path = saved(tmp_path, model, "regression", name=name, config={}, training=(X, Y["regression"]))
    outside(noise="1.5")
    with pytest.warns(ModelWarning, match="does not predict as it did"):
        load_model(path, trust=[name])


def test_remarks_that_are_none_and_costs_of_no_classes_are_refused_at_load(outside, tmp_path):
    outside()
    name = "foreign_mean:Mean"
    model = registry.make_model(name, task="binary").fit(X, Y["binary"])
    more = {"name": name, "config": {}, "training": (X, Y["binary"])}
    path = saved(tmp_path, model, "binary", about={"costs": [[0, 9], [1, 0]]}, **more)
    fitted, honest = load_model(path, trust=[name]), path.read_bytes()
    assert fitted.how == "refit" and set(fitted.predict(X, **QUIET)) == {0}
    for costs in (
        None,
        5,
        "ab",
        {"a": 1},
        [[1]],
        ["ab", "cd"],
        [["a", 0], [1, 2]],
        [[10**400, 0]] * 2,
    ):
        for about in (costs, {"costs": costs}):
            path.write_bytes(honest)
            forge(path, set_("manifest.json", "about", value=about))
            if about != {"a": 1}:  # a remark
                with pytest.raises(ModelFileError, match="it is no whole model"):
                    load_model(path, trust=[name])
                    pytest.fail(f"{about} was loaded")


def test_other_library_versions_are_a_warning_that_names_both(tmp_path):
    path = saved(tmp_path, make("linear", "binary"), "binary")

    def edit(members):
        members["manifest.json"]["libraries"]["scikit-learn"] = "0.1.0"

    forge(path, edit)
    with pytest.warns(ModelWarning, match=r"saved with scikit-learn 0\.1\.0, here is"):
        load_model(path)


def test_gaps_among_objects_are_gaps_where_training_had_numbers():
    schema = Schema.of(pd.DataFrame({"a": [1.0, 2.0]}), "regression")
    frame = pd.DataFrame({"a": pd.Series([1, pd.NA, "2.5"], dtype=object)})
    np.testing.assert_array_equal(schema.conform(frame, print)["a"], [1.0, np.nan, 2.5])
    heard: list[str] = []
    frame["a"] = pd.Series([pd.NA, 1, "red"], dtype=object)
    np.testing.assert_array_equal(schema.conform(frame, heard.append)["a"], [np.nan, 1, np.nan])
    assert "1 of 3 cells are no numbers as in training ('red')" in heard[0]
    frame["a"] = pd.Series([pd.NA, pd.NA, "red"], dtype=object)
    with pytest.raises(SchemaError, match="'a'.*'red' in row 3 is no number"):
        schema.conform(frame, print)
    for wrong, says in ((10**400, "10+"), (pd.Timestamp("2024-01-31"), "Timestamp"), ([2], r"\[2")):
        frame["a"] = pd.Series([pd.NA, wrong, pd.NA], dtype=object)
        with pytest.raises(SchemaError, match=f"'a'.*{says}.* in row 2 is no number"):
            schema.conform(frame, print)


def test_a_value_that_is_a_category_itself_stays_it_beside_one_of_the_same_text():
    for levels in ([1, 2, "1"], ["1", 2, 1]):
        kinds = pd.Series(levels, dtype=object)
        schema = Schema.of(pd.DataFrame({"k": pd.Categorical(kinds)}), "regression")
        rows = pd.DataFrame({"k": pd.Series([1, "1", np.int64(2), "2.0", 1.0], dtype=object)})
        assert schema.conform(rows, pytest.fail)["k"].tolist() == [1, "1", 2, 2, 1]
    of_file = Schema.of(pd.DataFrame({"k": pd.Categorical(["False", "True"])}), "regression")
    rows = pd.DataFrame({"k": [True, False]})  # as pandas reads such a file
    assert of_file.conform(rows, pytest.fail)["k"].tolist() == ["True", "False"]
    heard: list[str] = []
    schema.conform(pd.DataFrame({"k": pd.Series([10**400], dtype=object)}), heard.append)
    assert "1 of 1 rows hold a category that training did not know" in heard[0]


def test_a_loaded_model_predicts_alike_where_transformers_are_set_to_pandas(tmp_path):
    estimator = make("mlp", "regression")
    path = saved(tmp_path, estimator, "regression", training=(X, Y["regression"]))
    wanted = load_model(path).predict(LATER, **QUIET)
    with sklearn.config_context(transform_output="pandas"):
        assert same(load_model(path).predict(LATER, **QUIET), wanted)
        saved(tmp_path, estimator, "regression", training=(X, Y["regression"]))


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = saved(tmp_path, make("linear", "binary"), "binary")
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        saved(tmp_path, make("linear", "multiclass"), "multiclass")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.tabsweep"]
