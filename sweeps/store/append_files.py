"""Opening files that are only appended to; a new one survives a power cut once it is open."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from ...common.files import sync_folder


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for appending, and for reading what it holds; the folder of a new one is flushed
    to disk."""
    existed = path.exists()
    file = open(path, "a+b")
    if not existed:
        sync_folder(path.parent)
    return file
