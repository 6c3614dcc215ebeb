"""`bench doctor --gpu`: one line without a GPU; with one its checks are tests of their own."""

from __future__ import annotations

import pytest
import torch
from calls import bench
from tabsweep.benchmark import gpu_check
from tabsweep.benchmark.console import OKAY, PROBLEM

HERE = torch.cuda.is_available()
ALL = list(gpu_check.checks()) if HERE else [("gpu", gpu_check.identity)]


@pytest.mark.skipif(HERE, reason="this machine has a GPU")
def test_without_a_gpu_the_doctor_says_so_in_one_line_and_exits_with_3():
    found = bench("doctor", "--gpu")
    assert found.code == 3 and not found.err
    (line,) = found.out.splitlines()
    assert line.startswith("problem gpu: ") and torch.__version__ in line


def test_every_network_is_compared_with_itself_in_float32_in_bf16_and_resumed():
    for name in gpu_check.networks():
        state, text = gpu_check.network(name, device="cpu")
        assert state == OKAY and "fp32 0.0e+00" in text and "resumed 0.0e+00" in text, name


@pytest.mark.parametrize("name", ["modern-nca", "npt", "resnet", "tabr"])
def test_what_rounding_alone_decides_is_not_compared(name):
    weights, decided = gpu_check.on_cpu(name)
    fit = gpu_check.fitted(name, device="cpu", precision="fp32", disturbed=9)
    moved = gpu_check.weights_of(fit)
    assert gpu_check.apart(moved[decided], weights[decided]) < gpu_check.FAR["fp32"] / 10
    assert 0.8 < decided.mean() < 1


def test_a_network_that_differs_is_a_problem(monkeypatch):
    monkeypatch.setitem(gpu_check.FAR, "bf16", 0.0)
    assert gpu_check.network("mlp", device="cpu")[0] == PROBLEM


@pytest.mark.gpu
@pytest.mark.skipif(not HERE, reason="torch sees no GPU")
@pytest.mark.parametrize(("name", "check"), ALL, ids=[name for name, _ in ALL])
def test_what_the_doctor_checks_holds_on_this_gpu(name, check):
    state, text = check()
    assert state != PROBLEM, f"{name}: {text}"
