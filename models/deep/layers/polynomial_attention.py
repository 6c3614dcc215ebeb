"""Attention through a polynomial of its matrix (Kim et al. 2024, CheAtt).

In place of A V, A = softmax(scale Q K^T), stands sum_k alpha_k P_k(A) V: P_k of a polynomial basis,
the weights alpha learned, one for each head and each k = 0..K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...hyperparameters import Hyperparameters, Number, OneOf, hyper
from ..precision import in_float32

BASES = ("power", "chebyshev", "legendre", "jacobi")
ATTENTIONS = ("softmax", *BASES)


class AttentionSettings(Hyperparameters):
    """The two hyperparameters of models whose attention matrix a polynomial may replace."""

    attention: str = hyper(
        "softmax",
        OneOf(ATTENTIONS),
        "`softmax`, or the basis of a polynomial of the attention matrix (CheAtt).",
    )
    order: int = hyper(5, Number(1, 64, whole=True), "Degree of the polynomial.")


BLOCK = 2**18  # attention weights that a CPU computes together
Step = tuple[float, float]


def recurrence(basis: str, k: int) -> Step:
    """(a, c) of P_k = a x P_(k-1) - c P_(k-2), k >= 1; P_0 = 1, and c = 0 for k = 1.

    Jacobi's polynomials have p = q = 1; the paper gives no values.

    >>> recurrence("chebyshev", 1), recurrence("chebyshev", 2)
    ((1.0, 0.0), (2.0, 1.0))
    """
    if basis == "jacobi":
        bottom = 2 * k * (k + 2)
        return (2 * k + 2) * (2 * k + 1) / bottom, k * (2 * k + 2) / bottom if k > 1 else 0.0
    if k == 1 or basis == "power":
        return 1.0, 0.0
    return (2.0, 1.0) if basis == "chebyshev" else ((2 * k - 1) / k, (k - 1) / k)


class Polynomial(nn.Module):
    """sum_k alpha_k P_k(A) V for each head, k = 0..order, order >= 1.

    alpha (H, K + 1) starts as A itself, ordinary attention: (0, 1, 0, ..) for a basis with P_1 = x.
    It is free in sign and size, and is meant to have no weight decay (`alphas`).

    By the recurrence A acts K times on V (K T^2 d multiply-adds for T tokens and heads of width d);
    written out as a matrix the polynomial takes (K - 1) T^3 + T^2 d. The recurrence is used where
    d < T and the matrix else, which is the break-even of the two for any K.
    """

    def __init__(self, basis: str, order: int, n_heads: int) -> None:
        super().__init__()
        self.steps = tuple(recurrence(basis, k) for k in range(1, order + 1))
        start = torch.zeros(n_heads, order + 1)
        start[:, 1] = 1 / self.steps[0][0]
        self.alpha = nn.Parameter(start)

    def forward(self, weights: Tensor, values: Tensor) -> Tensor:
        """A (B, H, T, T) and V (B, H, T, d) -> (B, H, T, d), in float32 inside autocast."""
        return in_float32(self._applied, weights, values)

    def _applied(self, weights: Tensor, values: Tensor) -> Tensor:
        if self.is_explicit(*values.shape[-2:]):
            return self.matrix(weights) @ values
        return self.weighed(self.terms(lambda u, k: weights @ u, values))

    def attend(self, qkv: Tensor, scale: float) -> Tensor:
        """Queries, keys and values side by side (B, T, 3 H d) -> output of the heads (B, T, H d),
        A = softmax(scale Q K^T), in float32 inside autocast.

        As `forward`, in fewer and larger steps; A and the terms are kept for the backward pass.
        """
        return in_float32(partial(self._attended, scale), qkv, self.alpha)

    def _attended(self, scale: float, qkv: Tensor, alpha: Tensor) -> Tensor:
        (_, t, width), h = qkv.shape, len(alpha)
        explicit = self.is_explicit(t, width // (3 * h))
        return _Attended.apply(qkv.contiguous(), alpha, scale, self.steps, explicit)

    def is_explicit(self, t: int, d: int) -> bool:
        """Whether the polynomial is written out for T tokens and heads of width d."""
        return d >= t

    def matrix(self, weights: Tensor) -> Tensor:
        """The polynomial written out: A (B, H, T, T) -> (B, H, T, T)."""
        eye = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
        terms = self.terms(lambda u, k: weights @ u if k else weights, eye.expand_as(weights))
        return self.weighed(terms)

    def terms(self, apply: Callable[[Tensor, int], Tensor], values: Tensor) -> list[Tensor]:
        """U_k = P_k(A) V, k = 0..K, where A is known by what it does: `apply(U_k, k)` is A U_k.

        So rows that see a context and themselves alone are computed with the context's own terms:
        [A_cc 0; a_xc a_xx] acts on the row's U_k as a_xc C_k + a_xx U_k, C_k of `terms(A_cc, ..)`.
        """
        of_orders = [values]
        for k, (a, c) in enumerate(self.steps):
            u = a * apply(of_orders[k], k)
            of_orders.append(u - c * of_orders[k - 1] if c else u)
        return of_orders

    def weighed(self, terms: Sequence[Tensor]) -> Tensor:
        """sum_k alpha_k U_k of `terms` (B, H, T, d) each."""
        total = self.alpha[:, 0, None, None] * terms[0]
        for k, u in enumerate(terms[1:], start=1):
            total = total + self.alpha[:, k, None, None] * u
        return total


def alphas(module: nn.Module) -> list[nn.Parameter]:
    """The learned weights of all polynomials of a network: these have no weight decay."""
    return [m.alpha for m in module.modules() if isinstance(m, Polynomial)]


# -- attention and its polynomial in one ----------------------------------------------------------


def _heads(x: Tensor) -> Tensor:  # (B, T, H, d) -> (H B, T, d)
    b, t, h, d = x.shape
    return x.permute(2, 0, 1, 3).reshape(h * b, t, d).contiguous()


def _turned(x: Tensor) -> Tensor:  # (B, T, H, d) -> (H B, d, T)
    b, t, h, d = x.shape
    return x.permute(2, 0, 3, 1).reshape(h * b, d, t).contiguous()


class _Attended(torch.autograd.Function):
    """(B, T, 3 H d) -> (B, T, H d) of `Polynomial.attend`, K >= 1.

    With U_k = P_k(A) V and G the gradient of the sum, alpha_k gets <G, U_k>. Let G_k be the
    gradient of U_k: G_k = alpha_k G + a_(k+1) A^T G_(k+1) - c_(k+2) G_(k+2), Clenshaw's
    recurrence for A^T; then V gets G_0 and A gets sum_k a_k G_k U_(k-1)^T. Written out, V is the
    identity in all this. All matrices are kept transposed, U_k as (d, T): many small products are
    several times as fast where no right factor has to be turned.
    """

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, alpha: Tensor, scale: float, steps: tuple[Step, ...], explicit: bool
    ) -> Tensor:
        (b, t, _), (h, n_terms) = qkv.shape, alpha.shape
        parts = qkv.view(b, t, 3, h, -1)
        out, kept = qkv.new_empty(b, t, h, parts.shape[-1]), []
        size = b if qkv.is_cuda else max(1, BLOCK // (h * t * t))
        for i in (slice(at, at + size) for at in range(0, b, size)):
            q, k, v = parts[i].unbind(2)
            a_t = torch.softmax(torch.bmm(_heads(k), _turned(q)).mul_(scale), dim=1)  # A^T
            v_t = _turned(v)
            us = v_t.new_empty(n_terms, len(a_t), t if explicit else v_t.shape[1], t)
            us[0] = torch.eye(t, dtype=v_t.dtype, device=v_t.device) if explicit else v_t
            for n, (a, c) in enumerate(steps):
                if explicit and n == 0:
                    torch.mul(a_t, a, out=us[1])
                else:
                    torch.baddbmm(us[max(n - 1, 0)], us[n], a_t, beta=-c, alpha=a, out=us[n + 1])
            flat = us.view(n_terms, h, -1).transpose(0, 1)  # (H, K + 1, ..)
            total = torch.bmm(alpha[:, None], flat).view(us.shape[1:])
            kept += [a_t, us]
            if explicit:
                kept += [v_t, total]
                total = torch.bmm(v_t, total)
            out[i] = total.view(h, -1, *total.shape[1:]).permute(1, 3, 0, 2)
        ctx.save_for_backward(qkv, alpha, *kept)
        ctx.facts = scale, steps, explicit, size
        return out.view(b, t, -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _Attended._backward(ctx, grads[0])

    @staticmethod
    def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        scale, steps, explicit, size = ctx.facts
        qkv, alpha, *kept = ctx.saved_tensors
        (b, t, _), (h, n_terms) = qkv.shape, alpha.shape
        parts = qkv.view(b, t, 3, h, -1)
        d_parts, d_alpha = torch.empty_like(parts), torch.zeros_like(alpha)
        grad = grad.reshape(b, t, h, -1)
        for i in (slice(at, at + size) for at in range(0, b, size)):
            a_t, us, g = kept.pop(0), kept.pop(0), _turned(grad[i])
            (q, k, _), (d_q, d_k, d_v) = parts[i].unbind(2), d_parts[i].unbind(2)
            g_v = g
            if explicit:
                v_t, total = kept.pop(0), kept.pop(0)
                g_v, g = torch.bmm(g, total.transpose(1, 2)), torch.bmm(v_t.transpose(1, 2), g)
            flat = us.view(n_terms, h, -1).transpose(0, 1)
            d_alpha += torch.bmm(flat, g.view(h, -1, 1))[:, :, 0]
            g_a, g_0 = _adjoint(a_t, us, g, alpha, steps, explicit)
            g_a.mul_(a_t)
            g_a.addcmul_(a_t, g_a.sum(dim=1, keepdim=True), value=-1).mul_(scale)  # of the logits
            for d_x, slope in (
                (d_q, torch.bmm(g_a.transpose(1, 2), _heads(k))),
                (d_k, torch.bmm(g_a, _heads(q))),
                (d_v, (g_v if explicit else g_0).transpose(1, 2)),
            ):
                d_x.copy_(slope.view(h, -1, *slope.shape[1:]).permute(1, 2, 0, 3))
        return d_parts.view(qkv.shape), d_alpha, None, None, None


def _adjoint(
    a_t: Tensor, us: Tensor, g: Tensor, alpha: Tensor, steps: tuple[Step, ...], explicit: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of A^T and of U_0 (no use where that is the identity), see `_Attended`."""
    a = a_t.transpose(1, 2).contiguous()
    g_a, flat = torch.zeros_like(a_t), g.view(len(alpha), -1)
    later = latest = g  # G_(k+1), G_(k+2)
    for k in range(len(steps), 0 if explicit else -1, -1):
        now = torch.mul(flat, alpha[:, k, None]).view(g.shape)
        if k < len(steps):
            if k + 1 < len(steps) and steps[k + 1][1]:
                now.sub_(latest, alpha=steps[k + 1][1])
            now.baddbmm_(later, a, alpha=steps[k][0])
        if k == 1 and explicit:
            g_a.add_(now, alpha=steps[0][0])
        elif k:
            g_a.baddbmm_(us[k - 1].transpose(1, 2), now, alpha=steps[k - 1][0])
        later, latest = now, later
    return g_a, later
