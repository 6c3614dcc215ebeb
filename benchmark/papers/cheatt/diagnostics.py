"""Measures of oversmoothing: similarity of tokens, and the frequencies that attention keeps.

Measures of oversmoothing, in float64 (Kim et al. 2024, CheAtt, sec. 5.3 and Fig. 4, which shows
plots and defines nothing: the definitions are ours). X (.., T, D) are the tokens of a row, A and H
(.., T, T) an attention matrix or its polynomial, P = 1 1^T / T what keeps the mean token alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
TINY = 1e-12  # a norm below it is taken for this


@dataclass(frozen=True)
class Layer:
    """A block's attention and output for some rows, in float64. tokens: (B, T, D), its output.
    weights: (B, H, T, T), the attention matrix A. operator: what is applied in its place, A itself
    in ordinary attention. values: (B, H, T, d)."""

    tokens: np.ndarray
    weights: np.ndarray
    operator: np.ndarray
    values: np.ndarray


def dft_response(matrix: Array) -> Array:  # (.., T, T) -> (.., T)
    """|diag(F A F^H)| for the unitary DFT F, frequency 0 first: what A leaves of each frequency of
    a signal along the columns of the table. It depends on the order of the columns. Frequency 0 of
    a matrix whose rows sum to one is 1.

    >>> dft_response(np.full((2, 2), 0.5)).round(9).tolist()
    [1.0, 0.0]
    """
    t = matrix.shape[-1]
    f = np.exp(-2j * np.pi * np.outer(np.arange(t), np.arange(t)) / t) / np.sqrt(t)
    return np.abs(np.einsum("fi,...ij,fj->...f", f, matrix, f.conj(), optimize=True))


def high_pass(matrix: Array) -> tuple[Array, Array]:  # (.., T, T) -> (..), (..)
    """Largest singular value of (I - P) H (I - P), and root mean square of its T - 1 ones: what H
    leaves of differences between tokens, whatever the order of the columns."""
    t = matrix.shape[-1]
    off = np.eye(t) - 1.0 / t
    inner = off @ matrix @ off
    largest = np.linalg.norm(inner, ord=2, axis=(-2, -1))
    whole = np.linalg.norm(inner, axis=(-2, -1))
    return largest, whole / np.sqrt(max(t - 1, 1))


def token_cosine(x: Array) -> Array:  # (.., T, D) -> (..)
    """Mean cosine of the angle between two different tokens; 1 where there is one token."""
    t = x.shape[-2]
    unit = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), TINY)
    if t == 1:
        return np.ones(x.shape[:-2])
    total = np.square(unit.sum(axis=-2)).sum(axis=-1) - np.square(unit).sum(axis=(-2, -1))
    return total / (t * (t - 1))


def singular_values(x: Array) -> Array:  # (.., T, D) -> (.., min(T, D))
    """The singular values of the tokens (not centred) over the largest, which comes first."""
    found = np.linalg.svd(x, compute_uv=False)
    return found / np.maximum(found[..., :1], TINY)


def effective_rank(x: Array) -> Array:  # (.., T, D) -> (..)
    """exp of the entropy of the singular values as shares of their sum (Roy and Vetterli 2007)."""
    shares = singular_values(x)
    shares = shares / shares.sum(axis=-1, keepdims=True)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return np.exp(-(shares * logs).sum(axis=-1))


def deviation(x: Array) -> Array:  # (.., T, D) -> (..)
    """||(I - P) X|| / ||X||: 0 where all tokens are one, 1 where their mean is 0."""
    off = np.linalg.norm(x - x.mean(axis=-2, keepdims=True), axis=(-2, -1))
    return off / np.maximum(np.linalg.norm(x, axis=(-2, -1)), TINY)


def steps_of_powers(matrix: Array, values: Array, order: int) -> Array:  # -> (.., order)
    """||A^k V - A^(k-1) V|| / ||V||, k = 1..order, of A (.., T, T) and V (.., T, d)."""
    found, before = [], values
    whole = np.maximum(np.linalg.norm(values, axis=(-2, -1)), TINY)
    for _ in range(order):
        now = matrix @ before
        found.append(np.linalg.norm(now - before, axis=(-2, -1)) / whole)
        before = now
    return np.stack(found, axis=-1)
