"""Dates and texts in a sweep: features that each fold learns from its training rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tabsweep
from calls import bench
from looped import each
from small_sweeps import AGAIN
from small_tables import NAMES, TINY
from tabsweep.benchmark.column_encoding import encoding_identity
from tabsweep.benchmark.running.run_trial import run_trial
from tabsweep.common.columns.encoder import text_column
from tabsweep.common.tasks import BINARY, REGRESSION
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.protocols import make_folds
from tabsweep.models import registry
from tabsweep.models.contract import TOLERANCES
from tabsweep.models.library.columns import is_cyclic
from tabsweep.sweeps.trial import DONE, Trial

GOOD = "garden balcony lift parking sunny quiet renovated modern".split()
BAD = "noisy dark damp old cellar broken small narrow".split()


def flats(n=300) -> pd.DataFrame:
    """Flats with an ISO date, a text of eight words and an area, all of which make the price."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    words = rng.choice([*GOOD, *BAD], (n, 8))
    area = rng.normal(80, 20, n).round(1)
    season = 60 * np.sin(2 * np.pi * days.month / 12) + 0.8 * (days - days.min()).days
    price = 1000 + 5 * area + 80 * np.isin(words, GOOD).sum(axis=1) + season
    price += rng.normal(0, 60, n)
    said = [" ".join(row) for row in words]
    given = {"day": days.strftime("%Y-%m-%d"), "said": said, "area": area}
    return pd.DataFrame({**given, "price": price.round(2)})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("flats") / "d.csv"
    flats().to_csv(path, index=False)
    return table_from_file(path, Reading("price"))


def changed(table, row):
    """The table with other words, and another date, in one row."""
    texts = table.frame["said"].tolist()
    texts[row] = "palace with a swimming pool and gold everywhere"
    days = table.frame["day"].copy()
    days[row] = pd.Timestamp("1950-07-07")
    frame = table.frame.assign(said=text_column(texts), day=days)
    return replace(table, frame=frame, sha256=table.sha256[::-1])


@pytest.mark.parametrize("cyclic", [True, False])
def test_a_word_of_a_test_row_changes_no_feature_of_a_training_row(cyclic, table) -> None:
    fold = make_folds(table, "kfold")[0]
    seen = [
        one.encoded(fold.train, cyclic=cyclic)[0].rows(rows).to_numpy(dtype=float)
        for one in (table, changed(table, int(fold.test[0])))
        for rows in (fold.train, fold.val, fold.test)
    ]
    for before, after in zip(seen[:2], seen[3:5], strict=True):
        assert before.tobytes() == after.tobytes()
    assert (seen[2][1:] == seen[5][1:]).all() and (seen[2][0] != seen[5][0]).any()


# models that predict the same to the last digit: whether months are a sine and a cosine to them
EXACT = {"linear": True, "knn": True, "lightgbm": False}


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Small tables of both tasks, and their fold."""
    path = tmp_path_factory.mktemp("few") / "d.csv"
    flats(90).to_csv(path, index=False)
    values = table_from_file(path, Reading("price"))
    codes = (values.target > np.median(values.target)).astype(np.int64)
    classes = replace(values, target=codes, task=BINARY, classes=("a", "b"))
    return {REGRESSION: values, BINARY: classes}, make_folds(values, "kfold")[0]


@each("model", NAMES)
def test_a_word_of_a_test_row_changes_no_prediction_for_another_row(model, few) -> None:
    tables, fold = few
    spec = registry.spec(model)
    table = tables[REGRESSION if REGRESSION in spec.tasks else BINARY]
    told = []
    for one in (table, changed(table, int(fold.test[0]))):
        identity = {"target": spec.target, "threads": 1, **encoding_identity(spec, one)}
        assert identity["encoding"]["cyclic"] == EXACT.get(model, is_cyclic(spec))
        result = run_trial(Trial("d", 0, model, TINY[model], 0, identity), (one, {0: fold}))
        assert result.status == DONE, result.message
        told.append(result.predictions)
    computes_in = registry.load_class(spec.target).computes_in
    rounding = 0.0 if model in EXACT else TOLERANCES[computes_in]
    for part, first in (("val", 0), ("test", 1)):
        before, after = (predictions[part][first:] for predictions in told)
        atol = rounding * np.abs(before).max()
        np.testing.assert_allclose(after, before, rtol=0, atol=atol)


def test_a_table_without_dates_and_texts_keeps_the_ids_of_its_trials(table) -> None:
    plain = replace(table, frame=table.frame[["area"]])
    assert encoding_identity(registry.spec("linear"), plain) == {}
    assert plain.encoded(np.arange(9), cyclic=True)[0].frame is plain.frame


def test_the_command_line_and_python_read_dates_and_texts_as_the_plain_estimators_do(
    table, tmp_path, monkeypatch
) -> None:
    from lightgbm import LGBMRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    monkeypatch.chdir(tmp_path)
    flats().to_csv("d.csv", index=False)
    models = ["lightgbm", "linear"]
    words = [word for model in models for word in ("--model", model)]
    own = ("--target", "price", *words, *AGAIN, "--name", "cli")
    assert bench("sweep", "--csv", "d.csv", *own).code == 0
    with pytest.warns(tabsweep.ColumnNotice):
        swept = tabsweep.sweep(
            flats(), "price", models=models, runs="python", name="d", workers=0, verbose=0
        )
    from_python = swept.leaderboard().set_index("model").sort_index()["test_rmse"]
    from_cli = tabsweep.leaderboard("runs/cli").set_index("model").sort_index()["test_rmse"]
    np.testing.assert_allclose(from_cli, from_python, rtol=1e-12)
    plain = {
        "lightgbm": LGBMRegressor(verbose=-1, n_jobs=1),
        "linear": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
    }
    for model, estimator in plain.items():
        losses = []
        for fold in make_folds(table, "kfold")[:2]:
            seen = table.encoded(fold.train, cyclic=is_cyclic(registry.spec(model)))[0]
            X = seen.frame.to_numpy(dtype=float)
            fitted = estimator.fit(X[fold.train], table.target[fold.train])
            wrong = fitted.predict(X[fold.test]) - table.target[fold.test]
            losses.append(np.sqrt(np.mean(wrong**2)))
        assert from_cli[model] < 1.1 * np.mean(losses)
    for model in models:  # saved, loaded, and asked for the rows of a file
        assert bench("fit", "runs/cli", "--model", model).code == 0
        saved = f"runs/cli/fitted/d--{model}.tabsweep"
        assert bench("predict", saved, "d.csv", "--out", "p.csv").code == 0
        error = pd.read_csv("p.csv").eval("prediction - price")
        assert np.sqrt(np.mean(error**2)) < from_cli[model]
    assert table.kinds == {"day": "date", "said": "text", "area": "numeric"}
    best = swept.best_model.predict(flats().drop(columns="price"))
    assert np.corrcoef(best, flats()["price"])[0, 1] > 0.9
