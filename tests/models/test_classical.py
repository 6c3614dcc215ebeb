"""Classical models are their definitions: scikit-learn's numbers, closed forms, known rules."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import MODELS, make_model


@pytest.fixture(scope="module")
def wine():
    """Standardised training rows and classes, then test rows and classes."""
    x, y = load_wine(return_X_y=True)
    x, xt, y, yt = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
    scale = StandardScaler().fit(x)
    return scale.transform(x), y, scale.transform(xt), yt


def fitted(name, x, y, task="multiclass", **config):
    return make_model(name, task=task, **config).fit(x, y)


CLASSES_ALONE = [name for name, spec in MODELS.items() if "regression" not in spec.tasks]


@pytest.mark.parametrize("name", CLASSES_ALONE)
def test_a_model_of_classes_alone_refuses_a_regression_before_any_fit(name):
    with pytest.raises(InvalidConfig, match="task must be one of 'binary', 'multiclass'"):
        make_model(name, task="regression")


# -- discriminant analysis ------------------------------------------------------------------------


def test_fully_pooled_covariances_give_the_linear_discriminant_analysis(wine):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    x, y, xt, _ = wine
    ours = fitted("discriminant-analysis", x, y, pooling=1.0, shrinkage=0.0)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(xt), theirs.predict_proba(xt), atol=1e-8)


def test_unpooled_covariances_give_the_quadratic_discriminant_analysis(wine):
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    x, y, xt, yt = wine
    ours = fitted("discriminant-analysis", x, y, pooling=0.0, shrinkage=0.2)
    theirs = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.2).fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(xt), theirs.predict_proba(xt), atol=1e-6)
    assert ours.score(xt, yt) > 0.95


def test_dependent_features_and_a_class_of_one_row_have_a_quadratic_answer():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(41, 2))
    x = np.column_stack([x, x.sum(axis=1)])
    y = np.array([0] * 20 + [1] * 20 + [2])
    x[y == 1] += 3.0
    model = fitted("discriminant-analysis", x, y, pooling=0.0, shrinkage=0.0)
    assert np.isfinite(model.predict_proba(x)).all()
    assert (model.predict(x) == y).mean() > 0.9


# -- partial least squares ------------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [1, 3, 1000])
def test_partial_least_squares_predict_what_scikit_learns_do(n_components):
    from sklearn.cross_decomposition import PLSRegression

    x, y = load_diabetes(return_X_y=True)
    ours = fitted("pls", x, y, "regression", n_components=n_components).predict(x)
    theirs = PLSRegression(n_components=min(n_components, x.shape[1])).fit(x, y).predict(x)
    np.testing.assert_allclose(ours, np.ravel(theirs), rtol=1e-6)


# -- naive Bayes ----------------------------------------------------------------------------------


def test_numbers_and_categories_are_multiplied_with_the_prior_once(wine):
    from sklearn.naive_bayes import CategoricalNB, GaussianNB

    x, y, _, _ = wine
    level = pd.Series(np.digitize(x[:, 0], [-0.5, 0.5])).map({0: "a", 1: "b", 2: "c"})
    numbers = pd.DataFrame(x[:, 1:])
    normal = GaussianNB().fit(x[:, 1:], y).predict_joint_log_proba(x[:, 1:])
    codes = level.astype("category").cat.codes.to_numpy()[:, None]
    counted = CategoricalNB(min_categories=4).fit(codes, y).predict_joint_log_proba(codes)
    log_p = normal + counted - np.log(np.bincount(y) / len(y))
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    both = numbers.assign(level=level.astype("category"))
    ours = fitted("naive-bayes", both, y).predict_proba(both)
    np.testing.assert_allclose(ours, p / p.sum(axis=1, keepdims=True), atol=1e-9)
    alone = fitted("naive-bayes", numbers, y).predict_proba(numbers)
    np.testing.assert_allclose(alone, GaussianNB().fit(numbers, y).predict_proba(numbers))


# -- nearest centroids ----------------------------------------------------------------------------


@pytest.mark.parametrize("shrinkage", [0.0, 1.0, 4.0])
def test_centroids_are_shrunk_as_scikit_learn_shrinks_them(wine, shrinkage):
    from sklearn.neighbors import NearestCentroid

    x, y, xt, yt = wine
    ours = fitted("nearest-centroid", x, y, shrinkage=shrinkage)
    theirs = NearestCentroid(shrink_threshold=shrinkage or None).fit(x, y)
    np.testing.assert_allclose(ours.model_["centroids"], theirs.centroids_, atol=1e-10)
    assert ours.score(xt, yt) > 0.9


def test_full_shrinkage_leaves_the_class_frequencies(wine):
    x, y, xt, _ = wine
    p = fitted("nearest-centroid", x, y, shrinkage=1e6).predict_proba(xt)
    np.testing.assert_allclose(p, np.tile(np.bincount(y) / len(y), (len(xt), 1)))


# -- rules ----------------------------------------------------------------------------------------


def boxes(n=400):
    """Rows in the unit square; class 2 where both exceed a half, else class 1 where a > 0.8."""
    x = np.random.default_rng(0).uniform(size=(n, 2))
    return x, np.where((x > 0.5).all(axis=1), 2, np.where(x[:, 0] > 0.8, 1, 0))


def test_rules_find_the_boxes_that_made_the_classes():
    x, y = boxes()
    model = fitted("rule-list", x, y, min_rows=3, max_conditions=3)
    assert (model.predict(x) == y).mean() > 0.98
    assert 2 <= len(model.model_["low"]) <= 8


def test_the_first_rule_that_covers_a_row_answers_with_the_classes_of_its_training_rows():
    x, y = boxes()
    model = fitted("rule-list", x, y, max_rules=4)
    found, seen = model.model_, x.astype(np.float32)
    free = np.ones(len(x), dtype=bool)
    p = model.predict_proba(x)
    for low, high, expected in zip(found["low"], found["high"], found["p"], strict=False):
        covered = free & ((seen > low) & (seen <= high)).all(axis=1)
        counts = np.bincount(y[covered], minlength=3) + 1.0
        assert covered.sum() >= model.min_rows
        np.testing.assert_allclose(expected, counts / counts.sum())
        np.testing.assert_allclose(p[covered], np.tile(expected, (covered.sum(), 1)))
        free &= ~covered
    rest = np.bincount(y[free], minlength=3) + 1.0
    np.testing.assert_allclose(p[free], np.tile(rest / rest.sum(), (free.sum(), 1)))


def test_a_rule_has_no_more_conditions_and_rules_are_no_more_than_asked():
    x, y = load_breast_cancer(return_X_y=True)
    found = fitted("rule-list", x, y, "binary", max_rules=3, max_conditions=2).model_
    conditions = np.isfinite(found["low"]).sum(axis=1) + np.isfinite(found["high"]).sum(axis=1)
    assert len(found["low"]) <= 3 and conditions.max() <= 2


# -- ensembles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bagging", "adaboost"])
def test_an_ensemble_is_scikit_learns(name):
    from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
    from sklearn.tree import DecisionTreeClassifier

    x, y = load_breast_cancer(return_X_y=True)
    if name == "bagging":
        theirs = BaggingClassifier(DecisionTreeClassifier(), n_estimators=10, random_state=0)
    else:
        stump = DecisionTreeClassifier(max_depth=1, random_state=0)
        theirs = AdaBoostClassifier(stump, n_estimators=10, random_state=0)
    ours = fitted(name, x, y, "binary", n_estimators=10).predict_proba(x)
    np.testing.assert_allclose(ours, theirs.fit(x, y).predict_proba(x))


def test_where_no_stump_is_better_than_chance_the_first_tree_is_the_model():
    from sklearn.tree import DecisionTreeClassifier

    x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)
    y = (x[:, 0] != x[:, 1]).astype(int)
    stuck = fitted("adaboost", x, y, "binary", max_depth=1)
    assert isinstance(stuck.model_, DecisionTreeClassifier)
    assert fitted("adaboost", x, y, "binary", max_depth=2).score(x, y) == 1.0


def test_the_elastic_net_is_the_lasso_and_ridge_at_its_ends():
    from sklearn.linear_model import Lasso, Ridge

    x, y = load_diabetes(return_X_y=True)
    scaled, target = StandardScaler().fit_transform(x), (y - y.mean()) / y.std()
    for l1_ratio, theirs in ((1.0, Lasso(alpha=0.1)), (0.0, Ridge(alpha=0.1 * len(x)))):
        ours = fitted("elastic-net", x, y, "regression", alpha=0.1, l1_ratio=l1_ratio)
        np.testing.assert_allclose(ours.model_.coef_, theirs.fit(scaled, target).coef_, atol=1e-3)


def test_the_penalty_of_classes_is_on_the_scale_of_the_mean_loss(wine):
    x, y, _, _ = wine
    once = fitted("elastic-net", x, y, alpha=0.05).model_.coef_
    thrice = fitted("elastic-net", np.tile(x, (3, 1)), np.tile(y, 3), alpha=0.05).model_.coef_
    np.testing.assert_allclose(once, thrice, atol=0.02)
    assert (once == 0).sum() > 5


def test_the_upper_model_of_a_stack_learns_from_rows_that_the_lower_ones_did_not_see():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 5)), rng.integers(0, 2, 300)  # nothing to learn
    model = fitted("stacking", x, y, "binary", n_neighbors=1, min_samples_leaf=1)
    lower = model._lower(model.model_["lower"], model.preprocessor_.transform(pd.DataFrame(x)))
    assert ((lower[:, 1] > 0.5) == y).all()  # one neighbour knows its own row by heart
    believed = LogisticRegression().fit(lower, y).coef_[0, 1]
    assert abs(model.model_["upper"].coef_[0, 1]) < 0.5 < 2.0 < believed


# -- what one-hot columns and gaps bring ----------------------------------------------------------


def test_components_beyond_the_rank_of_one_hot_columns_are_least_squares():
    rng = np.random.default_rng(0)
    x = pd.DataFrame({name: rng.choice(list("abc"), 200) for name in "pqrs"})
    y = (x["p"] == "a") * 2.0 - (x["s"] == "c") + rng.normal(size=200)
    z = np.column_stack([np.ones(200), pd.get_dummies(x).to_numpy(dtype=float)])
    least_squares = z @ np.linalg.lstsq(z, y, rcond=None)[0]
    for n_components in (12, 100):  # 12 columns of rank 8
        ours = fitted("pls", x, y, task="regression", n_components=n_components).predict(x)
        np.testing.assert_allclose(ours, least_squares, atol=1e-8)


def test_naive_bayes_of_categories_beside_a_constant_number_is_that_of_the_categories():
    rng = np.random.default_rng(0)
    x, y = pd.DataFrame({"c": rng.choice(list("ab"), 60)}), rng.integers(0, 2, 60)
    alone = fitted("naive-bayes", x, y, task="binary").predict_proba(x)
    beside = x.assign(k=1.0)
    np.testing.assert_array_equal(
        fitted("naive-bayes", beside, y, task="binary").predict_proba(beside), alone
    )


def test_a_gap_is_a_category_of_naive_bayes_and_rules_no_class_out():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 2)), np.repeat([0, 1], 100)
    x[:10, 1] = np.nan  # of class 0 alone
    model = fitted("naive-bayes", x, y, task="binary")
    p = model.predict_proba([[0.0, 0.0], [0.0, np.nan]])
    filled = np.where(np.isnan(x), np.nanmean(x[:, 1]), x)
    plain = fitted("naive-bayes", filled, y, task="binary").predict_proba(
        [[0.0, np.nanmean(x[:, 1])]]
    )
    # Rows of a class with a gap, one added to each of the two kinds: 11 of 102, and 1 of 102.
    odds = p[1, 0] / p[1, 1]
    assert odds == pytest.approx(11.0 * plain[0, 0] / plain[0, 1])


def test_bagging_computes_in_threads_of_its_own_process():
    import psutil

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = (x[:, 0] > 0).astype(int)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    two = fitted("bagging", x, y, task="binary", threads=2, n_estimators=10).predict_proba(x)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    one = fitted("bagging", x, y, task="binary", threads=1, n_estimators=10).predict_proba(x)
    np.testing.assert_array_equal(two, one)


def test_a_feature_that_is_constant_within_classes_up_to_rounding_is_divided_by_one():
    x, y = np.zeros((60, 5)), np.repeat([0, 1, 2], 20)
    x[:, 0] = np.array([0.1, 0.7, 0.3])[y]  # their means of 20 rows are not quite these
    x[:, 1] = np.random.default_rng(0).normal(size=60)
    scale = fitted("nearest-centroid", x, y).model_["scale"]
    np.testing.assert_array_equal(scale[[0, 2, 3, 4]], 1.0)


@pytest.mark.parametrize("name", ["stacking", *CLASSES_ALONE])
def test_a_value_far_beyond_those_of_training_is_answered(name):
    x, y = np.arange(12.0).reshape(6, 2), [0, 0, 0, 1, 1, 1]
    p = fitted(name, x, y, task="binary").predict_proba([[1e300, 1.0], [-1e300, 1e200]])
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_the_median_is_the_constant_where_no_feature_varies_too():
    model = make_model("constant", task="regression", statistic="median")
    assert model.fit(np.zeros((3, 1)), [1.0, 2.0, 9.0]).predict([[0.0]]) == [2.0]
