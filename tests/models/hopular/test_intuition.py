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


def on_sphere(n: int, width: int, seed: int) -> Tensor:
    """Random patterns of mean 0 and norm sqrt(width), which a layer norm leaves as they are."""
    rng = np.random.default_rng(seed)
    return normalised(torch.from_numpy(rng.normal(size=(n, width))))[0]


# -- retrieval ------------------------------------------------------------------------------------


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
