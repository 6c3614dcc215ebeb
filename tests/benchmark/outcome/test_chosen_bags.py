"""`bench fit` on runs with bags, `--minutes`, and the section of bags, by the real commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tabsweep
from calls import answer, bench
from small_sweeps import FAST
from tabsweep.benchmark.library.sweeping import SweepResult
from tabsweep.benchmark.outcome import chosen_bags, fit_and_save
from tabsweep.benchmark.outcome.chosen_fit import read_run
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.benchmark.planning.portfolio import bag_for, budget_of, slots_for
from tabsweep.benchmark.planning.suite import load
from tabsweep.benchmark.results.greedy_ensembles import bags_on, table_ensemble
from tabsweep.benchmark.results.stored_predictions import blocks_of
from tabsweep.datasets.inner_parts import member_folds
from tabsweep.datasets.protocols import Fold
from tabsweep.models.persistence.archive import ModelFileError
from tabsweep.models.persistence.ensemble_file import save_ensemble
from tabsweep.reports.metrics import METRICS
from tabsweep.sweeps.store.ledger import Ledger

RUN = Path("runs/b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bags")


@pytest.fixture
def fitted(folder, monkeypatch):
    """A run of three models with bags of four, and the file that `bench fit` made of it."""
    monkeypatch.chdir(folder)
    if not RUN.exists():
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.normal(size=(160, 3)), columns=["a", "b", "c"])
        frame["kind"] = rng.choice(["u", "v"], 160)
        trend = 3 * frame["a"] + np.sin(3 * frame["b"]) * 2 + (frame["kind"] == "u")
        frame["y"] = trend + rng.normal(size=160) / 3
        frame.iloc[:130].to_csv("t.csv", index=False)
        frame.iloc[130:].to_csv("new.csv", index=False)
        models = ("--model", "linear", "--model", "knn", "--model", "extra-trees", "--trials", 2)
        asked = ("sweep", "--csv", "t.csv", "--target", "y", *models, "--bag", 4, *FAST)
        assert bench(*asked, "--name", "b").code == 0
        assert bench("fit", RUN, "--out", "m.tabsweep").code == 0
    return folder


def test_the_ensemble_is_saved_as_one_file_that_predicts_with_intervals(fitted, monkeypatch):
    model = tabsweep.load_model("m.tabsweep")
    new = pd.read_csv("new.csv")
    blocks, _ = blocks_of([RUN], bags=True)
    found = table_ensemble(blocks, METRICS["rmse"])
    assert found is not None and found.taken and model.name == "ensemble"
    assert dict(model.about["weights"]) == pytest.approx(found.weights)
    assert len(model.parts) == 4 * len(found.weights) and sum(model.weights) == pytest.approx(1)
    assert found.val < found.single  # an error: lower is better
    parts = [w * p.predict(new) for w, p in zip(model.weights, model.parts, strict=True)]
    assert model.predict(new) == pytest.approx(np.sum(parts, axis=0))
    ran = bench("predict", "m.tabsweep", "new.csv", "--out", "p.csv", "--interval", 0.8)
    assert ran.code == 0, ran
    told = pd.read_csv("p.csv")
    np.testing.assert_array_equal(told["prediction"], model.predict(new))
    inside = (told["lower"] <= new["y"]) & (new["y"] <= told["upper"])
    assert 0.5 < inside.mean() <= 1
    monkeypatch.setattr(chosen_bags, "LONG_S", 0.0)  # members in processes of their own
    again = bench("fit", RUN, "--out", "m2.tabsweep")
    assert "out of fold" in again.out + again.err and "is predicted in" in again.out + again.err
    assert Path("m2.tabsweep").read_bytes() == Path("m.tabsweep").read_bytes()


def test_a_row_far_from_all_others_does_not_carry_the_ensemble_away(fitted):
    model = tabsweep.load_model("m.tabsweep")
    y = pd.read_csv("t.csv")["y"]
    low, high = model.about["bounds"]
    assert (low, high) == pytest.approx((y.min() - np.ptp(y) / 2, y.max() + np.ptp(y) / 2))
    far = pd.read_csv("new.csv").head(2).assign(a=[-1e6, 1e6])
    assert max(part.predict(far)[1] for part in model.parts) > high, "of linear"
    assert low <= model.predict(far)[0] < model.predict(far)[1] <= high
    said = bench("fit", RUN, "--out", "m3.tabsweep")
    assert f"each model's values cut at {low:.4g} and {high:.4g}" in said.out + said.err
    assert bench("fit", RUN, "--model", "linear", "--out", "alone.tabsweep").code == 0
    alone = tabsweep.load_model("alone.tabsweep")
    assert "bounds" not in alone.about and alone.predict(far)[1] > high


def test_a_member_of_the_fit_is_the_model_on_all_rows_but_its_part(fitted):
    assert bench("fit", RUN, "--model", "linear", "--out", "l.tabsweep").code == 0
    model = tabsweep.load_model("l.tabsweep")
    assert model.name == "linear" and len(model.parts) == 4 == read_run(RUN, None).n_members
    table = pd.read_csv("t.csv")
    config = model.about["chosen_config"]
    own = tabsweep.make_model("linear", task="regression", seed=1, **config)
    from tabsweep.benchmark.outcome.chosen_fit import read_data

    data, _ = read_data(read_run(RUN, None))
    every = np.arange(len(table))
    part = member_folds(data, Fold(0, every, every[:0], every[:0]), 4, seed=0)[1].val
    rest = np.setdiff1d(every, part)
    own.fit(data.rows(rest), data.target[rest])
    mine = model.parts[1].predict(data.frame)
    assert mine.tobytes() == np.asarray(own.predict(data.frame)).tobytes()


def test_one_model_is_taken_where_it_is_asked_for_and_python_predicts_as_the_file(fitted):
    assert bench("fit", RUN, "--single", "--out", "s.tabsweep").code == 0
    blocks, _ = blocks_of([RUN], bags=True)
    bags = bags_on(blocks)
    losses = {name: sum(trial.loss for trial in mine) for name, mine in bags.items()}
    assert tabsweep.load_model("s.tabsweep").name == min(losses, key=lambda name: losses[name])
    best = SweepResult(RUN).best_model
    new = pd.read_csv("new.csv").drop(columns="y")
    saved = tabsweep.load_model("m.tabsweep").predict(new)
    assert best.predict(new) == pytest.approx(saved) and set(best.models) == {*best.models}


def test_a_crafted_or_damaged_ensemble_is_refused(fitted):
    model, data = tabsweep.load_model("m.tabsweep"), Path("m.tabsweep").read_bytes()
    Path("n.tabsweep").write_bytes(data[:-1])
    with pytest.raises(ModelFileError):
        tabsweep.load_model("n.tabsweep")
    save_ensemble([(1.0, data)], "nested.tabsweep", schema=model.schema, name="nested")
    with pytest.raises(ModelFileError, match="within an ensemble"):
        tabsweep.load_model("nested.tabsweep")


def test_the_section_of_bags_has_every_model_and_the_ensemble_with_its_costs(fitted):
    rows = pd.read_csv(RUN / "report/out-of-fold.csv")
    assert set(rows["model"]) == {"linear", "knn", "extra-trees", "ensemble"}
    ensemble = rows[rows["kind"] == "ensemble"].iloc[0]
    assert rows["val"].min() == ensemble["val"]
    members = rows[(rows["kind"] == "bag") & (rows["share"] > 0)]
    assert ensemble["cpu_s"] == pytest.approx(members["cpu_s"].sum())
    page = (RUN / "report/html/index.html").read_text(encoding="utf-8")
    assert "bench fit takes the ensemble" in page and "fitted 4 times" in page


def test_the_ensemble_loses_by_the_features_that_it_uses_and_its_page_shows_them(fitted):
    result = SweepResult(RUN)
    found = result.feature_importance()
    assert set(found["model"]) == {"ensemble"} and found["feature"].iloc[0] == "a"
    losses = found.set_index("feature")["importance"]
    assert losses["a"] > max(losses["b"], losses["kind"])
    assert min(losses["b"], losses["kind"]) > abs(losses["c"])
    assert "Features of ensemble" in result.report().read_text()


def test_a_plan_for_minutes_is_written_down_and_a_second_call_goes_on_with_it(fitted):
    asked = ("sweep", "--csv", "t.csv", "--target", "y", "--model", "linear", "--minutes", 2)
    assert bench(*asked, *FAST).code == 0
    run = Path("runs/csv-t-2-minutes")
    plan = plan_in(Ledger(run))
    budget = plan.suite.budgets["2-minutes"]
    assert budget.bag == 8 and budget.note.startswith("Planned for 2 min on")
    done = answer("status", run)
    assert bench(*asked, *FAST).code == 0
    assert plan_in(Ledger(run)).suite == plan.suite and answer("status", run) == done
    for more in (("--trials", 3), ("--budget", "all"), ("--bag", 3)):
        ran = bench(*asked, *FAST, *more)
        assert (ran.code, len(ran.err.splitlines())) == (2, 1) and "leave" in ran.err, ran


def test_the_plan_of_a_small_table_has_more_models_than_that_of_a_large_one():
    assert [bag_for(n) for n in (300, 30_000, 10**6)] == [8, 5, None]
    few, many = ({s.model for s in slots_for(n, usual=True)} for n in (500, 10**6))
    assert "lightgbm" in many < few and {"tabm", "linear", "xrfm"} <= few
    assert not few & {"npt", "hopular", "saint", "ft-transformer", "mlp-ple"}
    assert "tabm" not in {s.model for s in slots_for(20_000, usual=True)}
    budget = budget_of(slots_for(500, usual=True), 500, "mine")
    modern = load("uci-small").budgets["modern"]
    assert (budget.model["tabm"].fixed["k"], modern.model["tabm"].fixed["k"]) == (8, 16)


def test_a_model_that_no_file_holds_beside_the_others_is_left_out_of_the_ensemble(
    fitted, monkeypatch
):
    """As a forest of 43,000 rows is: the ensemble is chosen again among the other models."""
    whole = tabsweep.load_model("m.tabsweep").about["weights"]
    assert "extra-trees" in whole and len(whole) > 1
    monkeypatch.setattr(fit_and_save, "MAX_BYTES", 100_000)
    made = bench("fit", RUN, "--out", "less.tabsweep")
    assert made.code == 0 and "extra-trees is left out: its fits take" in made.out + made.err, made
    less = tabsweep.load_model("less.tabsweep").about["weights"]
    assert less and "extra-trees" not in less and Path("less.tabsweep").stat().st_size < 100_000
