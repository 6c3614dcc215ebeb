"""A measurement in a process of its own, whose peak of memory is then that of nothing else."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any, TypeVar

from .experiment_result import Setting

Result = TypeVar("Result")


def in_own_process(measure: Callable[..., Result], setting: Setting, *given: Any) -> Result | None:
    """measure(setting, *given) in a new process, which begins with the libraries loaded. None where
    the memory does not suffice, also where the system ended the process for it.

    measure: a function of a module of the package. In the process it can say nothing.
    """
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload([measure.__module__, "sklearn.model_selection"])
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        try:
            return pool.submit(_attempt, measure, replace(setting, say=_nothing), given).result()
        except BrokenProcessPool:
            return None


def _nothing(text: str) -> None:
    """Say nothing."""


def _attempt(measure: Callable[..., Any], setting: Setting, given: tuple[Any, ...]) -> Any:
    import torch

    try:
        return measure(setting, *given)
    except (MemoryError, torch.cuda.OutOfMemoryError):
        return None
