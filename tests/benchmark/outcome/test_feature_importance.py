"""Permutation importance of features and conformal intervals, of a run on a file of the user."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from small_sweeps import FAST
from tabsweep.benchmark.library.sweeping import SweepResult

RUN = "runs/csv-f-quick"


def table(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    found = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "noise": rng.normal(size=n),
            "day": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
            "city": rng.choice(["x", "y", "z"], n),
        }
    )
    wave = 2.0 * (found["city"] == "x") + np.arange(n) / 60 + rng.normal(size=n) / 3
    return found.assign(price=3 * found["size"] + wave)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    with working_in(tmp_path_factory.mktemp("importance")) as folder:
        table().to_csv("f.csv", index=False)
        models = ("--model", "linear", "--model", "constant", "--trials", 2, "--folds", 2)
        assert bench("sweep", "--csv", "f.csv", "--target", "price", *models, *FAST).code == 0
        yield folder


def test_a_model_loses_by_the_features_that_it_uses_and_by_no_other(work):
    ran = bench("explain", "features", "f", "--run", RUN, "--json")
    assert ran.code == 0, ran
    rows = json.loads(ran.out)["features"]
    assert [row["feature"] for row in rows] == ["size", "day", "city", "noise"]
    by_name = {row["feature"]: row for row in rows}
    assert by_name["size"]["importance"] > 3 and abs(by_name["noise"]["importance"]) < 0.05
    assert all(row["folds"] == 2 and row["model"] == "linear" for row in rows)
    folds = pd.read_csv(f"{RUN}/feature-importance.csv").groupby("feature")["importance"]
    for name, row in by_name.items():
        values = folds.get_group(name)
        assert row["importance"] == pytest.approx(values.mean())
        assert row["std"] == pytest.approx(values.std(ddof=1))


def test_importances_are_the_same_from_python_and_stand_on_the_page_of_their_configurations(work):
    result = SweepResult(RUN)
    first = result.feature_importance(["linear"])
    pd.testing.assert_frame_equal(first, result.feature_importance())
    found = result.feature_importance(["constant"])
    assert (found["importance"] == 0).all() and len(found) == 4  # beside what is kept of linear
    page = result.report().read_text()
    assert "Features of linear" in page and "Features of constant" in page
    kept = Path(RUN, "feature-importance.csv")
    rows = pd.read_csv(kept)
    rows.loc[rows["model"] == "linear", "config"] = '{"other":1}'  # no longer chosen
    rows.to_csv(kept, index=False)
    page = result.report().read_text()
    assert "Features of linear" not in page and "Features of constant" in page


def test_a_model_or_a_run_that_is_not_there_is_named(work):
    assert "known: constant, linear" in bench("explain", "features", "f", "knn", "--run", RUN).err
    assert bench("explain", "features", "f", "--run", "runs/none").code == 2
    assert bench("explain", "scores", "f", "--run", RUN).code == 2


def test_intervals_are_reported_shown_and_added_to_predictions(work):
    ran = bench("analyse", RUN, "--intervals", "--json")
    assert ran.code == 0, ran
    rows = pd.DataFrame(json.loads(ran.out)["rows"]).groupby("model").mean(numeric_only=True)
    assert rows.loc["linear", "crps"] < rows.loc["constant", "crps"]
    assert rows.loc["linear", "width"] < rows.loc["constant", "width"]
    assert rows["coverage"].between(0.8, 1.0).all()
    assert "What 90 % intervals are worth" in Path(RUN, "report/html/index.html").read_text()
    assert bench("fit", RUN, "--out", "m.tabsweep").code == 0
    table(600).iloc[300:].to_csv("new.csv", index=False)
    ran = bench("predict", "m.tabsweep", "new.csv", "--out", "p.csv", "--interval", 0.9)
    assert ran.code == 0, ran
    found = pd.read_csv("p.csv")
    assert ((found["lower"] < found["prediction"]) & (found["prediction"] < found["upper"])).all()
    assert (found["upper"] - found["lower"]).std() == pytest.approx(0, abs=1e-9)
    narrow = bench("predict", "m.tabsweep", "new.csv", "--out", "q.csv", "--interval", 0.5)
    assert narrow.code == 0
    assert (pd.read_csv("q.csv")["upper"] < found["upper"]).all()
    ran = bench("predict", "m.tabsweep", "new.csv", "--out", "q.csv", "--interval", 0.9999)
    assert ran.code == 2 and "too few for --interval" in ran.err
