"""Resumable fits: a fit that stops and continues equals the one that did not stop.

Each law is one test that loops over the registry: every model with a `resource` is held to it. The
uninterrupted fits are made once and shared by the laws.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import pickle
import pickletools
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from looped import each
from repo import HELPERS
from small_tables import NAMES, TINY, answers, is_network, table
from tabsweep.models import registry
from tabsweep.models.base import BadState
from tabsweep.models.persistence.archive import MEMBERS, pack, to_json, unpack
from tabsweep.models.registry import MODELS, make_model, small_fits
from tabsweep.models.resumable import Stepwise, seed_at

HERE = Path(__file__).parent
STOP, EVERY, LENGTH = 6, 3, 9
STEPPED = [name for name in NAMES if MODELS[name].resource]
# "random": all that can be random in a fit is. Trees draw nothing with the default configuration; a
# network draws its weights with both.
KINDS = ("default", "random")
CASES = [(name, task, kind) for name in STEPPED for task in MODELS[name].tasks for kind in KINDS]
# One task a model, another from model to model, for laws that no loss can change.
TURNS = {name: MODELS[name].tasks[i % len(MODELS[name].tasks)] for i, name in enumerate(STEPPED)}


def random_config(name: str) -> dict:
    return small_fits(name)["random"]


def model(name: str, task: str, **config) -> Stepwise:
    """An unfitted model whose schedule has LENGTH steps."""
    return make_model(name, task=task, **{**TINY[name], MODELS[name].resource: LENGTH, **config})


class Fits:
    """One configuration on one table, fitted again and again; `states` of its last fit."""

    def __init__(self, name: str, task: str, **config) -> None:
        self.name, self.task, self.config = name, task, config
        self.frame, self.y = table(task, 48)  # two batches of 40 and three of 16 rows

    def __call__(self, stop: int = STOP, **given) -> np.ndarray:
        self.states: dict[int, bytes] = {}
        self.fitted = model(self.name, self.task, **self.config)
        save = self.states.__setitem__
        self.fitted.fit_to(self.frame, self.y, stop=stop, **{"every": EVERY, "save": save, **given})
        return answers(self.fitted, self.frame)

    def plain(self) -> np.ndarray:
        """What `fit` gives to the end of the schedule, without early stopping."""
        early = "early_stopping_rounds"
        off = {early: 0} if early in registry.defaults(self.name) else {}
        fitted = model(self.name, self.task, **{**off, **self.config}).fit(self.frame, self.y)
        return answers(fitted, self.frame)


def fits(name: str, task: str, kind: str) -> Fits:
    return Fits(name, task, **(random_config(name) if kind == "random" else {}))


@cache
def uninterrupted(name: str, task: str, kind: str, stop: int) -> tuple[np.ndarray, dict]:
    """The answers of a fit to `stop`, and its states."""
    fit = fits(name, task, kind)
    return fit(stop), fit.states


# -- the laws -------------------------------------------------------------------------------------


@each(("name", "task", "kind"), CASES)
def test_a_fit_resumed_at_any_boundary_equals_the_uninterrupted_one(name, task, kind):
    fit = fits(name, task, kind)
    whole, states = uninterrupted(name, task, kind, STOP)
    assert STOP in states and np.ptp(whole) > 0
    for step, state in states.items():
        assert fit(start=(step, state)).tobytes() == whole.tobytes()
        assert fit.fitted.resumed_from_ == step
        assert fit.states == {s: b for s, b in states.items() if s > step}


@each(("name", "task", "kind"), [(name, TURNS[name], kind) for name in STEPPED for kind in KINDS])
def test_the_next_rung_goes_on_where_the_last_one_stopped(name, task, kind):
    fit = fits(name, task, kind)
    whole, _ = uninterrupted(name, task, kind, LENGTH)
    fit(EVERY)
    second = fit(2 * EVERY, start=(EVERY, fit.states[EVERY]))
    assert second.tobytes() != whole.tobytes()
    last = fit(LENGTH, start=(2 * EVERY, fit.states[2 * EVERY]))
    assert last.tobytes() == whole.tobytes()


@each(("name", "task"), TURNS.items())
def test_a_fit_that_saves_nothing_is_the_same(name, task):
    fit = fits(name, task, "random")
    whole, _ = uninterrupted(name, task, "random", STOP)
    assert fit(save=None).tobytes() == whole.tobytes()
    assert fit.fitted.n_iter_ == fit.fitted.best_iteration_ == STOP


@each(("name", "task"), TURNS.items())
def test_one_piece_as_long_as_the_schedule_is_a_fit_without_early_stopping(name, task):
    if not small_fits(name).get("fit_to_draws_anew"):
        fit = fits(name, task, "random")
        assert fit(LENGTH, every=LENGTH).tobytes() == fit.plain().tobytes()


@each(("name", "task"), [(name, task) for name, task, kind in CASES if kind == "default"])
def test_pieces_without_draws_give_what_one_fit_gives(name, task):
    settings = small_fits(name)
    if settings.get("always_draws"):
        return
    fit = Fits(name, task, **settings.get("draws_nothing", {}))
    pieces, whole = fit(LENGTH), fit.plain()
    assert len(fit.states) == LENGTH / EVERY
    np.testing.assert_allclose(pieces, whole, rtol=settings.get("pieces_rtol", 0.0))


@each("name", [name for name in STEPPED if "regression" in MODELS[name].tasks])
def test_no_piece_repeats_the_draws_of_the_one_before(name):
    # steps this small leave the gradient as it was: equal draws would give equal trees
    rate = "lr" if "lr" in registry.defaults(name) else "learning_rate"
    fit = Fits(name, "regression", **{rate: 1e-3}, **random_config(name))
    at = [fit(stop, every=1) for stop in (1, 2, 3)]
    first, second = at[1] - at[0], at[2] - at[1]
    assert np.ptp(first) > 0 and np.abs(second - first).max() > 0.05 * np.abs(first).max()


@each("name", STEPPED)
def test_what_a_piece_draws_depends_on_the_seed_and_on_where_it_begins(name):
    task = MODELS[name].tasks[-1]
    whole, states = uninterrupted(name, task, "random", STOP)
    fit = Fits(name, task, **random_config(name), seed=1)
    assert fit(start=(EVERY, states[EVERY])).tobytes() != whole.tobytes()


def test_the_seeds_of_pieces_are_others():
    seeds = [seed_at(7, step) for step in range(0, 300, 3)]
    assert len(set(seeds)) == 100 and seeds[0] == 7 and all(0 <= s < 2**31 for s in seeds)


@each(
    ("name", "config"),
    [(name, config) for name in STEPPED for config in small_fits(name).get("one_piece", ())],
)
def test_a_configuration_that_cannot_go_on_trains_from_zero_in_one_piece(name, config):
    fit = Fits(name, "binary", **config)
    whole = fit()
    assert list(fit.states) == [STOP] and not fit.fitted._continues()
    state = fit.states[STOP]
    fit(EVERY)
    rung = (EVERY, fit.states[EVERY])
    assert fit(start=rung).tobytes() == whole.tobytes() and fit.fitted.resumed_from_ == 0
    again = fit(start=(STOP, state))  # nothing is left to do
    assert again.tobytes() == whole.tobytes() and fit.fitted.resumed_from_ == STOP


@each("name", STEPPED)
def test_a_state_of_no_use_is_ignored(name):
    task = MODELS[name].tasks[0]
    fit = fits(name, task, "random")
    late = uninterrupted(name, task, "random", LENGTH)[1][LENGTH]
    whole, _ = uninterrupted(name, task, "random", STOP)
    fit(4)
    assert list(fit.states) == [3, 4]
    between = fit.states[4]  # a stop that is no boundary of a longer fit
    for start in ((LENGTH, late), (4, between)):
        assert fit(start=start).tobytes() == whole.tobytes()
        assert fit.fitted.resumed_from_ == 0
    assert fit(4, start=(4, between)).size and fit.fitted.resumed_from_ == 4


@each("name", [name for name in STEPPED if "regression" in MODELS[name].tasks])
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


@each("n", (2, 3, 7))
@each("name", [name for name in STEPPED if "binary" in MODELS[name].tasks])
def test_a_handful_of_rows_is_enough(name, n):
    frame, y = table("binary", 40)
    rows = np.r_[np.flatnonzero(y == "yes")[:1], np.flatnonzero(y == "no")[: n - 1]]
    states: dict[int, bytes] = {}
    given = {"stop": STOP, "every": EVERY, "save": states.__setitem__}
    small = frame.iloc[rows].drop(columns="b"), y[rows]
    whole = answers(model(name, "binary").fit_to(*small, **given), small[0])
    start = min(states.items())
    again = model(name, "binary").fit_to(*small, **{**given, "start": start})
    assert answers(again, small[0]).tobytes() == whole.tobytes()


def test_validation_rows_are_not_looked_at():
    fit = Fits("xgboost", "binary", early_stopping_rounds=1)
    whole = fit()
    fit.fitted.fit_to(fit.frame, fit.y, fit.frame[:3], fit.y[:3], stop=STOP, every=EVERY)
    assert answers(fit.fitted, fit.frame).tobytes() == whole.tobytes()


def test_another_process_goes_on_to_the_same_bytes(tmp_path):
    fit = fits("lightgbm", "multiclass", "random")
    whole = fit()
    (tmp_path / "state").write_bytes(fit.states[EVERY])
    code = f"""
import sys
sys.path[:0] = {[str(HERE), *HELPERS]}
from test_resumable import fits
state = open({str(tmp_path / "state")!r}, "rb").read()
fit = fits("lightgbm", "multiclass", "random")
sys.stdout.buffer.write(fit(start=({EVERY}, state)).tobytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == whole.tobytes()


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.fault(19)
@each("name", STEPPED)
def test_a_state_is_json_arrays_and_what_a_boosting_library_writes(name):
    """It is read by a reader that knows no pickle (persistence/test_hostile_files.py)."""
    _, states = uninterrupted(name, MODELS[name].tasks[-1], "random", STOP)
    members = unpack(states[EVERY])
    assert set(members) <= set(MEMBERS)
    members.pop("arrays.bin")
    for data in members.values():
        with pytest.raises(Exception):  # noqa: B017 - genops raises what it likes
            list(pickletools.genops(io.BytesIO(data)))


@pytest.fixture
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


def test_steps_outside_the_schedule_are_refused():
    frame, y = table("binary")
    for given, says in (
        ({"stop": 0, "every": 3}, f"stop must be from 1 to n_estimators = {LENGTH}, got 0"),
        ({"stop": LENGTH + 1, "every": 3}, f"stop must be from 1 to n_estimators = {LENGTH}"),
        ({"stop": 3, "every": 0}, "every must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=says):
            model("xgboost", "binary").fit_to(frame, y, **given)


# -- the registry ---------------------------------------------------------------------------------


@each(("name", "spec"), MODELS.items())
def test_a_spec_says_what_counts_the_steps_of_its_model_and_whether_it_uses_a_gpu(name, spec):
    counts = {
        "gbdt": {"n_estimators"},
        "feature network": {"epochs"},
        "row attention": {"steps", "epochs"},
    }
    cls = registry.load_class(spec.target)
    assert cls.resource == spec.resource and hasattr(cls, "fit_to") == bool(spec.resource)
    foreign = {"pytabkit", "xrfm"} & set(spec.libraries)  # which train with torch by themselves
    assert spec.resource in ({""} if foreign else counts.get(spec.family, {""}))
    assert is_network(name) == (spec.resource in ("steps", "epochs"))
    takes_device = "device" in inspect.signature(cls).parameters
    assert (spec.gpu_mb > 0.0) == takes_device and takes_device >= is_network(name)
    assert (cls.computes_in == "float32") == (is_network(name) or bool(foreign))
    if spec.resource:
        assert isinstance(registry.defaults(name)[spec.resource], int)
