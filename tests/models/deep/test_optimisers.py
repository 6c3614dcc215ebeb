"""Every way in which LAMB computes a step gives the same one; rates stay within their bounds.

tests/parity/test_npt.py and test_hopular.py show that steps and rates are the official ones, and so
of Lookahead and the average of weights.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from looped import each
from tabsweep.models.deep import optimisers
from tabsweep.models.deep.optimisers import CAP, Lamb
from tabsweep.models.deep.schedules import SCHEDULES, rate, tradeoff

SHAPES = {"matrix": (9, 7), "vector": (11,), "one": (1,), "large": (30, 40), "box": (3, 4, 5)}


def gradients(rng, shape, t):
    return (
        10.0 ** rng.uniform(-4, 3) * rng.normal(size=shape) * (rng.random(shape) < 0.9) * (t != 2)
    )


@each("debias", [False, True])
@each("decay", [0.0, 0.1])
def test_tensors_in_blocks_and_in_segments_move_as_those_that_are_taken_together(
    debias, decay, monkeypatch
):
    def walked(path):
        rng = np.random.default_rng(0)
        starts = [(3.0 if n == "large" else 0.2) * rng.normal(size=s) for n, s in SHAPES.items()]
        assert max(map(np.linalg.norm, starts)) > CAP
        params = [torch.tensor(a, requires_grad=True) for a in (*starts, np.zeros((2, 3)))]
        segments = {p: [len(p)] for p in params} if path == "by segment" else None
        lamb, seen = Lamb(params, weight_decay=decay, debias=debias, segments=segments), []
        for t in range(8):
            lamb.param_groups[0]["lr"] = 0.01 * (t + 1)
            for p in params:
                p.grad = torch.tensor(gradients(rng, p.shape, t))
            lamb.step()
            seen.append(torch.cat([p.detach().ravel() for p in params]))
        return torch.stack(seen)

    wanted = walked("together")
    monkeypatch.setattr(optimisers, "LARGE", 0)
    monkeypatch.setattr(optimisers, "BLOCK", 17)
    for path in ("by block", "by segment"):
        torch.testing.assert_close(walked(path), wanted, rtol=1e-11, atol=1e-12)


@each("sizes", [[4, 1, 6, 2], [1] * 13, [13]])
@each("tail", [(), (5,), (2, 3)])
def test_segments_move_like_tensors_of_their_own(sizes, tail):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(13, *tail)) * np.arange(1, 14).reshape(13, *[1] * len(tail))
    whole, one = (torch.tensor(rows, requires_grad=True) for _ in range(2))
    parts = [p.clone().requires_grad_() for p in whole.detach().split(sizes)]
    together = Lamb([whole], lr=0.05, weight_decay=0.01, segments={whole: sizes})
    apart, as_one = Lamb(parts, lr=0.05, weight_decay=0.01), Lamb([one], lr=0.05, weight_decay=0.01)
    for _ in range(5):
        g = torch.tensor(rng.normal(size=whole.shape))
        whole.grad, one.grad = g.clone(), g.clone()
        for p, own in zip(parts, g.split(sizes), strict=True):
            p.grad = own.clone()
        for lamb in (together, apart, as_one):
            lamb.step()
        joined = torch.cat([p.detach() for p in parts])
        assert float((whole.detach() - joined).abs().max()) <= 1e-12
        differs = float((whole.detach() - one.detach()).abs().max())
        assert differs > 1e-3 if len(sizes) > 1 else differs <= 1e-12


# ---------------------------------------------------------------------- schedules


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


def test_a_schedule_that_is_unknown_or_has_no_cycles_is_refused():
    with pytest.raises(ValueError, match="'linear'"):
        rate("linear", 0, T, PEAK)
    with pytest.raises(ValueError, match="'flat'"):
        tradeoff("flat", 0, T)
    with pytest.raises(ValueError, match="share"):  # without a warm-up there are no cycles
        rate("cosine-cyclic", 0, T, PEAK, 0.0)
