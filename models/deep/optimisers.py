"""LAMB, Lookahead, and an exponential average of weights.

LAMB scales the step of each tensor to the norm of that tensor, so it matters what one tensor is:
`segments` say which rows of a stored parameter are tensors of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGE = 2**16  # tensors beyond this many elements are walked in blocks on a CPU
BLOCK = 2**17  # elements of a block: four arrays of them fit a core's cache
LATE = torch.tensor(1e9)  # steps after which moments need no correction for their start
CAP = 10.0  # norm of a tensor beyond which its step no longer grows

Segments = Mapping[Tensor, Sequence[int]]


class Lamb(torch.optim.Optimizer):
    """Layer-wise adaptive moments (You et al. 2020, Algorithm 2), as NPT and Hopular run it.

    For each tensor w with moments m and v: r = m / (sqrt(v) + eps) + weight_decay w, then
    w -= lr min(|w|, 10) / |r| r; the ratio is 1 where a norm is 0. The moments are not corrected
    for their start (NPT), or with `debias` the step is multiplied by sqrt(1 - b2^t) / (1 - b1^t),
    outside the ratio (Hopular).

    DIFF(You 2020, Algorithm 2): the norm of the weights in the ratio is capped at 10, as in the
    authors' code of NPT and Hopular; neither paper says so. It binds for wide layers, and holds
    their steps back. The moments' missing or displaced correction is theirs, too.

    segments: parameter -> numbers of rows (first dimension) that are tensors of their own.
    The gradients are overwritten.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        debias: bool = False,
        segments: Segments | None = None,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)
        self.debias = debias
        self._segments = {
            id(p): (len(sizes), torch.repeat_interleave(torch.tensor(list(sizes))).to(p.device))
            for p, sizes in (segments or {}).items()
        }

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step from the gradients, which are overwritten; `closure` is not used."""
        for group in self.param_groups:
            plain: list[Tensor] = []
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                if id(p) in self._segments:
                    self._by_segment(p, group)
                elif p.is_cuda or p.numel() <= LARGE or not p.is_contiguous():
                    plain.append(p)
                else:
                    self._by_block(p, group)
            if plain:
                self._together(plain, group)

    def _lr(self, p: Tensor, group: Mapping[str, Any]) -> float:
        b1, b2 = group["betas"]
        t = self.state[p]["step"]
        factor = float((1 - b2**t) ** 0.5 / (1 - b1**t)) if self.debias else 1.0
        return float(group["lr"]) * factor

    def _direction_(self, p: Tensor, g: Tensor, m: Tensor, v: Tensor, group: Any) -> Tensor:
        """r, written over the gradient g; m and v are updated."""
        b1, b2 = group["betas"]
        m.lerp_(g, 1 - b1)
        v.mul_(b2).addcmul_(g, g, value=1 - b2)
        torch.sqrt(v, out=g)
        g.add_(group["eps"]).reciprocal_().mul_(m)
        return g.add_(p, alpha=group["weight_decay"]) if group["weight_decay"] else g

    def _direction_at_once_(self, p: Tensor, g: Tensor, m: Tensor, v: Tensor, group: Any) -> Tensor:
        """As `_direction_`, in one pass: a step of AdamW from g itself, long after its start, of
        rate -1 and with a decay that leaves nothing of where it began."""
        b1, b2 = group["betas"]
        torch._fused_adamw_(
            [g], [g], [m], [v], [], [LATE],
            lr=-1.0, beta1=b1, beta2=b2, weight_decay=-1.0, eps=group["eps"],
            amsgrad=False, maximize=False,
        )  # fmt: skip
        return g.add_(p, alpha=group["weight_decay"]) if group["weight_decay"] else g

    def _by_block(self, p: Tensor, group: Any) -> None:
        """One large tensor on a CPU: every block once for r and its norm, once for the step."""
        state = self.state[p]
        whole = p, p.grad.contiguous(), state["exp_avg"], state["exp_avg_sq"]  # type: ignore[union-attr]
        blocks = list(zip(*(t.view(-1).split(BLOCK) for t in whole), strict=True))
        ww, rr = 0.0, 0.0
        for w, g, m, v in blocks:
            r = self._direction_at_once_(w, g, m, v, group)
            ww += float(torch.linalg.vector_norm(w)) ** 2  # `dot` is slow where oneDNN has it
            rr += float(torch.linalg.vector_norm(r)) ** 2
        ratio = min(ww**0.5, CAP) / rr**0.5 if ww and rr else 1.0
        step = -self._lr(p, group) * ratio
        for w, r, _, _ in blocks:
            w.add_(r, alpha=step)

    def _by_segment(self, p: Tensor, group: Any) -> None:
        """Rows of one stored parameter, in groups that are tensors of their own."""
        n, which = self._segments[id(p)]
        state = self.state[p]
        r = self._direction_(p, p.grad, state["exp_avg"], state["exp_avg_sq"], group)  # type: ignore[arg-type]

        def norms(x: Tensor) -> Tensor:
            squares = x.square().flatten(1).sum(dim=1) if x.dim() > 1 else x.square()
            return squares.new_zeros(n).index_add_(0, which, squares).sqrt()

        ratio = _ratios(norms(p), norms(r))[which]
        p.sub_(r * (ratio * self._lr(p, group)).view(-1, *([1] * (p.dim() - 1))))

    def _together(self, params: list[Tensor], group: Any) -> None:
        """Many small tensors, or all of a GPU's, in one call of each operation."""
        b1, b2 = group["betas"]
        grads = [p.grad for p in params]
        m = [self.state[p]["exp_avg"] for p in params]
        v = [self.state[p]["exp_avg_sq"] for p in params]
        torch._foreach_lerp_(m, grads, 1 - b1)  # type: ignore[arg-type]
        torch._foreach_mul_(v, b2)
        torch._foreach_addcmul_(v, grads, grads, 1 - b2)  # type: ignore[arg-type]
        r = torch._foreach_sqrt(v)
        torch._foreach_add_(r, group["eps"])
        torch._foreach_reciprocal_(r)
        torch._foreach_mul_(r, m)
        if group["weight_decay"]:
            torch._foreach_add_(r, params, alpha=group["weight_decay"])
        ratios = _ratios(
            torch.stack(torch._foreach_norm(params)), torch.stack(torch._foreach_norm(r))
        )
        steps = -ratios * torch.tensor(
            [self._lr(p, group) for p in params], dtype=ratios.dtype, device=ratios.device
        )
        torch._foreach_mul_(r, list(steps.unbind()))
        torch._foreach_add_(params, r)


def _ratios(weights: Tensor, directions: Tensor) -> Tensor:
    """min(|w|, 10) / |r|, and 1 where either norm is 0."""
    ratio = weights.clamp(max=CAP) / directions
    return torch.where((weights > 0) & (directions > 0), ratio, torch.ones_like(ratio))


class Lookahead:
    """Every `k` steps the weights become the mean (by `alpha`) of themselves and of those at the
    last such step (Zhang et al. 2019, Algorithm 1).

    DIFF(Zhang 2019): the slow copy is made at the first such step, which changes nothing, as the
    code of NPT has it.
    """

    def __init__(self, params: Iterable[Tensor], alpha: float = 0.5, k: int = 6) -> None:
        self.params, self.alpha, self.k = list(params), alpha, k
        self.slow: list[Tensor] | None = None

    @torch.no_grad()
    def after(self, step: int) -> None:
        """To be called when `step` steps of the optimiser are complete."""
        if step % self.k:
            return
        if self.slow is None:
            self.slow = [p.detach().clone() for p in self.params]
            return
        torch._foreach_lerp_(self.slow, self.params, self.alpha)
        torch._foreach_copy_(self.params, self.slow)


class Average:
    """An exponential average of the weights: slow += share (fast - slow) after every step, from the
    start weights; the fast weights are never overwritten (Hopular calls it Lookahead).

    torch.optim.swa_utils.AveragedModel starts from the weights after the first step and copies the
    whole module; what `swap` and saved states need would have to be added to it.
    """

    def __init__(self, params: Iterable[Tensor], share: float) -> None:
        self.params, self.share = list(params), share
        self.slow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def after(self, step: int) -> None:
        """To be called after every step of the optimiser."""
        torch._foreach_lerp_(self.slow, self.params, self.share)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchanges fast and slow weights; a second call undoes it."""
        for fast, slow in zip(self.params, self.slow, strict=True):
            kept = fast.detach().clone()
            fast.copy_(slow)
            slow.copy_(kept)


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Tensors as arrays of their own memory on the CPU."""
    return {name: t.detach().cpu().numpy().copy() for name, t in tensors.items()}
