"""Does a fit that stops and goes on equal the one that did not stop?

The registry writes the matrix: every model with a `resource` is held to these laws.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_tables import TINY, answers, table
from tabsweep.models import registry
from tabsweep.models.base import InvalidConfig
from tabsweep.models.persistence.archive import MEMBERS, pack, to_json, unpack
from tabsweep.models.registry import MODELS, make_model
from tabsweep.models.resumable import BadState, Stepwise, boundaries, seed_at

HERE = Path(__file__).parent
STOP, EVERY, LENGTH = 9, 3, 12
STEPPED = [name for name, spec in MODELS.items() if spec.resource]
NETWORKS = [name for name in STEPPED if name in TINY]
# Trees draw nothing with the default configuration, and all that can be drawn with the other; a
# network draws with both, and from batches with the other.
DRAWING = {
    "autoint": {"batch_size": 16, "attention_dropout": 0.3, "residual_dropout": 0.2},
    "catboost": {"categorical": "one-hot", "bagging_temperature": 1.0},
    "dcn-v2": {"batch_size": 16, "hidden_dropout": 0.5, "cross_dropout": 0.3},
    "ft-transformer": {"batch_size": 16, "ffn_dropout": 0.5, "residual_dropout": 0.2},
    "gradient-boosting": {"subsample": 0.6},
    "grownet": {"batch_size": 40},
    "hist-gradient-boosting": {"max_features": 0.5},
    "hopular": {"batch_size": 20, "average": 1.0},
    "lightgbm": {"subsample": 0.6, "subsample_freq": 1, "colsample_bytree": 0.6},
    "met": {"batch_size": 16, "pretrain_epochs": 4, "adversarial_norm": "batch"},
    "met-cheatt": {"batch_size": 16, "pretrain_epochs": 4, "dropout": 0.5},
    "mlp": {"batch_size": 16, "dropout": 0.5},
    "node": {"batch_size": 16, "choice": "sparsemax"},
    "npt": {"batch_size": 40, "p_target": 0.5},
    "resnet": {"batch_size": 16, "hidden_dropout": 0.5, "residual_dropout": 0.3},
    "saint": {"batch_size": 16, "pretrain_epochs": 4, "ffn_dropout": 0.5},
    "saint-cheatt": {"batch_size": 16, "pretrain_epochs": 4, "reference_rows": 10},
    "snn": {"batch_size": 16, "dropout": 0.3},
    "tabnet": {"batch_size": 30, "virtual_batch": 16, "mask": "entmax", "input_norm": True},
    "tabtransformer": {"batch_size": 16, "pretrain_epochs": 4, "attention_dropout": 0.3},
    "tabtransformer-cheatt": {"batch_size": 16, "pretrain_epochs": 4, "ffn_dropout": 0.5},
    "vime": {"batch_size": 16, "pretrain_epochs": 4, "semi": True},
    "xgboost": {"subsample": 0.6, "colsample_bytree": 0.6, "colsample_bylevel": 0.8},
}
LEARNS = {
    "lightgbm": {"min_child_samples": 3},
    "hist-gradient-boosting": {"min_samples_leaf": 3},
    **{
        name: {k: v for k, v in TINY[name].items() if k != MODELS[name].resource}
        for name in NETWORKS
    },
}
CASES = [
    (name, task, config)
    for name in STEPPED
    for task in MODELS[name].tasks
    for config in ({}, DRAWING[name])
]
matrix = pytest.mark.parametrize(
    ("name", "task", "config"),
    CASES,
    ids=[f"{n}-{t}-{'drawing' if c else 'default'}" for n, t, c in CASES],
)
ONE_PIECE = [
    ("lightgbm", {"boosting_type": "dart"}),
    ("lightgbm", {"boosting_type": "goss"}),
    ("catboost", {}),
]


def model(name: str, task: str, **config) -> Stepwise:
    """An unfitted model whose schedule has LENGTH steps."""
    resource = MODELS[name].resource
    return make_model(name, task=task, **{resource: LENGTH, **LEARNS.get(name, {}), **config})


def plainly(fit: Fits) -> Stepwise:
    """The same configuration by `fit`, to the end of its schedule."""
    whole = {} if fit.name in NETWORKS else {"early_stopping_rounds": 0}
    return model(fit.name, fit.task, **whole, **fit.config).fit(fit.frame, fit.y)


class Fits:
    """One configuration on one table, fitted again and again; `states` of its last fit."""

    def __init__(self, name: str, task: str, **config) -> None:
        self.name, self.task, self.config = name, task, config
        self.frame, self.y = table(task, 90)

    def __call__(self, stop: int = STOP, **given) -> np.ndarray:
        self.states: dict[int, bytes] = {}
        self.fitted = model(self.name, self.task, **self.config)
        save = self.states.__setitem__
        self.fitted.fit_to(self.frame, self.y, stop=stop, **{"every": EVERY, "save": save, **given})
        return answers(self.fitted, self.frame)


# -- the laws -------------------------------------------------------------------------------------


@matrix
def test_a_fit_resumed_at_any_boundary_equals_the_uninterrupted_one(name, task, config):
    fit = Fits(name, task, **config)
    whole, states = fit(), fit.states
    assert STOP in states and np.ptp(whole) > 0
    for step, state in states.items():
        assert fit(start=(step, state)).tobytes() == whole.tobytes()
        assert fit.fitted.resumed_from_ == step
        assert fit.states == {s: b for s, b in states.items() if s > step}


@matrix
def test_the_next_rung_goes_on_where_the_last_one_stopped(name, task, config):
    fit = Fits(name, task, **config)
    whole = fit(LENGTH)
    fit(EVERY)
    second = fit(2 * EVERY, start=(EVERY, fit.states[EVERY]))
    assert second.tobytes() != whole.tobytes()
    last = fit(LENGTH, start=(2 * EVERY, fit.states[2 * EVERY]))
    assert last.tobytes() == whole.tobytes()


@matrix
def test_saving_and_the_number_of_steps_are_all_that_fit_to_adds(name, task, config):
    fit = Fits(name, task, **config)
    whole = fit()
    assert fit.fitted.n_iter_ == fit.fitted.best_iteration_ == STOP
    assert fit(save=None).tobytes() == whole.tobytes()
    # one piece as long as the schedule is `fit` without early stopping
    plain = plainly(fit)
    if name == "xgboost" and config:
        return  # seeds every round, see its docstring
    piece = fit(LENGTH, every=LENGTH)
    assert piece.tobytes() == answers(plain, fit.frame).tobytes()


@pytest.mark.parametrize(
    ("name", "task"),
    [(n, t) for n in STEPPED for t in MODELS[n].tasks if n != "gradient-boosting"],  # draws ties
)
def test_pieces_without_draws_give_what_one_fit_gives(name, task):
    fit = Fits(name, task, **{"catboost": {"random_strength": 0.0}}.get(name, {}))
    if name == "catboost":
        fit.config |= {"categorical": "one-hot", "bagging_temperature": 0.0}
    plain = plainly(fit)
    pieces, whole = fit(LENGTH), answers(plain, fit.frame)
    assert len(fit.states) == LENGTH / EVERY
    if name == "catboost":  # its sums are rounded in another order
        np.testing.assert_allclose(pieces, whole, rtol=1e-10)
    else:
        assert pieces.tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", STEPPED)
def test_no_piece_repeats_the_draws_of_the_one_before(name):
    # steps this small leave the gradient as it was: equal draws would give equal trees
    rate = "lr" if name in NETWORKS else "learning_rate"
    fit = Fits(name, "regression", **{rate: 1e-3}, **DRAWING[name])
    at = [fit(stop, every=1) for stop in (1, 2, 3)]
    first, second = at[1] - at[0], at[2] - at[1]
    assert np.ptp(first) > 0 and np.abs(second - first).max() > 0.05 * np.abs(first).max()


@pytest.mark.parametrize("name", STEPPED)
def test_what_a_piece_draws_depends_on_the_seed_and_on_where_it_begins(name):
    fit = Fits(name, "regression", **DRAWING[name])
    whole = fit()
    fit(EVERY)
    start = (EVERY, fit.states[EVERY])
    fit.config = {**fit.config, "seed": 1}
    assert fit(start=start).tobytes() != whole.tobytes()
    seeds = [seed_at(7, step) for step in range(0, 300, 3)]
    assert len(set(seeds)) == 100 and seeds[0] == 7 and all(0 <= s < 2**31 for s in seeds)


@pytest.mark.parametrize(("name", "config"), ONE_PIECE)
def test_a_configuration_that_cannot_go_on_trains_from_zero_in_one_piece(name, config):
    fit = Fits(name, "binary", **config)
    whole = fit()
    assert list(fit.states) == [STOP] and not fit.fitted._continues()
    fit(EVERY)
    rung = (EVERY, fit.states[EVERY])
    assert fit(start=rung).tobytes() == whole.tobytes() and fit.fitted.resumed_from_ == 0
    again = fit(start=(STOP, fit.states[STOP]))  # nothing is left to do
    assert again.tobytes() == whole.tobytes() and fit.fitted.resumed_from_ == STOP


@pytest.mark.parametrize("name", STEPPED)
def test_a_state_of_no_use_is_ignored(name):
    fit = Fits(name, "binary", **DRAWING[name])
    fit(LENGTH)
    late = fit.states[LENGTH]
    fit(4)
    assert list(fit.states) == [3, 4]
    between = fit.states[4]  # a stop that is no boundary of a longer fit
    whole = fit()
    for start in ((LENGTH, late), (4, between)):
        assert fit(start=start).tobytes() == whole.tobytes()
        assert fit.fitted.resumed_from_ == 0
    assert fit(4, start=(4, between)).size and fit.fitted.resumed_from_ == 4


@pytest.mark.parametrize("name", STEPPED)
def test_a_target_without_variety_has_states_too(name):
    frame, _ = table("regression", 20)
    for rows, y in ((frame, np.full(20, 2.0)), (frame[["constant", "empty"]], np.arange(20.0))):
        states: dict[int, bytes] = {}
        given = {"stop": STOP, "every": EVERY, "save": states.__setitem__}
        first = model(name, "regression").fit_to(rows, y, **given).predict(rows)
        assert list(states) == [STOP] and np.ptp(first) == 0
        start = (STOP, states[STOP])
        again = model(name, "regression").fit_to(rows, y, **{**given, "start": start})
        assert again.predict(rows).tobytes() == first.tobytes()


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_handful_of_rows_is_enough(name, n):
    frame, y = table("binary", 40)
    rows = np.r_[np.flatnonzero(y == "yes")[:1], np.flatnonzero(y == "no")[: n - 1]]
    states: dict[int, bytes] = {}
    given = {"stop": STOP, "every": EVERY, "save": states.__setitem__}
    small = frame.iloc[rows].drop(columns="b"), y[rows]
    whole = answers(model(name, "binary").fit_to(*small, **given), small[0])
    for start in list(states.items()):
        again = model(name, "binary").fit_to(*small, **{**given, "start": start})
        assert answers(again, small[0]).tobytes() == whole.tobytes()


def test_validation_rows_are_not_looked_at():
    fit = Fits("xgboost", "binary", early_stopping_rounds=1)
    whole = fit()
    fit.fitted.fit_to(fit.frame, fit.y, fit.frame[:3], fit.y[:3], stop=STOP, every=EVERY)
    assert answers(fit.fitted, fit.frame).tobytes() == whole.tobytes()


def test_another_process_goes_on_to_the_same_bytes(tmp_path):
    fit = Fits("lightgbm", "multiclass", **DRAWING["lightgbm"])
    whole = fit()
    (tmp_path / "state").write_bytes(fit.states[6])
    code = f"""
import sys
sys.path[:0] = {[str(HERE), str(HERE.parent / "helpers")]}
from test_resumable import DRAWING, Fits
state = open({str(tmp_path / "state")!r}, "rb").read()
fit = Fits("lightgbm", "multiclass", **DRAWING["lightgbm"])
sys.stdout.buffer.write(fit(start=(6, state)).tobytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == whole.tobytes()


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.fault(19)
@pytest.mark.parametrize("name", STEPPED)
def test_no_state_is_or_needs_a_pickle(name, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("something was pickled")

    for word in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, word, refuse)
    with pytest.raises(AssertionError):
        pickle.dumps(1)  # the trap is set
    task = "multiclass" if "multiclass" in MODELS[name].tasks else "binary"
    fit = Fits(name, task, **DRAWING[name])
    whole = fit()
    state = min(fit.states.items())
    assert fit(start=state).tobytes() == whole.tobytes()
    members = unpack(state[1])
    assert set(members) <= set(MEMBERS)
    for data in members.values():
        with pytest.raises(Exception):  # noqa: B017 - no member reads as a program of opcodes
            list(pickletools.genops(io.BytesIO(data)))


@pytest.fixture(scope="module")
def boosted() -> Fits:
    fit = Fits("xgboost", "binary")
    fit()
    return fit


def resealed(state: bytes, **changes) -> bytes:
    """A state with another manifest, its checksums right."""
    members = dict(unpack(state))
    manifest = json.loads(members.pop("manifest.json")) | changes
    return pack({**members, "manifest.json": to_json(manifest)})


def test_damage_to_any_byte_of_a_state_is_found(boosted):
    fit, state = boosted, boosted.states[3]
    for at in np.linspace(0, len(state) - 1, 60).astype(int):
        damaged = state[:at] + bytes([state[at] ^ 0x55]) + state[at + 1 :]
        with pytest.raises(BadState):
            fit(start=(3, damaged))
    for torn in (b"", state[:-1], state[: len(state) // 2], pickle.dumps({"trees": 3})):
        with pytest.raises(BadState, match="damaged"):
            fit(start=(3, torn))
    fit()


def test_a_state_of_another_fit_is_refused_by_what_differs(boosted):
    fit, state = boosted, boosted.states[3]
    with pytest.raises(BadState, match="its step is 3, here it is 6"):
        fit(start=(6, state))
    with pytest.raises(BadState, match="its outputs is 2, here it is 3"):
        Fits("xgboost", "multiclass")(start=(3, state))
    with pytest.raises(BadState, match="its features is"):
        Fits("xgboost", "binary", categorical="ordinal")(start=(3, state))
    with pytest.raises(BadState, match="its model is 'XGBoost', here it is 'LightGBM'"):
        Fits("lightgbm", "binary")(start=(3, state))
    with pytest.raises(BadState, match="its version is 2"):
        fit(start=(3, resealed(state, version=2)))
    assert issubclass(BadState, ValueError)


@pytest.mark.fault(19)
def test_a_state_that_names_a_class_from_elsewhere_is_refused():
    fit = Fits("gradient-boosting", "regression")
    fit()
    members = dict(unpack(fit.states[3]))
    manifest = json.loads(members.pop("manifest.json"))
    evil = to_json({"model": {"$": "object", "class": "subprocess:Popen", "state": {}}})
    manifest["members"]["state.json"]["sha256"] = hashlib.sha256(evil).hexdigest()
    forged = pack({**members, "state.json": evil, "manifest.json": to_json(manifest)})
    with pytest.raises(BadState, match="subprocess:Popen.*not on the list"):
        fit(start=(3, forged))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stop": 0, "every": 3}, "stop must be from 1 to n_estimators = 12, got 0"),
        ({"stop": 13, "every": 3}, "stop must be from 1 to n_estimators = 12, got 13"),
        ({"stop": 3, "every": 0}, "every must be at least 1, got 0"),
    ],
)
def test_steps_outside_the_schedule_are_refused(given, says):
    frame, y = table("binary")
    with pytest.raises(ValueError, match=says):
        model("xgboost", "binary").fit_to(frame, y, **given)


def test_a_bad_configuration_is_refused_before_anything_is_fitted():
    frame, y = table("binary")
    with pytest.raises(InvalidConfig, match="learning_rate"):
        model("xgboost", "binary").set_params(learning_rate=-1).fit_to(frame, y, stop=1, every=1)


# -- the registry ---------------------------------------------------------------------------------


def test_boosting_models_count_their_rounds_networks_their_steps_and_the_others_nothing():
    counts = {
        "gbdt": {"n_estimators"},
        "feature network": {"epochs"},
        "row attention": {"steps", "epochs"},
    }
    counted = {n for n, spec in MODELS.items() if spec.resource in ("steps", "epochs")}
    assert set(NETWORKS) == counted
    for name, spec in MODELS.items():
        cls = registry.load_class(spec.target)
        assert cls.resource == spec.resource and hasattr(cls, "fit_to") == bool(spec.resource)
        assert spec.resource in counts.get(spec.family, {""})
        assert (spec.gpu_mb > 0.0) == (name in NETWORKS)
        if spec.resource:
            assert isinstance(registry.defaults(name)[spec.resource], int)


OUTSIDE = """
class Epochs:
    resource, gpu_mb = "epochs", 300

    def __init__(self, epochs=10):
        self.epochs = epochs

    def fit(self, X, y): ...
    def predict(self, X): ...
    def fit_to(self, X, y, *, stop, every, start=None, save=None): ...

class NoMethod(Epochs):
    fit_to = None

class NoParameter(Epochs):
    def __init__(self): ...
"""


def test_a_class_from_elsewhere_says_what_counts_its_steps_and_its_gpu_memory(
    tmp_path, monkeypatch
):
    (tmp_path / "stepping_models.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = registry.spec("stepping_models:Epochs")
    assert (found.resource, found.gpu_mb) == ("epochs", 300.0)
    with pytest.raises(ValueError, match="resource = 'epochs' but has no method fit_to"):
        registry.spec("stepping_models:NoMethod")
    with pytest.raises(ValueError, match="resource = 'epochs', which it does not take"):
        registry.spec("stepping_models:NoParameter")


def test_boundaries_are_the_multiples_and_the_stop():
    assert boundaries(0, 9, 3) == [3, 6, 9] and boundaries(3, 8, 3) == [6, 8]
    assert boundaries(0, 2, 5) == [2] and boundaries(9, 9, 3) == []
