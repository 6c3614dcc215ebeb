"""Instruction sets that numerical libraries are pinned to, so that x86-64 processors agree.

torch, oneDNN, MKL, OpenBLAS and NumPy choose their kernels by the processor, and kernels of
different vector width sum in a different order. They read these variables once, when loaded.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from functools import cache

from . import processor

LEVEL = (
    "x86-64-v3"  # AVX2 and FMA: Intel since 2013 (Haswell), AMD since 2015 (Excavator), every Zen
)
PINS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",  # the one choice that Intel promises on processors of others, too
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # all of NumPy's kernels above AVX2
}
"""{environment variable: value} that pins every library."""

NEEDED = ("avx2", "fma", "bmi2")  # of a processor, as Linux names them
LOADED = ("numpy", "torch")  # read the variables when they are imported; all others import numpy


class NotPortable(ValueError):
    """This process or processor cannot compute with pinned instruction sets."""


_set_in_time = False


def check_processor() -> None:
    """Raises NotPortable where the processor lacks the pinned instruction sets."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise NotPortable(
            f"portable bytes exist for x86-64 alone, and this machine is {platform.machine()}"
        )
    missing = [name for name in NEEDED if name not in processor.flags()]
    if missing:
        raise NotPortable(f"portable bytes need {LEVEL}: this processor lacks {', '.join(missing)}")


def pin() -> None:
    """Pin the libraries of this process and of the processes that it starts.

    Raises NotPortable if a library was already imported without the variables, or if the processor
    lacks the instruction sets that they name.
    """
    global _set_in_time
    check_processor()
    if pinned():
        return
    early = [name for name in LOADED if name in sys.modules]
    if early:
        raise NotPortable(
            f"imported before the instruction sets were pinned: {' and '.join(early)}. Set these "
            "variables before Python starts: "
            + " ".join(f"{name}={value!r}" for name, value in PINS.items())
        )
    os.environ.update(PINS)
    _set_in_time = True


def pin_or_restart(*, own_process: bool) -> None:
    """Call `pin`. If that is too late and this is the program's own process, replace the process by
    a fresh one with the same command line. Raises NotPortable."""
    check_processor()
    if own_process and not pinned() and any(name in sys.modules for name in LOADED):
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **PINS})
    pin()


def pinned() -> bool:
    """Whether this process's libraries are pinned: the variables are set, and were when the process
    began or before a library was imported."""
    return _holds_pins(os.environ) and (_set_in_time or _holds_pins(at_start()))


@cache
def at_start() -> dict[str, str]:
    """The environment that this process was started with, which Python's changes do not touch."""
    try:
        with open("/proc/self/environ", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in words if b"=" in word)
    return {name: value for name, _, value in pairs}


def _holds_pins(environment: Mapping[str, str]) -> bool:
    return all(environment.get(name) == value for name, value in PINS.items())
