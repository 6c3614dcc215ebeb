"""What a run keeps of its fits beside scores: warnings of libraries, and kinds of GPU."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest
from calls import bench, working_in
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.benchmark.results.slots_frame import warnings_by_model
from tabsweep.benchmark.running import run_trial
from tabsweep.sweeps.store.ledger import Ledger


def test_warnings_of_fits_are_counted_and_two_kinds_of_gpu_warn_and_stand_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a trial reads from the driver of a GPU is replaced: this machine has none."""
    names = cycle(["NVIDIA A100", "NVIDIA H100"])
    said = lambda device: {"gpu": next(names), "torch": "2.13.0", "precision": "bf16"}  # noqa: E731
    monkeypatch.setattr(run_trial, "_gpu", said)
    call = "sweep --suite smoke --dataset iris --folds 1 --model knn --model mlp-sklearn"
    with working_in(tmp_path):
        done = bench(*call.split(), "--workers", 0, "--tracking-uri", "none", "--name", "w")
        logs = bench("logs", "runs/w", "--json")
    assert (done.code, logs.code) == (0, 0)
    assert "2 kinds of GPUs (NVIDIA A100, NVIDIA H100)" in " ".join(done.err.split())
    run = tmp_path / "runs" / "w"
    both = "NVIDIA A100, bf16, torch 2.13.0; NVIDIA H100, bf16, torch 2.13.0"
    gpu = evidence_of([run]).facts.environment["gpu"]
    assert gpu == f"{both}: equal bytes are not promised"
    counts = [
        record["info"]["warnings"]["ConvergenceWarning"]
        for record in Ledger(run).records("result")
        if "warnings" in record["info"]
    ]
    assert counts and sum(counts) >= len(counts)
    expected = {"mlp-sklearn": {"ConvergenceWarning": sum(counts)}}
    assert evidence_of([run]).facts.fit_warnings == expected
    coverage = (run / "report" / "coverage.md").read_text(encoding="utf-8")
    assert f"mlp-sklearn: ConvergenceWarning {sum(counts)}" in coverage
    lines = [line for line in json.loads(logs.out)["lines"] if line.get("warnings")]
    assert [line["warnings"]["ConvergenceWarning"] for line in lines] == counts

    ledger = Ledger(run, write=True)
    ledger.write_columns()
    ledger.close()
    assert evidence_of([run]).facts.fit_warnings == expected


def test_counts_of_a_foreign_run_that_are_none_are_passed_over() -> None:
    texts = ['{"A": 2, "B": "x"}', "[1]", "no json", "", None, '{"A": 1}']
    columns = {
        "model": pa.chunked_array([["m"] * len(texts)]),
        "warnings": pa.chunked_array([pa.array(texts, pa.string())]),
    }
    assert warnings_by_model(columns) == {"m": {"A": 3}}
    assert "warnings" not in columns and warnings_by_model(columns) == {}
