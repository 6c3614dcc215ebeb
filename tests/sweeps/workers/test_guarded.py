"""A trial in this process: what it raises or returns becomes a result that can be recorded."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from engine_cases import make_study, run, run_trial
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Needs
from tabsweep.sweeps.trial import DONE, FAILED, Result, Trial
from tabsweep.sweeps.workers.pool import InProcessPool, Job, TrialRefused, guarded


def outcome_of(fn: Callable[[Trial, Any], Any]) -> Result:
    pool = InProcessPool(fn, lambda key: f"data of {key}")
    trial = Trial("d", 0, "m", {}, 0, {})
    pool.submit(Job(trial, "d", make_study().limits))
    assert not pool.room(Needs()) and pool.running() == 1
    (outcome,) = pool.poll(0.0)
    assert outcome.result is not None and pool.running() == 0
    return outcome.result


def raising(error: BaseException) -> Callable[[Trial, Any], Any]:
    def fn(trial: Trial, data: Any) -> Any:
        raise error

    return fn


class OutOfMemoryError(RuntimeError):
    """Named as torch names it."""


class Panic(BaseException):
    """No `Exception`, as the panics of libraries in Rust."""


class Wordless(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        return str(self.args[1])


class WordlessMemory(Wordless, MemoryError):
    """As above, for want of memory."""


RAISED = [
    (ValueError(), "error", "ValueError: (no message)"),
    (ValueError("one\ntwo"), "error", "ValueError: one"),
    (SystemExit(3), "error", "SystemExit: 3"),
    (Panic("index"), "error", "Panic: index"),
    (Wordless("one"), "error", "Wordless: (no message)"),
    (WordlessMemory(), "oom", "MemoryError"),
    (MemoryError(), "oom", "MemoryError"),
    (RuntimeError("std::bad_alloc"), "oom", "RuntimeError: std::bad_alloc"),
    (OSError(12, "Cannot allocate memory"), "oom", None),
    (OutOfMemoryError("CUDA out of memory"), "gpu_oom", None),
    (RuntimeError("x" * 10**6), "error", None),
    (RuntimeError("misaligned address in a table"), "error", None),
]
# As torch, cuBLAS, cuDNN, OpenCL, LightGBM, XGBoost and CatBoost say it.
GPU_OOM = (
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "cuFFT error: CUFFT_ALLOC_FAILED",
    "clEnqueueNDRangeKernel failed: CL_MEM_OBJECT_ALLOCATION_FAILURE",
    "Memory Object Allocation Failure",
    "[CUDA] out of memory /src/treelearner/cuda_data_partition.cpp 40",
    "Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
    "Memory allocation error on worker 0: [12:00:00] device_vector.cu:23: Failed to allocate",
    "catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. "
    "Requested 8880 MB; Free 5902.061425 MB",
    "catboost/cuda/ctrs/ctr_calcers.cpp:36: Error: not enough memory for tree-ctrs: needs 900 MB",
    "cuda_lib/cuda_base.h:281: CUDA error 2: out of memory",
)
GPU_ERROR = (
    "CUDA error: device-side assert triggered",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: unspecified launch failure",
    "[CUDA] an illegal memory access was encountered /src/cuda_algorithms.cu 12",
    "device_helpers.cuh:431: cudaErrorIllegalAddress: an illegal memory access was encountered",
    "cuda_lib/cuda_base.h:281: CUDA error 700: an illegal memory access was encountered",
)
RAISED += [(RuntimeError(text), "gpu_oom", None) for text in GPU_OOM]
RAISED += [(RuntimeError(text), "gpu_error", None) for text in GPU_ERROR]


@pytest.mark.fault(27, 31)
def test_whatever_a_trial_raises_becomes_a_failure_with_a_cause():
    for error, cause, message in RAISED:
        result = outcome_of(raising(error))
        assert (result.status, result.cause) == (FAILED, cause)
        assert message in (None, result.message) and 0 < len(result.message) < 600
        if cause == "error":
            assert "Traceback" in result.log or len(result.log) == 4000


def test_a_stop_that_a_trial_swallows_leaves_no_result():
    def swallow(trial: Trial, data: Any) -> Result:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        return Result(DONE, val={"loss": 0.0})

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored, behind an &
    for fn in (swallow, raising(KeyboardInterrupt())):
        with pytest.raises(KeyboardInterrupt):
            outcome_of(fn)
    signal.signal(signal.SIGINT, before)


def test_a_sweep_whose_trial_is_refused_ends_and_records_nothing_of_it(tmp_path):
    ran = []

    def refuse_second(trial: Trial, data: Any) -> Result:
        ran.append(trial.id)
        if len(ran) == 2:
            raise TrialRefused("other source")
        return run_trial(trial, data)

    pool = InProcessPool(refuse_second, lambda key: None)
    with pytest.raises(TrialRefused, match="other source"):
        run(tmp_path, [make_study(n_trials=4)], lambda: pool)
    assert [record["id"] for record in Ledger(tmp_path).records("result")] == ran[:1]
    assert len(run(tmp_path, [make_study(n_trials=4)])) == 4


def test_a_trial_that_changes_its_configuration_changes_only_its_own_copy():
    def grow(trial: Trial, data: Any) -> Result:
        trial.config["layers"].append(3)
        return Result(DONE, val={"loss": float(len(trial.config["layers"]))})

    trial = Trial("d", 0, "m", {"layers": [4]}, 0, {})
    for _ in range(2):
        assert guarded(grow, trial, None).val["loss"] == 2.0
    assert trial == Trial("d", 0, "m", {"layers": [4]}, 0, {})


def test_a_process_that_a_trial_forks_ends_with_its_part_and_is_no_second_driver():
    def exits(code: Any) -> None:
        sys.exit(code)

    def fails(code: Any) -> None:
        raise ValueError(code)

    cases = ((exits, None, 0), (exits, 3, 3), (exits, "bad", 1), (fails, 3, 1), (str, 3, 0))
    for end, code, expected in cases:

        def fork(trial: Trial, data: Any, end: Any = end, code: Any = code) -> Result:
            child = os.fork()
            if child == 0:
                end(code)
                return Result(DONE, val={"loss": 1.0})
            left = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return Result(DONE, val={"loss": float(left)})

        assert guarded(fork, Trial("d", 0, "m", {}, 0, {}), None).val["loss"] == expected


RESULTS = [
    (Result(DONE, val={"loss": math.nan}), "nonfinite"),
    (Result(DONE, test={"loss": math.inf}), "nonfinite"),
    (Result(DONE, costs={"fit_s": math.nan}), "error"),
    (Result(DONE, info={"array": np.zeros(2)}), "error"),
    (Result(DONE, predictions={"val": np.array([object()])}), "error"),
    (None, "error"),
    ({"status": "done"}, "error"),
    (Result(DONE, val={"loss": None}), None),
]


@pytest.mark.fault(9)
def test_a_result_that_the_ledger_cannot_hold_is_a_failure_not_the_sweeps_end():
    for result, cause in RESULTS:
        assert outcome_of(lambda trial, data, result=result: result).cause == cause
