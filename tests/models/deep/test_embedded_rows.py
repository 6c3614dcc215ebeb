"""Embeddings of numbers as a setting: every kind, in every model that has it, on odd tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from looped import each
from small_tables import NAMES, TINY, answers, table
from tabsweep.models.deep.layers.number_embedding import BINNED, KINDS
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.persistence.schema import Schema
from tabsweep.models.registry import defaults, make_model

EMBEDDED = [name for name in NAMES if "number_embedding" in defaults(name)]
CASES = [(name, kind) for name in EMBEDDED for kind in KINDS if kind != "none"]
SMALL = {"number_frequencies": 3, "number_bins": 5, "number_width": 4}


def model(name, task, kind, **config):
    small = {key: value for key, value in SMALL.items() if key in defaults(name)}
    return make_model(
        name, task=task, number_embedding=kind, **{**TINY[name], "epochs": 2, **small, **config}
    )


FRAME, Y = table("regression", 40)
TABLES = {
    "mixed": FRAME,
    "categories alone": FRAME[["colour"]],
    "constant numbers and categories": FRAME[["constant", "empty", "colour"]],
    "one number": FRAME[["a"]],
    "a 0/1 number": pd.DataFrame({"a": (FRAME["a"] > 0).astype(float)}),
    "tiny steps": pd.DataFrame({"a": 1e9 + np.arange(40) * 1e-3, "b": FRAME["a"]}),
}
ODD = ("mlp", "ft-transformer")  # a row as one vector, and as tokens


@each(
    ("name", "kind", "of"),
    [(*case, of) for case in CASES for of in TABLES if case[0] in ODD or of == "mixed"],
)
def test_every_kind_answers_odd_tables(name, kind, of):
    for n in (2, 3, 40) if of == "one number" else (40,):
        part = TABLES[of].iloc[-n:]
        scale = "standard" if n == 40 else "quantile"
        fitted = model(name, "regression", kind, numeric=scale).fit(part, Y[-n:])
        asked = part.copy()
        asked[asked.select_dtypes("number").columns] = 1e30 if n < 40 else 1e6
        for rows in (part, asked):
            assert np.isfinite(answers(fitted, rows)).all(), (of, n)


@each(("name", "kind"), CASES)
def test_a_fit_with_vectors_goes_on_from_a_state_and_is_saved_and_read(name, kind, tmp_path):
    frame, y = table("multiclass", 48)
    states = {}
    given = {"stop": 2, "every": 1, "save": states.__setitem__}
    fitted = model(name, "multiclass", kind).fit_to(frame, y, **given)
    whole = answers(fitted, frame)
    again = model(name, "multiclass", kind)
    again.fit_to(frame, y, stop=2, every=1, start=(1, states[1]))
    assert again.resumed_from_ == 1
    assert answers(again, frame).tobytes() == whole.tobytes()
    save_model(fitted, tmp_path / f"{name}-{kind}", schema=Schema.of(frame, "multiclass"))
    back = load_model(tmp_path / f"{name}-{kind}").estimator
    assert answers(back, frame).tobytes() == whole.tobytes()


@each(("name", "kind"), [case for case in CASES if case[1] in BINNED])
def test_bins_come_from_training_rows_alone(name, kind):
    frame, y = table("binary", 60)
    other = frame.iloc[40:].assign(a=1e3)
    fits = [
        model(name, "binary", kind, numeric="standard").fit(frame[:40], y[:40], *val)
        for val in ((frame[40:], y[40:]), (other, y[40:]))
    ]
    for first, second in zip(*(fit.bins_ for fit in fits), strict=True):
        np.testing.assert_array_equal(first, second)
    assert fits[0].bins_[0].max() < 10


def test_only_the_tree_looks_at_the_target():
    frame, y = table("regression", 200)
    columns, turned = frame[["a", "b"]].fillna(0.0), np.sin(3 * frame["a"].to_numpy())
    fits = {
        (kind, i): model("mlp", "regression", kind, epochs=1).fit(columns, target).bins_[0]
        for kind in BINNED
        for i, target in enumerate((y, turned))
    }
    assert np.array_equal(fits["ple-quantile", 0], fits["ple-quantile", 1])
    assert not np.array_equal(fits["ple-tree", 0], fits["ple-tree", 1])


@each("name", [name for name in EMBEDDED if defaults(name)["number_embedding"] == "none"])
def test_without_vectors_their_settings_change_nothing(name):
    frame, y = table("binary", 40)
    settings = {key: 7 for key in SMALL if key in defaults(name)}
    fits = [
        make_model(name, task="binary", **{**TINY[name], "epochs": 2, **more}).fit(frame, y)
        for more in ({}, {**settings, "number_sigma": 0.5})
    ]
    assert len({answers(fit, frame).tobytes() for fit in fits}) == 1


@pytest.mark.parametrize("kind", ["plr", "ple-quantile", "ple-tree"])
def test_vectors_let_a_small_network_see_steps_that_it_missed(kind):
    """A target that jumps up and down along one number (Gorishniy et al. 2022, Fig. 2)."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 1))
    y = np.where(np.floor(x[:, 0] * 8) % 2 == 0, 1.0, -1.0)
    config = {"n_layers": 1, "width_first": 32, "epochs": 60, "lr": 0.01, "patience": 0}
    config |= {"number_leaf_rows": 10}
    plain, embedded = (
        make_model("mlp", task="regression", number_embedding=k, number_sigma=1.0, **config)
        .fit(x, y)
        .score(x, y)
        for k in ("none", kind)
    )
    assert embedded > plain + 0.3
