"""A manifest that was deleted or emptied, made again from the segments and the tail beside it."""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Any

from .manifest import FORMAT, segment_name, tail_name
from .segment_files import intact_records
from .segments import LedgerError

_SEGMENT = re.compile(r"segment-(\d{6,})\.parquet")
_TAIL = re.compile(r"tail-(\d{6,})\.jsonl")


def rebuilt(folder: Path) -> tuple[dict[str, Any], str, list[str]] | None:
    """(the manifest that the files in the folder of a ledger had, what was done in words, what is
    lost in sentences); None where there is no such file.

    The checksums of the segments went with the manifest: each record's own crc takes their place,
    and a segment with a damaged record gets an entry whose sha256 is empty. A tail whose segment is
    there was sealed, and does not count. Raises LedgerError where the files do not fit together.
    """
    segments, tails = _numbers(folder, _SEGMENT), _numbers(folder, _TAIL)
    if not segments and not tails:
        return None
    newest = max([0, *segments])
    left = sorted(set(tails) - set(segments))
    if left[1:] or (left and left[0] < newest):
        names = ", ".join(tail_name(number) for number in left)
        raise LedgerError(
            f"{folder / 'MANIFEST.json'} is gone and cannot be made again: {names} should be one "
            "tail behind the newest segment. Restore the folder from a copy"
        )
    entries = [_entry(folder / segment_name(number)) for number in segments]
    tail = tail_name(left[0] if left else newest + 1)
    text = f"{folder / 'MANIFEST.json'} was gone or empty: made again from the {len(entries)} "
    text += f"segments and {tail}"
    last = left[0] if left else newest + 1  # the tail's number follows that of the last segment
    absent = sorted(set(range(1, last)) - set(segments))
    lost = [f"{folder / segment_name(n)} is gone; its trials run again" for n in absent]
    return {"format": FORMAT, "segments": entries, "tail": tail}, text, lost


def _numbers(folder: Path, pattern: re.Pattern[str]) -> list[int]:
    found = (pattern.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in found if match)


def _entry(path: Path) -> dict[str, Any]:
    """A segment's entry in the manifest, without one for its columns."""
    import pyarrow.parquet as pq

    try:
        data = path.read_bytes()
    except OSError as error:
        raise LedgerError(f"cannot read the sealed segment {path}: {error}") from None
    rows = intact_records(data)
    try:
        n = pq.ParquetFile(io.BytesIO(data)).metadata.num_rows
    except Exception:  # a damaged file may raise anything
        n = -1
    sound = n == len(rows)
    return {
        "records": max(n, 0),
        "kinds": sorted({head.kind for head, _ in rows}),
        "file": path.name,
        "sha256": hashlib.sha256(data).hexdigest() if sound else "",
    }
