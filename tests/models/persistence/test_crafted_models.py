"""Model files with right checksums and crafted content: refused at load; this process lives on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_models import QUIET, X, forge, make, saved, set_
from sklearn.tree._tree import NODE_DTYPE
from tabsweep.models.base import BadState
from tabsweep.models.persistence import fit_state, trial_prediction
from tabsweep.models.persistence.archive import unpack
from tabsweep.models.persistence.model_file import ModelFileError, load_model

CATBOOST = """
import sys
from catboost import CatBoost
CatBoost().load_model(blob=sys.stdin.buffer.read())
"""


@pytest.mark.fault(43)
def test_a_booster_that_crashes_its_library_is_refused_and_this_process_lives(tmp_path: Path):
    path = saved(tmp_path, make("catboost", "binary"), "binary")
    load_model(path, **QUIET)
    data = bytearray(unpack(path.read_bytes())["booster.cbm"])
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
