"""`bench fit`: the configuration that a run chose, fitted on all rows and saved."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from saved_models import X, Y
from small_sweeps import suite_of
from tabsweep.benchmark.errors import FitError, NoGpu
from tabsweep.benchmark.outcome.chosen_fit import choose_model, read_run
from tabsweep.benchmark.outcome.file_predictions import predict_file
from tabsweep.benchmark.outcome.fit_and_save import fit_chosen
from tabsweep.benchmark.planning.own_tables import csv_suite
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.planning.suite import parse
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.running.request import Request
from tabsweep.benchmark.running.sweep import run
from tabsweep.datasets.catalog import load_dataset
from tabsweep.datasets.reading.columns import Reading
from tabsweep.models.persistence.model_file import load_model

SUITE = suite_of(
    "fit-test", ["diabetes", "iris"], ["constant", "knn", "lightgbm"], folds=3, trials=3,
    sampler="random", model={"lightgbm": {"fixed": {"n_estimators": 40}}},
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    request = Request(parse(SUITE, "here"), Options(runs=runs, name="a", workers=0))
    return run(request).folder


def chosen(folder, dataset):
    rows = load_results(folder)
    return rows[(rows.dataset == dataset) & rows.selected.astype(bool)]


def test_the_model_with_the_best_mean_validation_score_is_fitted_on_all_rows(finished, tmp_path):
    for dataset, column, better in (("diabetes", "val_rmse", min), ("iris", "val_accuracy", max)):
        means = chosen(finished, dataset).groupby("model")[column].mean()
        best = sorted(means.index[means == better(means)])[0]
        fitted = load_model(fit_chosen(finished, dataset=dataset, out=tmp_path))
        assert fitted.name == best
        assert str(load_dataset(dataset).n_rows) in fitted.about["fitted_on"]


def test_the_configuration_is_compared_on_every_fold_and_rounds_are_the_median_folds(finished):
    said: list[str] = []
    path = fit_chosen(finished, dataset="diabetes", model="lightgbm", note=said.append)
    assert path == finished / "fitted" / "diabetes--lightgbm.tabsweep"
    fitted = load_model(path)
    configs = [
        json.loads(c) for c in chosen(finished, "diabetes").query("model=='lightgbm'").config
    ]
    assert fitted.about["chosen_config"] in configs
    params = fitted.estimator.get_params()
    assert params["early_stopping_rounds"] == 0
    assert params["n_estimators"] == fitted.estimator.best_iteration_
    assert f"{params['n_estimators']} rounds" in fitted.about["fitted_on"]
    assert said[-1].startswith("lightgbm on diabetes: validation rmse")
    before = path.read_bytes()
    assert fit_chosen(finished, dataset="diabetes", model="lightgbm").read_bytes() == before
    assert str(finished).encode() not in before


def test_known_scores_are_taken_from_the_ledger_and_agree_with_a_new_fit(finished):
    from tabsweep.benchmark.outcome.chosen_fit import read_data, score_cell

    found = read_run(finished, "iris")
    data = read_data(found)
    for (model, config, fold), score in found.known.items():
        again = score_cell(found, model, json.loads(config), fold, data)
        assert (again.loss, again.rounds) == (score.loss, score.rounds)


def test_what_a_run_does_not_have_is_named_with_a_suggestion(finished, tmp_path):
    with pytest.raises(FitError, match="2 datasets, name one of them: diabetes, iris"):
        fit_chosen(finished)
    with pytest.raises(FitError, match="no dataset 'irs'; did you mean 'iris'"):
        fit_chosen(finished, dataset="irs")
    with pytest.raises(FitError, match="no model 'lightgmb'; did you mean 'lightgbm'"):
        fit_chosen(finished, dataset="iris", model="lightgmb")
    with pytest.raises(FitError, match="there is no folder"):
        fit_chosen(finished, dataset="iris", out=tmp_path / "no" / "m")
    with pytest.raises(FitError, match="catalogued dataset"):
        fit_chosen(finished, dataset="iris", csv=tmp_path / "x.csv")
    if not torch.cuda.is_available():  # a model that uses no GPU is fitted all the same
        with pytest.raises(NoGpu, match="--device cuda"):
            fit_chosen(finished, dataset="iris", model="lightgbm", device="cuda")
    fit_chosen(finished, dataset="iris", model="knn", device="cuda", out=tmp_path)


def test_a_model_without_a_score_on_some_fold_must_be_named(finished):
    found = read_run(finished, "iris")
    assert found.mean_loss("knn") is not None
    del found.chosen["knn"][0]
    assert found.mean_loss("knn") is None
    found.chosen.clear()  # all trials of the run, which is finished, have failed
    with pytest.raises(FitError, match="logs .* --failed, and run them again with bench retry"):
        choose_model(found, None)


@pytest.fixture(scope="module")
def csv_run(tmp_path_factory):
    """(folder of a finished run on a CSV, the CSV)."""
    folder = tmp_path_factory.mktemp("csv")
    file = folder / "houses.csv"
    X.assign(price=Y["regression"]).to_csv(file, index=False)
    suite, tables = csv_suite([file], ["price"], Reading())
    options = Options(models=("knn",), folds=2, trials=2, runs=folder, name="a", workers=0)
    request = Request(suite, options, tables=tables)
    return run(request).folder, file


def test_a_csvs_owner_fits_and_predicts_the_file_itself(csv_run, tmp_path):
    folder, file = csv_run
    path = fit_chosen(folder, out=tmp_path / "m")
    assert load_model(path).schema.target == "price"
    heard: list[str] = []
    assert predict_file(path, file, tmp_path / "out.csv", warn=heard.append) == len(X)
    assert heard == ["1 column that the model does not know is copied to the output: 'price'"]


def test_a_csv_that_changed_or_went_is_refused_and_may_be_named_anew(csv_run, tmp_path):
    folder, file = csv_run
    data = file.read_bytes()
    moved = tmp_path / "moved.csv"
    moved.write_bytes(data)
    says = "^the table .* not at .*, or has changed: put it back .* --csv"
    try:
        file.write_bytes(data + b"1,2,a,3\n")
        for change in (lambda: None, file.unlink):
            change()
            with pytest.raises(FitError, match=says):
                fit_chosen(folder, out=tmp_path / "m")
        assert not (tmp_path / "m").exists()
        assert Path(fit_chosen(folder, out=tmp_path / "m", csv=moved)).exists()
    finally:
        file.write_bytes(data)


def test_a_catalogued_dataset_that_changed_since_the_run_is_refused(finished, monkeypatch):
    from tabsweep.datasets import catalog

    other = replace(load_dataset("iris"), sha256="0" * 64)
    monkeypatch.setattr(catalog, "load_dataset", lambda name, **_: other)
    with pytest.raises(FitError, match=r"iris had sha256 .*, 0{16}\.\.\. now; bring"):
        fit_chosen(finished, dataset="iris")


def test_a_model_from_elsewhere_in_a_run_is_imported_only_where_the_caller_names_it(
    outside, tmp_path
):
    trace = outside()
    options = Options(models=("foreign_mean:Mean",), datasets=("diabetes",), folds=2, trials=1)
    options = replace(options, runs=tmp_path, name="a", workers=0)
    request = Request(parse(SUITE, "here"), options)
    folder = run(request).folder
    sys.modules.pop("foreign_mean")
    trace.unlink()
    with pytest.raises(FitError, match="if you trust it, name it as the model: foreign_mean:Mean"):
        fit_chosen(folder)
    assert not trace.exists()
    path = fit_chosen(folder, model="foreign_mean:Mean")
    fitted = load_model(path, trust=["foreign_mean:Mean"])
    diabetes = load_dataset("diabetes")
    assert fitted.how == "refit"
    assert fitted.predict(diabetes.frame)[0] == pytest.approx(diabetes.target.mean())


def test_a_model_from_elsewhere_that_stops_early_keeps_a_validation_part(outside, tmp_path):
    from tabsweep.benchmark.outcome.chosen_fit import Choice, fit_all
    from tabsweep.datasets.protocols import make_folds

    (tmp_path / "lib" / "stopper.py").write_text(
        "class Stopper:\n"
        "    def __init__(self, *, task): pass\n"
        "    def fit(self, X, y, X_val=None, y_val=None):\n"
        "        self.seen = len(X), len(X_val)\n"
        "    def predict(self, X): return X.iloc[:, 0]\n"
    )
    table = load_dataset("diabetes")
    folds = {f.index: f for f in make_folds(table, "kfold")}
    choice = Choice({}, 0.0, None, 1)
    part, said = fit_all("stopper:Stopper", choice, table, folds, 0)
    model = part.estimator
    assert model.seen == (len(part.training[0]), len(folds[0].val))
    assert part.weights is None and sum(model.seen) == table.n_rows and "validation part" in said
