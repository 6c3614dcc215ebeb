"""Model files that are damaged or forged: each is refused, and runs nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from saved_models import (
    QUIET,
    archive_of,
    forge,
    make,
    saved,
    set_,
)
from tabsweep.models.persistence import archive as container
from tabsweep.models.persistence.allowlist import CLASSES
from tabsweep.models.persistence.checking_process import fault_of
from tabsweep.models.persistence.model_file import (
    ModelFileError,
    load_model,
    open_members,
)
from tabsweep.models.persistence.serialization import is_native


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


def test_a_member_that_does_not_match_its_checksum_is_named_with_both_hashes(tmp_path):
    path = saved(tmp_path, make("linear", "binary"), "binary")
    members = container.unpack(path.read_bytes())
    members["arrays.bin"] = bytes(len(members["arrays.bin"]))
    path.write_bytes(container.pack(members))
    with pytest.raises(ModelFileError, match="arrays.bin has sha256 .* its manifest says"):
        load_model(path)


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


@pytest.mark.fault(19)
def test_a_pickle_is_refused_alone_and_inside_an_archive(tmp_path, canary):
    bomb = pickle.dumps(Canary(canary))
    path = tmp_path / "m"
    for data, why in (
        (bomb, "looks like a pickle"),
        (archive_of([("model/data.pkl", bomb), ("version", b"3")]), "none that a saved"),
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
        ([("../x", b"")], "none that a saved"),
        ([("/etc/x", b"")], "none that a saved"),
        ([("..\\x", b"")], "none that a saved"),
        ([("state.json", b"{}"), ("state.json", b"{}")], "appears twice"),
        ([("run.py", b"")], "none that a saved"),
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


def narrower(rows, *widths, by=1):
    """An edit: the rows of scikit-learn's model have a feature less, or (None) are numbers; and
    attributes say the same width."""

    def edit(members):
        state = members["state.json"]["model_"]["state"]
        shape = state[rows]["shape"]
        n, width = shape
        shape[1:] = [width - by] if by else []
        for name in widths:
            state[name] = width - by if name == "n_features_in_" else {"$": "tuple", "items": shape}

    return edit


def hostile_states(canary):
    """(what, model, edit of the members): each is refused, whatever its checksums say."""

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
        ("narrow vectors", "svm", narrower("support_vectors_")),
        ("vectors of one number", "svm", narrower("support_vectors_", by=None)),
        ("a narrow machine", "svm", narrower("support_vectors_", "n_features_in_", "shape_fit_")),
        ("rows without answers", "knn", set_(*model, "state", "_y", value=[0, 1])),
        ("narrow neighbours", "knn", narrower("_fit_X")),
        ("neighbours of one number", "knn", narrower("_fit_X", by=None)),
        ("a narrow search", "knn", narrower("_fit_X", "n_features_in_")),
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


TREES = {"decision-tree", "random-forest", "gradient-boosting", "hist-gradient-boosting"}
COMPARED = {*TREES, "svm", "knn"}  # parts of scikit-learn


@pytest.mark.fault(19)
def test_forged_contents_are_refused_and_run_nothing(tmp_path, canary):
    honest: dict[str, bytes] = {}
    path = tmp_path / "m.tabsweep"
    cases = hostile_states(canary)
    assert len(cases) == 33
    for what, name, edit in cases:
        inside = name in COMPARED and name in honest  # not the first case of each
        if name not in honest:
            honest[name] = saved(tmp_path, make(name, "binary"), "binary").read_bytes()
            forge(path, lambda members: None)
            members = container.unpack(path.read_bytes())
            assert fault_of(path.read_bytes()) == ""  # the forger's tools work: it is read
            assert is_native(json.loads(members["state.json"])) == (name != "linear")
        path.write_bytes(honest[name])
        forge(path, edit)
        try:
            if inside:  # as the process that reads it first does, without its start
                open_members(container.unpack(path.read_bytes()), **QUIET)
            else:
                load_model(path, **QUIET)
            pytest.fail(f"{what} of {name} was loaded")
        except ModelFileError as error:
            assert len(str(error).splitlines()) == 1, what
            assert str(error).startswith("m.tabsweep: ") != inside
        assert not canary.exists(), what


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
