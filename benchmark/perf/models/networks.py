"""What the measurements of networks share: random tables, a plain LAMB, options and seconds."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor


def random_table(
    n: int, numeric: int, sizes: tuple[int, ...], classes: int
) -> tuple[pd.DataFrame, np.ndarray]:
    """n rows of so many numbers and of categories of these sizes, and a target of so many classes
    (0: numbers)."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((n, numeric)))
    for j, size in enumerate(sizes):
        frame[f"c{j}"] = pd.Categorical(rng.integers(0, size, n).astype(str))
    return frame, rng.integers(0, classes, n) if classes else rng.standard_normal(n)


class PlainLamb:
    """LAMB, a tensor at a time; `average` follows the weights in the way of a subclass."""

    def __init__(self, params: list[Tensor]) -> None:
        self.params, self.average = params, [p.detach().clone() for p in params]
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]
        self.t = 0

    def clip(self) -> None:
        """Limit the gradients in place."""
        raise NotImplementedError

    def direction(self, p: Tensor, m: Tensor, v: Tensor) -> Tensor:
        """The update of a tensor before it is scaled to the tensor's norm."""
        return m / (v.sqrt() + 1e-6)

    def debias(self) -> float:
        """The factor of the update that corrects for moments that began at 0."""
        return 1.0

    def follow(self) -> None:
        """Move `average` after an update."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """One update of all tensors and of their average."""
        self.t += 1
        self.clip()
        for p, m, v in zip(self.params, self.m, self.v, strict=True):
            if p.grad is None:
                continue
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            r = self.direction(p, m, v)
            p -= lr * self.debias() * p.norm().clamp(max=10) / r.norm() * r
            p.grad = None
        self.follow()


def options_of(what: str | None, *, of: str = "", **numbers: int) -> argparse.Namespace:
    """The options of a measurement that the first line of `what` describes: whole numbers with
    their defaults and, of a measurement of several things called `of`, `only` (those whose name
    begins so) and `inside`, see `measuring.peak_mb`."""
    parser = argparse.ArgumentParser(description=(what or "").partition("\n")[0])
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    if of:
        parser.add_argument("--only", default="", help=f"{of} whose name begins so")
        parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def told_of(threads: int) -> str:
    """What stands at the head of each result: load, threads and torch."""
    return f"load {os.getloadavg()[0]:.1f}, {threads} threads, torch {torch.__version__}"


def seconds(run: Callable[[], Any]) -> float:
    """Wall seconds of a call."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
