"""The manifest of a ledger: the list of sealed segments, and the name of the tail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...common.files import write_atomically
from .segments import LedgerError, plain_name

FORMAT = 1


class Manifest:
    """MANIFEST.json in the folder of a ledger, replaced whole and checked when it is read.

    Its data: {"format": 1, "segments": [{"file", "sha256", "records", "kinds", "facts"}], "tail"}.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "MANIFEST.json"
        self._stand_in: dict[str, Any] | None = None

    def exists(self) -> bool:
        """Whether the folder has a manifest with anything in it: a power cut, too, may leave one
        of no bytes, or of zeros."""
        try:
            return bool(self.path.read_bytes().strip(b"\0 \t\r\n"))
        except OSError:
            return False

    def create(self) -> None:
        """Write the manifest of a new ledger."""
        self.write({"format": FORMAT, "segments": [], "tail": tail_name(1)})

    def stand_in(self, manifest: dict[str, Any]) -> None:
        """What `read` gives as long as the folder has no manifest."""
        self._stand_in = manifest

    def read(self) -> dict[str, Any]:
        """The data. Raises LedgerError where the file is missing, damaged or of another format."""
        try:
            data = self.path.read_bytes() if self._stand_in is None or self.exists() else None
            manifest = json.loads(data) if data is not None else self._stand_in
        except (OSError, ValueError) as error:
            raise LedgerError(f"cannot read {self.path}: {error}") from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            found = manifest.get("format") if isinstance(manifest, dict) else manifest
            raise LedgerError(
                f"{self.path} has format {found!r}; this version reads "
                f"{FORMAT}: use the tabsweep that wrote it"
            )
        try:
            for segment in manifest["segments"]:
                plain_name(segment["file"]), str(segment["sha256"]), int(segment["records"])
                list(segment.get("kinds") or [])
            number_of(plain_name(manifest["tail"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"{self.path} is damaged ({error!r})") from None
        return manifest

    def read_with_tail(self) -> tuple[dict[str, Any], bytes]:
        """The data and the bytes of the tail, both of one moment: a writer may be sealing."""
        manifest = self.read()
        while True:
            path = self.path.parent / manifest["tail"]
            data = path.read_bytes() if path.exists() else b""
            again = self.read()
            if again == manifest:
                return manifest, data
            manifest = again

    def write(self, manifest: Mapping[str, Any]) -> None:
        """Replace the file, durably."""
        write_atomically(self.path, json.dumps(manifest, indent=1).encode() + b"\n")


def tail_name(number: int) -> str:
    """The file name of a tail."""
    return f"tail-{number:06d}.jsonl"


def segment_name(number: int) -> str:
    """The file name of the segment that the tail of that number becomes."""
    return f"segment-{number:06d}.parquet"


def number_of(tail: str) -> int:
    """The number in the name of a tail; ValueError where there is none."""
    return int(tail.removeprefix("tail-").removesuffix(".jsonl"))
