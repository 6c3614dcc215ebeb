"""Saved models: the same predictions after loading, and no harm from a hostile file."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import pickle
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_tables import TINY
from tabsweep.benchmark.commands.fit import FitError, fit_chosen, predict_file, read_run
from tabsweep.benchmark.planning.own_tables import csv_suite
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.planning.suite import parse
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.running.request import Request
from tabsweep.benchmark.running.sweep import run
from tabsweep.datasets.catalog import load_dataset
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.infer import table_from_csv
from tabsweep.models import registry
from tabsweep.models.persistence import archive as container
from tabsweep.models.persistence.allowlist import CLASSES
from tabsweep.models.persistence.model_file import (
    ModelFileError,
    ModelWarning,
    load_model,
    save_model,
)
from tabsweep.models.persistence.schema import Schema, SchemaError
from tabsweep.sweeps.fingerprint import closure

SMALL = {"n_estimators": 8, "max_iter": 30}
QUIET = {"warn": lambda text: None}


def make_data(n=70):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "weight": rng.normal(size=n) * 100,
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], n)),
        }
    )
    X.loc[::9, "size"] = np.nan
    X.loc[::13, "kind"] = np.nan
    wave = X["weight"].to_numpy() + 50 * (X["kind"] == "a")
    y = {
        "binary": (wave > 0).astype(np.int64),
        "multiclass": np.digitize(wave, [-60, 60]).astype(np.int64),
        "regression": wave + 0.1,
    }
    return X, y


X, Y = make_data()
# Rows as they come later: gaps where training had none, and a kind that it never held.
LATER = pd.DataFrame(
    {
        "size": [0.1, np.nan, -3.0, 1e9],
        "weight": [np.nan, 5.0, -70.25, 1e-9],
        "kind": pd.Categorical(["z", "a", None, "c"]),
    }
)


def make(name, task, **config):
    known = registry.defaults(name)
    small = {k: v for k, v in SMALL.items() if k in known} | TINY.get(name, {}) | config
    return registry.make_model(name, task=task, seed=3, **small).fit(X, Y[task], X, Y[task])


def saved(tmp_path, estimator, task, **more):
    return save_model(estimator, tmp_path / "m.tabsweep", schema=Schema.of(X, task), **more)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def as_json(value):
    return json.dumps(value, sort_keys=True)  # a tuple of widths comes back as a list


def assert_predicts_alike(fitted, estimator, task):
    for frame in (X, LATER):
        assert same(fitted.predict(frame, **QUIET), estimator.predict(frame))
        if task != "regression":
            assert same(fitted.predict_proba(frame, **QUIET), estimator.predict_proba(frame))


# -- the law: what is loaded predicts what was saved ----------------------------------------------


@pytest.mark.parametrize(
    ("name", "task"),
    [(name, task) for name in sorted(registry.MODELS) for task in registry.spec(name).tasks],
)
def test_a_loaded_model_predicts_the_same_bytes_and_a_second_fit_saves_the_same_file(
    name, task, tmp_path
):
    estimator = make(name, task)
    path = saved(tmp_path, estimator, task, training=(X, Y[task], X, Y[task]))
    fitted = load_model(path)
    assert (fitted.how, fitted.name) == ("state", name)
    assert as_json(fitted.estimator.get_params()) == as_json(estimator.get_params())
    assert_predicts_alike(fitted, estimator, task)
    first = path.read_bytes()
    assert saved(tmp_path, make(name, task), task).read_bytes() == first
    assert saved(tmp_path, fitted.estimator, task).read_bytes() == first
    assert b"pickle" not in first


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
    fitted = load_model(saved(tmp_path, estimator, "multiclass"))
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


# -- damage ---------------------------------------------------------------------------------------


def test_a_change_of_any_byte_is_found(tmp_path):
    path = saved(tmp_path, make("constant", "binary"), "binary")
    data = path.read_bytes()
    for at in range(len(data)):
        wrong = data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]
        with pytest.raises(ModelFileError):
            container.unpack(wrong)
        if at % 50 == 0:
            path.write_bytes(wrong)
            with pytest.raises(ModelFileError, match=r"^m\.tabsweep: "):
                load_model(path, **QUIET)


def test_a_cut_or_lengthened_file_is_refused(tmp_path):
    path = saved(tmp_path, make("decision-tree", "binary"), "binary")
    data = path.read_bytes()
    for wrong in (b"", data[:3], data[: len(data) // 2], data[:-1], data + b"\0", b"x" + data):
        path.write_bytes(wrong)
        with pytest.raises(ModelFileError, match=r"m\.tabsweep: it "):
            load_model(path)
    with pytest.raises(ModelFileError, match="there is no such file"):
        load_model(tmp_path / "absent")


def forge(path, edit):
    """The file with members changed by `edit(members)` and every checksum right again."""
    members = container.unpack(path.read_bytes())
    members = {n: json.loads(d) if n.endswith(".json") else d for n, d in members.items()}
    edit(members)
    members = {n: json.dumps(d).encode() if n.endswith("json") else d for n, d in members.items()}
    manifest = json.loads(members.pop("manifest.json"))
    for name, data in members.items():
        manifest["members"][name] = {"bytes": 0, "sha256": hashlib.sha256(data).hexdigest()}
    path.write_bytes(container.pack({**members, "manifest.json": json.dumps(manifest).encode()}))


def test_a_member_that_does_not_match_its_checksum_is_named_with_both_hashes(tmp_path):
    path = saved(tmp_path, make("linear", "binary"), "binary")
    members = container.unpack(path.read_bytes())
    members["arrays.bin"] = bytes(len(members["arrays.bin"]))
    path.write_bytes(container.pack(members))
    with pytest.raises(ModelFileError, match="arrays.bin has sha256 .* its manifest says"):
        load_model(path)


# -- malice ---------------------------------------------------------------------------------------


class Canary:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.fixture
def canary(tmp_path):
    """Where a hostile file would leave a trace; the trap is proved to work, then armed."""
    path = tmp_path / "canary"
    pickle.loads(pickle.dumps(Canary(path)))
    assert path.exists()
    path.rmdir()
    yield path
    assert not path.exists()


def archive_of(names, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in names:
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.fault(19)
def test_a_pickle_is_refused_alone_and_inside_an_archive(tmp_path, canary):
    bomb = pickle.dumps(Canary(canary))
    path = tmp_path / "m"
    for data, why in (
        (bomb, "looks like a pickle"),
        (archive_of([("model/data.pkl", bomb), ("version", b"3")]), "is a pickle"),
        (
            archive_of([("state.json", bomb), ("manifest.json", bomb)]),
            "bytes beside|cannot be read",
        ),
    ):
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=why):
            load_model(path)


@pytest.mark.fault(12, 19)
def test_paths_doubles_strangers_and_bombs_are_refused_before_unpacking(tmp_path):
    path = tmp_path / "m"
    for names, why in (
        ([("../x", b"")], "is a path"),
        ([("/etc/x", b"")], "is a path"),
        ([("..\\x", b"")], "is a path"),
        ([("state.json", b"{}"), ("state.json", b"{}")], "appears twice"),
        ([("run.py", b"")], "is none that a saved model has"),
    ):
        with pytest.warns() if "twice" in why else contextlib.nullcontext():
            data = archive_of(names)
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=why):
            load_model(path)
    path.write_bytes(archive_of([("state.json", bytes(10**7))], zipfile.ZIP_DEFLATED))
    with pytest.raises(ModelFileError, match="refused before unpacking"):
        load_model(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def hostile_states(canary):
    """(what, model, edit of the members): each is refused, whatever its checksums say."""

    def set_(member, *keys, value):
        def edit(members):
            place = members[member]
            for key in keys[:-1]:
                place = place[key]
            place[keys[-1]] = value

        return edit

    def narrow(members):
        steps = members["state.json"]["model_"]["state"]["_preprocessor"]["state"]
        steps["transformers_"] = steps["transformers_"][:1]
        steps["output_indices_"]["items"] = steps["output_indices_"]["items"][:1]

    run_it = {"$": "tuple", "items": [str(canary)]}
    call = {"$": "object", "class": "os:mkdir", "state": {"args": run_it}}
    model = ("state.json", "model_")
    width = ("state.json", "preprocessor_", "state", "n_out_")
    objects = {"$": "array", "dtype": "|O", "shape": [1], "order": "C", "at": 0}
    far = {"$": "array", "dtype": "<f8", "shape": [10**9], "order": "C", "at": 0}
    deep = []
    for _ in range(200):
        deep = [deep]
    return [
        ("a function as a class", "linear", set_(*model, value=call)),
        ("a class off the list", "linear", set_(*model, "class", value="builtins:eval")),
        ("another kind", "linear", set_(*model, "$", value="eval")),
        ("a method as a kind", "linear", set_(*model, "$", value="read")),
        ("an array of objects", "linear", set_(*model, "state", "coef_", value=objects)),
        ("an array beyond the end", "linear", set_(*model, "state", "coef_", value=far)),
        ("endless nesting", "linear", set_(*model, "state", "coef_", value=deep)),
        ("a dunder", "linear", set_(*model, "state", "__class__", value=1)),
        ("a method", "linear", set_("state.json", "predict_proba", value=1)),
        ("a parameter", "linear", set_("state.json", "task", value=1)),
        ("another target", "linear", set_("manifest.json", "model", "target", value="os:mkdir")),
        ("a task", "linear", set_("manifest.json", "model", "task", value="x")),
        ("a parameter", "linear", set_("manifest.json", "model", "config", "path", value="x")),
        ("a number", "linear", set_("manifest.json", "model", "config", "C", value=-1)),
        ("a format", "linear", set_("manifest.json", "version", value=2)),
        ("no schema", "linear", set_("manifest.json", "schema", value={})),
        ("narrower rows", "decision-tree", set_(*width, value=1)),
        ("narrower rows", "random-forest", set_(*width, value=1)),
        ("narrower rows", "hist-gradient-boosting", set_(*width, value=1)),
        ("an odd machine", "svm", set_(*model, "state", "_n_support", value=[1, 1])),
        ("rows without answers", "knn", set_(*model, "state", "_y", value=[0, 1])),
        (
            "other rounds",
            "gradient-boosting",
            set_(*model, "state", "n_trees_per_iteration_", value=2),
        ),
        ("a narrowing", "hist-gradient-boosting", narrow),
        ("a broken booster", "xgboost", lambda m: m.update({"booster.ubj": b"{" * 99})),
        ("a broken booster", "lightgbm", lambda m: m.update({"booster.txt": b"tree\n" * 9})),
        ("a broken booster", "catboost", lambda m: m.update({"booster.cbm": b"CBM1" + bytes(99)})),
        ("no booster", "xgboost", lambda m: m.pop("booster.ubj")),
    ]


@pytest.mark.fault(19)
@pytest.mark.parametrize("case", range(27))
def test_forged_contents_are_refused_and_run_nothing(case, tmp_path, canary):
    cases = hostile_states(canary)
    assert len(cases) == 27
    what, name, edit = cases[case]
    path = saved(tmp_path, make(name, "binary"), "binary")
    forge(path, lambda members: None)
    load_model(path)  # the forger's tools work: an honest edit is read
    forge(path, edit)
    with pytest.raises(ModelFileError, match=r"^m\.tabsweep: [^\n]*$"):
        load_model(path, **QUIET)


@pytest.mark.parametrize("name", ["decision-tree", "hist-gradient-boosting"])
def test_a_tree_that_would_walk_in_a_circle_is_refused(name, tmp_path):
    estimator = make(name, "binary")
    path = saved(tmp_path, estimator, "binary")
    model = estimator.model_
    if name == "decision-tree":
        nodes = model.tree_.__reduce__()[2]["nodes"]
        child = "left_child"
    else:
        nodes, child = model._predictors[0][0].nodes, "left"
    good = np.zeros(nodes.shape, nodes.dtype)
    for field in nodes.dtype.names:
        good[field] = nodes[field]
    bad = good.copy()
    bad[child][0] = 0
    members = container.unpack(path.read_bytes())
    assert good.tobytes() in members["arrays.bin"]

    def edit(members):
        members["arrays.bin"] = members["arrays.bin"].replace(good.tobytes(), bad.tobytes())

    forge(path, edit)
    with pytest.raises(ModelFileError, match="child that is not there"):
        load_model(path)


def test_every_class_on_the_list_is_one_of_ours_or_scikit_learns():
    for name in CLASSES:
        assert name.split(".")[0] in ("tabsweep", "sklearn")
        assert "pipeline" not in name and "joblib" not in name


# -- models from elsewhere ------------------------------------------------------------------------

OUTSIDE = """
import pathlib
import numpy as np
pathlib.Path(r"{canary}").touch()

class Mean:
    "Remembers the mean; has no plain form, for it holds a function."
    def __init__(self, *, task, seed=0, shift=0.0):
        self.task, self.shift = task, shift
    def fit(self, X, y):
        self.answer = lambda: float(np.mean(y)) + self.shift + {noise}
        return self
    def predict(self, X):
        return np.full(len(X), self.answer())
"""


@pytest.fixture
def outside(tmp_path, monkeypatch):
    folder = tmp_path / "lib"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    # Which distribution owns which module takes a second to find out; the answer stays.
    known = functools.cache(metadata.packages_distributions)
    monkeypatch.setattr(metadata, "packages_distributions", known)

    def write(noise="0"):
        trace = tmp_path / "imported"
        (folder / "foreign_mean.py").write_text(OUTSIDE.format(canary=trace, noise=noise))
        sys.modules.pop("foreign_mean", None)
        return trace

    yield write
    sys.modules.pop("foreign_mean", None)


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
    assert len(manifest["refit"]["training_sha256"]) == 64
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


def test_other_library_versions_are_a_warning_that_names_both(tmp_path):
    path = saved(tmp_path, make("linear", "binary"), "binary")

    def edit(members):
        members["manifest.json"]["libraries"]["scikit-learn"] = "0.1.0"

    forge(path, edit)
    with pytest.warns(ModelWarning, match=r"saved with scikit-learn 0\.1\.0, here is"):
        load_model(path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = saved(tmp_path, make("linear", "binary"), "binary")
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        saved(tmp_path, make("linear", "multiclass"), "multiclass")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.tabsweep"]


# -- predictions for a CSV ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    """(model file, table, estimator) of a small regression on a CSV's table."""
    folder = tmp_path_factory.mktemp("houses")
    frame = X.assign(price=Y["regression"])
    frame.to_csv(folder / "houses.csv", index=False)
    table = table_from_csv(folder / "houses.csv", "price", task="regression")
    model = registry.make_model("random-forest", task="regression", n_estimators=5)
    model.fit(table.frame, table.target)
    schema = Schema.of(table.frame, "regression", target="price")
    return save_model(model, folder / "m", schema=schema), table, model


def ask(houses, tmp_path, text, **more):
    """(rows, warnings, lines of the output) of `bench predict` on a CSV with this text."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    heard: list[str] = []
    n = predict_file(houses[0], source, out, warn=heard.append, **more)
    return n, heard, out.read_text().splitlines()


def test_a_csv_of_the_training_rows_gives_the_predictions_in_memory(houses, tmp_path):
    _, table, model = houses
    text = table.frame.to_csv(index=False)
    n, heard, lines = ask(houses, tmp_path, text)
    assert (n, heard, lines[0]) == (len(table.frame), [], "prediction")
    assert np.array(lines[1:], dtype=float).tobytes() == model.predict(table.frame).tobytes()


def test_order_of_columns_byte_order_mark_and_extra_columns_do_not_matter(houses, tmp_path):
    plain = ask(houses, tmp_path, "size,weight,kind\n1,2,a\n,,\n")[2]
    text = "\ufeffkind,note,price,weight,size\na,hello,3,2.0,1\n,,,,\n"
    n, heard, lines = ask(houses, tmp_path, text)
    assert (n, lines) == (2, plain)
    assert heard == ["2 columns that the model does not know are ignored: 'note', 'price'"]


def test_unseen_categories_are_counted_and_predicted(houses, tmp_path):
    n, heard, lines = ask(houses, tmp_path, "size,weight,kind\n1,2,q\n1,2,r\n1,2,q\n1,2,a\n")
    assert n == 4 and len(lines) == 5
    assert len(heard) == 1
    assert (
        "column 'kind': 3 of 4 rows hold a category that training did not know ('q', 'r')"
        in (heard[0])
    )


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "size,wieght,kind\n1,2,a\n",
            SchemaError,
            "missing column 'weight' .did you mean 'wieght'",
        ),
        ("size\n1\n", SchemaError, "missing columns 'weight', 'kind'.*needs 3 columns"),
        ("size,weight,kind\n1,2,a\n1,many,a\n", SchemaError, r"'weight': 'many' on line 3 \(row 2"),
        ("size,weight,kind\n1,2,a\n1,2\n", DataError, "line 3 has 2 fields"),
        ("size,weight,kind,kind\n1,2,a,b\n", DataError, "2 columns are called 'kind'"),
        ("size,weight,kind\n", DataError, "a header and no rows"),
        ("", DataError, "the file is empty"),
        (b"size,weight,kind\n1,2,\xff\n", DataError, "not UTF-8"),
    ],
)
def test_bad_input_is_one_clear_error_and_the_old_output_stays(
    houses, tmp_path, text, error, message
):
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(error, match=message) as caught:
        ask(houses, tmp_path, text)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "out.csv").read_text() == "old"


def test_infinite_cells_count_as_missing_with_a_warning(houses, tmp_path):
    n, heard, lines = ask(houses, tmp_path, "size,weight,kind\ninf,2,a\n,2,a\n")
    assert lines[1] == lines[2]
    assert heard == ["column 'size': 1 infinite values count as missing"]


def test_an_output_that_would_replace_the_input_or_has_no_folder_is_refused(houses, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("size,weight,kind\n1,2,a\n")
    with pytest.raises(FitError, match="would replace what is read"):
        predict_file(houses[0], source, source)
    with pytest.raises(FitError, match="would replace what is read"):
        predict_file(houses[0], source, houses[0])
    with pytest.raises(FitError, match="a folder that is there"):
        predict_file(houses[0], source, tmp_path / "no" / "out.csv")


@pytest.mark.fault(13)
def test_classes_that_look_like_formulas_are_inert_and_numbers_stay_numbers(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0] * 10})
    target = np.array([0, 1, 2] * 10)
    model = registry.make_model("decision-tree", task="multiclass").fit(frame, target)
    classes = ("-1", '=HYPERLINK("x")', "@sum,a")
    schema = Schema.of(frame, "multiclass", classes=classes)
    path = save_model(model, tmp_path / "m", schema=schema)
    (tmp_path / "in.csv").write_text("a\n0\n1\n2\n")
    assert predict_file(path, tmp_path / "in.csv", tmp_path / "out.csv") == 3
    out = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert out["prediction"].tolist() == ["-1", '\'=HYPERLINK("x")', "'@sum,a"]
    assert list(out.columns[1:]) == [f"probability_{name}" for name in classes]
    assert out.iloc[:, 1:].astype(float).to_numpy().tolist() == np.eye(3).tolist()


def test_categories_that_are_numbers_are_found_however_they_are_written(tmp_path):
    kinds = pd.Categorical(["1", "2"] * 10, categories=["1", "2"])
    frame = pd.DataFrame({"k": kinds, "z": pd.Categorical(["01", "1"] * 10)})
    model = registry.make_model("decision-tree", task="binary").fit(frame, np.array([0, 1] * 10))
    schema = Schema.of(frame, "binary", classes=("one", "two"))
    path = save_model(model, tmp_path / "m", schema=schema)
    (tmp_path / "in.csv").write_text("k,z\n1.0,01\n2,1\n2.00,1\n")
    heard: list[str] = []
    predict_file(path, tmp_path / "in.csv", tmp_path / "out.csv", warn=heard.append)
    assert heard == []
    assert pd.read_csv(tmp_path / "out.csv")["prediction"].tolist() == ["one", "two", "two"]


def test_a_class_that_training_did_not_hold_has_probability_zero(tmp_path):
    model = registry.make_model("linear", task="multiclass").fit(X, Y["binary"] * 2)
    schema = Schema.of(X, "multiclass", classes=("low", "mid", "high"))
    fitted = load_model(save_model(model, tmp_path / "m", schema=schema))
    p = fitted.predict_proba(X)
    assert p.shape == (len(X), 3) and not p[:, 1].any()
    assert set(fitted.predict(X)) == {"low", "high"}


# -- the chosen configuration of a run ------------------------------------------------------------

SUITE = {
    "name": "fit-test",
    "title": "t",
    "datasets": ["diabetes", "iris"],
    "budgets": {
        "quick": {"models": ["constant", "knn", "lightgbm"], "folds": 3, "trials": 3}
        | {"sampler": "random", "model": {"lightgbm": {"fixed": {"n_estimators": 40}}}}
    },
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    request = Request(suite=parse(SUITE, "here"), options=Options(), runs=runs, name="a", workers=0)
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
    from tabsweep.benchmark.commands.fit import read_data, score_cell

    found = read_run(finished, "iris")
    data = read_data(found, mirror=None, cache=None, csv=None)
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


def test_a_model_without_a_score_on_some_fold_must_be_named(finished):
    found = read_run(finished, "iris")
    assert found.mean_loss("knn") is not None
    del found.chosen["knn"][0]
    assert found.mean_loss("knn") is None


@pytest.fixture(scope="module")
def csv_run(tmp_path_factory):
    """(folder of a finished run on a CSV, the CSV)."""
    folder = tmp_path_factory.mktemp("csv")
    file = folder / "houses.csv"
    X.assign(price=Y["regression"]).to_csv(file, index=False)
    suite, tables = csv_suite(file, "price", None)
    options = Options(models=("knn",), folds=2, trials=2)
    request = Request(suite=suite, options=options, runs=folder, name="a", workers=0, tables=tables)
    return run(request).folder, file


def test_a_csvs_owner_fits_and_predicts_the_file_itself(csv_run, tmp_path):
    folder, file = csv_run
    path = fit_chosen(folder, out=tmp_path / "m")
    assert load_model(path).schema.target == "price"
    heard: list[str] = []
    assert predict_file(path, file, tmp_path / "out.csv", warn=heard.append) == len(X)
    assert heard == ["1 column that the model does not know is ignored: 'price'"]


def test_a_csv_that_changed_or_went_is_refused_and_may_be_named_anew(csv_run, tmp_path):
    folder, file = csv_run
    data = file.read_bytes()
    moved = tmp_path / "moved.csv"
    moved.write_bytes(data)
    try:
        file.write_bytes(data + b"1,2,a,3\n")
        with pytest.raises(FitError, match="has sha256 .* the run saw .* was changed"):
            fit_chosen(folder, out=tmp_path / "m")
        file.unlink()
        with pytest.raises(FitError, match="not there any more; say where it is with --csv"):
            fit_chosen(folder, out=tmp_path / "m")
        assert not (tmp_path / "m").exists()
        assert Path(fit_chosen(folder, out=tmp_path / "m", csv=moved)).exists()
    finally:
        file.write_bytes(data)


def test_a_catalogued_dataset_that_changed_since_the_run_is_refused(finished, monkeypatch):
    from dataclasses import replace

    from tabsweep.datasets import catalog

    other = replace(load_dataset("iris"), sha256="0" * 64)
    monkeypatch.setattr(catalog, "load_dataset", lambda name, **_: other)
    with pytest.raises(FitError, match="is not the data of this run"):
        fit_chosen(finished, dataset="iris")


def test_a_model_from_elsewhere_in_a_run_is_imported_only_where_the_caller_names_it(
    outside, tmp_path
):
    trace = outside()
    options = Options(models=("foreign_mean:Mean",), datasets=("diabetes",), folds=2, trials=1)
    request = Request(
        suite=parse(SUITE, "here"), options=options, runs=tmp_path, name="a", workers=0
    )
    folder = run(request).folder
    sys.modules.pop("foreign_mean")
    trace.unlink()
    with pytest.raises(FitError, match="if you trust it, name it: --model foreign_mean:Mean"):
        fit_chosen(folder)
    assert not trace.exists()
    path = fit_chosen(folder, model="foreign_mean:Mean")
    fitted = load_model(path, trust=["foreign_mean:Mean"])
    diabetes = load_dataset("diabetes")
    assert fitted.how == "refit"
    assert fitted.predict(diabetes.frame)[0] == pytest.approx(diabetes.target.mean())


def test_a_model_from_elsewhere_that_stops_early_keeps_a_validation_part(outside, tmp_path):
    from tabsweep.benchmark.commands.fit import Choice, fit_all
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
    model, training, said = fit_all("stopper:Stopper", choice, table, folds, 0)
    assert model.seen == (len(training[0]), len(folds[0].val))
    assert sum(model.seen) == table.n_rows and "validation part" in said
