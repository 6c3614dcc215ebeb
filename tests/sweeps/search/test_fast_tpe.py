"""The fast TPE proposes what Optuna's own sampler proposes, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_tpe import PlainTPE
from tabsweep.sweeps.search import fast_tpe, truncated_normal
from tabsweep.sweeps.search.json_values import identity
from tabsweep.sweeps.search.optuna_tpe import OptunaTPE
from tabsweep.sweeps.search.space import Choice, Float, Int, Maybe, Space

REALS = Space({"a": Float(0.0, 1.0), "b": Float(1e-6, 1e2, log=True), "c": Float(-3.0, 5.0)})
NUMBERS = Space({"n": Int(1, 1000, log=True), "d": Int(3, 10), "s": Int(8, 64, step=8)})
CHOICES = Space({"x": Choice(("a", "b", "c")), "y": Choice((True, 1, None)), "d": Int(0, 1)})
WIDE = Space({"n": Int(1, 10**9, log=True), "m": Int(0, 10**12), "a": Float(0.0, 1.0)})
TREE = Space(
    {
        "booster": Choice(("tree", "linear", "none")),
        "depth": Int(3, 10),
        "lr": Float(1e-5, 1.0, log=True),
        "reg": Maybe(0.0, Float(1e-8, 1e2, log=True)),
        "leaves": Int(8, 64, step=8),
        "gamma": Float(1e-4, 0.5, log=True),
        "layers": Choice(([8], [16, 16], None)),
    },
    when={"leaves": {"booster": ["tree"]}, "gamma": {"booster": ["tree", "linear"]}},
)
SPACES = {"reals": REALS, "numbers": NUMBERS, "choices": CHOICES, "wide": WIDE, "tree": TREE}


def pair(space: Space, n: int, *, ties: bool, failures: float, seed: int = 0):
    """Both samplers with n trials; the losses have ties where told, and some trials failed."""
    rng = np.random.default_rng(seed)
    fast, plain = OptunaTPE(space), PlainTPE(space)
    for index in range(n):
        config = space.sample(rng)
        loss: float | None = float(rng.integers(0, 5)) if ties else float(rng.normal())
        if rng.random() < failures:
            loss = None
        for sampler in (fast, plain):
            sampler.add(index, config, loss)
    return fast, plain


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize(("n", "ties", "failures"), [(0, 0, 0), (11, 0, 0.5), (60, 1, 0.2)])
def test_proposals_are_those_of_optuna(name, n, ties, failures):
    fast, plain = pair(SPACES[name], n, ties=bool(ties), failures=failures)
    for seed in range(4):
        assert identity(fast.propose(n, seed)) == identity(plain.propose(n, seed))


@pytest.mark.parametrize("name", SPACES)
def test_a_whole_study_goes_the_same_way(name):
    """Each proposal is told back: trials crowd where the loss is low, as in a real study."""
    space = SPACES[name]
    fast, plain = OptunaTPE(space), PlainTPE(space)
    first = space.sample(np.random.default_rng(1))
    for index in range(70):
        config = fast.propose(index, 1000 + index)
        if index % 7 == 0 or index > 60:
            assert identity(config) == identity(plain.propose(index, 1000 + index))
        numbers = list(space.encode(config).values())
        near = list(space.encode(first).values())
        loss = sum(abs(a - b) for a, b in zip(numbers, near, strict=False)) + index % 3
        for sampler in (fast, plain):
            sampler.add(index, config, None if index % 11 == 5 else round(loss, 2))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(SPACES)), st.integers(0, 90), st.booleans(), st.integers(0, 2**32 - 1)
)
def test_any_history_leads_to_the_proposal_of_optuna(name, n, ties, seed):
    fast, plain = pair(SPACES[name], n, ties=ties, failures=0.1, seed=seed)
    assert identity(fast.propose(n, seed)) == identity(plain.propose(n, seed))


@pytest.mark.parametrize("name", ["reals", "numbers", "tree"])
def test_proposals_after_many_trials_are_those_of_optuna(name):
    """More trials than the arrays begin with, than the kernels' least width changes for, and than
    a density takes at a time."""
    n = 2 * fast_tpe.BLOCK
    fast, plain = pair(SPACES[name], n, ties=False, failures=0.05)
    for seed in (1, 2):
        assert identity(fast.propose(n, seed)) == identity(plain.propose(n, seed))
    assert fast._sampler.undecided == 0


@pytest.mark.parametrize("n", [200, 3 * fast_tpe.BLOCK])
def test_densities_are_those_of_optuna_up_to_a_constant(n):
    from optuna.samplers import TPESampler

    fast, _ = pair(TREE, n, ties=False, failures=0.0)
    history, space = fast._history, fast._joint
    sampler = TPESampler(seed=0)
    good, bad = (
        sampler._parzen_estimator_cls(
            history.observations(space, which), space, sampler._parzen_estimator_parameters
        )
        for which in (history.below(), ~history.below())
    )
    samples = good.sample(np.random.RandomState(0), 24)
    for estimator in (good, bad):
        off = fast_tpe.log_density(estimator, samples) - estimator.log_pdf(samples)
        assert np.ptp(off) < 1e-9


def test_the_distribution_function_is_optunas_to_the_bit():
    from optuna.samplers._tpe import _truncnorm

    rng = np.random.default_rng(0)
    edges = np.array([-20.0, -1.0, 0.0, -0.0, 1.0, 6.0, np.inf, np.nan, 5e-324])
    near = np.concatenate([np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf)])
    for a in (near, 3 * rng.normal(size=2000), rng.uniform(-60, 12, size=2000), np.array([])):
        with np.errstate(invalid="ignore"):
            assert truncated_normal.log_ndtr(a).tobytes() == _truncnorm._log_ndtr(a).tobytes()


def test_draws_are_those_of_optuna_to_the_bit_and_its_own_modules_stay_as_they_are():
    from optuna.samplers import TPESampler
    from optuna.samplers._tpe import _truncnorm

    fast, _ = pair(TREE, 150, ties=False, failures=0.0)
    made = TPESampler(seed=0)
    good = made._parzen_estimator_cls(
        fast._history.observations(fast._joint, fast._history.below()),
        fast._joint,
        made._parzen_estimator_parameters,
    )._mixture_distribution
    for seed in range(20):
        one, two = np.random.RandomState(seed), np.random.RandomState(seed)
        drawn = truncated_normal.sample(good, one, 24)
        assert drawn.tobytes() == good.sample(two, 24).tobytes()
        assert one.random_sample() == two.random_sample()
    assert _truncnorm._log_ndtr is not truncated_normal.log_ndtr


def test_what_the_fast_density_cannot_tell_apart_is_left_to_optuna():
    one, two = {"a": np.array([0.5, 0.2, 0.5])}, {"a": np.array([0.5, 0.2, 0.7])}
    assert fast_tpe.decides(np.array([1.0, 0.0, 1.0]), one)  # the same candidate twice
    assert not fast_tpe.decides(np.array([1.0, 0.0, 1.0]), two)
    assert not fast_tpe.decides(np.array([1.0, 0.0, np.nan]), two)
    assert not fast_tpe.decides(np.array([np.inf, 0.0, 0.0]), two)
    # Whole numbers that lie too close together for the difference of two distribution functions.
    fast, plain = pair(WIDE, 40, ties=False, failures=0.0)
    sampler = fast_tpe.FastTPESampler(3)
    sampler.sample_relative(fast._history, fast._trial, fast._joint)
    assert sampler.undecided == 1
    # Candidates at the very end of a range, where rounding may put them beyond it.
    edge = fast_tpe.log_density(
        sampler._parzen_estimator_cls(
            {"a": np.array([0.1, 0.9])},
            {"a": fast._distributions["a"]},
            sampler._parzen_estimator_parameters,
        ),
        {"a": np.array([0.5, 1.0 + 1e-12])},
    )
    assert np.isfinite(edge[0]) and np.isnan(edge[1])
