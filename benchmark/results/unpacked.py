"""A file that may be compressed, as a plain one."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ...common.text import one_line
from ...datasets.errors import DataError

LARGEST = 1_000_000_000  # bytes of an unpacked file
BLOCK = 1_000_000


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The file itself, or for FILE.gz an unpacked copy, which is deleted afterwards. Raises
    DataError for a damaged file, and for one of more than LARGEST bytes."""
    if path.suffix != ".gz":
        yield path
        return
    with TemporaryDirectory(prefix="tabsweep-") as folder:
        plain = Path(folder) / path.stem
        size = 0
        try:
            with gzip.open(path, "rb") as source, open(plain, "wb") as target:
                while block := source.read(BLOCK):
                    size += len(block)
                    if size > LARGEST:
                        raise DataError(f"{path.name}: more than {LARGEST // 10**6} MB unpacked")
                    target.write(block)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path.name}: cannot be unpacked: {one_line(error)}") from None
        yield plain
