"""LAMB, Lookahead, the average and gradient clipping against their definitions.

The references here are loops over plain numbers, written from the papers' formulas alone.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from looped import each
from tabsweep.models.deep import optimisers
from tabsweep.models.deep.optimisers import (
    CAP,
    Average,
    Lamb,
    Lookahead,
    clip_norm,
    clip_values,
)

B1, B2, EPS = 0.9, 0.999, 1e-6
PATHS = ("together", "by block", "by segment")
SHAPES = {"matrix": (9, 7), "vector": (11,), "one": (1,), "large": (30, 40), "box": (3, 4, 5)}


class SlowLamb:
    """One tensor, as a list of numbers, after the formulas of You et al. 2020, Algorithm 2."""

    def __init__(self, start, *, decay=0.0, debias=False):
        self.w = [float(x) for x in np.ravel(start)]
        self.m, self.v, self.t = [0.0] * len(self.w), [0.0] * len(self.w), 0
        self.decay, self.debias = decay, debias

    def step(self, gradient, lr):
        self.t += 1
        r = []
        for i, g in enumerate(np.ravel(gradient)):
            self.m[i] = B1 * self.m[i] + (1 - B1) * float(g)
            self.v[i] = B2 * self.v[i] + (1 - B2) * float(g) ** 2
            r.append(self.m[i] / (math.sqrt(self.v[i]) + EPS) + self.decay * self.w[i])
        w_norm = min(math.sqrt(sum(x * x for x in self.w)), 10.0)
        r_norm = math.sqrt(sum(x * x for x in r))
        ratio = w_norm / r_norm if w_norm and r_norm else 1.0
        if self.debias:
            ratio *= math.sqrt(1 - B2**self.t) / (1 - B1**self.t)
        self.w = [x - lr * ratio * d for x, d in zip(self.w, r, strict=True)]


def start_of(name, shape, rng):
    scale = {"large": 3.0}.get(name, 0.2)  # the norm of `large` is over the cap
    return scale * rng.normal(size=shape)


def gradients(rng, shape, t):
    return (
        10.0 ** rng.uniform(-4, 3) * rng.normal(size=shape) * (rng.random(shape) < 0.9) * (t != 2)
    )


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    if request.param == "by block":
        monkeypatch.setattr(optimisers, "LARGE", 0)
        monkeypatch.setattr(optimisers, "BLOCK", 17)
    return request.param


@each("debias", [False, True])
@each("decay", [0.0, 0.1])
def test_every_path_of_lamb_takes_the_steps_of_the_slow_reference(path, debias, decay):
    rng = np.random.default_rng(0)
    starts = {n: start_of(n, s, rng) for n, s in SHAPES.items()} | {"zero": np.zeros((2, 3))}
    params = {n: torch.tensor(a, requires_grad=True) for n, a in starts.items()}
    slow = {n: SlowLamb(a, decay=decay, debias=debias) for n, a in starts.items()}
    segments = {p: [len(p)] for p in params.values()} if path == "by segment" else None
    lamb = Lamb(params.values(), weight_decay=decay, debias=debias, segments=segments)
    for t in range(8):
        lr = 0.01 * (t + 1)
        lamb.param_groups[0]["lr"] = lr
        for n, p in params.items():
            g = gradients(rng, p.shape, t)
            slow[n].step(g, lr)
            p.grad = torch.tensor(g)
        lamb.step()
        for n, p in params.items():
            np.testing.assert_allclose(p.detach().ravel(), slow[n].w, rtol=1e-11, atol=1e-12)
    assert np.linalg.norm(starts["large"]) > CAP


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


# -- slow copies ----------------------------------------------------------------------------------


def walk(steps, copy_of, seed=4):
    """Weights before and after each step of a random walk that `copy_of(params)` follows."""
    rng = np.random.default_rng(seed)
    params = [torch.tensor(rng.normal(size=s)) for s in ((3, 2), (4,))]
    copy, seen = copy_of(params), []
    for t in range(1, steps + 1):
        for p in params:
            p.add_(torch.tensor(rng.normal(size=p.shape)))
        before = [p.clone() for p in params]
        copy.after(t)
        seen.append((before, [p.clone() for p in params]))
    return copy, seen


def test_lookahead_changes_nothing_at_six_and_takes_the_mean_at_twelve():
    copy, seen = walk(18, lambda p: Lookahead(p, alpha=0.5, k=6))
    for t, (before, after) in enumerate(seen, 1):
        same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        assert same == (t not in (12, 18)), t
    slow = seen[5][1]
    for t in (12, 18):
        before, after = seen[t - 1]
        slow = [(a + b) / 2 for a, b in zip(slow, before, strict=True)]
        for s, a in zip(slow, after, strict=True):
            assert float((s - a).abs().max()) <= 1e-15


def test_an_average_has_its_closed_form_and_leaves_the_weights_alone():
    share, steps = 0.3, 7
    starts = []

    def begin(params):
        starts.extend(p.clone() for p in params)
        return Average(params, share)

    copy, seen = walk(steps, begin)
    assert all(
        torch.equal(a, b) for before, after in seen for a, b in zip(before, after, strict=True)
    )
    for i, start in enumerate(starts):
        expected = (1 - share) ** steps * start
        for t, (_, after) in enumerate(seen, 1):
            expected = expected + share * (1 - share) ** (steps - t) * after[i]
        assert float((copy.slow[i] - expected).abs().max()) <= 1e-14
    fast = [p.clone() for p in copy.params]
    slow = [p.clone() for p in copy.slow]
    copy.swap()
    assert all(torch.equal(p, s) for p, s in zip(copy.params, slow, strict=True))
    copy.swap()
    assert all(torch.equal(p, f) for p, f in zip(copy.params, fast, strict=True))


# -- clipping -------------------------------------------------------------------------------------


def with_gradients(*values):
    made = []
    for v in values:
        p = torch.zeros(len(v), dtype=torch.double, requires_grad=True)
        p.grad = torch.tensor(v, dtype=torch.double)
        made.append(p)
    return [*made, torch.zeros(2, requires_grad=True)]  # the last has none


def test_values_are_clipped_one_by_one():
    params = with_gradients([-3.0, 0.5, 1.0], [2.0])
    clip_values(params, 1.0)
    assert params[0].grad.tolist() == [-1.0, 0.5, 1.0] and params[1].grad.tolist() == [1.0]
    assert params[2].grad is None


def test_a_norm_is_clipped_over_all_gradients_at_once():
    params = with_gradients([3.0, 0.0], [4.0])
    assert float(clip_norm(params, 1.0)) == pytest.approx(5.0)
    factor = 1.0 / (5.0 + 1e-6)
    np.testing.assert_allclose(params[0].grad, [3 * factor, 0], rtol=1e-12)
    np.testing.assert_allclose(params[1].grad, [4 * factor], rtol=1e-12)
    small = with_gradients([0.3], [0.4])
    assert float(clip_norm(small, 1.0)) == pytest.approx(0.5)
    assert small[0].grad.tolist() == [0.3]
