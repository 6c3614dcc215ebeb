"""Predictions of a run: arrays packed back to back into files, each with its checksum."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ...common.files import sync_folder, write_atomically
from ...common.text import shell_word
from . import log
from .log import LedgerError

_NAME = re.compile(r"([0-9]{6,})\.bin")
ROLL_AT = 256 * 1024 * 1024  # bytes in one file
NUMERIC = "biuf"  # kinds of dtype that predictions may have


class Predictions:
    """The folder `predictions` of a run; a record names file, offset, shape, dtype and sha256.

    warn: called with a sentence where somebody removed files while they were written.
    """

    def __init__(self, folder: Path, *, warn: Callable[[str], None] = lambda text: None) -> None:
        self._folder, self._warn = folder, warn
        self._older: set[int] = set()  # numbers of the files that are full
        self._file: BinaryIO | None = None
        self._number = 0

    def open(self) -> None:
        """Open the newest file for appending."""
        existing = sorted(files_in(self._folder))
        self._number = existing[-1] if existing else 0
        self._older = set(existing[:-1])
        self._file = log.open_to_append(self._folder / file_name(self._number))

    def put(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Append arrays; the caller makes them durable with `sync`.

        Returns what the record keeps: {part: {file, offset, shape, dtype, sha256}}. Raises
        LedgerError for arrays that are no numbers.
        """
        import numpy as np

        assert self._file is not None
        where: dict[str, Any] = {}
        for part, array in arrays.items():
            if self._file.tell() >= ROLL_AT:
                self.sync()
                self._file.close()
                self._older.add(self._number)
                self._number += 1
                self._file = log.open_to_append(self._folder / file_name(self._number))
            array = np.ascontiguousarray(array)
            if array.dtype.kind not in NUMERIC:
                raise LedgerError(f"predictions are numbers; {part} has dtype {array.dtype}")
            data = array.tobytes()
            where[part] = {
                "file": file_name(self._number),
                "offset": self._file.tell(),
                "shape": list(array.shape),
                "dtype": array.dtype.str,
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            self._file.write(data)
        return where

    def sync(self) -> None:
        """Make everything durable that was put, also where somebody has removed the folder: the
        open file is written again from its bytes. `warn` is called where a full file is gone."""
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        if not _leads_to(self._folder / file_name(self._number), self._file):
            self._restore()
        gone = {n for n in self._older if not (self._folder / file_name(n)).exists()}
        for number in sorted(gone):
            self._older.discard(number)
            self._warn(
                f"{self._folder / file_name(number)} was removed during the sweep; bench verify "
                f"{shell_word(self._folder.parent)} names the trials that it belonged to"
            )

    def _restore(self) -> None:
        """Write the open file again under its name, and go on in it."""
        assert self._file is not None
        path, lost = self._folder / file_name(self._number), self._file
        self._folder.mkdir(exist_ok=True)
        sync_folder(self._folder.parent)
        write_atomically(path, os.pread(lost.fileno(), os.fstat(lost.fileno()).st_size, 0))
        self._file = log.open_to_append(path)
        lost.close()
        self._warn(f"{path} was removed or replaced during the sweep; it was written again")

    def get(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays that a record points at, by part. Raises LedgerError where their bytes are
        missing or differ from what was written."""
        import numpy as np

        arrays = {}
        for part, place in where.items():
            try:
                path = self._folder / plain_name(place["file"])
                dtype, sha256 = np.dtype(str(place["dtype"])), str(place["sha256"])
                start, shape = int(place["offset"]), [int(n) for n in place["shape"]]
                if dtype.kind not in NUMERIC or min(start, *shape) < 0:
                    raise ValueError(f"{dtype} {shape} at {start}")
            except (KeyError, TypeError, ValueError) as error:
                raise LedgerError(
                    f"a record names impossible predictions ({error!r}); refused"
                ) from None
            data = _read(path, start, math.prod(shape) * dtype.itemsize)
            if hashlib.sha256(data).hexdigest() != sha256:
                raise LedgerError(f"predictions in {path} at {start} fail their checksum")
            arrays[part] = np.frombuffer(data, dtype=dtype).reshape(shape)
        return arrays

    def close(self) -> None:
        """End writing; a buffer that a full disk did not take is dropped."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file = None


def plain_name(name: Any) -> str:
    """A file name out of a record, refused where it is a path: records may come from others."""
    if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
        raise LedgerError(f"a record names the file {name!r}, which is not a plain name; refused")
    return name


def file_name(number: int) -> str:
    """The name of a file of predictions."""
    return f"{number:06d}.bin"


def files_in(folder: Path) -> dict[int, Path]:
    """{number: path} of the prediction files in a folder. Foreign files, such as a copy named
    "000000 (1).bin", are left out."""
    named = ((path, _NAME.fullmatch(path.name)) for path in folder.glob("[0-9]*.bin"))
    return {
        int(name[1]): path for path, name in named if name and file_name(int(name[1])) == name[0]
    }


def _leads_to(path: Path, file: BinaryIO) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except OSError:
        return False


def _read(path: Path, start: int, size: int) -> bytes:
    """Bytes of a file, or b"" without allocating memory if the file is too short."""
    try:
        with open(path, "rb") as file:
            if start + size > os.fstat(file.fileno()).st_size:
                return b""
            file.seek(start)
            return file.read(size)
    except OSError as error:
        raise LedgerError(f"cannot read predictions: {error}") from None
