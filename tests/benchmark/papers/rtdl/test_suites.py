"""RTDL's datasets, suite and ensembles are those of its paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paper_runs import planned
from small_sweeps import suite_of
from tabsweep.benchmark.outcome.run_report import make_report
from tabsweep.benchmark.papers.catalog import FOLDER, published_tables
from tabsweep.benchmark.papers.published_values import load
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.results import seed_ensembles
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.benchmark.running import sweep
from tabsweep.datasets import catalog, parsers
from tabsweep.datasets.added.official import archives
from tabsweep.datasets.card import SourceFile
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.protocols import make_folds
from tabsweep.datasets.table import Table
from tabsweep.models import registry
from tabsweep.reports.metrics import rmse
from tabsweep.sweeps.store.ledger import Ledger

TABLE_1 = load(FOLDER / "rtdl", "table1").set_index("dataset").astype({"n_train": int})
DRAWN = ["california-housing", "helena", "jannis", "higgs-small", "aloi", "covtype"]
FIXED = ["adult", "year"]
NAMES = ("n_train", "n_val", "n_test", "n_numerical", "n_categorical")
NETWORKS = "mlp resnet ft-transformer snn dcn-v2 autoint node tabnet grownet".split()


def sizes(dataset: str) -> tuple[int, ...]:
    """Rows to train, validate and test in the paper."""
    return tuple(int(TABLE_1.loc[dataset, name]) for name in ("n_train", "n_val", "n_test"))


def toy(n: int, n_classes: int = 0, n_test: int = 0) -> Table:
    rng = np.random.default_rng(0)
    target = rng.integers(n_classes, size=n) if n_classes else rng.normal(size=n)
    tested = np.arange(n) >= n - n_test
    masks = ((tested, ~tested & (np.arange(n) < 5)),) if n_test else ()
    classes = tuple(map(str, range(n_classes)))
    task = "regression" if not classes else "binary" if n_classes == 2 else "multiclass"
    frame = pd.DataFrame({"x": np.zeros(n)})
    return Table("toy", frame, target, task, classes, "0" * 64, masks)


# ---------------------------------------------------------------------- datasets and their split


@pytest.mark.parametrize("dataset", [*DRAWN, *FIXED])
def test_the_split_has_the_papers_sizes_and_tests_a_fixed_part_whole(dataset):
    n_classes = {"regression": 0, "binary": 2, "multiclass": 7}[TABLE_1.loc[dataset, "task"]]
    n_test = sizes(dataset)[2] if dataset in FIXED else 0
    table = toy(sum(sizes(dataset)), n_classes, n_test)
    (fold,) = make_folds(table, "rtdl")
    assert (len(fold.train), len(fold.val), len(fold.test)) == sizes(dataset)
    assert not n_test or fold.test.tolist() == [*range(table.n_rows - n_test, table.n_rows)]


def test_no_seed_moves_the_split_and_several_stored_ones_are_refused():
    table = toy(1000, 2)
    first = [fold.sha256 for fold in make_folds(table, "rtdl", seed=0)]
    assert [fold.sha256 for fold in make_folds(table, "rtdl", seed=7)] == first
    twice = toy(1000, 2, 100)
    with pytest.raises(ValueError, match="makes one split; toy has 2"):
        make_folds(replace(twice, masks=twice.masks * 2), "rtdl")


def test_california_housing_has_its_eight_usual_features(mirror):
    table = catalog.load_dataset("california-housing", mirror=mirror)
    assert list(table.frame) == list(catalog.card("california-housing").columns)
    first = table.frame.iloc[0].to_numpy()  # as scikit-learn's documentation prints them
    wanted = [8.3252, 41.0, 6.984127, 1.023810, 322.0, 2.555556, 37.88, -122.23]
    np.testing.assert_allclose(first, wanted, atol=1e-6)
    assert table.target[0] == 4.526 and table.target.max() == 5.00001


def test_rows_that_a_first_line_counts_get_their_classes_in_its_order(tmp_path):
    card = replace(
        catalog.card("miniboone"),
        columns=("a", "b"),
        n_features=2,
        n_rows=5,
        files=(SourceFile("data", "x", "https://example.org/x", "0" * 64, 10),),
    )
    path = tmp_path / "data.txt"
    path.write_text("  2  3\n 1.0 2.0\n -0.999E+03 4.0\n 5 6\n 7 8\n 9 10\n")
    table = parsers.parse(card, {"data": path})
    assert table.target.tolist() == [0, 0, 1, 1, 1] and table.classes == ("signal", "background")
    assert table.frame["a"].tolist() == [1.0, -999.0, 5.0, 7.0, 9.0]
    path.write_text("2 4\n1 2\n3 4\n5 6\n7 8\n9 10\n")
    with pytest.raises(DataError, match="5 rows, its first line counts"):
        parsers.parse(card, {"data": path})


def test_the_archive_is_known_by_the_figures_of_table_1():
    assert set(archives()["rtdl"]) == set(TABLE_1.index)
    for dataset, figures in archives()["rtdl"].items():
        row = TABLE_1.loc[dataset]
        assert figures == [*(int(row[name]) for name in NAMES), row["task"]], dataset
        card = catalog.card(dataset)
        assert (card.n_rows, card.n_features) == (sum(figures[:3]), figures[3] + figures[4])
        assert card.task == row["task"]
    stated = load(FOLDER / "rtdl", "table18").set_index("dataset")
    for name in ("bank", "kick"):
        card, kinds = catalog.card(name), [*catalog.card(name).kinds.values()]
        figures = [card.n_rows, kinds.count("numeric"), kinds.count("categorical")]
        wanted = stated.loc[name, ["n_instances", "n_numerical", "n_categorical"]]
        assert figures == [*map(int, wanted)], name


# ---------------------------------------------------------------------- the suite


def test_the_suite_begins_with_the_two_sets_of_the_reduced_budget_and_its_cards_have_one_split():
    suite = suites.load("rtdl")
    assert suite.datasets[:2] == ["california-housing", "adult"]
    for name in suite.datasets:
        alone = bool(catalog.card(name).archive)
        protocol = suite.protocol.get(name, catalog.card(name).protocol)
        assert protocol == ("official" if alone else "rtdl"), name
    for budget in suite.budgets.values():
        assert budget.folds == 1
    assert suite.budgets["paper"].seeds == 15


@pytest.mark.parametrize("dataset", suites.load("rtdl").datasets)
def test_the_papers_spaces_and_trials_are_those_of_its_tables(dataset):
    large = {"epsilon", "year", "covtype", "yahoo", "microsoft"}
    lists = {  # what the paper tried in place of a search
        ("epsilon", "ft-transformer"): ("defaults", "grid", 6),
        ("epsilon", "autoint"): ("rtdl-list", "grid", 6),
        ("yahoo", "ft-transformer"): ("rtdl-default", "grid", 1),
        ("yahoo", "autoint"): ("rtdl-list", "grid", 6),
    }
    for model in {*NETWORKS, "xgboost", "catboost"} - {"node", "grownet"}:
        name, _, sampler, trials = planned("rtdl", "paper", model, dataset)
        with_aloi = model in ("ft-transformer", "autoint", "xgboost", "catboost")
        part_b = dataset in large or (dataset == "aloi" and with_aloi)
        few = part_b and model in ("ft-transformer", "autoint")
        usual = ("rtdl-b" if part_b else "rtdl", "tpe", 50 if few else 100)
        assert (name, sampler, trials) == lists.get((dataset, model), usual)
    name, space, sampler, trials = planned("rtdl", "paper", "node", dataset)
    if dataset in ("helena", "aloi"):
        assert (name, trials) == ("rtdl-default", 1) and space.grid_point(0)["n_trees"] == 1024
    else:
        assert (name, sampler, trials) == ("rtdl", "grid", space.size)


@pytest.mark.parametrize(("dataset", "numeric"), [("helena", "standard"), ("aloi", "standard")])
def test_features_are_prepared_as_in_the_authors_configurations(dataset, numeric):
    for model in (*NETWORKS, "ft-transformer-default"):
        if model != "grownet":  # it does no multiclass task
            space = planned("rtdl", "paper", model, dataset)[1]
            assert space.params["numeric"].point(0) == numeric, model
    for model in (*NETWORKS, "ft-transformer-default"):
        params = planned("rtdl", "paper", model, "epsilon")[1].params
        assert params["numeric"].point(0) == "none", model
        if model in ("ft-transformer", "autoint", "ft-transformer-default"):
            assert params["linformer"].point(0) == "headwise"


@pytest.mark.parametrize("dataset", ["california-housing", "adult", "year"])
def test_the_untuned_rows_have_one_configuration_the_libraries_own(dataset):
    for model in ("ft-transformer-default", "catboost-default", "xgboost-default"):
        _, space, _, trials = planned("rtdl", "paper", model, dataset)
        assert (space.size, trials) == (1, 1)
        config = space.grid_point(0)
        own = registry.defaults(model.removesuffix("-default"))
        free = {"n_estimators", "early_stopping_rounds", "learning_rate", "epochs", "ffn_factor"}
        assert all(config[k] == own[k] for k in config.keys() - free), model
    assert space.grid_point(0)["learning_rate"] == 0.3


def test_the_reduced_networks_end_and_none_is_saved_on_its_way():
    for model in NETWORKS:
        for dataset, most in (("california-housing", 30), ("adult", 12)):
            assert planned("rtdl", "reduced", model, dataset)[1].params["epochs"].point(0) <= most
    assert all(b.save_every is None for b in suites.load("rtdl").budgets.values())


def test_every_dataset_of_the_suite_is_in_a_published_table():
    tables = published_tables()
    asked = set().union(*(tables[n].dataset_names() for n in tables if n.startswith("rtdl")))
    assert set(suites.load("rtdl").datasets) <= asked


# ---------------------------------------------------------------------- ensembles of a run's seeds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("seeds")
    datasets = ["iris", "diabetes"]
    data = suite_of(
        "tiny", datasets, ["random-forest", "linear"], seeds=11,
        top={"metric": {"multiclass": "accuracy"}, "protocol": dict.fromkeys(datasets, "holdout")},
        model={"random-forest": {"fixed": {"n_estimators": 5}}},
    )  # fmt: skip
    suite = suites.parse(data, "a test")
    wanted = sweep.Request(suite, Options(runs=root / "runs", name="run", workers=0))
    sweep.run(wanted)
    return wanted.folder


def test_an_ensemble_is_the_mean_of_the_stored_predictions_of_five_seeds(folder):
    made = seed_ensembles.with_ensembles(evidence_of([folder]), [folder]).ensembles
    assert made is not None and len(made) == 2 * 2 * 2  # datasets, models, whole fives of eleven
    forest = made[(made["dataset"] == "diabetes") & (made["model"] == "random-forest")]
    assert forest["seeds"].tolist() == ["0, 1, 2, 3, 4", "5, 6, 7, 8, 9"]
    ledger = Ledger(folder)
    stored = [
        ledger.predictions.get(record["predictions"])["test"]
        for record in ledger.records("result")
        if (record["dataset"], record["model"]) == ("diabetes", "random-forest")
        and record["seed"] in range(5, 10)
    ]
    (fold,) = catalog.splits("diabetes", "holdout")
    y = catalog.load_dataset("diabetes").target[fold.test]
    assert len(stored) == 5
    assert forest["test_rmse"].iloc[1] == pytest.approx(rmse(y, np.mean(stored, axis=0)))
    singles = evidence_of([folder]).trials
    singles = singles[(singles["model"] == "random-forest") & (singles["dataset"] == "diabetes")]
    assert forest["test_rmse"].mean() < singles["test_rmse"].mean()


def test_the_report_has_seeds_and_ensembles_and_is_the_same_twice(folder, tmp_path):
    make_report([folder], tmp_path / "a")
    make_report([folder], tmp_path / "b")
    text = (tmp_path / "a" / "seeds.md").read_text()
    assert text == (tmp_path / "b" / "seeds.md").read_text()
    assert "disjoint fives" in text and "with 2 ensembles a model nothing can be" in text
    table = pd.read_csv(tmp_path / "a" / "seeds.csv")
    linear = table[(table["model"] == "linear") & (table["metric"] == "accuracy")]
    assert (linear["std"] == 0.0).all(), "a model without draws does not vary"


def test_targets_that_are_not_the_runs_own_give_no_ensemble_and_a_note(folder, monkeypatch):
    whole = catalog.load_dataset

    def other(name, **where):
        return replace(whole(name, **where), sha256="1" * 64)

    monkeypatch.setattr(catalog, "load_dataset", other)
    made = seed_ensembles.with_ensembles(evidence_of([folder]), [folder])
    assert made.ensembles is None
    (note,) = (n for n in made.facts.notes if n.startswith("No ensembles on iris: "))
    assert "the data is not what the run was made with" in note and "1" * 16 in note


def test_a_run_of_fewer_seeds_reads_no_dataset(folder, monkeypatch):
    monkeypatch.setattr(seed_ensembles, "SIZE", 12)
    evidence = evidence_of([folder])
    assert seed_ensembles.with_ensembles(evidence, [folder]) is evidence
