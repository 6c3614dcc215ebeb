"""Extraction of a tar of array folders from an unknown source."""

from __future__ import annotations

import errno
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ...common.text import one_line
from ..archive import BROKEN, check_member_name
from ..errors import DataError

MAX_MEMBERS = 100_000
SPARE_BYTES = 1 << 28  # of the disk that an extraction leaves free


def is_wanted(name: str) -> bool:
    """Whether a member is an array or an `info.json`, and no shadow file of macOS."""
    path = PurePosixPath(name)
    hidden = any(part.startswith("._") or part == "__MACOSX" for part in path.parts)
    return not hidden and (path.suffix == ".npy" or path.name == "info.json")


def _new_file(into: Path, name: str) -> BinaryIO:
    """A new file under `into` for a member, open for writing. DataError for a second one of its
    name, and for a name that no file can have."""
    place, shown = into.joinpath(*PurePosixPath(name).parts), one_line(name, 80)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return open(place, "xb")
    except (FileExistsError, NotADirectoryError):
        raise DataError(f"archive member {shown!r} is there twice; refused") from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise DataError(f"archive member {shown!r} has too long a name; refused") from None


def unpack_arrays(archive: Path, into: Path) -> None:
    """Write the arrays and the `info.json` files of a tar (also .gz, .bz2, .xz) under `into`.

    Nothing else is written. DataError, with nothing to clean up but `into`, for a file that is no
    readable tar, a member that is a link or a device or is there twice, one whose name is too long
    or leads out of the archive, more than MAX_MEMBERS members, and more bytes than the disk has
    room for.
    """
    room = shutil.disk_usage(into).free - SPARE_BYTES
    try:
        with tarfile.open(archive, "r|*") as tar:
            for number, member in enumerate(tar):
                if number >= MAX_MEMBERS:
                    raise DataError(f"{archive.name} has more than {MAX_MEMBERS} members; refused")
                check_member_name(member.name)
                if member.isdir():
                    continue
                if not member.isfile():
                    raise DataError(
                        f"archive member {one_line(member.name, 80)!r} is a link or device; refused"
                    )
                if not is_wanted(member.name):
                    continue
                room -= member.size
                if room < 0:
                    raise DataError(
                        f"{archive.name} needs more room than the disk of {into.parent} has free; "
                        "TABSWEEP_DATA names another place"
                    )
                source = tar.extractfile(member)
                assert source is not None
                with _new_file(into, member.name) as file:
                    shutil.copyfileobj(source, file, 1 << 20)
                    if file.tell() != member.size:
                        raise EOFError(f"{member.name} is cut short")
    except BROKEN as error:
        if isinstance(error, OSError) and not isinstance(error, tarfile.TarError) and error.errno:
            raise  # of this machine's disk, not of the archive
        raise DataError(
            f"{archive.name} is not a readable tar (a folder, .tar or .tar.gz is read): "
            f"{one_line(error)}"
        ) from None
