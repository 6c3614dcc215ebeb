"""Samplers: a suggestion is a pure function of space, history, index and seed."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from tabsweep.sweeps.search.samplers import SAMPLERS, _hash, make_sampler, n_distinct
from tabsweep.sweeps.search.space import Choice, Fixed, Float, Int, Maybe, Space
from tabsweep.sweeps.trial import canonical

TREES = Space(
    {
        "booster": Choice(("tree", "linear")),
        "depth": Int(3, 10),
        "lr": Float(1e-5, 1.0, log=True),
        "reg": Maybe(0.0, Float(1e-8, 1e2, log=True)),
        "leaves": Int(8, 64, step=8),
        "layers": Choice(([8], [16, 16], None)),
        "gamma": Float(0.0001, 0.5, log=True, shift=-0.0001),
        "seedling": Fixed(True),
    }
)
DEFAULT = {"booster": "tree", "depth": 6, "lr": 0.3, "outside": "the space"}
ADAPTIVE = ["tpe", "hyperopt"]


def loss_of(config: dict) -> float | None:
    """A rough surface with ties and with failures that depend on the configuration alone."""
    if config["depth"] >= 9 or config.get("leaves") == 64:
        return None
    depth = abs(config["depth"] - 6)
    return round((math.log10(config["lr"]) + 2) ** 2 + depth + config.get("gamma", 0.0), 1)


def suggest(name: str, space: Space, history, index: int, seed: int, **more) -> dict:
    """The configuration of trial `index`, by a sampler that is told the history for it alone."""
    sampler = make_sampler(name, space, seed=seed, **more)
    for i, config, loss in history:
        sampler.tell(i, config, loss)
    return sampler.ask(index)


def study(sampler, n: int, space: Space = TREES) -> list[tuple[int, dict, float | None]]:
    history = []
    for i in range(n):
        config = sampler.ask(i)
        sampler.tell(i, config, loss_of(config))
        history.append((i, config, loss_of(config)))
    return history


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_kept_study_suggests_what_the_pure_function_suggests(name: str) -> None:
    first = (DEFAULT, {**DEFAULT, "lr": 0.1})
    kept = make_sampler(name, TREES, seed=7, first=first)
    history = json.loads(json.dumps(study(kept, 60)))
    assert history[0][1] == DEFAULT and history[1][1]["lr"] == 0.1
    assert 5 < sum(loss is None for _, _, loss in history) < 55
    assert {len(config) for _, config, _ in history[2:]} == {8}
    assert all(config in TREES for _, config, _ in history[2:])
    order = random.Random(0)
    for i, config, _ in history:
        rows = history[: i + i % 3]  # at times with results that it must not see
        order.shuffle(rows)
        assert canonical(suggest(name, TREES, rows, i, 7, first=first)) == canonical(config)
    resumed = make_sampler(name, TREES, seed=7, first=first)
    for row in reversed(history[:45]):
        resumed.tell(*row)
    for i, config, loss in history[45:]:
        assert canonical(resumed.ask(i)) == canonical(resumed.ask(i)) == canonical(config)
        resumed.tell(i, config, loss)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_lag_fixes_which_results_a_suggestion_sees(name: str) -> None:
    eager, late = (make_sampler(name, TREES, seed=3, lag=4) for _ in range(2))
    asked: list[dict] = []
    for i in range(40):
        asked.append(eager.ask(i))
        eager.tell(i, asked[i], loss_of(asked[i]))
    waiting: list[int] = []
    for i in range(40):
        assert canonical(late.ask(i)) == canonical(asked[i])
        waiting.append(i)
        if len(waiting) == 4:  # four at once, told backwards
            for j in reversed(waiting):
                late.tell(j, asked[j], loss_of(asked[j]))
            waiting = []
    rows = [(i, c, loss_of(c)) for i, c in enumerate(asked)]
    assert canonical(suggest(name, TREES, rows[:36], 39, 3, lag=4)) == canonical(asked[39])


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_first_configuration_outside_the_space_stands_in_no_history(name: str) -> None:
    inside = [(i, TREES.sample(np.random.default_rng(i)), float(i)) for i in range(1, 30)]
    answers = {
        canonical(suggest(name, TREES, [(0, DEFAULT, loss), *inside], 30, 0, first=[DEFAULT]))
        for loss in (None, -100.0, 100.0)
    }
    assert len(answers) == 1


@pytest.mark.parametrize("name", ADAPTIVE)
def test_good_results_pull_suggestions_and_failures_do_not(name: str) -> None:
    space = Space({"x": Float(0, 1)})
    rng = np.random.default_rng(0)
    points = [space.sample(rng) for _ in range(40)]
    near = [(i, c, abs(c["x"] - 0.9)) for i, c in enumerate(points)]
    failed = [(i, c, None if c["x"] > 0.7 else abs(c["x"] - 0.9)) for i, c in enumerate(points)]
    for rows, low, high in ((near, 0.8, 1.0), (failed, 0.6, 0.85)):
        drawn = [suggest(name, space, rows, 40, seed)["x"] for seed in range(9)]
        assert low < np.median(drawn) < high


@pytest.mark.parametrize("name", SAMPLERS)
def test_suggestions_are_plain_and_fall_inside_the_space(name: str) -> None:
    grid = Space({"a": Choice((1, 1.0, True)), "b": Maybe(None, Int(1, 40)), "c": Choice(([1],))})
    space = grid if name == "grid" else TREES
    sampler = make_sampler(name, space, seed=5)
    for i in range(40):
        config = sampler.ask(i)
        assert config in space
        assert {type(v) for v in config.values()} <= {int, float, str, bool, list, type(None)}
        text = json.dumps(config)
        assert canonical(json.loads(text)) == canonical(config) and json.loads(text) in space
        sampler.tell(i, config, float(i % 5))


@pytest.mark.parametrize("name", SAMPLERS)
def test_different_seeds_and_indices_differ(name: str) -> None:
    space = Space({"n": Int(0, 10**6)})
    asked = {}
    for seed in range(4):
        sampler = make_sampler(name, space, seed=seed)
        for i in range(25):
            asked[seed, i] = sampler.ask(i)["n"]
            sampler.tell(i, {"n": asked[seed, i]}, 1.0)
    assert len(set(asked.values())) >= 95


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_space_with_nothing_to_choose_is_searched_all_the_same(name: str) -> None:
    for space in (Space({}), Space({"x": Fixed(3), "y": Choice(("only",)), "z": Int(2, 2)})):
        sampler = make_sampler(name, space, seed=0)
        assert sampler.ask(0) in space and n_distinct(space) == 1


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_first_indices_get_the_first_configurations(name: str) -> None:
    first = [{"n": np.int64(3)}, {"other": (1, 2)}]
    space = Space({"n": Int(1, 4)})
    sampler = make_sampler(name, space, seed=0, first=first)
    assert [sampler.ask(i) for i in (0, 1)] == [{"n": 3}, {"other": [1, 2]}]
    sampler.ask(0)["n"] = 99
    assert sampler.ask(0) == {"n": 3} and type(sampler.ask(0)["n"]) is int


def test_history_free_samplers_need_no_results() -> None:
    space = Space({"n": Int(1, 30)})
    free = {n: make_sampler(n, space, seed=0).history_free for n in SAMPLERS}
    assert free == {"grid": True, "random": True, "tpe": False, "hyperopt": False}
    for name in ("grid", "random"):
        forwards, backwards = (make_sampler(name, space, seed=9) for _ in range(2))
        there = [forwards.ask(i) for i in range(20)]
        assert [backwards.ask(i) for i in reversed(range(20))] == there[::-1]
        told = [(i, c, 1.0) for i, c in enumerate(there)]
        assert suggest(name, space, told, 19, 9) == there[19]


def test_a_grid_tries_each_point_once_and_then_says_that_it_is_used_up() -> None:
    space = Space({"n": Int(0, 5), "b": Choice((True, False))})
    sampler = make_sampler("grid", space, seed=0)
    order = [canonical(sampler.ask(i)) for i in range(12)]
    assert set(order) == {canonical(space.grid_point(i)) for i in range(12)}
    with pytest.raises(ValueError, match="12.*12"):
        sampler.ask(12)


POINTS = Space({"a": Choice((0, 1, 2, 3)), "n": Int(1, 8, log=True), "m": Maybe(1, Int(1, 2))})


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("lag", [1, 4])
def test_every_point_of_a_finite_space_is_tried_once_before_any_is_tried_twice(name, lag) -> None:
    first = [{"a": 1, "n": 7, "m": 2}, {"elsewhere": 1}]
    n = n_distinct(POINTS, first)
    assert n == 2 + 4 * 8 * 2 - 1
    sampler = make_sampler(name, POINTS, seed=2, lag=lag, first=first)
    rows: list[tuple[int, dict, float | None]] = []
    for i in range(n):
        config = sampler.ask(i)
        rows.append(
            (i, config, None if i % 9 == 8 else config.get("n", 9) / 4 + config.get("a", 1))
        )
        if i >= lag - 1:  # as many as may run at once are running
            sampler.tell(*rows[i - lag + 1])
    assert len({canonical(config) for _, config, _ in rows}) == n
    if name != "grid":
        assert sampler.ask(n) in POINTS
    for i in (20, n - 1):  # told nothing but the results that it may see, in another process
        assert suggest(name, POINTS, rows[: i - lag + 1], i, 2, lag=lag, first=first) == rows[i][1]


@pytest.mark.parametrize("name", ["random", *ADAPTIVE])
def test_a_point_that_a_run_has_from_elsewhere_is_not_suggested_again(name) -> None:
    space = Space({"n": Int(0, 5)})
    sampler = make_sampler(name, space, seed=0, startup=2)
    for i, n in enumerate([3, 3, 1]):  # of a run that drew with replacement
        sampler.take(i, {"n": n})
        sampler.tell(i, {"n": n}, 0.5)
    left = []
    for i in range(3, 7):
        left.append(sampler.ask(i)["n"])
        sampler.tell(i, {"n": left[-1]}, 0.5)
    assert sorted(left) == [0, 2, 4, 5]


def test_a_finite_space_without_repeats_is_drawn_from_as_an_endless_one_is() -> None:
    """Suggestions differ from independent draws only where these repeat a point."""
    sampler, tried = make_sampler("random", POINTS, seed=1), set()
    for i in range(30):
        drawn = POINTS.sample(np.random.default_rng(_hash(1, i)))
        assert (sampler.ask(i) == drawn) == (canonical(drawn) not in tried)
        tried.add(canonical(sampler.ask(i)))
    assert len(tried) == 30


def test_a_grid_does_not_repeat_the_first_configurations() -> None:
    space = Space({"n": Int(0, 5)})
    first = [{"n": 3}, {"n": 77}, {"n": 3}]
    assert n_distinct(space, first) == 8
    sampler = make_sampler("grid", space, seed=1, first=first)
    assert sorted(sampler.ask(i)["n"] for i in range(3, 8)) == [0, 1, 2, 4, 5]
    assert n_distinct(Space({"x": Float(0, 1)}), first) is None


def test_a_small_grid_budget_is_a_seeded_subset_without_replacement() -> None:
    space = Space({f"p{i}": Choice(tuple(range(10))) for i in range(5)})
    subsets = {}
    for seed in (0, 1):
        sampler = make_sampler("grid", space, seed=seed)
        subsets[seed] = [canonical(sampler.ask(i)) for i in range(300)]
        assert len(set(subsets[seed])) == 300
    assert len(set(subsets[0]) & set(subsets[1])) < 10
    huge = Space({f"p{i}": Int(0, 2**40) for i in range(3)})
    assert make_sampler("grid", huge, seed=0).ask(4) in huge


def test_a_subset_of_the_grid_leans_nowhere() -> None:
    space = Space({"n": Int(0, 3)})
    pairs = [
        (make_sampler("grid", space, seed=s).ask(0)["n"],
         make_sampler("grid", space, seed=s).ask(1)["n"])
        for s in range(1200)
    ]  # fmt: skip
    counts = np.zeros((4, 4), int)
    np.add.at(counts, tuple(np.transpose(pairs)), 1)
    assert np.diag(counts).sum() == 0
    assert counts[~np.eye(4, dtype=bool)].min() > 65  # 100 expected of each ordered pair


def test_tpe_is_optunas_own_tpe() -> None:
    """The same distributions, seeds and results give the suggestions of a plain Optuna study."""
    import optuna

    space = Space({"a": Float(1e-3, 1, log=True), "b": Float(-1, 1), "c": Int(1, 90, log=True)})
    sampler = make_sampler("tpe", space, seed=0)
    reference = optuna.create_study()
    for i in range(40):
        reference.sampler = optuna.samplers.TPESampler(seed=_hash(0, i))
        trial = reference.ask()
        expected = {
            "a": trial.suggest_float("a", 1e-3, 1, log=True),
            "b": trial.suggest_float("b", -1, 1),
            "c": trial.suggest_int("c", 1, 90, log=True),
        }
        config = sampler.ask(i)
        assert config == expected
        loss = None if i % 6 == 5 else config["a"] + config["b"] ** 2 + config["c"] / 90
        sampler.tell(i, config, loss)
        state = optuna.trial.TrialState.FAIL if loss is None else None
        reference.tell(trial, loss, state=state)


def test_hyperopt_is_hyperopts_own_tpe() -> None:
    """Without ties and failures, `fmin` with the same seeds tries the same points."""
    from functools import partial

    from hyperopt import Trials, fmin, hp, tpe

    def loss(config: dict) -> float:
        return config["a"] + (config["b"] - 0.2) ** 2 + config["c"] / 7

    space = Space({"a": Float(1e-3, 1, log=True), "b": Float(-1, 1), "c": Choice((0, 1, 2, 3))})
    sampler = make_sampler("hyperopt", space, seed=0)
    ours = []
    for i in range(40):
        ours.append(sampler.ask(i))
        sampler.tell(i, ours[i], loss(ours[i]))

    def seeded(new_ids, domain, trials, seed):
        return partial(tpe.suggest, verbose=False)(new_ids, domain, trials, _hash(0, new_ids[0]))

    tried = []
    nodes = {
        "a": hp.loguniform("a", math.log(1e-3), 0.0),
        "b": hp.uniform("b", -1, 1),
        "c": hp.randint("c", 4),
    }
    fmin(
        lambda c: tried.append(c) or loss(c),
        nodes,
        seeded,
        max_evals=40,
        trials=Trials(),
        show_progressbar=False,
        rstate=np.random.default_rng(0),
    )
    assert [{k: pytest.approx(v) for k, v in c.items()} for c in tried] == ours


def test_suggestions_do_not_depend_on_the_process() -> None:
    """Another process with another hash seed suggests the same, to the last digit."""
    code = """
import json, sys
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space
space = Space.parse(json.load(sys.stdin))
for name in ("random", "tpe", "hyperopt"):
    sampler = make_sampler(name, space, seed=11)
    for i in range(26):
        config = sampler.ask(i)
        sampler.tell(i, config, config["lr"] % 0.1)
    print(json.dumps(config))
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(TREES.to_data()),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4711")
    ]
    assert said[0] == said[1] and len(said[0].splitlines()) == 3


def test_libraries_stay_silent(capfd: pytest.CaptureFixture[str]) -> None:
    for name in ADAPTIVE:
        study(make_sampler(name, TREES, seed=0), 30)
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


WRONG_CALLS = [
    (lambda: make_sampler("tpee", TREES, seed=0), "'tpee'.*'tpe'"),
    (lambda: make_sampler("grid", TREES, seed=0), "gamma, lr, reg"),
    (lambda: make_sampler("tpe", TREES, seed=0).tell(0, {}, math.nan), "finite"),
    (lambda: make_sampler("tpe", TREES, seed=0).tell(0, {}, "bad"), "'bad'"),
]


def test_a_wrong_call_is_answered_with_the_law_and_the_value() -> None:
    for call, message in WRONG_CALLS:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("name", ADAPTIVE)
def test_startup_is_where_a_sampler_begins_to_learn(name: str) -> None:
    def configs(startup: int | None, shift: float) -> list[str]:
        sampler = make_sampler(name, TREES, seed=3, startup=startup)
        found = []
        for i in range(12):
            config = sampler.ask(i)
            sampler.tell(i, config, abs(config["lr"] - shift))
            found.append(canonical(config))
        return found

    for startup, learns_from in ((4, 4), (9, 9)):
        one, other = configs(startup, 0.0), configs(startup, 1.0)  # opposite losses
        assert one[:learns_from] == other[:learns_from] == configs(None, 0.0)[:learns_from]
        assert one[learns_from:] != other[learns_from:]
