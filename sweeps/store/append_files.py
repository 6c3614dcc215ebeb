"""Files that are only appended to; that they exist is durable once they are open."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from ...common.files import sync_folder


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for appending; the name of a new one is synced."""
    existed = path.exists()
    file = open(path, "ab")
    if not existed:
        sync_folder(path.parent)
    return file
