"""Files of tables: size, kind by the first bytes, and the plain file in a compressed one.

A name says nothing here: a file is what its bytes say.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any

from ...common.text import one_line
from ..errors import DataError

BYTES_PER_BYTE = 15  # memory that reading takes for each byte of the file: 9 to 20 were measured
BLOCK = 1 << 20

PACKED: dict[bytes, tuple[str, Callable[[Path], IO[bytes]] | None]] = {
    b"\x1f\x8b": ("gzip", gzip.open),  # type: ignore[dict-item]
    b"BZh": ("bzip2", bz2.open),  # type: ignore[dict-item]
    b"\xfd7zXZ\x00": ("xz", lzma.open),  # type: ignore[dict-item]
    b"PK\x03\x04": ("zip", None),
    b"PK\x05\x06": ("zip", None),  # an empty one
}
COLUMNAR = {b"PAR1": "Parquet", b"ARROW1": "Arrow"}
OTHERS = {  # first bytes -> what the file is, and the way out
    b"(\xb5/\xfd": "compressed with Zstandard: unpack it (zstd -d)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it",
    b"Rar!": "a RAR archive: unpack it",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save the sheet as CSV",
    b"\x89HDF": "an HDF5 file: write its table as Parquet or CSV",
    b"SQLite format 3": "an SQLite database: write its table as Parquet or CSV",
    b"ORC": "an ORC file: write it as Parquet",
    b"Obj\x01": "an Avro file: write it as Parquet",
    b"FEA1": "a Feather file of version 1: write it as Parquet",
    b"\xff\xff\xff\xff": "an Arrow stream: write it as Parquet, or as a file of Arrow",
    b"\x93NUMPY": "a NumPy array: bench data add FOLDER reads folders of them",
    b"\x80\x04\x95": "a pickle, which could run code: write the table as Parquet or CSV",
    b"\x80\x05\x95": "a pickle, which could run code: write the table as Parquet or CSV",
    b"%PDF": "a PDF document",
    b"\x7fELF": "a program",
}
MARKUP = {
    b"<!doctype html": "an HTML page, perhaps in place of the download",
    b"<html": "an HTML page, perhaps in place of the download",
    b"<?xml": "an XML file",
    b'{"': "JSON: write it as CSV or Parquet",
    b"[{": "JSON: write it as CSV or Parquet",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: git lfs pull",
    b"@relation": "an ARFF file: write it as CSV",
}
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # that no text has
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, ValueError)


CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def free_memory() -> float:
    """Bytes that this process can still allocate: the least of what the machine, its container
    (cgroups) and its own limits (`ulimit`) leave; infinity where the system does not say."""
    found = [math.inf]
    try:
        import resource

        page = resource.getpagesize()
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
        used = [int(n) * page for n in Path("/proc/self/statm").read_text(encoding="ascii").split()]
        for what, mine in ((resource.RLIMIT_AS, used[0]), (resource.RLIMIT_DATA, used[5])):
            soft = resource.getrlimit(what)[0]
            if soft != resource.RLIM_INFINITY:
                found.append(soft - mine)
    except (ImportError, OSError, ValueError):
        pass  # another system
    for limit in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # the other version of cgroups; or no limit ("max")
            found.append(int(Path(limit).read_text(encoding="ascii")))
    return max(0, min(found))


def release() -> None:
    """Give the memory back to the system that Arrow has let go of, and else keeps."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def check_size(path: Path) -> None:
    """DataError for a path that is no file, an empty file, or one too large for the free memory."""
    if not path.is_file():
        folder = "; it is a folder" if path.is_dir() else ""
        raise DataError(f"{one_line(path)}: there is no such file{folder}")
    size = path.stat().st_size
    if size == 0:
        raise DataError(f"{path.name}: the file is empty")
    check_memory(path.name, size)


def check_memory(name: str, size: int, factor: float | None = None) -> None:
    """DataError where a table of `size` bytes in its file needs more memory than is free: `factor`
    bytes for each, by default BYTES_PER_BYTE."""
    free, needed = free_memory(), size * (BYTES_PER_BYTE if factor is None else factor)
    if needed > free:
        raise DataError(
            f"{name}: {size / 1e6:.0f} MB need about {needed / 1e6:.0f} MB of"
            f" memory, {free / 1e6:.0f} MB are free; use a sample of the rows"
        )


def kind_of(path: Path) -> str:
    """'gzip', 'bzip2', 'xz', 'zip', 'Parquet', 'Arrow' or 'text', by the first bytes. Raises
    DataError for a file that is known to be something else."""
    with open(path, "rb") as stream:
        head = stream.read(512)
    lines = b"\n" in head and not CONTROLS.search(head)
    kinds = {magic: kind for magic, (kind, _) in PACKED.items()} | COLUMNAR
    for magic, kind in kinds.items():
        if _begins(head, magic, lines):
            return kind
    plain = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for known, text in ((OTHERS, head), (MARKUP, plain)):
        for magic, what in known.items():
            if _begins(text, magic, lines):
                raise DataError(f"{path.name} is no table but {what}")
    return "text"


def _begins(head: bytes, magic: bytes, lines: bool) -> bool:
    """Whether the file has these first bytes; letters alone ("ORC") may be the name of a column in
    lines of text."""
    return head.startswith(magic) and not (lines and magic.isalnum())


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, str]]:
    """(path, "") of a plain file, or (unpacked copy, compression) of a compressed one. The copy is
    deleted afterwards. Raises DataError for a damaged file, for one that needs more memory than is
    free, and for a zip that does not hold exactly one file."""
    kind = kind_of(path)
    openers = dict(PACKED.values())
    if kind not in openers:
        yield path, ""
        return
    with TemporaryDirectory(prefix="tabsweep-") as folder:
        copy = Path(folder) / (path.stem or "table")
        try:
            opener = openers[kind]
            if opener is None:
                with zipfile.ZipFile(path) as archive:
                    with archive.open(only_member(path, archive)) as source:
                        _copy(path.name, source, copy)
            else:
                with opener(path) as source:
                    _copy(path.name, source, copy)
        except DataError:
            raise
        except (*BROKEN, RuntimeError, NotImplementedError) as error:
            place = opener is None and getattr(error, "errno", 0) == errno.EINVAL
            if isinstance(error, OSError) and error.errno and not place:
                raise  # of this machine's disk, not of the file
            what = f"is damaged or cut short: {one_line(error, 120)}"
            if "password" in str(error):
                what = "has a password"
            raise DataError(f"{path.name}: the {kind} file {what}") from None
        if kind_of(copy) in openers:
            raise DataError(f"{path.name}: compressed twice; unpack it once")
        if copy.stat().st_size == 0:
            raise DataError(f"{path.name}: the file in it is empty")
        yield copy, kind


def only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one file of a table in a zip; folders and the shadow files of macOS do not count.
    Raises DataError for none, for several, and for an Excel workbook."""
    names = archive.namelist()
    if any(name.startswith("xl/") for name in names):
        raise DataError(f"{path.name} is an Excel workbook: save the sheet as CSV")
    found = [
        info
        for info in archive.infolist()
        if not info.is_dir()
        and "__MACOSX" not in info.filename
        and not PurePosixPath(info.filename).name.startswith(".")
    ]
    if len(found) != 1:
        shown = ", ".join(one_line(info.filename, 40) for info in found[:4])
        raise DataError(
            f"{path.name}: a zip of {len(found)} files{f' ({shown}, ...)' if found else ''}; "
            "one is needed: unpack it and name the file"
        )
    return found[0]


def _copy(name: str, source: IO[Any], target: Path) -> None:
    """Write what `source` yields, as long as its table would fit into the free memory."""
    most = free_memory() / BYTES_PER_BYTE
    size = 0
    with open(target, "wb") as out:
        while block := source.read(BLOCK):
            size += len(block)
            if size > most:
                raise DataError(
                    f"{name}: more than {most / 1e6:.0f} MB unpacked, which need more memory than "
                    "is free; use a sample of the rows"
                )
            out.write(block)
