"""Tables that NPT takes, and how a fitted model is kept: categories alone, gaps, model files."""

from __future__ import annotations

import hashlib
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from small_tables import TINY, answers, table
from tabsweep.models.persistence.archive import ModelFileError, pack, to_json, unpack
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.persistence.schema import Schema
from tabsweep.models.registry import make_model

FEW = {**TINY["npt"], "steps": 6, "eval_every": 2}


def npt(task="regression", **given):
    return make_model("npt", task=task, **{**FEW, **given})


def fitted(task="regression", n=60, **given):
    return npt(task, **given).fit(*table(task, n))


# -- odd tables ---------------------------------------------------------------------------------


def kinds_of_tables():
    rng = np.random.default_rng(0)
    colour = pd.Series(rng.choice(list("abc"), 40), dtype="category")
    yield "one number", pd.DataFrame({"a": rng.normal(size=40)})
    yield "one category", pd.DataFrame({"c": colour})
    yield "categories", pd.DataFrame({"c": colour, "d": rng.choice(["x", "y"], 40)})
    yield "constants", pd.DataFrame({"a": rng.normal(size=40), "k": 3.0, "l": ["z"] * 40})
    yield (
        "empty category",
        pd.DataFrame({"a": rng.normal(size=40), "e": pd.Categorical([None] * 40)}),
    )


@pytest.mark.parametrize(
    ("name", "frame"), kinds_of_tables(), ids=[n for n, _ in kinds_of_tables()]
)
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_narrow_and_odd_tables_are_learnt_from(task, name, frame):
    y = np.arange(40.0) if task == "regression" else np.array(["no", "yes"] * 20)
    found = answers(npt(task).fit(frame, y), frame)
    assert np.isfinite(found).all() and np.ptp(found) > 0


def test_an_unseen_category_is_a_hidden_cell():
    frame, y = table("regression")
    model = npt().fit(frame, y)
    rows = frame.iloc[:3].assign(colour=["violet"] * 3)
    missing = frame.iloc[:3].assign(colour=pd.Categorical([None] * 3))
    assert np.array_equal(model.predict(rows), model.predict(missing))


# -- keeping --------------------------------------------------------------------------------------


def test_a_fitted_model_is_pickled_without_what_it_can_make_again():
    model = fitted(val_in_context=True)
    frame, _ = table("regression")
    before = model.predict(frame)
    assert model._loaded is not None and model._contexts
    back = pickle.loads(pickle.dumps(model))
    assert not {"_loaded", "_contexts"} & set(vars(back))
    assert back.predict(frame).tobytes() == before.tobytes()
    assert clone(model).get_params() == model.get_params()
    assert clone(model).fit(*table("regression")).predict(frame).tobytes() == before.tobytes()


def forged(path, change):
    """The file with another state, its checksums right."""
    members = dict(unpack(path.read_bytes()))
    manifest = json.loads(members.pop("manifest.json"))
    state = json.loads(members["state.json"])
    change(state)
    members["state.json"] = to_json(state)
    facts = manifest["members"]["state.json"]
    facts["bytes"] = len(members["state.json"])
    facts["sha256"] = hashlib.sha256(members["state.json"]).hexdigest()
    path.write_bytes(pack({**members, "manifest.json": to_json(manifest)}))


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(_loaded={"$": "object", "class": "subprocess:Popen", "state": {}}),
        lambda s: s.update(_contexts=[]),
        lambda s: s.update(_ready=3),
        lambda s: s.update(model_={"$": "object", "class": "torch.nn:Module", "state": {}}),
    ],
)
def test_a_model_file_that_says_more_than_a_fitted_model_is_refused(change, tmp_path):
    frame, _ = table("regression")
    path = save_model(fitted(), tmp_path / "m", schema=Schema.of(frame, "regression"))
    forged(path, change)
    with pytest.raises(ModelFileError):
        load_model(path)
