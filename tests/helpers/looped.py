"""`each`: one test that runs for many values, where `parametrize` would make a test of each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[..., Any]:
    """Runs the decorated test for every value (or tuple of values) of these arguments.

    Used as `pytest.mark.parametrize`, several times for all combinations; the arguments of a
    failing run are added to its error. Fixtures are shared by all runs, but what a run patches is
    undone before the next.
    """
    keys = (names,) if isinstance(names, str) else names
    rows = [value if len(keys) > 1 else (value,) for value in values]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*args: Any, **given: Any) -> None:
            assert rows, f"no value of {names} was tried"
            for row in rows:
                chosen = dict(zip(keys, row, strict=True))
                try:
                    with _own_patches(given) as fixtures:
                        test(*args, **fixtures, **chosen)
                except BaseException as error:
                    error.add_note(f"with {chosen}")
                    raise

        left = [p for name, p in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


@contextmanager
def _own_patches(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "monkeypatch" not in given:
        yield given
        return
    with given["monkeypatch"].context() as patches:
        yield {**given, "monkeypatch": patches}
