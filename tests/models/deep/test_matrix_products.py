"""Products by oneDNN: where they are taken, that they are float32's, and what is as before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import torch
from tabsweep.common import portable, processor
from tabsweep.models.deep import matrix_products
from tabsweep.models.deep.matrix_products import ROUNDING, by_onednn
from tabsweep.models.registry import make_model
from torch import nn

CPU = torch.device("cpu")
LARGE, SMALL = nn.Linear(256, 128), nn.Linear(32, 16)
EPYC = {"vendor_id": "AuthenticAMD", "flags": "avx2 avx512f"}
OTHERS = [
    {"vendor_id": "GenuineIntel", "flags": "avx2 avx512f"},
    {"vendor_id": "AuthenticAMD", "flags": "avx2"},
    {"vendor_id": "AuthenticAMD", "flags": "avx2 avx512f amx_bf16 amx_tile"},
    {},
]
if not hasattr(torch.backends.mkldnn, "matmul"):
    pytest.skip("torch before 2.9 has no precision of oneDNN's products", allow_module_level=True)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Sets the processor that is found; the answer is asked for anew."""

    def set_to(found: dict[str, str]) -> None:
        monkeypatch.setattr(processor, "described", lambda: found)
        matrix_products._faster_and_exact.cache_clear()

    yield set_to
    matrix_products._faster_and_exact.cache_clear()


def precision() -> str:
    return torch.backends.mkldnn.matmul.fp32_precision


def inside(module: nn.Module = LARGE, device: torch.device = CPU) -> str:
    before = precision()
    with by_onednn(module, device):
        found = precision()
    assert precision() == before and torch.get_float32_matmul_precision() == "highest"
    return found


@pytest.mark.parametrize("found", OTHERS)
def test_another_processor_keeps_mkl(found: dict[str, str], on) -> None:
    on(found)
    assert inside() != "bf16"


def test_a_process_with_pinned_instruction_sets_keeps_mkl() -> None:
    code = (
        "import torch; from tabsweep.models.deep.matrix_products import by_onednn\n"
        "with by_onednn(torch.nn.Linear(256, 128), torch.device('cpu')):\n"
        "    print(torch.backends.mkldnn.matmul.fp32_precision)"
    )
    env = {**os.environ, **portable.PINS}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "none"


def test_small_networks_and_gpus_keep_mkl(on) -> None:
    on(EPYC)
    assert inside(SMALL) != "bf16"
    assert inside(LARGE, torch.device("cuda")) != "bf16"


def test_a_precision_of_the_user_is_left_alone() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with by_onednn(LARGE, CPU):
            assert precision() == "tf32" and torch.get_float32_matmul_precision() == "high"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_precision_comes_back_after_an_error() -> None:
    before = precision()
    with pytest.raises(RuntimeError, match="shapes"), by_onednn(LARGE, CPU):
        LARGE(torch.zeros(3, 7))
    assert precision() == before


def test_two_threads_at_once_both_keep_it_to_their_end(on) -> None:
    """As a server's threads do: who comes first leaves first."""
    on(EPYC)
    if inside() != "bf16":
        pytest.skip("oneDNN's products are not those of float32 on this processor")
    before = precision()
    first, second = by_onednn(LARGE, CPU), by_onednn(LARGE, CPU)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert precision() == "bf16"
    second.__exit__(None, None, None)
    assert precision() == before


@pytest.mark.parametrize(
    "shape", [(256, 256, 256), (1000, 64, 700), (3, 2048, 5), (8192, 192, 288)]
)
def test_products_have_the_rounding_of_float32(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    random = torch.Generator().manual_seed(1)
    a, b = torch.randn(m, k, generator=random), torch.randn(k, n, generator=random)
    batch = torch.randn(16, m // 30 + 1, 24, generator=random)
    exact, exact_batch = a.double() @ b.double(), batch.double() @ batch.mT.double()
    with by_onednn(LARGE, CPU):
        found, found_batch = (a @ b).double(), (batch @ batch.mT).double()
        transposed = (b.mT @ a.mT).mT.double()
    for one, whole in ((found, exact), (transposed, exact), (found_batch, exact_batch)):
        assert (one - whole).norm() < ROUNDING / 5 * whole.norm()


def test_a_fit_is_repeated_to_the_byte_and_close_to_mkls(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 6)))
    y = frame[0].to_numpy() * 2 + rng.standard_normal(300) / 10

    def predicted() -> np.ndarray:
        model = make_model("mlp", task="regression", n_layers=3, width_middle=256, epochs=3)
        return model.fit(frame, y).predict(frame)

    taken = inside() == "bf16"
    first, again = predicted(), predicted()
    monkeypatch.setattr(matrix_products, "LARGE", 10**9)
    mkl = predicted()
    assert first.tobytes() == again.tobytes()
    assert (first.tobytes() != mkl.tobytes()) == taken  # the fit goes through it where it is taken
    np.testing.assert_allclose(first, mkl, atol=1e-3)
