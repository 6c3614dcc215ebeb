"""Extraction of one file from an untrusted archive (gzip, zip), in memory."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import IO

from ..common.text import one_line
from .errors import DataError

MAX_MEMBERS = 10_000
BROKEN = (
    OSError,
    EOFError,
    RuntimeError,  # an encrypted zip
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_bounded(stream: IO[bytes] | io.BufferedIOBase, limit: int, what: str) -> bytes:
    """All bytes of `stream`; DataError where there are more than `limit`."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise DataError(f"{what} unpacks to more than the {limit} bytes its card allows; refused")
    return data


def check_member_name(name: str) -> None:
    """DataError for a member whose name is an absolute path, a drive, or leads upwards (`..`)."""
    parts = PurePosixPath(name.replace("\\", "/"))
    drive = len(name) > 1 and name[1] == ":"
    if parts.is_absolute() or drive or ".." in parts.parts or "\0" in name:
        raise DataError(
            f"archive member {one_line(name, 80)!r} points outside the archive; refused"
        )


def _from_zip(data: bytes, member: str, limit: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        if len(infos) > MAX_MEMBERS:
            raise DataError(f"the archive has {len(infos)} members, at most {MAX_MEMBERS}; refused")
        for info in infos:
            check_member_name(info.orig_filename)
            if (info.external_attr >> 16) & 0o170000 == 0o120000:
                raise DataError(f"archive member {info.filename!r} is a link; refused")
        if member not in archive.namelist():
            raise DataError(f"the archive has no member {member!r}")
        with archive.open(member) as stream:
            return read_bounded(stream, limit, f"archive member {member!r}")


def unpack(data: bytes, how: str, *, member: str, limit: int) -> bytes:
    """The file `member` of the archive `data` ("gzip", "zip"), at most `limit` bytes.

    Nothing is written to disk. DataError for an archive in which any member is a link or has a path
    outside of the archive, for one with more than MAX_MEMBERS members, and where the
    wanted member is too large.
    """
    try:
        if not data:
            raise EOFError("it is empty")
        if how == "gzip":
            with gzip.open(io.BytesIO(data)) as stream:
                return read_bounded(stream, limit, "the file")
        return _from_zip(data, member, limit)
    except BROKEN as error:
        raise DataError(f"not a readable {how} archive: {one_line(error)}") from None
