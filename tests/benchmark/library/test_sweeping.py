"""`tabsweep.sweep` and `tabsweep.leaderboard`: the ordinary engine on a DataFrame."""

from __future__ import annotations

import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import tabsweep
from sklearn.base import clone
from tabsweep.benchmark.errors import NoRun, SweepError
from tabsweep.benchmark.library import sweeping
from tabsweep.benchmark.library.frames import FrameColumns, FrameData, label_text
from tabsweep.benchmark.library.sweeping import SweepResult, model_name
from tabsweep.benchmark.outcome.chosen_fit import read_data, read_run
from tabsweep.datasets.infer import DataError, Reading, table_from_file
from tabsweep.datasets.table import Table, categorical_column


def frame(n=80):
    """A table of every kind of column; the target is decided by two of them."""
    rng = np.random.default_rng(4)
    size, rooms = rng.normal(50, 10, n), rng.integers(1, 4, n)
    dear = size / 5 + 3 * rooms > np.median(size / 5 + 3 * rooms)
    return pd.DataFrame(
        {
            "size": [f"{v * 1000:,.0f}" for v in size],
            "rooms": pd.Categorical(rooms),
            "day": pd.Timestamp("2024-05-01") + pd.to_timedelta(np.arange(n), unit="D"),
            "dear": dear,
            "city": rng.choice(["Ulm", "NA", None], n),
        }
    )


class OwnKNN(tabsweep.KNNClassifier):
    """No model of the registry, though its base is."""


def small_sweep(data, *target, runs, **more):
    """One trial on one fold, in this process, without a word and without a report."""
    how = {"trials": 1, "folds": 1, "workers": 0, "verbose": 0, **more}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeping, "make_report", lambda *given: None)
        return tabsweep.sweep(data, *target, runs=runs, **how)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    models = ["knn", "LinearClassifier", tabsweep.DecisionTreeClassifier]
    return tabsweep.sweep(
        frame(), "dear", models=models, trials=2, runs=runs, workers=0, verbose=0
    ), runs


def test_a_sweep_of_a_frame_is_a_run_that_every_command_knows(swept):
    result, runs = swept
    board = result.leaderboard()
    assert sorted(board["model"]) == ["decision-tree", "knn", "linear"]
    assert board["rank"].is_monotonic_increasing and (board["n_datasets"] == 1).all()
    assert (board["trials"] == 3).all() and (board["failed"] == 0).all()
    assert board["test_roc_auc"].between(0.5, 1).all() and board["fit_s"].notna().all()
    pd.testing.assert_frame_equal(tabsweep.leaderboard(result.run), board)
    assert len(result.results()) == 9 == len(tabsweep.load_results(result.run))
    assert (runs / f"{result.run.name}.arrow").exists()
    assert result.report().read_text().startswith("<!doctype html>")
    assert "knn" in result._repr_html_() and "index.html" in result._repr_html_()
    assert "9 trials of 3 models" in repr(result)


def test_the_best_model_predicts_the_labels_of_the_frame_from_its_columns(swept):
    result, _ = swept
    table = frame()
    model = result.best_model
    assert model is result.best_model and model.classes_.tolist() == [False, True]
    predicted = model.predict(table.drop(columns="dear"))
    assert (predicted == table["dear"]).mean() > 0.7
    again = pickle.loads(pickle.dumps(model)).predict(table.drop(columns="dear"))
    np.testing.assert_array_equal(again, predicted)
    opened = SweepResult(result.run).best_model  # as another session sees it
    file = table_from_file(result.run.with_suffix(".arrow"), Reading("dear", task="classification"))
    assert (opened.predict(file.frame) == predicted.astype(str)).all()


def test_the_same_sweep_again_runs_nothing_and_more_trials_extend_it(swept):
    result, runs = swept
    program = (
        "import sys, pickle, tabsweep\n"
        "frame = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for trials in (1, 1, 2):\n"
        "    result = tabsweep.sweep(frame, 'dear', models=['knn'], trials=trials,"
        " runs=sys.argv[2], name='again', workers=0)\n"
        "    print(len(result.results()), 'ray' in sys.modules)\n"
    )
    file = runs / "frame.pkl"
    file.write_bytes(pickle.dumps(frame()))
    command = [sys.executable, "-c", program, str(file), str(runs)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["2 False", "2 False", "3 False"]  # with a bag
    planned = [line for line in told.stderr.splitlines() if "planned" in line]
    finished = ["finished" in line for line in planned]
    assert finished == [False, True, True]


def test_a_class_of_the_script_itself_is_refused_at_the_start(tmp_path):
    """Workers cannot import it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import tabsweep\n"
        "class Model:\n"
        "    pass\n"
        "tabsweep.sweep('iris', models=['__main__:Model'], runs='runs', workers=0)\n"
    )
    told = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 1 and "__main__" in told.stderr.splitlines()[-1], told.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_a_regression_and_a_dataset_of_the_catalogue_are_swept_too(tmp_path):
    values = np.linspace(1, 2, len(frame()))
    table = frame().drop(columns="dear")
    priced = table.assign(größe=[Decimal(f"{v:.3f}") for v in values])  # numbers of any type
    result = small_sweep(priced, "größe", models=["linear"], runs=tmp_path)
    assert "test_rmse" in result.leaderboard()
    assert result.best_model.predict(table).dtype == np.float64
    known = small_sweep("iris", models=["knn"], runs=tmp_path)
    assert known.run.name == "only-iris-quick"
    assert known.best_model.predict(tabsweep.load_dataset("iris").frame).shape == (150,)


def test_metric_costs_and_the_positive_class_are_said_in_the_labels_of_the_frame(tmp_path):
    how = {"models": ["linear"], "runs": tmp_path}
    f1 = small_sweep(frame(), "dear", metric="f1", positive=False, **how)
    assert "test_f1" in f1.leaderboard() and list(f1.best_model.classes_) == [True, False]
    found = small_sweep(frame(), "dear", metric="cost", costs={True: 3}, name="c", **how)
    assert "test_cost" in found.leaderboard()
    X, model = frame().drop(columns="dear"), found.best_model
    cheapest = model.predict_proba(X) @ [[0, 1], [3, 0]]  # in the order of False, True
    assert model.predict(X).tolist() == (cheapest.argmin(axis=1) == 1).tolist()
    for labels in (frame()["dear"], frame()["rooms"]):  # the same classes, others
        fresh = clone(model).fit(X, labels)
        assert fresh.predict(X).tolist() == model.fit(X, labels).predict(X).tolist()
    costs = FrameData(frame(), "dear").reading(None, {False: 2, (True, False): 3}).costs
    assert costs == ("False=2.0", "True:False=3.0")
    for odd in ((), (True,), (True, False, True)):
        with pytest.raises(SweepError, match="no label"):
            FrameData(frame(), "dear").reading(None, {odd: 3})
    names = frame().assign(dear=["a", "b", "a:b", "b:c"] * (len(frame()) // 4))
    said = {("a", "b"): 3, ("a", "b:c"): 2, "a:b": 4, ("b", "a"): 5}
    costs = FrameData(names, "dear").reading(None, said).costs
    assert costs == ('["a", "b"]=3.0', '["a", "b:c"]=2.0', "a:b=4.0", "b:a=5.0")
    with pytest.raises(SweepError, match="no label 'no'"):
        small_sweep(frame(), "dear", metric="cost", costs={(True, "no"): 3}, **how)
    with pytest.raises(SweepError, match="no label 'yes'"):
        small_sweep(frame(), "dear", metric="f1", positive="yes", **how)


def test_groups_times_and_weights_of_a_frame_are_those_of_its_run_and_no_features(tmp_path):
    table = frame().assign(
        who=[f"0{k}" for k in np.repeat(np.arange(20), 4)], counts=np.tile([0.5, 2.0], 40)
    )
    grouped = small_sweep(
        table, "dear", group="who", weight="counts", models=["linear"], runs=tmp_path
    )
    read, folds = read_data(read_run(grouped.run, None))
    assert list(read.frame) == ["size", "rooms", "day", "city"]
    assert read.weights.tolist() == table["counts"].tolist()
    parts = [set(table["who"].iloc[rows]) for rows in (folds[0].train, folds[0].val, folds[0].test)]
    assert sum(map(len, parts)) == table["who"].nunique()
    assert list(grouped.best_model.feature_names_in_) == ["size", "rooms", "day", "city"]
    assert len(grouped.best_model.predict(frame().drop(columns="dear"))) == 80

    shuffled = table.drop(columns=["who", "counts"]).sample(frac=1, random_state=1)
    timed = small_sweep(shuffled, "dear", time="day", models=["knn"], runs=tmp_path)
    _, folds = read_data(read_run(timed.run, None))
    days = shuffled["day"].to_numpy()
    assert days[folds[0].train].max() <= days[folds[0].test].min()

    with pytest.raises(SweepError, match="no column 'whom' to take as group; did you mean 'who'"):
        small_sweep(table, "dear", group="whom", runs=tmp_path)
    with pytest.raises(DataError, match="cannot be the target and the group column as well"):
        small_sweep(table, "dear", group="dear", runs=tmp_path)
    with pytest.raises(SweepError, match="is a file: give a DataFrame"):
        small_sweep(str(tmp_path / f"{timed.run.name}.arrow"), "dear", runs=tmp_path)


def test_the_file_holds_what_the_library_reads(tmp_path):
    data = FrameData(frame(), "dear")
    path, name = data.write(tmp_path, None)
    table = table_from_file(path, data.reading())
    kinds = {"size": "numeric", "rooms": "categorical", "day": "date", "city": "categorical"}
    assert table.kinds == kinds and name.startswith("dear-")
    assert list(table.frame["rooms"].cat.categories) == ["1", "2", "3"]
    assert set(table.frame["city"].cat.categories) == {"NA", "Ulm"}
    assert table.classes == ("False", "True") == tuple(map(label_text, (False, True)))
    read = data.columns.read(data.features)
    np.testing.assert_array_equal(table.frame["size"], read["size"])


LABELS = {  # of a column of text or objects -> the class names in the run
    "numbers of any notation": (["$5", "0,5", "01", "1.0", "1e3"],) * 2,
    "marks of gaps": (["NA", "None", "inf"],) * 2,
    "a blank": ([" ", "some"], ("y=' '", "y='some'")),
    "blanks": (["a b", "a  b", "c"], ("y='a  b'", "y='a b'", "y='c'")),
    "types": ([1, "1"], ("y='1'", "y=1")),
    "numbers": ([1.0, 2.5], ("1", "2.5")),
    "words": (["no", "yes"], ("no", "yes")),
}


def labelled(labels):
    """A number that tells the label of each row."""
    x = np.arange(48.0)
    y = np.array(labels, dtype=object)[(x * len(labels) // len(x)).astype(int)]
    return pd.DataFrame({"x": x, "y": y})


def test_labels_of_any_text_have_a_class_of_their_own_in_the_file(tmp_path):
    for labels, names in LABELS.values():
        data = FrameData(labelled(labels), "y", task="classification")
        path, _ = data.write(tmp_path, None)
        assert table_from_file(path, Reading("y", task="classification")).classes == tuple(names)
        assert {repr(data.labels[name]) for name in names} == set(map(repr, labels))


@pytest.mark.parametrize("case", ["blanks", "types", "numbers"])
def test_the_best_model_gives_labels_back(case, tmp_path):
    labels, _ = LABELS[case]
    table = labelled(labels)
    result = small_sweep(table, "y", models=["knn"], runs=tmp_path, task="classification")
    predicted = result.best_model.predict(table[["x"]])
    assert set(map(repr, predicted.tolist())) == set(map(repr, labels))
    assert (predicted == table["y"]).mean() > 0.9


def test_labels_that_a_file_cannot_tell_apart_are_refused():
    class Nameless:
        def __str__(self):
            return "thing"

    table = pd.DataFrame({"x": np.arange(20.0), "y": [Nameless(), Nameless()] * 10})
    with pytest.raises(SweepError, match="same text, 'y=thing'"):
        FrameData(table, "y")
    with pytest.raises(SweepError, match="'regression' for numbers that are written as text"):
        FrameData(pd.DataFrame({"x": 1.0, "y": [f"{1000 + i:,}" for i in range(40)]}), "y")
    large = table.assign(y=[2**53, 2**53 + 1] * 10)
    with pytest.raises(SweepError, match="same as float64"):
        FrameData(large, "y")
    assert len(FrameData(large, "y", task="classification").labels) == 2
    with pytest.raises(SweepError, match="2 columns of the DataFrame are called 'y'"):
        FrameData(pd.DataFrame(np.zeros((20, 3)), columns=["x", "y", "y"]), "y")
    with pytest.raises(SweepError, match="neither numbers nor labels, such as lists"):
        FrameData(pd.DataFrame({"x": np.arange(20.0), "y": [[1], [2]] * 10}), "y")


def test_categories_stay_categories_whatever_their_texts_and_the_name_of_their_column(tmp_path):
    texts = ["1", "1.5", "0,5", "1,234", "1 000", "1'000", "1.234.567", "-.5", "1e3", "inf", "+2"]
    texts += ["1 000,5", "1.000,5", "12 High St", "1-2", "red", "1.2.3", "True", "NA", "-", "007"]
    texts += ["40 %", "$5", "12 kg", "2024-01-31", "1.10", "1_000", "90000000000000001"]
    columns = {f" {a}  {b}": [a, b] for a in texts for b in ("5", "1.1", "word") if a != b}
    table = pd.DataFrame({name: pd.Categorical(values * 20) for name, values in columns.items()})
    data = FrameData(table.assign(y=["a", "b", "b", "a"] * 10), "y")
    read = data.columns.read(data.features)
    path, _ = data.write(tmp_path, None)
    found = table_from_file(path, data.reading()).frame
    assert list(found) == list(read) == [" ".join(name.split()) for name in columns]
    for name, values in columns.items():
        clean = " ".join(name.split())
        assert found[clean].tolist() == read[clean].tolist() == values * 20
    same = pd.DataFrame({"a b": [1.0, 2.0], " a  b": [1.0, 2.0], "y": ["a", "b"]})
    with pytest.raises(SweepError, match="both called 'a b'"):
        FrameData(same, "y")


def test_names_and_levels_of_a_table_stay_and_numbers_of_a_frame_become_its_levels():
    kind = categorical_column(["Some  college", "Some college", "kind=a"])
    columns = {"x  y": kind, "size": categorical_column(["1", "2", None])}
    table = Table("t", pd.DataFrame(columns), np.arange(3) % 2, "binary", ("a", "b"), "")
    reader = FrameColumns.of_table(table)
    read = reader.read(table.frame)
    assert list(read) == ["x  y", "size"] and read["x  y"].tolist() == kind.tolist()
    read = reader.read(table.frame.assign(size=[1, 2.0, None]))
    assert read["size"].tolist() == ["1", "2", None]


def test_large_whole_numbers_beside_a_gap_stay_apart_as_categories():
    ids = [2**54 + 1, 2**54 + 2, None]
    table = pd.DataFrame({"id": pd.Series(ids, dtype="Int64").astype("category"), "y": [1, 2, 1]})
    data = FrameData(table, "y", task="classification")
    assert data.columns.read(data.features)["id"].tolist() == [id and str(id) for id in ids]


def test_free_text_is_read_and_every_notice_is_a_warning(tmp_path):
    said = [f"{'old new'.split()[i % 2]} house number {i} of the street" for i in range(40)]
    table = pd.DataFrame({"x": np.arange(40.0), "said": said, "y": ["a", "b"] * 20})
    with pytest.warns(tabsweep.ColumnNotice, match="free text") as told:
        read = small_sweep(table, "y", models=["knn"], runs=tmp_path)
    assert len(told) == 1 and told[0].filename == __file__
    without = small_sweep(table.drop(columns="said"), "y", models=["knn"], runs=tmp_path)
    scores = [one.leaderboard()["test_roc_auc"].iloc[0] for one in (read, without)]
    assert scores[0] > scores[1]


def test_the_best_model_takes_an_array_by_the_positions_of_its_columns(swept):
    result, _ = swept
    table = frame().drop(columns="dear")
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        predicted = result.best_model.predict(table.to_numpy(dtype=object))
    np.testing.assert_array_equal(predicted, result.best_model.predict(table))


def test_importances_of_a_swept_model_stand_in_the_order_of_the_frame_whatever_its_names(tmp_path):
    rng = np.random.default_rng(2)
    values = rng.normal(size=(80, 2)).round(2)
    kind = pd.Categorical(rng.choice([5, 7], 80))
    for names in (["a", "number  of rooms", " kind "], [7, 0, 3]):
        table = pd.DataFrame(dict(zip(names, (*values.T, kind), strict=True)))
        target = "y" if isinstance(names[0], str) else 1
        table[target] = np.where((values[:, 1] > 0) ^ (kind == 5), "b", "a")
        swept = small_sweep(table, target, models=["random-forest"], runs=tmp_path)
        found = swept.best_model.feature_importances_
        assert np.isclose(found.sum(), 1) and found.argmin() == 0 and found.min() < 0.25


def test_the_best_of_several_classes_of_the_user_is_fitted_and_explained(tmp_path, monkeypatch):
    (tmp_path / "two_own.py").write_text(
        "from sklearn.dummy import DummyRegressor as Mean\n"
        "from sklearn.linear_model import LinearRegression\n"
        "class Line(LinearRegression):\n"
        "    name = 'line'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    x = np.arange(40)
    monkeypatch.chdir(tmp_path)
    models = ["two_own.py:Mean", "two_own:Line"]
    result = small_sweep(
        pd.DataFrame({"x": x, "y": 3.0 * x + x % 2}), "y", models=models, runs=tmp_path
    )
    assert abs(result.best_model.predict(pd.DataFrame({"x": x})) - 3 * x).max() < 2
    for asked in ((), ["line"], ["two_own:Line"]):
        assert result.feature_importance(asked, repeats=1)["model"].tolist() == ["line"]
    with pytest.raises(SweepError, match="is a list"):
        result.feature_importance("line")


def test_what_cannot_be_swept_is_refused_before_anything_runs(tmp_path):
    table = frame()
    for given, words in (
        ({"target": None}, "which column"),
        ({"target": "price"}, "'price'"),
        ({"target": "dear", "task": "ranking"}, "'ranking'"),
        ({"target": "city"}, "missing in"),
        ({"target": "dear", "models": [tabsweep.KNNClassifier(n_neighbors=3)]}, "n_neighbors"),
        ({"target": "dear", "models": [3]}, "give a name"),
        ({"target": "dear", "models": [OwnKNN]}, "a class of your own as 'module:Class'"),
        ({"target": "dear", "models": "knn"}, r"models=\['knn'\]"),
        ({"target": "dear", "categorical_features": "city"}, r"categorical_features=\['city'\]"),
        ({"target": "dear", "trials": 0}, "`trials` must be a whole number of at least 1, not 0"),
        ({"target": "dear", "folds": 2.5}, "`folds` must be a whole number"),
        ({"target": "dear", "seed": -1}, "`seed` must be"),
        ({"target": "dear", "workers": -1}, "`workers` must be"),
        ({"target": table["dear"]}, "name of a column, not its values"),
        ({"target": ["dear"]}, "name of a column, not its values"),
        ({"target": table["dear"].to_numpy()}, "name of a column, not its values"),
    ):
        with pytest.raises(SweepError, match=words):
            tabsweep.sweep(table, runs=tmp_path, **given)
    with pytest.raises(tabsweep.Error, match="'day' holds dates"):
        tabsweep.sweep(table, "day", runs=tmp_path)
    assert "'day' has 7 dates; taken as classes" in FrameData(table[:7], "day").notes[0]
    with pytest.raises(SweepError, match="not list"):
        tabsweep.sweep([[1]], "x", runs=tmp_path)
    with pytest.raises(SweepError, match="already"):
        tabsweep.sweep("iris", "species", runs=tmp_path)
    for given in ({"task": "regression"}, {"categorical_features": ["x"]}):
        with pytest.raises(SweepError, match="has its task and kinds of columns already"):
            tabsweep.sweep("iris", runs=tmp_path, **given)
    with pytest.raises(SweepError, match=r"several types \(int, str\)"):
        tabsweep.sweep(table.rename(columns={"size": 0}), "dear", runs=tmp_path)
    FrameData(table, "dear").write(tmp_path, "mine")
    with pytest.raises(SweepError, match="holds other data"):
        FrameData(table[:50], "dear").write(tmp_path, "mine")
    with pytest.raises(NoRun):
        tabsweep.leaderboard(tmp_path)
    assert model_name("knn") == model_name(tabsweep.KNNRegressor()) == "knn"
