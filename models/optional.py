"""Libraries that are extras of the installation: imported when a model is fitted, never before."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, *, model: str, extra: str) -> Any:
    """The module; ImportError with the way out where its library is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"the model {model!r} needs the extra {extra!r}, which is not installed "
            f"({error}): pip install 'tabsweep[{extra}]'"
        ) from error
