"""Models that a paper describes beside a registered one, which sweeps take as classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...models.registry_entries import MODELS
from ...models.space_files import tables

T = TypeVar("T", bound=type)


def variant_of(model: str) -> Callable[[T], T]:
    """A decorator that gives a class the tasks, libraries, family, GPU memory and search spaces of
    a registered model."""

    def adopt(cls: T) -> T:
        for name in ("tasks", "libraries", "family", "gpu_mb"):
            setattr(cls, name, getattr(MODELS[model], name))
        cls.spaces = staticmethod(lambda: tables(model))  # type: ignore[attr-defined]
        return cls

    return adopt
