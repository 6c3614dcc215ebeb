"""The GPUs that trials ran on: several kinds warn, and the report names them."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest
from calls import bench, working_in
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.benchmark.running import run_trial


def test_two_kinds_of_gpu_in_one_run_warn_and_stand_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a trial reads from the driver of a GPU is replaced: this machine has none."""
    names = cycle(["NVIDIA A100", "NVIDIA H100"])
    said = lambda device: {"gpu": next(names), "torch": "2.13.0", "precision": "bf16"}  # noqa: E731
    monkeypatch.setattr(run_trial, "_gpu", said)
    call = "sweep --suite smoke --dataset iris --folds 1 --model knn --tracking-uri none"
    with working_in(tmp_path):
        done = bench(*call.split(), "--workers", 0, "--name", "g")
    assert done.code == 0
    assert "2 kinds of GPUs (NVIDIA A100, NVIDIA H100)" in " ".join(done.err.split())
    meta = evidence_of([tmp_path / "runs" / "g"]).meta
    both = "NVIDIA A100, bf16, torch 2.13.0; NVIDIA H100, bf16, torch 2.13.0"
    assert meta["environment"]["gpu"] == f"{both}: equal bytes are not promised"
