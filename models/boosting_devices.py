"""GPUs of the boosting libraries: what a build can do, and whether it finds a device."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

from .hyperparameters import OneOf

SHARE = "TABSWEEP_GPU_SHARE"  # a worker's share of its GPU, in (0, 1]
OF_A_SHARE = 0.8  # what a library that reserves memory may reserve; the rest is for its context
DEVICE = OneOf(("cpu", "cuda"))
NOT_BUILT = "was not enabled in this build"  # LightGBM's words, for CUDA and for OpenCL

# LightGBM's verdict on a device type, from a fit of ten rows: its error message, or nothing.
PROBE = """
import sys
import numpy as np
import lightgbm as lgb
try:
    params = {"device_type": sys.argv[1], "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1}
    lgb.train(params, lgb.Dataset(np.arange(10.0)[:, None], np.arange(10.0)), 1)
except lgb.basic.LightGBMError as error:
    print("ERROR", " ".join(str(error).split()))
else:
    print("FITS")
"""
PROBE_S = 120.0


class NoGpuFound(RuntimeError):
    """A fit on a GPU was asked for where the library has none to compute on."""


def no_gpu(library: str, why: str) -> NoGpuFound:
    """The error of a fit on a GPU that `library` cannot do, with the way out."""
    return NoGpuFound(f"device 'cuda': {library} {why}; use device='cpu'")


def gpu_share() -> float:
    """The share of a GPU that this process was given; 1.0 outside of a worker.

    It bounds what a library reserves, and never changes a result. ValueError where the variable of
    the environment is no number in (0, 1].
    """
    text = os.environ.get(SHARE, "1")
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 1.0:
        raise ValueError(f"{SHARE} must be a number in (0, 1], got {text!r}")
    return share


def check_xgboost() -> None:
    """Raises NoGpuFound where XGBoost would go on on the CPU with no more than a warning."""
    import json

    import numpy as np
    from xgboost import Booster, DMatrix, build_info

    if not build_info().get("USE_CUDA"):
        raise no_gpu("XGBoost", "was built without CUDA here")
    rows = DMatrix(np.zeros((2, 1)), label=np.arange(2.0))
    config = Booster({"device": "cuda", "verbosity": 0}, [rows]).save_config()
    if not json.loads(config)["learner"]["generic_param"]["device"].startswith("cuda"):
        raise no_gpu("XGBoost", "finds no GPU on this machine")


def check_catboost() -> None:
    """Raises NoGpuFound where CatBoost finds no GPU. The library's own error would make all later
    fits on a GPU of this process fail."""
    from catboost.utils import get_gpu_device_count

    if get_gpu_device_count() < 1:
        raise no_gpu("CatBoost", "finds no GPU on this machine")


@cache
def _lightgbm_says(device_type: str) -> str:
    """LightGBM's error message for a device type, "" where it fits on it. In a process of its own:
    neither a crash of a driver nor its memory on the GPU stays here."""
    try:
        ran = subprocess.run(
            [sys.executable, "-c", PROBE, device_type],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_S,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_S:.0f} s"
    lines = ran.stdout.strip().splitlines()
    last = lines[-1] if lines else ""
    if last == "FITS":
        return ""
    if last.startswith("ERROR "):
        return last.removeprefix("ERROR ")
    return f"its process ended with exit code {ran.returncode}"


@cache
def lightgbm_device() -> tuple[str, str]:
    """(device type, "") of LightGBM on a GPU, or ("cpu", why it cannot).

    A build for CUDA gives "cuda", also on a machine without a GPU, as the driver of a cluster may
    be one; one for OpenCL (the wheels of the package index) gives "gpu" where it finds a device on
    this machine: CUDA's driver does not always bring OpenCL's.
    """
    if NOT_BUILT not in _lightgbm_says("cuda"):
        return "cuda", ""
    opencl = _lightgbm_says("gpu")
    if not opencl:
        return "gpu", ""
    if NOT_BUILT in opencl:
        return "cpu", "this build of LightGBM has neither CUDA nor OpenCL"
    return "cpu", f"this build of LightGBM has OpenCL alone, which says: {opencl}"
