"""Which library multiplies matrices of float32 on a CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import nn

from ...common import portable, processor

ROUNDING = 1e-5  # relative error of a product: float32 has 1e-7, bfloat16 1e-3
LARGE = 128 * 128  # numbers in a weight matrix; a call of oneDNN costs 15 microseconds more


@contextmanager
def by_onednn(module: nn.Module, device: torch.device) -> Iterator[None]:
    """A network's products by oneDNN where MKL is slow: on AMD's processors with AVX-512, which MKL
    leaves unused there. They are as exact in float32, and steps up to 1.7 times as fast
    (`benchmark/perf/results/matrix-products-cpu.txt`). Networks of small matrices alone keep MKL.

    torch has no switch for it by name. It hands products to oneDNN where bfloat16 is allowed inside
    of them, and oneDNN makes use of that permission on processors with AMX alone: there, and where
    a product shows the rounding of bfloat16, nothing is changed. Nor is it where the user allows
    less than float32, or the instruction sets are pinned (`common/portable.py`). While it lasts,
    `torch.get_float32_matmul_precision` is an error: call no other library inside.
    """
    matmul: Any = getattr(torch.backends.mkldnn, "matmul", None)  # since torch 2.9
    wanted = matmul is not None and device.type == "cpu" and _is_large(module)
    exact = wanted and (_inside or matmul.fp32_precision in ("none", "ieee"))
    with _allowed(matmul) if exact and _faster_and_exact(matmul) else nullcontext():
        yield


def _is_large(module: nn.Module) -> bool:
    return any(p.ndim >= 2 and p.numel() >= LARGE for p in module.parameters())


_lock = threading.Lock()  # the precision is one for all threads of the process
_inside: list[str] = []  # the precision before, once for each thread that is inside


@contextmanager
def _allowed(matmul: Any) -> Iterator[None]:
    with _lock:
        _inside.append(_inside[0] if _inside else matmul.fp32_precision)
        matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                matmul.fp32_precision = before


@cache
def _faster_and_exact(matmul: Any) -> bool:
    flags = processor.flags()
    if portable.pinned() or processor.described().get("vendor_id") != "AuthenticAMD":
        return False
    if "avx512f" not in flags or any(flag.startswith("amx") for flag in flags):
        return False
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=random) for _ in range(2))
    with _allowed(matmul):
        product = (a @ b).double()
    exact = a.double() @ b.double()
    return bool((product - exact).norm() < ROUNDING * exact.norm())
