"""k-nearest neighbours and deep kernel learning on NPT's lookup task (Kossen et al. 2021, B.1.2).

Both are given what NPT has to learn: that duplicates are the training set and originals the rows
to predict, and which column is the target.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ....models.deep.trainer import seed_of, seeded
from .lookup_task import TRAIN, VAL, Doubled, Source, Variant, doubled

NEIGHBOURS = range(1, 11)
SMALL_NOISE = 1e-8  # variance on a process's diagonal that leaves it exact, nearly
EXTRA = "gp"  # of pyproject.toml, which brings GPyTorch


def neighbours(tables: Doubled, k: int) -> Tensor:  # (B, N)
    """Mean target of the k duplicates that are nearest in feature space, for each original."""
    n = tables.shown.shape[1]
    distances = torch.cdist(
        tables.features[:, n:].double(),
        tables.features[:, :n].double(),
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    nearest = distances.topk(min(k, n), dim=-1, largest=False).indices  # (B, N, k)
    shown = tables.shown[:, None, :].expand(-1, n, -1)
    return torch.gather(shown, 2, nearest).mean(dim=-1)


def best_neighbours(validation: Doubled) -> int:
    """The k of 1..10 with the least validation error."""
    errors = [
        float((neighbours(validation, k) - validation.truth).square().mean()) for k in NEIGHBOURS
    ]
    return NEIGHBOURS[errors.index(min(errors))]


def gpytorch() -> Any:
    """The library, or None where it is not installed."""
    try:
        return import_module("gpytorch")
    except ImportError:
        return None


@dataclass(frozen=True)
class KernelSettings:
    """Of deep kernel learning. rows: training rows (duplicates). The paper (B.1.2): two hidden
    layers of 100, 8 features, rate 1e-4, 30,000 epochs of batches of 128 at most, patience 20, 256
    inducing points, 64 with random features; no dropout."""

    rows: int
    epochs: int
    lr: float
    hidden: int = 100
    features: int = 8
    batch_size: int = 128
    patience: int = 20
    inducing: int = 256
    inducing_random: int = 64


def deep_kernel(
    source: Source,
    variant: Variant,
    settings: KernelSettings,
    *,
    seed: int,
    device: str,
    say: Callable[[str], None] = lambda text: None,
) -> Callable[[Doubled], Tensor] | None:
    """Predictions (B, N) for tables, from a kernel learnt on duplicates; None without GPyTorch.

    A variational Gaussian process over a network's features is fitted to duplicates, stopping by
    its error on originals. A table is then predicted by the exact process on its own duplicates,
    with the network, the length and output scales and the mean learnt before (B.1.2).

    DIFF(Kossen 2021, B.1.2): the noise of the exact process is not told; the learnt one and nearly
    none are tried, and the better one on originals held out is taken.
    """
    gp = gpytorch()
    if gp is None:
        return None
    g = torch.Generator(device).manual_seed(seed_of(seed, 5))
    train = _flat(doubled(*_tables(source, settings.rows, TRAIN, g), variant, g), duplicates=True)
    held_out = doubled(*_tables(source, settings.rows // 4, VAL, g), variant, g)
    val = _flat(held_out, duplicates=False)
    with seeded(seed_of(seed, 6)):  # the library draws at its first call, too
        model = _deep_kernel_model(gp, train[0], variant, settings).to(device)
        epochs = _fit(gp, model, train, val, settings, g)
    say(f"deep kernel learning, {variant.title}: {epochs} epochs")
    noises = (float(model.likelihood.noise.detach()), SMALL_NOISE)
    errors = [_mse(exact(model, held_out, noise), held_out.truth) for noise in noises]
    noise = noises[errors.index(min(errors))]
    return lambda tables: exact(model, tables, noise)


def _fit(
    gp: Any,
    model: Any,
    train: tuple[Tensor, Tensor],
    val: tuple[Tensor, Tensor],
    settings: KernelSettings,
    g: torch.Generator,
) -> int:
    """Maximises the evidence bound, keeps the best weights by validation error; epochs taken."""
    objective = gp.mlls.VariationalELBO(model.likelihood, model, num_data=len(train[0]))
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.lr)
    best, best_error, since, epochs = copy.deepcopy(model.state_dict()), float("inf"), 0, 0
    while epochs < settings.epochs and since < settings.patience:
        epochs, since = epochs + 1, since + 1
        model.train()
        order = torch.randperm(len(train[0]), generator=g, device=g.device)
        for rows in order.split(settings.batch_size):
            optimiser.zero_grad()
            loss = -objective(model(train[0][rows]), train[1][rows])
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            error = _mse(model(val[0]).mean, val[1])
        if error < best_error:
            best, best_error, since = copy.deepcopy(model.state_dict()), error, 0
    model.load_state_dict(best)
    model.eval()
    return epochs


def _tables(source: Source, n_rows: int, part: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """As many tables as hold about `n_rows` rows."""
    one = source.draw(1, part, g)
    more = max(1, n_rows // one[1].shape[1])
    return source.draw(more, part, g) if more > 1 else one


def _mse(predicted: Tensor, truth: Tensor) -> float:
    return float((predicted - truth).square().mean())


def _flat(tables: Doubled, duplicates: bool) -> tuple[Tensor, Tensor]:
    """(M, F) features and (M,) targets of all duplicates, or of all originals."""
    n = tables.shown.shape[1]
    x = tables.features[:, :n] if duplicates else tables.features[:, n:]
    return x.flatten(0, 1), (tables.shown if duplicates else tables.truth).flatten()


def _deep_kernel_model(gp: Any, x: Tensor, variant: Variant, settings: KernelSettings) -> Any:
    n = settings.inducing_random if variant.random_features else settings.inducing
    width = settings.hidden

    class Model(gp.models.ApproximateGP):  # type: ignore[name-defined, misc]
        def __init__(self, inducing: Tensor, network: nn.Module) -> None:
            how = gp.variational
            strategy = how.VariationalStrategy(
                self,
                inducing,
                how.CholeskyVariationalDistribution(len(inducing)),
                learn_inducing_locations=True,
            )
            super().__init__(strategy)
            self.network = network
            self.mean_module = gp.means.ConstantMean()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.RBFKernel())
            self.likelihood = gp.likelihoods.GaussianLikelihood()

        def forward(self, features: Tensor) -> Any:
            return gp.distributions.MultivariateNormal(
                self.mean_module(features), self.covar_module(features)
            )

        def __call__(self, rows: Tensor, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(self.network(rows), *args, **kwargs)

    network = nn.Sequential(
        nn.Linear(x.shape[1], width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, settings.features),
    ).to(x.device)
    with torch.no_grad():
        inducing = network(x[torch.randperm(len(x))[: min(n, len(x))].to(x.device)])
    return Model(inducing, network)


@torch.no_grad()
def exact(model: Any, tables: Doubled, noise: float) -> Tensor:  # (B, N)
    """Means of the exact Gaussian process given each table's duplicates. noise: variance."""
    n = tables.shown.shape[1]
    features = model.network(tables.features).double()  # (B, 2N, D)
    kernel = model.covar_module
    z = features / kernel.base_kernel.lengthscale.double()
    squared = torch.cdist(z, z[:, :n], compute_mode="donot_use_mm_for_euclid_dist").square()
    k = kernel.outputscale.double() * torch.exp(-0.5 * squared)  # (B, 2N, N)
    diagonal = noise * torch.eye(n, dtype=k.dtype, device=k.device)
    mean = model.mean_module.constant.double()
    weights = torch.linalg.solve(k[:, :n] + diagonal, tables.shown.double()[..., None] - mean)
    return (k[:, n:] @ weights)[..., 0] + mean
