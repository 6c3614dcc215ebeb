"""Authors' archives whose datasets have a card here: how a folder is known to be one of them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from .layout import Arrays


@cache
def archives() -> dict[str, dict[str, list[Any]]]:
    """{archive: {dataset: figures}}, see archives.toml."""
    return tomllib.loads(Path(__file__).with_name("archives.toml").read_text(encoding="utf-8"))


def official_name(arrays: Arrays, folder: str) -> str | None:
    """`rtdl-<dataset>` for a folder of RTDL's archive, known by its name (with hyphens), its form
    and the figures of the paper's Table 1; None for any other.

    No checksum of the archive is public, so this cannot tell it from another split of the same
    dataset, form and sizes: who adds such a one gives it a name of its own.
    """
    figures = [*arrays.sizes, arrays.width("num"), arrays.width("cat"), arrays.task]
    is_one = arrays.form == "N" and figures == archives()["rtdl"].get(folder)
    return f"rtdl-{folder}" if is_one else None
