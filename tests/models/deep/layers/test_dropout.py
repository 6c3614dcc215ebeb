"""Dropout is fair, seeded and scaled; the feed-forward block equals the plain layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from looped import each
from tabsweep.models.deep.layers import feed_forward as ff
from tabsweep.models.deep.layers.dropout import dropout
from tabsweep.models.deep.layers.feed_forward import feed_forward
from torch.nn import functional as F

N = 400_000
SHARES = [0.001, 0.1, 0.25, 0.5, 0.9]


def kept(p, seed, n=N):
    return (dropout(torch.ones(n), p, seed) != 0).numpy()


@each("p", SHARES)
def test_the_share_of_what_is_kept_is_binomial(p):
    shares = np.array([kept(p, (1, s)).mean() for s in range(10)])
    sigma = np.sqrt(p * (1 - p) / N)
    assert abs(shares.mean() - (1 - p)) < 4 * sigma / np.sqrt(10)
    assert 0.3 * sigma < shares.std(ddof=1) < 2 * sigma  # chi2 with 9 degrees: p < 1e-4 outside


@each("p", SHARES)
def test_every_place_is_dropped_alone_and_like_any_other(p):
    gone = ~kept(p, (2, 3))
    for lag in (1, 2, 7, 64):
        pairs = (gone[:-lag] & gone[lag:]).mean()
        sigma = np.sqrt(p**2 * (1 - p**2) / N) + 2 * p * np.sqrt(p * (1 - p) / N)
        assert abs(pairs - p**2) < 5 * sigma, lag
    by_place = gone.reshape(-1, 16).mean(axis=0)
    assert np.abs(by_place - p).max() < 5 * np.sqrt(p * (1 - p) / (N / 16))
    edges = np.array([~kept(p, (4, s), 3) for s in range(3000)])  # first and last place
    assert np.abs(edges.mean(axis=0) - p).max() < 5 * np.sqrt(p * (1 - p) / 3000)


def test_a_seed_names_its_draw():
    assert (kept(0.5, (1, 2)) == kept(0.5, (1, 2))).all()
    for other in ((1, 3), (2, 1), (12,), (1, 2, 0, 0, 1), (1, 2, 1, 0, 0)):
        agree = (kept(0.5, (1, 2)) == kept(0.5, other)).mean()
        assert abs(agree - 0.5) < 5 * 0.5 / np.sqrt(N), other


@each("dtype", [torch.float64, torch.float32, torch.bfloat16])
@each("p", [0.1, 0.5])
def test_what_is_kept_is_scaled_and_the_gradient_goes_the_same_way(p, dtype):
    x = torch.linspace(1, 2, 3 * 101, dtype=dtype).reshape(3, 101).t().requires_grad_()
    out = dropout(x, p, (5,))
    mask = (out != 0).to(dtype)
    assert 0 < float(mask.mean()) < 1
    scale = torch.tensor(1 / (1 - p), dtype=torch.float64)
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-6
    expected = x.detach().double() * mask.double() * scale
    torch.testing.assert_close(out.detach().double(), expected, rtol=tolerance, atol=0)
    out.backward(torch.full_like(out, 2.0))
    torch.testing.assert_close(x.grad.double(), 2 * mask.double() * scale, rtol=tolerance, atol=0)


def test_without_a_seed_or_a_share_nothing_happens():
    x = torch.randn(5)
    assert dropout(x, 0.5, None) is x and dropout(x, 0.0, (1,)) is x
    assert dropout(torch.ones(0, 3), 0.5, (1,)).shape == (0, 3)


# -- the feed-forward block -----------------------------------------------------------------------


def layers(width=6, hidden=20, out=5, rows=(3, 7), seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = [(*rows, width), (hidden, width), (hidden,), (out, hidden), (out,)]
    drawn = [0.5 * torch.randn(s, generator=g, dtype=torch.double) for s in shapes]
    return [x.requires_grad_() for x in drawn]


@pytest.fixture(params=[2**18, 45, 1])
def block(request, monkeypatch):
    monkeypatch.setattr(ff, "BLOCK", request.param)
    return request.param


@each("p", [0.0, 0.4])
def test_the_block_is_the_plain_layers_gradients_included(p, block):
    x, w1, b1, w2, b2 = layers()
    seed, hidden = (3, 1), len(b1)
    eye, none = torch.eye(hidden, dtype=torch.double), torch.zeros(hidden, dtype=torch.double)
    with torch.no_grad():  # which hidden values this seed keeps
        mask = (feed_forward(x, w1, b1, eye, none, p=p, seed=seed) != 0).double()
    assert (0.4 < float(mask.mean()) < 0.8) if p else bool(mask.all())
    ours = feed_forward(x, w1, b1, w2, b2, p=p, seed=seed)
    plain = F.linear(F.gelu(F.linear(x, w1, b1)) * mask / (1 - p), w2, b2)
    assert float((ours - plain).detach().abs().max()) <= 1e-12
    g = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    found = torch.autograd.grad((ours * g).sum(), (x, w1, b1, w2, b2))
    wanted = torch.autograd.grad((plain * g).sum(), (x, w1, b1, w2, b2))
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max()) <= 1e-11


def test_evaluation_has_no_dropout_and_keeps_nothing():
    inputs = [x.detach() for x in layers()]
    x, w1, b1, w2, b2 = inputs
    plain = F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)
    found = feed_forward(*inputs, p=0.9, seed=None)
    assert not found.requires_grad and float((found - plain).abs().max()) <= 1e-12
