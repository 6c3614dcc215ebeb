"""Versions of the libraries that a saved model computes with, then and now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata

from .. import registry


def versions(name: str) -> dict[str, str]:
    """{distribution: installed version} of tabsweep and the libraries of a model."""
    return {n: _version(n) for n in ("tabsweep", *registry.spec(name).libraries)}


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "absent"


def compare_versions(saved: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Warns of other major versions; of other minor ones where these may break a saved model."""
    for library, then in sorted(saved.items()):
        now = _version(library)
        parts = 2 if library in ("scikit-learn", "tabsweep") else 1
        if str(then).split(".")[:parts] != now.split(".")[:parts]:
            warn(
                f"the model was saved with {library} {then}, here is {now}: its predictions may "
                "differ; fit it again to be sure"
            )
