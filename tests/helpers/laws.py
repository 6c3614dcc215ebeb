"""Laws held by many cases in one test: all cases are tried, and those that break it are named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def hold(law: Callable[..., None], cases: Iterable[tuple[Any, ...]]) -> None:
    """Calls `law(*case)` for every case; AssertionError names each case that raised, and why.

    The first failure is the cause, so that pytest shows its traceback.

    >>> hold(lambda n: None, [(1,), (2,)])
    """
    failed: list[tuple[tuple[Any, ...], BaseException]] = []
    n = 0
    for case in cases:
        n += 1
        try:
            law(*case)
        except (Exception, pytest.fail.Exception) as error:
            failed.append((case, error))
    if not n and "TABSWEEP_TEST_MODELS" in os.environ:
        pytest.skip("no case for the models in TABSWEEP_TEST_MODELS")
    assert n, "no case was tried"
    if failed:
        lines = [f"{_name(case)}: {_line(error)}" for case, error in failed]
        text = "\n  ".join([f"{law.__name__}: {len(failed)} of {n} cases", *lines])
        raise AssertionError(text) from failed[0][1]


def _name(case: tuple[Any, ...]) -> str:
    return "-".join(str(part) for part in case)


def _line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:300]}"
