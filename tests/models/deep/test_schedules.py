"""Learning rates and the trade-off against their closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from looped import each
from tabsweep.models.deep.schedules import FLOOR, SCHEDULES, rate, tradeoff

T, PEAK = 1000, 2e-3


def curve(name, share=0.5, steps=T):
    return np.array([rate(name, s, steps, PEAK, share) for s in range(steps)])


def test_all_schedules_stay_between_zero_and_the_peak():
    for name in SCHEDULES:
        for share in (0.01, 0.2, 0.5, 0.99, 1.0):
            for steps in (1, 2, 7, T):
                found = curve(name, share, steps)
                assert (found >= 0).all() and (found <= PEAK * (1 + 1e-12)).all(), (name, share)


def test_constant_is_the_peak():
    assert set(curve("constant")) == {PEAK}


def test_cosine_begins_at_the_peak_and_is_half_of_it_half_way():
    found = curve("cosine")
    s = np.arange(T)
    np.testing.assert_allclose(found, PEAK * np.cos(np.pi * s / (2 * T)) ** 2, rtol=1e-9)
    assert found[0] == PEAK and found[T // 2] == pytest.approx(PEAK / 2)


@each("share", [0.0, 0.3, 0.5, 0.7])
def test_flat_cosine_is_flat_then_falls_to_zero_at_the_last_step(share):
    found, flat = curve("flat-cosine", share), int(share * T)
    assert (found[:flat] == PEAK).all()
    left = np.arange(flat, T) - flat + 1  # one step early
    expected = PEAK * np.cos(np.pi * left / (2 * (T - flat))) ** 2
    np.testing.assert_allclose(found[flat:], expected, rtol=1e-9, atol=1e-18)
    assert found[-1] == pytest.approx(0.0, abs=1e-18)
    assert (np.diff(found[flat:]) < 0).all()
    assert set(curve("flat-cosine", 1.0)) == {PEAK}


def test_cyclic_warms_up_has_one_cycle_of_double_length_and_ends_half_way_through_the_next():
    found, warm = curve("cosine-cyclic", 0.2), 200
    np.testing.assert_allclose(np.diff(found[: warm + 1]), (PEAK - FLOOR) / warm, rtol=1e-9)
    assert found[0] == FLOOR and found[warm] == PEAK
    assert found[3 * warm - 1] < 1e-2 * PEAK  # end of the first cycle
    assert found[3 * warm] == pytest.approx(PEAK / 2)  # the second one begins at half the peak
    assert rate("cosine-cyclic", T, T, PEAK, 0.2) == pytest.approx(PEAK / 4, rel=1e-3)


def test_polynomial_warms_up_from_zero_and_falls_in_a_straight_line():
    found, warm = curve("polynomial", 0.01), 10
    np.testing.assert_allclose(found[:warm], PEAK * np.arange(warm) / warm)
    assert found[0] == 0.0 and found[warm] == PEAK
    np.testing.assert_allclose(np.diff(found[warm:]), -(PEAK - FLOOR) / (T - warm), rtol=1e-9)
    assert rate("polynomial", T, T, PEAK, 0.01) == pytest.approx(FLOOR)


def test_a_schedule_that_is_unknown_or_has_no_cycles_is_refused():
    with pytest.raises(ValueError, match="'linear'"):
        rate("linear", 0, T, PEAK)
    with pytest.raises(ValueError, match="'flat'"):
        tradeoff("flat", 0, T)
    with pytest.raises(ValueError, match="share"):  # without a warm-up there are no cycles
        rate("cosine-cyclic", 0, T, PEAK, 0.0)


@each("start", [1.0, 0.5])
def test_the_trade_off_begins_at_its_start_and_ends_at_zero(start):
    for name, half in (("cosine", 0.5), ("linear", 0.5)):
        assert tradeoff(name, 0, T, start) == tradeoff(name, 1, T, start) == start  # a step late
        assert tradeoff(name, T // 2 + 1, T, start) == pytest.approx(half * start)
        assert tradeoff(name, T + 1, T, start) == pytest.approx(0.0, abs=1e-12)
        assert tradeoff(name, T + 2, T, start) == 0.0
    assert {tradeoff("constant", s, T, start) for s in range(T)} == {start}
    s = 321
    closed = start * 0.5 * (1 + math.cos(math.pi * (s - 1) / T))
    assert tradeoff("cosine", s, T, start) == pytest.approx(closed, rel=1e-12)


def test_a_trade_off_over_part_of_the_steps_is_zero_from_there_on():
    found = [tradeoff("cosine", s, T, 1.0, 0.25) for s in range(T)]
    assert found[251] == pytest.approx(0.0, abs=1e-12) and not any(found[252:])
    assert np.all(np.diff(found[1:252]) < 0)
