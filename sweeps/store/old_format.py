"""Ledgers of the format before the log: segments, a tail and a manifest, written anew by

python -m tabsweep.sweeps.store.old_format DIR/NAME
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

from ...common.files import sync_folder
from ...common.text import shell_word
from .log import LedgerError, decode, line_of
from .predictions import plain_name
from .run_folder import LOG
from .run_lock import RunLock

OLD = ("MANIFEST.json", "segment-", "tail-", "facts-")


def is_old(names: Iterable[str]) -> bool:
    """Whether the files of a ledger are those of that format."""
    return any(name.startswith(OLD) for name in names)


def refusal(run: Path) -> str:
    """What is said where such a run is opened."""
    return (
        f"the ledger of {run} has an older format; write it anew, once: "
        f"python -m tabsweep.sweeps.store.old_format {shell_word(run)}"
    )


def convert(run: Path) -> int:
    """Write the log from the files of an old ledger, and remove these; returns the number of
    records. Raises LedgerError where a record is damaged: the version that wrote it mends it."""
    folder = run / "ledger"
    temporary = folder / f".{LOG}.{os.getpid()}.tmp"
    try:
        manifest = json.loads((folder / "MANIFEST.json").read_bytes())
        tail = folder / plain_name(manifest["tail"])
        lines = tail.read_bytes().splitlines(keepends=True) if tail.exists() else []
        n = len(lines)
        if None in map(decode, lines):
            raise ValueError(f"{tail.name} has a damaged line")
        with open(temporary, "xb") as file:
            for segment in manifest["segments"]:
                texts = _texts_of(folder / plain_name(segment["file"]))
                n += len(texts)
                file.writelines(map(line_of, texts))
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / LOG)
        sync_folder(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"{folder} cannot be read ({error}); `bench resume` of the tabsweep that wrote it"
        raise LedgerError(f"{text} mends it") from None
    finally:
        temporary.unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.name.startswith(OLD):
            path.unlink()
    return n


def _texts_of(path: Path) -> list[bytes]:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["crc", "json"])
    texts = table.column("json").to_pylist()
    if list(map(zlib.crc32, texts)) != table.column("crc").to_pylist():
        raise ValueError(f"a record of {path.name} fails its checksum")
    return texts


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with RunLock(Path(name)):
            print(f"{name}: {convert(Path(name))} records")
