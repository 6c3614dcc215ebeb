"""Sparsemax and entmax against their definitions and the official numbers."""

from __future__ import annotations

import numpy as np
import torch
from looped import each
from parity import TOLERANCE, case
from tabsweep.models.deep.layers.entmax import (
    CHOICES,
    FIRST,
    entmax15,
    entmoid15,
    sparsemax,
    sparsemoid,
)

ALPHA = {sparsemax: 2.0, entmax15: 1.5}
BOTH = each("shares", [sparsemax, entmax15])


def scores(*shape, scale=1.0, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, scale, shape))


@BOTH
@each("scale", [0.01, 1.0, 30.0])
@each("n", [1, 2, 7, 1500])
def test_shares_solve_the_problem_that_defines_them(shares, scale, n):
    """Optimal is what lies on the simplex and has z_i - p_i^(alpha - 1) / (alpha - 1) = tau on its
    support and z_i <= tau elsewhere: the conditions of a concave problem."""
    z = scores(30, n, scale=scale)
    p, order = shares(z), ALPHA[shares] - 1
    assert (p >= 0).all() and torch.allclose(p.sum(-1), torch.ones(30).double(), atol=1e-12)
    slope = torch.where(p > 0, z - p**order / order, torch.nan)
    tau = slope.nanmean(-1, keepdim=True)
    assert torch.allclose(slope.nan_to_num(0.0), tau * (p > 0), atol=1e-10)
    assert (z[(p == 0)] <= tau.expand_as(z)[p == 0] + 1e-10).all()


@BOTH
def test_far_scores_and_ties_are_shared_as_they_should(shares):
    z = torch.tensor([[1e30, 0.0, -1e30], [2.0, 2.0, -1e30]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    assert torch.allclose(shares(z), expected) and torch.equal(shares(z) == 0, expected == 0)
    assert torch.allclose(shares(torch.zeros(4)), torch.full((4,), 0.25))


@each("choice", FIRST)
def test_along_the_first_axis_shares_and_slopes_are_the_same(choice):
    for n in (1, 2, 9, 70):
        z = scores(n, 40, seed=n, scale=3.0).requires_grad_()
        along, beside = FIRST[choice](z), CHOICES[choice][0](z.t()).t()
        assert torch.allclose(along, beside, atol=1e-14)
        weights = scores(n, 40, seed=n + 1)
        slopes = [torch.autograd.grad((p * weights).sum(), z)[0] for p in (along, beside)]
        assert torch.allclose(*slopes, atol=1e-13)
    lost = FIRST[choice](torch.tensor([[1.0, 1.0], [torch.nan, 0.0]]))
    assert torch.isnan(lost[:, 0]).all() and torch.isfinite(lost[:, 1]).all()


@each("form", ["rows", "cube"])
@each(("name", "shares"), [("entmax15", entmax15), ("sparsemax", sparsemax)])
def test_values_and_slopes_are_the_official_ones(form, name, shares):
    given = case("node_functions")
    axis = given.meta[f"{form}_dim"]
    z = given.tensor(f"in/{form}").movedim(axis, -1).requires_grad_()
    p = shares(z)
    p.backward(given.tensor(f"in/{form}_grad").movedim(axis, -1))
    theirs = given.tensor(f"out/{form}_{name}").movedim(axis, -1)
    assert (p - theirs).abs().max() <= TOLERANCE
    kinked = _near_a_kink(z.detach(), theirs, ALPHA[shares])
    slopes = (z.grad - given.tensor(f"out/{form}_{name}_vjp").movedim(axis, -1)).abs().amax(-1)
    assert slopes[~kinked].max() <= TOLERANCE and (~kinked).sum() > len(kinked) // 2


def _near_a_kink(z, p, alpha):
    """Rows with a score at the border of the support, where any sub-gradient is right."""
    order = alpha - 1
    tau = torch.where(p > 0, z - p**order / order, torch.nan).nanmean(-1, keepdim=True)
    return ((z - tau).abs() < 1e-7).any(-1)


@each(("name", "one"), [("entmoid15", entmoid15), ("sparsemoid", sparsemoid)])
def test_shares_of_two_are_the_official_ones(name, one):
    given = case("node_functions")
    x = given.tensor("in/scalars").requires_grad_()
    found = one(x)
    found.backward(given.tensor("in/scalars_grad"))
    assert (found - given.tensor(f"out/{name}")).abs().max() <= TOLERANCE
    smooth = x.detach().abs() != (1.0 if name == "sparsemoid" else 2.0)
    assert (x.grad - given.tensor(f"out/{name}_vjp"))[smooth].abs().max() <= TOLERANCE
