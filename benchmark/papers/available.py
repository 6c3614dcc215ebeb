"""Datasets that cannot be had are left out of an experiment, each with a remark."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from ...datasets.errors import ChecksumMismatch, DatasetUnavailable

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


def on_available(
    keys: Iterable[Key], one: Callable[[Key], Found], *, at_least: int = 1
) -> tuple[dict[Key, Found], list[str]]:
    """({key: result of `one(key)`}, a remark per dataset that is not available).

    A key is left out if `one` raises DatasetUnavailable or ChecksumMismatch for it. Raises the
    first of these errors if fewer than `at_least` keys are left."""
    found: dict[Key, Found] = {}
    errors: list[Exception] = []
    for key in keys:
        try:
            found[key] = one(key)
        except (DatasetUnavailable, ChecksumMismatch) as error:
            errors.append(error)
    if errors and len(found) < at_least:
        raise errors[0]
    return found, list(dict.fromkeys(f"Left out: {error}" for error in errors))
