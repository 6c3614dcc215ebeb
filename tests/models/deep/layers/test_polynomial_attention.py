"""Polynomial attention: every way of evaluation, its layer, and the models that use it."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from looped import each
from scipy import special
from small_tables import NAMES, small_task
from tabsweep.models.deep.layers import polynomial_attention
from tabsweep.models.deep.layers.attention import attention_weights, join_heads, split_heads
from tabsweep.models.deep.layers.polynomial_attention import BASES, Polynomial, alphas
from tabsweep.models.deep.layers.token_attention import (
    PolynomialAttention,
    TokenAttention,
    token_attention,
)
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.npt.estimator import NPT
from tabsweep.models.registry import MODELS, defaults, make_model

ORDERS = (1, 2, 5, 10)
every_basis = each("basis", BASES)


def draws(seed=0):
    return torch.Generator().manual_seed(seed)


def matrices(t, h=2, b=3, sharpness=2.0):
    """Row-stochastic (B, H, T, T) float64, some rows sharp."""
    logits = sharpness * torch.randn(b, h, t, t, generator=draws(t), dtype=torch.float64)
    return torch.softmax(logits, dim=-1)


def values(t, d, h=2, b=3):
    return torch.randn(b, h, t, d, generator=draws(100 + d), dtype=torch.float64)


HOW = ("auto", "recurrence", "explicit")


def by(how, made):
    """The polynomial, evaluated in this way whatever the shapes."""
    if how != "auto":
        made.is_explicit = lambda t, d: how == "explicit"
    return made


def polynomial(basis, order, how="auto", h=2, seed=5):
    """With random weights, in float64."""
    made = by(how, Polynomial(basis, order, h).double())
    drawn = torch.randn(h, order + 1, generator=draws(seed), dtype=torch.float64)
    made.alpha.data.copy_(drawn)
    return made


def powers(basis, order, a):
    """P_0 .. P_K of a matrix from their definition in powers of x, by SciPy's coefficients."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype).expand_as(a)
    found = []
    for k in range(order + 1):
        family = {
            "power": lambda k: np.poly1d([1.0, *[0.0] * k]),
            "chebyshev": special.chebyt,
            "legendre": special.legendre,
            "jacobi": lambda k: special.jacobi(k, 1.0, 1.0),
        }[basis]
        total = torch.zeros_like(a)
        for c in np.atleast_1d(family(k).coeffs):  # Horner
            total = total @ a + float(c) * eye
        found.append(total)
    return found


# -- the bases ------------------------------------------------------------------------------------


@each(
    ("basis", "known"),
    [
        ("power", lambda k, x: x**k),
        ("chebyshev", special.eval_chebyt),
        ("legendre", special.eval_legendre),
        ("jacobi", lambda k, x: special.eval_jacobi(k, 1.0, 1.0, x)),
    ],
)
@each("how", HOW)
def test_on_a_diagonal_matrix_the_terms_are_scipys_polynomials(basis, known, how):
    x = np.linspace(-1.0, 1.0, 9)
    a = torch.diag(torch.from_numpy(x))[None, None]
    for k in range(1, 13):
        made = polynomial(basis, k, how, 1)
        made.alpha.data = torch.eye(k + 1, dtype=torch.float64)[None, k]
        found = torch.diagonal(made(a, torch.eye(9, dtype=torch.float64)[None, None])[0, 0])
        np.testing.assert_allclose(found.detach().numpy(), known(k, x), atol=1e-12)


# -- the ways to evaluate -------------------------------------------------------------------------


@every_basis
@each("order", ORDERS)
@each("shape", [(7, 4), (4, 9), (1, 3), (5, 1)])
def test_every_way_of_evaluation_gives_the_same_answers_and_gradients(basis, order, shape):
    a, v = matrices(shape[0]), values(*shape)
    weight = values(shape[0], shape[1] + 1)[..., 1:]

    def outcome(way):
        made = polynomial(basis, order, way if way in HOW else "auto")
        a_, v_ = a.clone().requires_grad_(), v.clone().requires_grad_()
        if way == "powers":
            found = made.weighed([p @ v_ for p in powers(basis, order, a_)])
        elif way == "terms":
            found = made.weighed(made.terms(lambda u, k: a_ @ u, v_))
        else:
            found = made(a_, v_)
        (found * weight).sum().backward()
        d_a = torch.zeros_like(a) if a_.grad is None else a_.grad
        return found.detach(), d_a, v_.grad, made.alpha.grad

    wanted = outcome("powers")
    for way in (*HOW, "terms"):
        for found, known in zip(outcome(way), wanted, strict=True):
            scale = max(1.0, float(known.abs().max()))
            assert float((found - known).abs().max()) <= 1e-10 * scale, way


@every_basis
@each("how", ["recurrence", "explicit"])
@each("block", [1, 10**6])
def test_attention_and_its_polynomial_in_one_are_the_two_after_each_other(
    basis, how, block, monkeypatch
):
    monkeypatch.setattr(polynomial_attention, "BLOCK", block)
    for order, t, d in ((1, 4, 3), (2, 4, 3), (5, 4, 3), (5, 3, 4), (3, 1, 2)):
        made = polynomial(basis, order, how)
        qkv = torch.randn(3, t, 6 * d, generator=draws(), dtype=torch.float64, requires_grad=True)
        weight = torch.randn(3, t, 2 * d, generator=draws(1), dtype=torch.float64)
        q, k, v = (split_heads(x, 2) for x in qkv.chunk(3, dim=-1))
        wanted = join_heads(made(attention_weights(q, k, 0.7), v))
        found = made.attend(qkv, 0.7)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
        given = (qkv, made.alpha)
        theirs = torch.autograd.grad((wanted * weight).sum(), given)
        for x, y in zip(torch.autograd.grad((found * weight).sum(), given), theirs, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10)


# -- what the layer does --------------------------------------------------------------------------


@every_basis
@each("order", [1, 5])
@each(("dtype", "limit"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@each("how", ["recurrence", "explicit"])
def test_a_fresh_layer_is_ordinary_attention(basis, order, dtype, limit, how):
    torch.manual_seed(0)
    plain = TokenAttention(12, 3, 0.0).to(dtype)
    other = PolynomialAttention(12, 3, 0.0, basis=basis, order=order).to(dtype)
    by(how, other.polynomial)
    missing, spare = other.load_state_dict(plain.state_dict(), strict=False)
    assert missing == ["polynomial.alpha"] and not spare
    x = torch.randn(5, 6, 12, generator=draws(), dtype=dtype)
    torch.testing.assert_close(other(x), plain(x), rtol=0, atol=limit)
    torch.testing.assert_close(other.first(x), plain.first(x), rtol=0, atol=limit)
    for layer in (plain, other):
        layer(x).square().sum().backward()
    for name, p in plain.named_parameters():
        ours, theirs = other.get_parameter(name).grad, p.grad
        assert float((ours - theirs).abs().max()) <= 10 * limit * float(theirs.abs().max())


@each("how", HOW)
def test_the_first_token_alone_hears_what_it_hears_among_all(how):
    torch.manual_seed(0)
    layer = PolynomialAttention(12, 3, 0.0, basis="legendre", order=4).double()
    by(how, layer.polynomial)
    torch.nn.init.normal_(layer.polynomial.alpha)
    x = torch.randn(5, 6, 12, generator=draws(), dtype=torch.float64)
    torch.testing.assert_close(layer.first(x), layer(x)[:, :1], rtol=0, atol=1e-12)


@every_basis
def test_inside_autocast_the_polynomial_stays_in_float32(basis):
    torch.manual_seed(0)
    made, a, v = polynomial(basis, 4).float(), matrices(6).bfloat16(), values(6, 4).bfloat16()
    layer = token_attention(12, 3, 0.0, attention=basis, order=4)
    torch.nn.init.normal_(layer.polynomial.alpha)
    x = torch.randn(2, 5, 12, generator=draws())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = made(a, v)
        qkv = layer.qkv(x)
        answered = layer.polynomial.attend(qkv, 0.5)
        layer(x).float().sum().backward()
    assert found.dtype == answered.dtype == torch.float32 and qkv.dtype == torch.bfloat16
    assert torch.equal(found, made(a.float(), v.float()))
    assert torch.equal(answered, layer.polynomial.attend(qkv.float(), 0.5))
    assert torch.isfinite(layer.polynomial.alpha.grad).all()


def test_dropout_is_on_the_answer_and_never_on_the_matrix():
    torch.manual_seed(0)
    layer = token_attention(12, 3, 0.5, attention="chebyshev", order=3, out=False)
    x = torch.randn(5, 6, 12, generator=draws())
    whole, dropped = layer(x), layer(x, (0, 1))
    kept = dropped != 0
    assert 0.3 < float(kept.float().mean()) < 0.7
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])
    assert torch.equal(layer(x, (0, 1)), dropped) and not torch.equal(layer(x, (0, 2)), dropped)


# -- hosts ----------------------------------------------------------------------------------------

SMALL = {
    "autoint": {"width": 16, "n_heads": 2, "n_layers": 2, "lr": 3e-3, "patience": 0, "epochs": 40},
    "ft-transformer": {
        "width": 16, "n_heads": 2, "n_layers": 2, "lr": 3e-3, "patience": 0, "epochs": 40,
    },
    "npt": {
        "width": 8, "n_heads": 2, "n_layers": 2, "lr": 1e-2, "steps": 80, "eval_every": 60,
        "p_feature": 0.0, "schedule_share": 0.9,
    },
}  # fmt: skip
every_host = each("host", SMALL)


def host_table(n=160):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["p"] = rng.choice(["x", "y"], n)
    return frame, ((frame["a"] > 0) ^ (frame["p"] == "x")).to_numpy().astype(int)


def fresh(host, **config):
    return make_model(host, task="binary", seed=1, **{**SMALL[host], **config})


def task_of(model, frame, y):
    with model._others(None) if isinstance(model, NPT) else nullcontext():
        return model._task(model._prepare(frame, y), None)


@every_host
def test_a_host_learns_with_polynomials_and_moves_their_weights(host):
    frame, y = host_table()
    model = fresh(host, attention="chebyshev").fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.8
    with model._ready() as module:
        moved = [a.detach() for a in alphas(module)]
    start = Polynomial("chebyshev", 5, 2).alpha.detach()
    assert moved and all(float((a - start).abs().max()) > 1e-3 for a in moved)


@each("name", [name for name in NAMES if "attention" in defaults(name)])
def test_the_weights_of_polynomials_never_decay(name):
    made = small_task(name, MODELS[name].tasks[-1], attention="power")
    weights = {id(p) for p in alphas(made.module)}
    groups = made.optimiser().param_groups
    decay = {id(p): g["weight_decay"] for g in groups for p in g["params"]}
    assert weights and all(decay[i] == 0.0 for i in weights)


@each("host", ["autoint", "ft-transformer"])
def test_mixtures_of_keys_and_polynomials_exclude_each_other(host):
    with pytest.raises(InvalidConfig, match="linformer"):
        fresh(host, attention="power", linformer="headwise").check()
    with pytest.raises(InvalidConfig, match="order"):
        fresh(host, attention="power", order=0).check()
    fresh(host, linformer="headwise").check()


def test_only_npts_layers_between_attributes_have_polynomials():
    frame, y = host_table(60)
    network = task_of(fresh("npt", attention="jacobi", n_layers=4), frame, y).module
    has = [kind for kind, b in zip(network.kinds, network.blocks, strict=True) if b.polynomial]
    assert has == ["aba", "aba"]
