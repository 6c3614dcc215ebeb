"""`each`: one test that runs for many values, where `parametrize` would make a test of each."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[..., Any]:
    """Runs the decorated test for every value (or tuple of values) of these arguments.

    Used as `pytest.mark.parametrize`, several times for all combinations. All values are tried, and
    the error names those that failed, and why; its cause is the first failure. Fixtures are shared
    by all runs, but what a run patches is undone before the next.
    """
    keys = (names,) if isinstance(names, str) else names

    @functools.cache  # a generator is asked by the first run, not where the test is collected
    def cases() -> list[tuple[Any, ...]]:
        return [value if len(keys) > 1 else (value,) for value in values]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*args: Any, **given: Any) -> None:
            rows = cases()
            if not rows and "TABSWEEP_TEST_MODELS" in os.environ:
                pytest.skip("no case for the models in TABSWEEP_TEST_MODELS")
            assert rows, f"no value of {names} was tried"
            failed: list[tuple[tuple[Any, ...], BaseException]] = []
            for row in rows:
                try:
                    with _own_patches(given) as fixtures:
                        test(*args, **fixtures, **dict(zip(keys, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((row, error))
            if failed:
                lines = [f"{len(failed)} of {len(rows)} values of {names}"]
                lines += [f"{'-'.join(map(str, row))}: {_line(error)}" for row, error in failed]
                raise AssertionError("\n  ".join(lines)) from failed[0][1]

        left = [p for name, p in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:300]}"


@contextmanager
def _own_patches(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "monkeypatch" not in given:
        yield given
        return
    with given["monkeypatch"].context() as patches:
        yield {**given, "monkeypatch": patches}
