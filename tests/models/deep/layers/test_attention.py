"""Attention in blocks against the table of all pairs, gradients and dropout included.

The reference is the textbook's: all logits, a softmax, the same dropped weights, a product.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from largest_tensor import Largest
from looped import each
from tabsweep.models.deep.layers import attention
from tabsweep.models.deep.layers.attention import LONG, attend, attend_with_own, attention_weights
from torch.nn import functional as F

SIZES = {
    "whole and kept": {},
    "whole and forgotten": {"KEEP": 0},
    "blocks of queries": {"BLOCK": 40, "ROWS": 1, "KEEP": 0},
    "kept blocks": {"BLOCK": 40, "ROWS": 1},
    "one query each": {"BLOCK": 1, "ROWS": 1, "KEEP": 0},
    "long keys": {"SHORT": 0},
    "long keys in blocks": {"SHORT": 0, "BLOCK": 40, "ROWS": 3, "KEEP": 0},
}
SHAPES = [(1, 1, 5, 5, 3), (1, 2, 7, 70, 4), (3, 2, 6, 5, 4), (4, 1, 1, 1, 2), (2, 3, 9, 80, 1)]
P, SEED = 0.3, (5, 7)


@pytest.fixture(params=SIZES)
def sizes(request, monkeypatch):
    for name, value in SIZES[request.param].items():
        monkeypatch.setattr(attention, name, value)
    return request.param


def heads(shape, seed=0, *, grad=True, dtype=torch.double):
    b, h, tq, tk, d = shape
    g = torch.Generator().manual_seed(seed)
    made = [torch.randn((b, h, t, d), generator=g, dtype=dtype) for t in (tq, tk, tk)]
    return [x.requires_grad_(grad) for x in made]


def kept_weights(q, k, scale, p=P, seed=SEED):
    """Which weights the dropout of this seed keeps (B, H, Tq, Tk), read off values of one."""
    tk = k.shape[2]
    one = torch.eye(tk, dtype=q.dtype).expand(q.shape[0], q.shape[1], tk, tk)
    with torch.no_grad():
        return (attend(q, k, one, scale=scale, p=p, seed=seed) != 0).to(q.dtype)


def dense(q, k, v, scale, kept=None, p=P, forbidden=None):
    logits = scale * q @ k.transpose(-1, -2)
    if forbidden is not None:
        there = forbidden[:, None] != torch.arange(k.shape[2])
        logits = logits.masked_fill(~there, -torch.inf)
    weights = torch.softmax(logits, dim=-1)
    return (weights if kept is None else weights * kept / (1 - p)) @ v


def same(ours, theirs, inputs, tolerance=1e-12):
    """Equal outputs, and equal gradients of one weighted sum of them."""
    assert float((ours - theirs).detach().abs().max()) <= tolerance
    g = torch.randn(ours.shape, generator=torch.Generator().manual_seed(9), dtype=ours.dtype)
    found = torch.autograd.grad((ours * g).sum(), inputs, retain_graph=True)
    wanted = torch.autograd.grad((theirs * g).sum(), inputs, retain_graph=True)
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max()))


@each("shape", SHAPES)
def test_attention_is_the_librarys_own(shape, sizes):
    q, k, v = heads(shape)
    theirs = F.scaled_dot_product_attention(q, k, v, scale=0.7)
    same(attend(q, k, v, scale=0.7), theirs, (q, k, v))
    same(attend(q, k, v, scale=0.7, p=0.5, seed=None), theirs, (q, k, v))  # no seed, no dropout


@each("shape", SHAPES)
def test_dropout_drops_weights_forward_and_backward_alike(shape, sizes):
    q, k, v = heads(shape)
    kept = kept_weights(q, k, 0.7)
    ours = attend(q, k, v, scale=0.7, p=P, seed=SEED)
    same(ours, dense(q, k, v, 0.7, kept), (q, k, v))
    assert torch.equal(ours, attend(q, k, v, scale=0.7, p=P, seed=SEED))


def test_a_forbidden_key_has_no_say(sizes):
    shape = (2, 2, 6, 6, 3)
    q, k, v = heads(shape)
    own = torch.tensor([0, 1, -1, 3, 4, 5])
    for kept in (None, kept_weights(q, k, 0.7)):
        p, seed = (0.0, None) if kept is None else (P, SEED)
        ours = attend(q, k, v, scale=0.7, p=p, seed=seed, forbidden=own)
        if kept is None:
            same(ours, dense(q, k, v, 0.7, forbidden=own), (q, k, v))
        with torch.no_grad():
            others = [x.clone() for x in (k, v)]
            for x in others:
                x[:, :, 4] += 100.0  # query 4 alone must not see it
            changed = attend(q, *others, scale=0.7, p=p, seed=seed, forbidden=own)
        at = torch.arange(6) == 4
        assert torch.allclose(changed[:, :, at], ours[:, :, at].detach(), rtol=0, atol=1e-12)
        if kept is None:
            assert float((changed - ours).detach().abs()[:, :, ~at].amin(dim=(0, 1, 3)).min()) > 0


def test_a_row_far_below_the_others_keeps_its_digits(sizes):
    q, k, v = heads((2, 1, 4, 5, 3))
    with torch.no_grad():  # logits of query 3 are 400 below those of query 0
        k[..., 0] = 20.0
        q[:, :, 0, 0], q[:, :, 3, 0] = 10.0, -10.0
    logits = q @ k.transpose(-1, -2)
    spread = logits.amax(dim=(2, 3)) - logits[:, :, 3].amax(dim=-1)
    assert float(spread.detach().min()) > 390  # exp(-390) is 0 in float32, 1e-170 in float64
    same(attend(q, k, v, scale=1.0), dense(q, k, v, 1.0), (q, k, v), 1e-11)
    kept = kept_weights(q, k, 1.0)
    same(attend(q, k, v, scale=1.0, p=P, seed=SEED), dense(q, k, v, 1.0, kept), (q, k, v), 1e-11)
    single = [x.detach().float() for x in (q, k, v)]
    assert torch.isfinite(attend(*single, scale=1.0)).all()


@each("shape", SHAPES)
def test_single_precision_stays_within_its_rounding(shape, sizes):
    q, k, v = heads(shape, grad=False)
    single = attend(q.float(), k.float(), v.float(), scale=0.7)
    assert float((single.double() - dense(q, k, v, 0.7)).abs().max()) <= 2e-6


def test_only_inputs_that_want_a_gradient_make_one(sizes):
    q, k, v = heads((1, 2, 6, 70, 3), grad=False)
    assert not attend(q, k, v, scale=1.0).requires_grad
    v.requires_grad_()
    attend(q, k, v, scale=1.0).sum().backward()
    expected = attention_weights(q, k, 1.0).sum(dim=2)[..., None].expand_as(v)
    assert float((v.grad - expected).abs().max()) <= 1e-12 and q.grad is None


@pytest.mark.parametrize("n", [3000, pytest.param(6000, marks=pytest.mark.nightly)])
def test_training_never_makes_a_table_of_all_pairs(n):
    q, k, v = heads((1, 8, n, n, 32), dtype=torch.float32)
    with Largest() as seen:
        attend(q, k, v, scale=0.1, p=0.1, seed=SEED).sum().backward()
    assert seen.operations > 50 and q.grad is not None
    inputs = q.numel()
    assert seen.size <= max(inputs, attention.BLOCK, 8 * n * attention.ROWS) < n * n
    with Largest() as pairs:  # the yardstick sees such a table where there is one
        attention_weights(q[:, :1, :500], k[:, :1, :500], 0.1)
    assert pairs.size >= 500 * 500


def test_dropped_weights_are_drawn_anew_for_every_block_and_item(monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 800)
    q, k, _ = heads((4, 2, 20, 20, 2), grad=False)
    kept = kept_weights(q, k, 0.1).reshape(8, -1).numpy().astype(bool)
    assert len({row.tobytes() for row in kept}) == 8
    share = kept.mean()
    assert abs(share - (1 - P)) < 5 * np.sqrt(P * (1 - P) / kept.size)


# ---------------------------------------------------------------------- predictions


@pytest.mark.parametrize("n", [3, LONG - 1, LONG, 3 * LONG])
def test_predictions_over_few_and_many_keys_are_the_textbooks(n):
    q, k, v = heads((1, 2, 9, n, 4), grad=False)
    keys, values = k, v
    with torch.no_grad():
        torch.testing.assert_close(attend(q, k, v, scale=0.4), dense(q, k, v, 0.4, p=0.0))
        own_k, own_v = heads((1, 2, 9, 9, 4), seed=1, grad=False)[1:]
        found = attend_with_own(q, own_k, own_v, keys, values, scale=0.4)
    for i in range(q.shape[2]):  # query i sees the common keys and key i
        seen = [torch.cat([a, b[:, :, [i]]], dim=2) for a, b in ((keys, own_k), (values, own_v))]
        expected = dense(q[:, :, [i]], *seen, 0.4, p=0.0)
        torch.testing.assert_close(found[:, :, [i]], expected)


def test_an_own_key_far_from_the_others_keeps_its_digits():
    """The weight of a query's own key is found from the others' sum, which may be tiny or huge."""
    q, k, v = heads((1, 1, 4, LONG, 3), grad=False)
    for size in (-300.0, 300.0):
        own = q * size
        with torch.no_grad():
            found = attend_with_own(q, own, q, k, v, scale=1.0)
        assert torch.isfinite(found).all()
        expected = q if size > 0 else dense(q, k, v, 1.0, p=0.0)
        torch.testing.assert_close(found, expected)
