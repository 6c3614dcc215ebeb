"""Search spaces: plain data, draws, grids, and refused definitions."""

from __future__ import annotations

import itertools
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tabsweep.sweeps.search.json_values import plain
from tabsweep.sweeps.search.space import Choice, Fixed, Float, Int, Maybe, Param, Space, Variants
from tabsweep.sweeps.trial import canonical

# Nothing here is timed: a busy machine is no failure.
laws = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = ["alpha", "beta", "depth", "gamma", "rate", "zeta"]

reals = st.floats(-1e6, 1e6, allow_nan=False)
scalars = st.none() | st.booleans() | st.integers(-50, 50) | reals | st.text(max_size=4)
values = scalars | st.lists(scalars, max_size=3)


@st.composite
def floats(draw: st.DrawFn) -> Param:
    log = draw(st.booleans())
    bound = st.floats(1e-8, 1e6) if log else reals
    low, high = sorted((draw(bound), draw(bound)))
    return Float(low, high, log=log, shift=draw(st.sampled_from([0.0, -0.0001, 0.3])))


@st.composite
def ints(draw: st.DrawFn) -> Param:
    if draw(st.booleans()):
        low = draw(st.integers(1, 50))
        return Int(low, low + draw(st.integers(0, 900)), log=True)
    low, step = draw(st.integers(-50, 50)), draw(st.integers(1, 9))
    return Int(low, low + step * draw(st.integers(0, 40)), step=step)


choices = st.lists(values, min_size=1, max_size=4, unique_by=canonical).map(Choice)
simple = floats() | ints() | choices | st.builds(Fixed, values)
params = simple | st.builds(Maybe, scalars, simple)
small = choices | st.builds(Fixed, scalars) | st.builds(lambda n: Int(0, n), st.integers(0, 3))
small_params = small | st.builds(Maybe, scalars, small)


@st.composite
def spaces(draw: st.DrawFn, kinds: st.SearchStrategy[Param] = params) -> Space:
    """Any space of up to six parameters."""
    order = draw(st.permutations(NAMES))[: draw(st.integers(0, len(NAMES)))]
    return Space({name: draw(kinds) for name in order})


def check_plain(value: object) -> None:
    assert value is None or type(value) in (bool, int, float, str, list, dict), type(value)
    if isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            check_plain(item)


@laws
@given(spaces())
def test_a_space_survives_plain_data_and_pickling(space: Space) -> None:
    data = json.loads(json.dumps(space.to_data()))
    for back in (Space.parse(data), pickle.loads(pickle.dumps(space))):
        assert back == space and repr(back) == repr(space)


@laws
@given(params)
def test_the_printed_form_of_a_parameter_is_python_that_makes_it(param: Param) -> None:
    assert eval(repr(param)) == param


@laws
@given(spaces(), st.integers(0, 2**32))
def test_every_draw_lies_inside_the_space_and_is_plain_json(space: Space, seed: int) -> None:
    config = space.sample(np.random.default_rng(seed))
    assert config in space
    check_plain(config)
    text = json.dumps(config)
    assert json.dumps(json.loads(text)) == text
    assert canonical(json.loads(text)) == canonical(config)
    assert list(config) == sorted(config)


@laws
@given(spaces(), st.integers(0, 2**32))
def test_numbers_of_a_configuration_stand_for_it(space: Space, seed: int) -> None:
    config = space.sample(np.random.default_rng(seed))
    numbers = space.encode(config)
    axes = {axis.label: axis for axis in space.axes}
    assert len(axes) == len(space.axes)
    assert {axis.label for axis in space.joint_axes} <= set(numbers) <= set(axes)
    for label, number in numbers.items():
        assert axes[label].low <= number <= axes[label].high
    back = space.decode(lambda axis: numbers[axis.label])
    assert back.keys() == config.keys()
    for name, value in back.items():
        if type(value) is float:  # a shift is added and taken away: equal up to rounding
            assert math.isclose(value, config[name], rel_tol=1e-9, abs_tol=1e-9)
        else:
            assert canonical(value) == canonical(config[name])


@laws
@given(spaces(), st.randoms(use_true_random=False))
def test_the_order_in_which_parameters_are_given_changes_nothing(space: Space, random) -> None:
    data = space.to_data()
    names = list(data["params"])
    random.shuffle(names)
    shuffled = Space.parse({"note": "any", "params": {n: data["params"][n] for n in names}})
    assert shuffled == space and list(shuffled.params) == list(space.params)
    draw = [s.sample(np.random.default_rng(1)) for s in (space, shuffled)]
    assert canonical(draw[0]) == canonical(draw[1])


@laws
@given(spaces(small_params))
def test_a_grid_lists_each_configuration_once_and_leaves_none_out(space: Space) -> None:
    size = space.size
    assert size is not None and size >= 1
    if size > 500:
        return
    points = [space.grid_point(i) for i in range(size)]
    assert all(point in space for point in points)
    options = [[p.point(i) for i in range(p.size)] for p in space.params.values()]
    every = [dict(zip(space.params, values, strict=True)) for values in itertools.product(*options)]
    assert points == every and len({canonical(point) for point in points}) == size


def test_a_long_range_is_not_counted_value_by_value() -> None:
    space = Space({"n": Int(1, 10**12), "o": Maybe(3, Int(1, 10**9)), "x": Choice(("p", "q"))})
    assert space.size == 2 * 10**21
    assert space.grid_point(1) == {"n": 1, "o": 3, "x": "q"}
    assert space.grid_point(space.size - 1) == {"n": 10**12, "o": 10**9, "x": "q"}


def test_one_and_one_point_zero_and_true_are_three_different_values() -> None:
    assert Choice((1,)) != Choice((1.0,)) != Choice((True,)) != Choice((1,))
    space = Space({"x": Choice((1, 1.0, True))})
    assert space.size == 3
    assert [type(space.grid_point(i)["x"]) for i in range(3)] == [int, float, bool]
    assert {"x": 2} not in space
    assert {"n": True} not in Space({"n": Int(0, 1)})
    assert {"n": 1.0} not in Space({"n": Int(0, 1)})
    assert {"r": True} not in Space({"r": Float(0, 1)})


def test_an_optional_parameter_is_off_half_of_the_time() -> None:
    space = Space({"x": Maybe(0.0, Float(0.5, 1.0))})
    rng = np.random.default_rng(0)
    off = sum(space.sample(rng)["x"] == 0.0 for _ in range(2000))
    assert 900 < off < 1100


def test_draws_are_flat_in_the_scale_that_the_space_names() -> None:
    rng = np.random.default_rng(0)
    space = Space({"log": Float(1e-4, 1.0, log=True), "flat": Int(0, 8, step=4), "n": Int(1, 9)})
    drawn = [space.sample(rng) for _ in range(3000)]
    assert abs(np.mean([math.log10(c["log"]) for c in drawn]) + 2) < 0.1
    assert np.bincount([c["flat"] for c in drawn])[[0, 4, 8]].min() > 900
    assert np.bincount([c["n"] for c in drawn])[1:].min() > 250
    log_ints = [Space({"n": Int(1, 100, log=True)}).sample(rng)["n"] for _ in range(3000)]
    assert min(log_ints) == 1 and 5 < np.median(log_ints) < 12 and max(log_ints) > 90


def test_configurations_do_not_share_the_lists_of_their_space() -> None:
    space = Space({"layers": Choice(((8, 8), (16,)))})
    space.grid_point(0)["layers"].append(99)
    assert space.grid_point(0) == {"layers": [8, 8]}


def test_numpy_scalars_become_python() -> None:
    param = Choice((np.int64(3), np.float32(0.5), np.bool_(True), (np.float64(1.5),)))
    assert [type(v) for v in param.values] == [int, float, bool, list]
    assert type(plain(np.float64(0.1))) is float and type(Float(np.float64(0), 1).low) is float
    with pytest.raises(ValueError, match="finite"):
        plain(np.float64("nan"))
    with pytest.raises(ValueError, match="ndarray"):
        plain(np.zeros(2))


REFUSED_PARAMS = [
    ({"kind": "unifrom", "low": 0, "high": 1}, "'x'.*'uniform'"),
    ({"low": 0, "high": 1}, "kind.*choice, fixed"),
    ({"kind": "uniform", "lo": 0, "high": 1}, "'lo'.*'low'"),
    ({"kind": "uniform", "low": 0}, "needs high"),
    ({"kind": "uniform", "low": 2, "high": 1}, "low=2.0"),
    ({"kind": "uniform", "low": "0", "high": 1}, "low.*'0'"),
    ({"kind": "uniform", "low": float("nan"), "high": 1}, "finite"),
    ({"kind": "log-uniform", "low": 0, "high": 1}, "got 0"),
    ({"kind": "int", "low": 1.5, "high": 2}, "low.*1.5"),
    ({"kind": "int", "low": 1, "high": 10, "step": 4}, "write high=9"),
    ({"kind": "int", "low": 1, "high": 9, "step": 4, "log": True}, "step.*4"),
    ({"kind": "int", "low": 1, "high": 9, "log": 1}, "log.*1"),
    ({"kind": "int", "low": 1, "high": 9, "step": 0}, "step.*0"),
    ({"kind": "choice", "values": []}, "values.*empty"),
    ({"kind": "choice", "values": "abc"}, "values.*'abc'"),
    ({"kind": "choice", "values": [1, 1]}, "twice"),
    ({"kind": "optional", "value": 0, "of": {"kind": "fixd"}}, "'fixd'.*'fixed'"),
    (
        {"kind": "optional", "value": 0, "of": {"kind": "optional", "value": 1, "of": {}}},
        "parameter 'x'",
    ),
    (3, "kind.*3"),
    ({"kind": ["choice"]}, "kind.*choice"),
    ({"kind": "fixed", "value": 1, "when": {"y": [1]}}, "unknown key 'when'"),
]


def test_an_error_names_the_parameter_the_law_and_the_way_out() -> None:
    for entry, message in REFUSED_PARAMS:
        with pytest.raises(ValueError, match=message):
            Space.parse({"params": {"x": entry}})


def test_unknown_keys_and_bad_names_are_refused() -> None:
    with pytest.raises(ValueError, match="'parms'.*'params'"):
        Space.parse({"params": {}, "parms": {}})
    with pytest.raises(ValueError, match="params"):
        Space.parse({"lr": {"kind": "fixed", "value": 1}})
    with pytest.raises(ValueError, match="identifier"):
        Space({"not a name": Fixed(1)})
    with pytest.raises(ValueError, match="lr"):
        Space({"lr": Float(0, 1)}).grid_point(0)


VARIANTS = [{"depth": 3, "rate": 0.1}, {"depth": 3, "rate": 0.2}, {"depth": 9, "rate": 0.1}]


def test_a_list_of_variants_is_drawn_counted_and_recognised_as_whole_settings() -> None:
    space = Space({"list": Variants(tuple(VARIANTS)), "alpha": Float(0.0, 1.0)})
    assert Space.parse(space.to_data()) == space == pickle.loads(pickle.dumps(space))
    assert eval(repr(space.params["list"])) == space.params["list"]
    rng = np.random.default_rng(0)
    drawn = [space.sample(rng) for _ in range(60)]
    settings = [{k: c[k] for k in ("depth", "rate")} for c in drawn]
    assert all(config in space and "list" not in config for config in drawn)
    assert {canonical(s) for s in settings} == {canonical(v) for v in VARIANTS}
    for config in drawn[:5]:
        numbers = space.encode(config)
        assert space.decode(lambda axis, numbers=numbers: numbers[axis.label]) == config
    assert {**drawn[0], "depth": 9, "rate": 0.2} not in space  # each value is known, the pair not
    assert {"alpha": 0.5, "depth": 3} not in space
    grid = Space({"list": Variants(tuple(VARIANTS)), "beta": Choice((1, 2))})
    assert grid.size == 6
    assert {canonical(grid.grid_point(i)) for i in range(6)} == {
        canonical({**v, "beta": b}) for v in VARIANTS for b in (1, 2)
    }


REFUSED_VARIANTS = [
    ({"a": {"kind": "variants", "values": [1]}}, "variant"),
    ({"a": {"kind": "variants", "values": [{"b": 1}, {"c": 1}]}}, "hyperparameters"),
    ({"a": {"kind": "variants", "values": [{"b": 1}]}, "b": {"kind": "fixed", "value": 1}}, "'b'"),
]


def test_variants_that_say_no_one_thing_are_refused() -> None:
    for params, message in REFUSED_VARIANTS:
        with pytest.raises(ValueError, match=message):
            Space.parse({"params": params})
