"""Retrieval of a Hopular block as in the paper (Schaefl et al. 2022, secs. 2 and A.6).

Weights are set by hand, in float64. States are made such that the layer norm in front of the
Hopfield nets only scales them: their mean is 0 and their norm is known.
"""

from __future__ import annotations

import numpy as np
import torch
from looped import each
from tabsweep.models.hopular.network import RESIDUALS, Block, Hopfield
from torch import Tensor
from torch.nn import functional as F

TOLERANCE = 1e-10  # the layer norm's eps of 1e-12 is no part of the formulas


def zeroed(module: torch.nn.Module) -> torch.nn.Module:
    """The module in float64 with norms that only normalise and all else 0."""
    module.double()
    for name, p in module.named_parameters():
        p.data.fill_(1.0 if name.endswith("norm.weight") else 0.0)
    return module.eval().requires_grad_(False)


def normalised(x: Tensor) -> Tensor:
    """What a Hopfield net stores: patterns (N, W) as (1, N, W), normalised."""
    return F.layer_norm(x[None], x.shape[-1:], eps=1e-12)


def identity(width: int, scaling: float, residual: str = "code") -> Hopfield:
    """One Hopfield net whose maps are all the identity: the update rule of eq. 2."""
    net = zeroed(Hopfield(width, 1, scaling, 0.0, residual))
    for layer in (net.query, net.key, net.value, net.out):
        layer.weight.data = torch.eye(width, dtype=torch.float64)
    return net


def on_sphere(n: int, width: int, seed: int) -> Tensor:
    """Random patterns of mean 0 and norm sqrt(width), which a layer norm leaves as they are."""
    rng = np.random.default_rng(seed)
    return normalised(torch.from_numpy(rng.normal(size=(n, width))))[0]


# -- retrieval ------------------------------------------------------------------------------------


@each("beta", [0.5, 1.0])
@each("seed", range(3))
def test_a_well_separated_pattern_is_retrieved_in_one_update_within_the_papers_bound(seed, beta):
    n, width = 20, 64
    x, noise = on_sphere(n, width, seed), on_sphere(n, width, 100 + seed)
    m = float(x.norm(dim=1).max())
    gaps = (x * x).sum(dim=1, keepdim=True) - x @ x.t()
    separation = (gaps + torch.eye(n) * 1e9).min(dim=1).values
    enough = 2 / (beta * n) + np.log(2 * (n - 1) * n * beta * m**2) / beta
    assert (separation > enough).all()
    net = identity(width, beta * width**0.5)
    stored = net.store(x[None])

    def update(state: Tensor) -> Tensor:
        return (net(state[None], stored) - normalised(state))[0]

    queries = normalised(x + 0.1 * noise)[0]
    fixed = x
    for _ in range(30):
        fixed = update(fixed)
    retrieved = update(queries)
    error = (retrieved - x).norm(dim=1)
    apart = torch.maximum((queries - x).norm(dim=1), (fixed - x).norm(dim=1))
    decay = torch.exp(-beta * (separation - 2 * apart * m))
    assert (error <= 2 * (n - 1) * decay * m + 1e-12).all()  # eq. 5
    jacobian = 2 * beta * n * m**2 * (n - 1) * decay
    to_fixed = (retrieved - fixed).norm(dim=1)
    assert (to_fixed <= jacobian * (queries - fixed).norm(dim=1) + 1e-12).all()  # eqs. 3 and 4
    assert (error < 0.02 * (queries - x).norm(dim=1)).all()  # and the bound is not vacuous


def test_similar_patterns_are_retrieved_as_their_mean():
    x = on_sphere(6, 32, 0)
    twins = normalised(x[:1] + 0.02 * on_sphere(2, 32, 1))[0]
    net = identity(32, 1.0 * 32**0.5)
    stored = net.store(torch.cat([twins, x[1:]])[None])
    found = (net(twins[None], stored) - twins)[0]
    assert (found - twins.mean(dim=0)).norm(dim=1).max() < 1e-2 * (twins[0] - twins[1]).norm()


def test_the_nearest_neighbour_alone_is_retrieved_as_beta_grows():
    torch.manual_seed(0)
    width, n_nets = 24, 4
    x, rows = on_sphere(9, width, 1), on_sphere(70, width, 2)
    own = torch.arange(9)
    distances = []
    for scaling in (1.0, 10.0, 100.0, 1e6):
        torch.manual_seed(0)
        net = Hopfield(width, n_nets, scaling, 0.0, "code").double().eval()
        k, v = net.store(rows[None])
        q = F.linear(x, net.query.weight, net.bias[:width]).view(9, n_nets, -1).transpose(0, 1)
        match = q @ k[0].transpose(-1, -2)
        match[:, own, own] = -torch.inf
        best = match.argmax(dim=-1)  # (M, 9)
        nearest = torch.stack([v[0, i, best[i]] for i in range(n_nets)], dim=1).flatten(1)
        with torch.no_grad():
            found = net(x[None], (k, v), forbidden=own)[0]
            distances.append(float((found - x - net.out(nearest)).abs().max()))
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.1 and distances[-1] < 1e-9


# -- iterative learning ---------------------------------------------------------------------------


def unit(n: int, k: int, seed: int) -> Tensor:
    z = np.random.default_rng(seed).normal(size=(n, k))
    return torch.from_numpy(z / np.linalg.norm(z, axis=1, keepdims=True))


def kernel_states(z: Tensor, y: Tensor | None) -> Tensor:
    """(N, 4 k) states of two cells: (z, -z), and a label y in [-1, 1] as a point of a circle, (y,
    -y, sqrt(1 - y^2), -sqrt(1 - y^2), 0, ...); a state without a label is at y = 0."""
    n, k = z.shape
    y = torch.zeros(n, dtype=z.dtype) if y is None else y
    other = (1 - y**2).sqrt()
    label = torch.zeros(n, 2 * k, dtype=z.dtype)
    label[:, :4] = torch.stack([y, -y, other, -other], dim=1)
    return torch.cat([z, -z, label], dim=1)


@each("leave_one_out", [False, True])
@each("residual", RESIDUALS)
def test_a_block_does_nadaraya_watson_regression_with_an_rbf_kernel(residual, leave_one_out):
    """Eqs. 11 to 15: normalised inputs, labels in the memory alone."""
    n, k, beta = 80, 3, 6.0
    z, y = unit(n, k, 0), torch.linspace(-0.9, 0.9, n, dtype=torch.float64)
    asked = z if leave_one_out else unit(7, k, 1)
    width = 4 * k
    block = zeroed(Block(2, 2 * k, 1, beta * width**0.5, 0.0, residual))
    scale = (width / 4) ** 0.5  # of the layer norm: all states have mean 0 and squared norm 4
    net, label = block.samples, 2 * k
    for i in range(k):
        net.query.weight.data[i, i] = net.key.weight.data[i, i] = 1 / scale
    net.value.weight.data[0, label] = 1 / scale
    net.out.weight.data[label, 0] = 1.0
    stored = net.store(normalised(kernel_states(z, y)))
    own = torch.arange(n) if leave_one_out else None

    kernel = torch.exp(-beta / 2 * (asked[:, None] - z[None]).square().sum(dim=2))
    if leave_one_out:
        kernel.fill_diagonal_(0.0)
    expected = (kernel * y).sum(dim=1) / kernel.sum(dim=1)

    state = kernel_states(asked, None)
    found = net(state[None], stored, forbidden=own)[0]
    assert (found[:, label] - expected).abs().max() < TOLERANCE
    if residual == "paper":  # the whole block: its second half adds nothing
        cells = state.view(len(state), 2, -1)
        whole = block(cells, stored, F.layer_norm(cells, cells.shape[-1:]), forbidden=own)
        assert (whole[:, 1, 0] - expected).abs().max() < TOLERANCE


def test_a_block_takes_a_gradient_step_of_the_adaboost_objective():
    """Eqs. 16 to 20; the state holds the linear model, the memory y_i z_i.

    DIFF(Schaefl 2022, A.6, eq. 20): the queries' map is minus the identity, as eq. 19 asks for.
    """
    n, k, beta, rate, radius = 30, 4, 2.5, 0.3, 4.0
    z = unit(n, k, 3)
    y = torch.from_numpy(np.random.default_rng(4).choice([-1.0, 1.0], n))
    xi = torch.from_numpy(np.random.default_rng(5).normal(size=k)).requires_grad_()
    loss = torch.logsumexp(-beta * y * (z @ xi), dim=0) / beta
    (gradient,) = torch.autograd.grad(loss, xi)

    def state(x: Tensor) -> Tensor:  # (N, k) -> (N, 2 k + 2), mean 0 and squared norm 2 radius^2
        rest = (radius**2 - x.square().sum(dim=1, keepdim=True)).sqrt()
        return torch.cat([x, rest, -x, -rest], dim=1)

    width = 2 * k + 2
    scale = (width / (2 * radius**2)) ** 0.5
    block = zeroed(Block(2, k + 1, 1, beta * width**0.5, 0.0, "paper"))
    net = block.samples
    for i in range(k):
        net.query.weight.data[i, i] = -1 / scale
        net.key.weight.data[i, i] = net.value.weight.data[i, i] = 1 / scale
        net.out.weight.data[i, i], net.out.weight.data[k + 1 + i, i] = rate, -rate
    stored = net.store(normalised(state(y[:, None] * z)))
    cells = state(xi.detach()[None]).view(1, 2, k + 1)
    found = block(cells, stored, F.layer_norm(cells, cells.shape[-1:]))
    expected = xi.detach() - rate * gradient
    assert (found[0, 0, :k] - expected).abs().max() < TOLERANCE
    assert (found[0, 1, :k] + expected).abs().max() < TOLERANCE
    assert gradient.norm() > 0.1
