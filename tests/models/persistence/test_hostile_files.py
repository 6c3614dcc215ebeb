"""Model files that are damaged, forged or crafted: each is refused, and runs nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_models import QUIET, X, archive_of, forge, make, saved, set_
from sklearn.tree._tree import NODE_DTYPE
from tabsweep.models.base import BadState
from tabsweep.models.persistence import archive as container
from tabsweep.models.persistence import fit_state, trial_prediction
from tabsweep.models.persistence.allowlist import CLASSES
from tabsweep.models.persistence.checking_process import fault_of
from tabsweep.models.persistence.model_file import ModelFileError, load_model, open_members
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


def test_a_tree_of_histograms_that_would_walk_in_a_circle_is_refused(tmp_path):
    estimator = make("hist-gradient-boosting", "binary")
    path = saved(tmp_path, estimator, "binary")
    nodes = estimator.model_._predictors[0][0].nodes
    good = np.zeros(nodes.shape, nodes.dtype)
    for field in nodes.dtype.names:
        good[field] = nodes[field]
    bad = good.copy()
    bad["left"][0] = 0
    members = container.unpack(path.read_bytes())
    assert good.tobytes() in members["arrays.bin"]

    def edit(members):
        members["arrays.bin"] = members["arrays.bin"].replace(good.tobytes(), bad.tobytes())

    forge(path, edit)
    with pytest.raises(ModelFileError, match="child that is not there"):
        load_model(path)


# -- right checksums, crafted content -------------------------------------------------------------

CATBOOST = """
import sys
from catboost import CatBoost
CatBoost().load_model(blob=sys.stdin.buffer.read())
"""


@pytest.mark.fault(43)
def test_a_booster_that_crashes_its_library_is_refused_and_this_process_lives(tmp_path: Path):
    path = saved(tmp_path, make("catboost", "binary"), "binary")
    load_model(path, **QUIET)
    data = bytearray(container.unpack(path.read_bytes())["booster.cbm"])
    data[-1200:-1100] = b"\xff\xff\xff\x0f" * 25  # of the statistics of categories
    done = subprocess.run([sys.executable, "-c", CATBOOST], input=data, capture_output=True)
    assert done.returncode == -11, done  # it does crash
    forge(path, lambda members: members.update({"booster.cbm": bytes(data)}))
    with pytest.raises(ModelFileError, match=r"^m\.tabsweep: .*crashed.*signal 11.*refused$"):
        load_model(path, **QUIET)


def test_a_process_that_does_not_answer_or_cannot_start_is_no_endless_wait(tmp_path, monkeypatch):
    path = saved(tmp_path, make("decision-tree", "binary"), "binary")
    with monkeypatch.context() as short:
        short.setattr(trial_prediction, "WALL_S", 0.01)
        with pytest.raises(ModelFileError, match="not read within 0.01 s; refused"):
            load_model(path, **QUIET)
    (tmp_path / "sitecustomize.py").write_text("import atexit, os\natexit.register(os.abort)")
    with monkeypatch.context() as broken:  # a crash at the end says nothing about the file
        broken.setenv("PYTHONPATH", str(tmp_path))
        assert load_model(path, **QUIET).how == "state"
    (tmp_path / "sitecustomize.py").unlink()
    chatter = "import sys\nsys.stderr.write('no\\n' * 10**6)\n"
    (tmp_path / "numpy.py").write_text(chatter + "raise ImportError('numpy is broken here')")
    with monkeypatch.context() as broken:
        broken.setenv("PYTHONPATH", str(tmp_path))
        with pytest.raises(ModelFileError, match="has ended: ImportError: numpy is broken here"):
            load_model(path, **QUIET)
    assert load_model(path, **QUIET).how == "state"


def one_column_more(members: dict[str, Any]) -> None:
    members["manifest.json"]["schema"]["columns"].append({"name": "more", "kind": "numeric"})


def one_column_less(members: dict[str, Any]) -> None:
    members["manifest.json"]["schema"]["columns"].pop(0)


def no_nodes(nodes: np.ndarray, state: dict[str, Any]) -> np.ndarray:
    state["node_count"] = 0
    state["values"]["shape"][0] = 0
    return nodes[:0]


def other(field: str, value: int) -> Callable[[np.ndarray, dict[str, Any]], np.ndarray]:
    def edit(nodes: np.ndarray, state: dict[str, Any]) -> np.ndarray:
        if field in nodes.dtype.names:
            nodes[field][0] = value
        else:
            state[field] = value
        return nodes

    return edit


@pytest.mark.fault(43)
@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (no_nodes, "a tree without nodes"),
        (other("left_child", 0), "a child that is not there"),
        (other("right_child", 10**6), "a child that is not there"),
        (other("feature", 10**6), "a feature which is not there"),
        (other("max_depth", 0), "a tree of depth . that says 0"),
    ],
)
def test_a_forest_whose_trees_point_nowhere_is_refused_before_this_process_reads_it(
    edit: Any, why: str, tmp_path: Path
):
    path = saved(tmp_path, make("random-forest", "binary"), "binary")

    def crafted(members: dict[str, Any]) -> None:
        estimators = members["state.json"]["model_"]["state"]["estimators_"]
        state = dict(estimators[0]["state"]["tree_"]["state"]["items"])
        place = state["nodes"]
        nodes = np.frombuffer(
            members["arrays.bin"], NODE_DTYPE, place["shape"][0], place["at"]
        ).copy()
        nodes = edit(nodes, state)
        place["shape"], place["at"] = [len(nodes)], len(members["arrays.bin"])
        members["arrays.bin"] += nodes.tobytes()
        estimators[0]["state"]["tree_"]["state"]["items"] = [list(item) for item in state.items()]

    forge(path, crafted)
    with pytest.raises(ModelFileError, match=why):
        load_model(path, **QUIET)


MISFITS = {
    "classes that the schema lacks": set_("manifest.json", "schema", "classes", value=["a"]),
    "a column more": one_column_more,
    "a column less": one_column_less,
    "another task": set_("manifest.json", "schema", "task", value="regression"),
    "weights of another width": set_(
        "state.json", "model_", "state", "coef_", "shape", value=[1, 1]
    ),
}


@pytest.mark.fault(43)
def test_parts_that_do_not_fit_together_are_refused_at_load(tmp_path: Path):
    path = saved(tmp_path, make("linear", "binary"), "binary")
    honest = path.read_bytes()
    assert load_model(path, **QUIET).predict_proba(X, **QUIET).shape == (len(X), 2)
    for what, edit in MISFITS.items():
        path.write_bytes(honest)
        forge(path, edit)
        with pytest.raises(ModelFileError, match="fit together|another shape|says regression"):
            load_model(path, **QUIET)
            pytest.fail(f"a model with {what} was loaded")


@pytest.mark.fault(43)
def test_a_field_outside_of_its_rows_is_refused_before_it_is_read(tmp_path: Path):
    def crafted(state: Any) -> Any:
        text = json.dumps(state)
        assert '48, 56], "itemsize": 64' in text
        return json.loads(
            text.replace('48, 56], "itemsize": 64', '48, 2147483647], "itemsize": 64', 1)
        )

    def far(members: dict[str, Any]) -> None:
        members["state.json"] = crafted(members["state.json"])

    model = make("random-forest", "binary")
    path = saved(tmp_path, model, "binary")
    forge(path, far)
    with pytest.raises(ModelFileError, match="at byte 2147483647 of rows of 64 bytes"):
        load_model(path, **QUIET)

    members = fit_state.dump(model.model_)  # as a checkpoint of an unfinished fit holds it
    members["state.json"] = json.dumps(crafted(json.loads(members["state.json"]))).encode()
    with pytest.raises(BadState, match="at byte 2147483647 of rows of 64 bytes"):
        fit_state.load(members, threads=1)


def test_every_class_on_the_list_is_one_of_ours_or_scikit_learns():
    for name in CLASSES:
        assert name.split(".")[0] in ("tabsweep", "sklearn")
        assert "pipeline" not in name and "joblib" not in name
