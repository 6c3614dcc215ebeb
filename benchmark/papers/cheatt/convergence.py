"""Convergence of the powers A^k V of attention matrices (Kim et al. 2024, sec. 3.3 and Fig. 2).

On the attention matrices and values of a fitted TabTransformer: the step from A^(k-1) V to A^k V by
k, beside the size of the second eigenvalue, which is the rate; and beside them the steps of
Chebyshev's polynomials T_k(A) V, which the paper's argument is also applied to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ....models.deep.layers.polynomial_attention import Polynomial
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentTable
from .diagnostics import TINY, Layer, steps_of_powers

ORDER = 12


def second_eigenvalues(weights: np.ndarray) -> np.ndarray:  # (.., T, T) -> (..)
    """Size of the second eigenvalue by size, the first being 1; 0 for one token."""
    sizes = np.sort(np.abs(np.linalg.eigvals(weights)), axis=-1)
    return sizes[..., -2] if weights.shape[-1] > 1 else np.zeros(weights.shape[:-2])


def steps_of_chebyshev(layer: Layer, order: int) -> np.ndarray:  # (B, H, order)
    """||T_k(A) V - T_(k-1)(A) V|| / ||V||, k = 1..order."""
    weights, values = torch.from_numpy(layer.weights), torch.from_numpy(layer.values)
    basis = Polynomial("chebyshev", order, weights.shape[1])
    terms = basis.terms(lambda u, k: weights @ u, values)
    whole = values.norm(dim=(-2, -1)).clamp(min=TINY)
    found = [(b - a).norm(dim=(-2, -1)) / whole for a, b in zip(terms, terms[1:], strict=False)]
    return torch.stack(found, dim=-1).numpy()


def converged(layers: Sequence[Layer], what: str, out: Path) -> tuple[ExperimentTable, Path]:
    """The steps of every layer of ordinary attention by k, and their curves, a figure in the folder
    `out`. what: the rows, in words."""
    powers = [steps_of_powers(b.weights, b.values, ORDER) for b in layers]
    chebyshev = [steps_of_chebyshev(b, ORDER) for b in layers]
    lines = []
    for number, layer in enumerate(layers, start=1):
        rate, steps = second_eigenvalues(layer.weights), powers[number - 1]
        mean = steps.reshape(-1, ORDER).mean(axis=0)
        lines.append(
            {
                "layer": number,
                "second eigenvalue": float(rate.mean()),
                "largest": float(rate.max()),
                **{f"k = {k}": float(mean[k - 1]) for k in (1, 2, 3, 5, 7, 10)},
                "k = 7, worst": float(np.max(steps[..., 6])),
                "Chebyshev, k = 7": float(chebyshev[number - 1][..., 6].mean()),
            }
        )
    table = ExperimentTable(
        "cheatt-convergence",
        "Steps from A^(k-1) V to A^k V of a TabTransformer, over the norm of V",
        lines,
        f"{what}; means over rows and heads where nothing else "
        "is said. second eigenvalue: its size, mean and largest. worst: of all rows and heads. "
        "Chebyshev: the step from T_6(A) V to T_7(A) V.",
    )
    return table, _figure(powers, chebyshev, out / "cheatt-convergence.png")


def _figure(powers: Sequence[np.ndarray], chebyshev: Sequence[np.ndarray], path: Path) -> Path:
    figure, axes = new_figure(2)
    k = np.arange(1, ORDER + 1)
    for axis, found, title in (
        (axes[0][0], powers, "powers, $A^k V$"),
        (axes[0][1], chebyshev, "Chebyshev, $T_k(A) V$"),
    ):
        for number, steps in enumerate(found, start=1):
            flat = np.maximum(steps.reshape(-1, ORDER), TINY)
            line = axis.plot(k, flat.mean(axis=0), marker="o", label=f"layer {number}")[0]
            low, high = np.quantile(flat, [0.1, 0.9], axis=0)
            axis.fill_between(k, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
        axis.set(title=title, xlabel="k", ylabel="step / norm of V")
        axis.set_yscale("log")
    axes[0][0].legend()
    figure.tight_layout()
    return save_figure(figure, path)
