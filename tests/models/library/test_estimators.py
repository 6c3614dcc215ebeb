"""The library's estimators on tables as users have them, and inside scikit-learn's tools."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
import tabsweep
from looped import each
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from small_tables import NAMES
from tabsweep.models.hyperparameters import entries
from tabsweep.models.library.names import class_names
from tabsweep.models.registry import MODELS

CHEAP = ("KNNClassifier", "LightGBMClassifier", "LinearRegressor", "XGBoostRegressor")
TINY_NETWORK = {"epochs": 4, "width": 8, "n_layers": 1, "n_heads": 1}


def messy(n=90, seed=0):
    """A table with every kind of column, and a target that two of them decide."""
    rng = np.random.default_rng(seed)
    size = rng.normal(50, 10, n)
    colour = rng.choice(["red", "green", "blue"], n)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    words = rng.choice(["old", "new", "garden", "lift", "quiet", "central", "bright"], (n, 4))
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, size),
            "price": [f"{v:,.0f}" for v in rng.integers(500, 99_000, n)],
            "colour": pd.Categorical(colour),
            "city": rng.choice(["Ulm", "Bonn", None], n),
            "garden": rng.random(n) < 0.5,
            "day": days,
            "said": [" ".join(row) + f" at {i}" for i, row in enumerate(words)],
            "count": pd.array(np.where(rng.random(n) < 0.1, None, 3), dtype="Int64"),
        }
    )
    value = size / 10 + 3 * (colour == "red")
    return frame, value


def labels(value):
    return np.where(value > np.median(value), "dear", "cheap")


def fitted(name, X, y, **params):
    with pytest.warns(tabsweep.ColumnNotice):
        return getattr(tabsweep, name)(**params).fit(X, y)


@each("name", (*CHEAP, "FTTransformerClassifier", "FTTransformerRegressor"))
def test_any_table_is_fitted_and_predicted_in_five_lines(name):
    X, value = messy(160)
    train, test = slice(0, 120), slice(120, 160)
    y = labels(value) if name.endswith("Classifier") else value
    params = TINY_NETWORK if name.startswith("FT") else {}
    model = fitted(name, X[train], y[train], **params)
    predicted = model.predict(X[test])
    assert predicted.shape == (40,) and list(model.feature_names_in_) == list(X.columns)
    assert model.n_features_in_ == 8 and "'price'" in "".join(model.columns_.notices_)
    assert hasattr(model, "predict_proba") == name.endswith("Classifier")
    if name.endswith("Classifier"):
        assert model.classes_.tolist() == ["cheap", "dear"]
        np.testing.assert_array_equal(
            model.classes_[model.predict_proba(X[test]).argmax(axis=1)], predicted
        )
    if not name.startswith("FT"):
        assert model.score(X[test], y[test]) > 0.4


TREES = [name for name, spec in MODELS.items() if spec.family == "gbdt" and name in NAMES]
WITHOUT = {"hist-gradient-boosting", "bagging", "knn"}  # models that tell no importances
ENDS = ("forest", "-trees", "-tree", "adaboost", *WITHOUT)
TREES += [name for name in NAMES if name.endswith(ENDS)]


@each("name", [name for name, (model, _) in class_names().items() if model in TREES])
def test_importances_are_shares_of_the_features_that_a_model_s_trees_use(name):
    X, value = messy(160)
    X = X.drop(columns=["price", "said"])  # without notices
    model = getattr(tabsweep, name)()
    assert not hasattr(model, "feature_importances_")  # before a fit
    model.fit(X, labels(value) if name.endswith("Classifier") else value)
    assert hasattr(model, "feature_importances_") == (class_names()[name][0] not in WITHOUT)
    if not hasattr(model, "feature_importances_"):
        return
    shares = pd.Series(model.feature_importances_, model.feature_names_in_)
    assert list(shares.index) == list(X.columns) and np.isclose(shares.sum(), 1.0)
    assert shares.min() >= 0 and shares["count"] < shares["size"] + shares["colour"]
    assert shares[["size", "colour"]].sum() > 0.4, "the target is made of these two"


def test_pipelines_searches_and_votes_take_an_estimator():
    X, value = messy()
    y = labels(value)
    numbers = X[["size"]].assign(day=X["day"].dt.year)
    model = tabsweep.KNNClassifier(n_neighbors=3)
    assert cross_val_score(model, X.drop(columns=["price", "said"]), y, cv=3).mean() > 0.4
    search = GridSearchCV(model, {"n_neighbors": [1, 15]}, cv=3).fit(numbers, y)
    assert search.best_params_["n_neighbors"] == 15
    assert make_pipeline("passthrough", model).fit(numbers, y).score(numbers, y) > 0.6
    vote = VotingClassifier([("k", model), ("l", tabsweep.LinearClassifier())], voting="soft")
    assert vote.fit(numbers, y).score(numbers, y) > 0.6


@each("name", [name for name, (model, _) in class_names().items() if model in NAMES])
def test_every_class_says_its_kind_and_documents_its_parameters(name):
    cls = getattr(tabsweep, name)
    model, kind = class_names()[name]
    made = cls()
    assert is_classifier(made) == (kind == "Classifier") != is_regressor(made)
    params = list(inspect.signature(cls).parameters)
    assert sorted(params) == sorted(made.get_params()) and cls.__module__ == "tabsweep"
    told = {n.strip() for head in entries(cls.__doc__) for n in head.split(",")}
    assert set(params) <= told
    assert ("sample_weight" in inspect.signature(made.fit).parameters) == (
        "takes `sample_weight`" in cls.__doc__
    )
    assert repr(clone(made)) == f"{name}()"


def test_every_registered_model_has_the_classes_of_its_tasks():
    for name, spec in MODELS.items():
        kinds = {kind for model, kind in class_names().values() if model == name}
        assert ("Regressor" in kinds) == ("regression" in spec.tasks)
        assert ("Classifier" in kinds) == ("binary" in spec.tasks)
    assert set(class_names()) < set(dir(tabsweep)) and set(tabsweep.__all__) < set(dir(tabsweep))
    assert tabsweep.estimators("Regressor").keys() < tabsweep.estimators().keys()
    with pytest.raises(AttributeError, match="did you mean 'KNNClassifier'"):
        tabsweep.KNClassifier  # noqa: B018
    with pytest.raises(ValueError, match="Transformer"):
        tabsweep.estimators("Transformer")


def test_the_quick_preset_is_the_default_and_a_value_of_ones_own_wins():
    quick = tabsweep.FTTransformerClassifier()
    assert quick.preset == "quick" and quick.width == "preset"
    paper = tabsweep.FTTransformerClassifier(preset="paper", epochs=2)
    assert quick._config()["width"] < paper._config()["width"] == 192
    assert paper._config()["epochs"] == 2 and quick._config()["epochs"] < 1000
    assert tabsweep.KNNClassifier()._config()["n_neighbors"] == 5
    with pytest.raises(ValueError, match="'fast'"):
        tabsweep.KNNClassifier(preset="fast").fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="did you mean 'n_neighbors'"):
        tabsweep.KNNClassifier(n_neighbours=3)


def test_rows_are_held_out_for_early_stopping_and_only_for_it():
    X, _ = messy()
    X = X[["size", "colour"]]
    value = np.random.default_rng(1).normal(size=90)  # nothing to learn: each tree makes it worse
    boosted = tabsweep.LightGBMRegressor(
        n_estimators=50, early_stopping_rounds=2, min_child_samples=2
    )
    stopped = clone(boosted).fit(X, value)
    whole = clone(boosted).set_params(validation_fraction=0).fit(X, value)
    given = clone(boosted).fit(X[:60], value[:60], X_val=X[60:], y_val=value[60:])
    assert stopped.estimator_.best_iteration_ < 50 == whole.estimator_.best_iteration_
    assert given.estimator_.best_iteration_ < 50
    few = clone(boosted).fit(X[:20], value[:20])
    assert few.estimator_.best_iteration_ == 50
    with pytest.raises(ValueError, match="validation_fraction"):
        clone(boosted).set_params(validation_fraction=1).fit(X, value)
    with pytest.raises(ValueError, match="belong together"):
        boosted.fit(X, value, X_val=X)


def test_labels_of_validation_rows_that_training_never_saw_are_told():
    X, value = messy()
    model = tabsweep.LightGBMClassifier(n_estimators=5)
    y = labels(value)
    val = X[["size"]][:9]
    with pytest.warns(UserWarning, match=r"'strange'\): 1 of 9 validation rows") as told:
        fit = model.fit(X[["size"]], y, X_val=val, y_val=["strange", *y[1:9]])
    assert fit.classes_.tolist() == ["cheap", "dear"] and told[0].filename == __file__
    with pytest.raises(ValueError, match="no label of y: it holds 0, 1, y holds 'cheap', 'dear'"):
        model.fit(X[["size"]], y, X_val=val, y_val=[0, 1, *[0] * 7])


def test_an_array_in_place_of_a_frame_or_the_reverse_is_taken_by_position():
    X, value = messy()
    table = X[["size", "colour"]]
    by_name = tabsweep.DecisionTreeRegressor().fit(table, value)
    wanted = by_name.predict(table)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        found = by_name.predict(table.to_numpy(dtype=object))
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="3 features, but .* is expecting 2 features"):
        by_name.predict(np.ones((4, 3)))
    numbers = np.random.default_rng(0).normal(size=(90, 2))
    by_position = tabsweep.DecisionTreeRegressor().fit(numbers, value)
    wanted = by_position.predict(numbers)
    named = pd.DataFrame(numbers, columns=["a", "b"])
    with pytest.warns(UserWarning, match="has feature names, but"):
        np.testing.assert_array_equal(by_position.predict(named), wanted)
    with pytest.raises(ValueError, match="1 features, but .* is expecting 2 features"):
        by_position.predict(named[["a"]])
    other = pd.DataFrame(numbers, columns=[5, 6])
    with pytest.warns(
        UserWarning, match="X has the columns 5, 6, .* fitted with 0, 1; .* position"
    ):
        np.testing.assert_array_equal(by_position.predict(other), wanted)
    with pytest.warns(UserWarning, match="valid feature names"):  # of the validation rows, too
        by_name.fit(table, value, X_val=table.to_numpy(dtype=object)[:9], y_val=value[:9])


def test_the_same_random_state_gives_the_same_bytes_and_none_draws_anew():
    X, value = messy()
    X, y = X[["size", "colour"]], labels(value)
    make = tabsweep.RandomForestClassifier
    same = [make(random_state=7, n_estimators=5).fit(X, y).predict_proba(X) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert (make(random_state=8, n_estimators=5).fit(X, y).predict_proba(X) != same[0]).any()
    anew = [make(random_state=None, n_estimators=5).fit(X, y).predict_proba(X) for _ in range(2)]
    assert (anew[0] != anew[1]).any()


@each("name", (n for n in class_names() if getattr(tabsweep, n).spec.sample_weight))
def test_weights_move_an_answer_to_the_heavier_rows(name):
    """At every x half of the targets are 0, and half are 1 and weigh nine times as much."""
    X = np.array([[0.0], [1.0]] * 40)
    y = np.repeat([0, 1], 40)
    weights = np.where(y == 1, 9.0, 1.0)
    cls = getattr(tabsweep, name)
    model = cls(n_estimators=30) if "n_estimators" in cls().get_params() else cls()
    heavy = clone(model).fit(X, y, sample_weight=weights)
    for fit, low, high in ((clone(model).fit(X, y), 0.3, 0.7), (heavy, 0.75, 1.0)):
        classifies = name.endswith("Classifier")
        answer = fit.predict_proba(X)[:, 1] if classifies else fit.predict(X)
        assert (low <= answer).all() and (answer <= high + 1e-6).all()
    without = clone(model).fit(X, y, sample_weight=y)  # the others have no weight at all
    assert (without.predict(X) > 0.99).all()
    assert "fit" not in vars(without.estimator_)
    pickle.dumps(heavy)


def test_a_row_of_weight_0_has_no_say_in_how_columns_are_read():
    X, value = messy(160)
    X, weights = X[["said", "size"]], np.repeat([1.0, 0.0], 80)
    odd = X.assign(code=["1"] * 80 + ["red"] * 80, size=np.where(weights > 0, X["size"], 1e6))
    with pytest.warns(tabsweep.ColumnNotice):
        some = tabsweep.RandomForestRegressor().fit(odd, value, sample_weight=weights)
        alone = tabsweep.RandomForestRegressor().fit(odd[:80], value[:80])
    assert some.columns_.notices_ == alone.columns_.notices_
    np.testing.assert_array_equal(some.predict(odd[:80]), alone.predict(odd[:80]))


@pytest.mark.parametrize("name", ["RandomForestClassifier", "MLPClassifier"])
def test_transformers_that_a_user_has_set_to_pandas_change_nothing(name):
    X, value = messy()
    X, y = X[["said", "size"]], labels(value)
    params = {"epochs": 3} if name.startswith("MLP") else {}
    wanted = fitted(name, X, y, **params).predict_proba(X)
    with sklearn.config_context(transform_output="pandas"):
        model = fitted(name, X, y, **params)
        np.testing.assert_array_equal(model.predict_proba(X), wanted)
        model.predict(X)
        assert sklearn.get_config()["transform_output"] == "pandas"


FORESTS = [
    f"{name}{kind}"
    for name in ("RandomForest", "ExtraTrees")
    for kind in ("Classifier", "Regressor")
]


@each("name", FORESTS)
def test_forests_with_several_threads_predict_the_same_bytes_each_time(name):
    X, value = np.random.default_rng(0).normal(size=(600, 6)), np.linspace(0, 1, 600) ** 2
    y = value if name.endswith("Regressor") else (value > 0.3).astype(int)
    one, four = (getattr(tabsweep, name)(n_jobs=n).fit(X, y) for n in (1, 4))
    ask = "predict_proba" if hasattr(one, "predict_proba") else "predict"
    wanted = getattr(one, ask)(X).tobytes()
    assert all(getattr(four, ask)(X).tobytes() == wanted for _ in range(5))
    assert four.estimator_.model_.n_jobs == 4


@each("name", (n for n in class_names() if getattr(tabsweep, n).spec.sample_weight))
def test_weights_count_where_no_feature_varies_too(name):
    """The answer is then the constant one: weighted frequencies, or the weighted mean."""
    X, y, weights = np.zeros((4, 1)), np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 1.0, 9.0])
    heavy = getattr(tabsweep, name)().fit(X, y, sample_weight=weights)
    classifies = name.endswith("Classifier")
    answer = heavy.predict_proba(X)[:, 1] if classifies else heavy.predict(X)
    np.testing.assert_allclose(answer, 0.75)
    assert "_constant_answer" not in vars(heavy.estimator_)


def test_weights_count_where_adaboost_is_its_first_tree():
    """Halves at both x once the rows are weighted: no stump is better than chance."""
    X, y, weights = [[0]] * 4 + [[1]] * 4, [0, 1, 1, 1] * 2, [3, 1, 1, 1] * 2
    fitted = tabsweep.AdaBoostClassifier().fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(fitted.predict_proba(X), 0.5)


def test_a_fitted_estimator_is_pickled_by_name_and_read_in_another_process(tmp_path):
    X, value = messy()
    y = labels(value)
    model = fitted("LightGBMClassifier", X, y, n_estimators=5)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    (tmp_path / "X.pkl").write_bytes(pickle.dumps(X))
    program = (
        "import pickle, sys; model, X = (pickle.load(open(name, 'rb')) for name in sys.argv[1:]);"
        "print(*model.predict(X))"
    )
    files = [str(tmp_path / name) for name in ("model.pkl", "X.pkl")]
    told = subprocess.run(
        [sys.executable, "-c", program, *files], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == model.predict(X).tolist()


def test_a_progress_line_says_how_a_fit_went(capsys):
    X, value = messy()
    X, y = X[["size", "colour"]], labels(value)
    tabsweep.FTTransformerClassifier(**TINY_NETWORK, verbose=1).fit(X, y)
    tabsweep.KNNClassifier(verbose=1).fit(X, y)
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert not told.out and len(lines) == 2
    assert lines[0].startswith("FTTransformerClassifier") and "epochs" in lines[0]
    assert lines[1].startswith("KNNClassifier")
    tabsweep.FTTransformerClassifier(**TINY_NETWORK).fit(X, y)
    assert capsys.readouterr().err == ""


def test_what_cannot_be_fitted_is_refused_with_the_way_out():
    X, value = messy()
    y = labels(value)
    plain = X[["size"]]
    for cls, frame, target, words in (
        (tabsweep.KNNClassifier, plain, value, "continuous"),
        (tabsweep.KNNRegressor, plain, y, "numbers"),
        (tabsweep.KNNClassifier, plain, [None, *y[1:]], "NaN"),
        (tabsweep.KNNClassifier, plain, None, "requires y"),
        (tabsweep.KNNClassifier, plain, y[:5], "inconsistent"),
        (tabsweep.GrowNetClassifier, plain, ["a", "b", "c"] * 30, "Only binary"),
        (tabsweep.KNNClassifier, plain.assign(size=np.inf), y, "'size'"),
        (tabsweep.GaussianProcessRegressor, np.ones((2001, 1)), np.ones(2001), "2000"),
    ):
        with pytest.raises(ValueError, match=words):
            cls().fit(frame, target)
    model = tabsweep.KNNClassifier()
    with pytest.raises(NotFittedError):
        model.predict(plain)
    with pytest.raises(ValueError, match="missing"):
        model.fit(X[["size", "colour"]], y).predict(plain)


def test_columns_of_numbers_are_categories_where_they_are_named():
    X = np.array([[1.0], [2.0], [3.0]] * 20)
    y = (X[:, 0] == 2.0).astype(float)
    as_numbers = tabsweep.LinearRegressor().fit(X, y)
    as_categories = tabsweep.LinearRegressor(categorical_features=[0]).fit(X, y)
    assert as_numbers.score(X, y) < 0.1 < 0.9 < as_categories.score(X, y)
    with pytest.raises(ValueError, match="1 columns"):
        tabsweep.LinearRegressor(categorical_features=[3]).fit(X, y)
    two = np.column_stack([np.zeros(60), X])
    for mask in ([False, True], np.array([False, True])):
        masked = tabsweep.LinearRegressor(categorical_features=mask).fit(two, y)
        np.testing.assert_allclose(masked.predict(two), as_categories.predict(X))
        with pytest.raises(ValueError, match="mask of 2 columns, X has 1 columns"):
            tabsweep.LinearRegressor(categorical_features=mask).fit(X, y)


def test_a_column_of_tuples_is_learnt_from():
    X = pd.DataFrame({"pair": [(1, 2), (3, 4)] * 30, "size": 1.0})
    for name in CHEAP:
        model = getattr(tabsweep, name)().fit(X, [0, 1] * 30)
        assert model.score(X, [0, 1] * 30) > 0.9, name


# --- frames of other libraries --------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_a_frame_of_another_library_is_read_as_that_of_pandas(library):
    module = pytest.importorskip(library)
    frame, value = messy()
    made = {
        "pyarrow": lambda: module.Table.from_pandas(frame),
        "polars": lambda: module.from_pandas(frame),
    }
    other, y = made[library](), labels(value)
    own = fitted("RandomForestClassifier", frame, y, n_estimators=3)
    theirs = fitted("RandomForestClassifier", other, y, n_estimators=3)
    np.testing.assert_array_equal(theirs.predict_proba(other), own.predict_proba(frame))
    np.testing.assert_array_equal(theirs.predict_proba(frame), own.predict_proba(frame))
    assert theirs.feature_names_in_.tolist() == list(frame.columns)
