"""Finished trials as a black box: exact answers, nearest ones, and searches on them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tabsweep.sweeps.search.black_box import BlackBox, replayed
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space

SPACE = Space.parse(
    {
        "params": {
            "kind": {"kind": "choice", "values": ["a", "b"]},
            "rate": {"kind": "log-uniform", "low": 0.001, "high": 1.0},
            "depth": {"kind": "int", "low": 1, "high": 11, "when": {"kind": ["b"]}},
        }
    }
)
GRID = Space.parse({"params": {"k": {"kind": "int", "low": 1, "high": 12}}})


def loss(config):
    depth = 0.05 * abs(config.get("depth", 4) - 4)
    return (math.log10(config["rate"]) + 2) ** 2 + 0.1 * (config["kind"] == "a") + depth


def library(n=120, seed=0):
    configs = [SPACE.sample(np.random.default_rng([seed, i])) for i in range(n)]
    return BlackBox(SPACE, configs, [loss(c) for c in configs]), configs


def slow_distance(one, other):
    """By the rule in words, axis by axis."""
    found = [0.0 if one["kind"] == other["kind"] else 1.0]
    found.append(abs(math.log(one["rate"]) - math.log(other["rate"])) / math.log(1000))
    if ("depth" in one) != ("depth" in other):
        found.append(1.0)
    else:
        found.append(abs(one.get("depth", 0) - other.get("depth", 0)) / 10)
    return math.sqrt(sum(d * d for d in found) / 3)


def test_a_trial_answers_for_itself_and_the_nearest_one_for_others():
    box, configs = library()
    for row, config in enumerate(configs[:20]):
        assert box.answer(config) == (row, 0.0)
    for i in range(30):
        asked = SPACE.sample(np.random.default_rng([9, i]))
        row, distance = box.answer(asked)
        slow = [slow_distance(asked, config) for config in configs]
        assert distance == pytest.approx(min(slow)) and row == int(np.argmin(slow))


def test_neighbours_are_what_the_box_would_say_without_the_trial():
    box, configs = library(40)
    rows, others, apart = box.neighbours()
    assert rows.tolist() == list(range(40))
    for row, other, distance in zip(rows, others, apart, strict=True):
        slow = [
            slow_distance(configs[row], c) if i != row else math.inf for i, c in enumerate(configs)
        ]
        assert other == int(np.argmin(slow)) and distance == pytest.approx(min(slow))
    assert BlackBox(SPACE, configs[:1], [0.1]).neighbours()[0].size == 0


def test_a_default_outside_of_the_space_answers_for_itself_alone():
    outside = {"kind": "a", "rate": 5.0}
    box = BlackBox(SPACE, [outside, {"kind": "a", "rate": 0.1}], [0.2, 0.3])
    assert box.answer(outside) == (0, 0.0)
    assert box.answer({"kind": "a", "rate": 1.0})[0] == 1
    with pytest.raises(ValueError, match="neither a trial nor in the space"):
        box.answer({"kind": "a", "rate": 7.0})
    with pytest.raises(ValueError, match="none of the trials"):
        BlackBox(SPACE, [outside], [0.2])
    with pytest.raises(ValueError, match="2 configurations with 1 losses"):
        BlackBox(SPACE, [outside, outside], [0.2])


@pytest.mark.parametrize("sampler", ["random", "tpe", "grid"])
def test_on_a_whole_grid_a_replay_is_the_search_itself(sampler):
    configs = [GRID.grid_point(i) for i in range(12)]
    losses = [None if c["k"] == 7 else (c["k"] - 5) ** 2 for c in configs]
    box = BlackBox(GRID, configs, losses)
    found = replayed(box, sampler, n_trials=12, seed=3)
    search = make_sampler(sampler, GRID, seed=3)
    for index, (row, distance) in enumerate(found):
        config = search.ask(index)
        assert configs[row] == config and distance == 0.0
        search.tell(index, config, losses[row])
    if sampler == "grid":
        assert sorted(row for row, _ in found) == list(range(12))


def test_a_continuous_space_has_no_grid_and_tpe_learns_from_the_answers():
    box, _ = library(200)
    with pytest.raises(ValueError, match="continuous"):
        replayed(box, "grid", n_trials=5, seed=0)
    late = {}
    for name in ("random", "tpe"):
        values = [
            np.mean([box.losses[row] for row, _ in replayed(box, name, n_trials=40, seed=s)][20:])
            for s in range(3)
        ]
        late[name] = np.mean(values)
    assert late["tpe"] < 0.7 * late["random"]


def test_weights_say_which_axes_decide_what_is_near():
    space = Space.parse(
        {"params": {n: {"kind": "uniform", "low": 0.0, "high": 1.0} for n in ("x", "y")}}
    )
    configs = [{"x": 0.1, "y": 0.9}, {"x": 0.3, "y": 0.1}]
    asked = {"x": 0.1, "y": 0.2}
    assert BlackBox(space, configs, [1.0, None]).answer(asked)[0] == 1

    def weights(points, losses):
        assert points.tolist() == [[0.1, 0.9], [0.3, 0.1]] and losses[0] == 1.0
        assert math.isnan(losses[1])
        return np.array([99.0, 1.0])

    row, distance = BlackBox(space, configs, [1.0, None], weights).answer(asked)
    assert row == 0 and distance == pytest.approx(0.7 * 0.1)
