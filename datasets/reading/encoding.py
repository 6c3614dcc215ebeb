"""The encoding of a text file: UTF-8, UTF-16, or a one-byte encoding that is named in a notice."""

from __future__ import annotations

import codecs
from pathlib import Path

from ...common.text import one_line
from ..errors import DataError

UTF_16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
MOSTLY = 0.7  # of every second byte is zero in UTF-16 without a mark (Latin letters)
C1 = frozenset(range(0x80, 0xA0))  # letters and quotes in Windows-1252, controls in Latin-1
CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\f")


def encoding_of(path: Path, name: str) -> tuple[str, str]:
    """(codec, notice) of a text file; the notice is "" for UTF-8. `name` stands in errors.

    A file whose letters beyond ASCII are no UTF-8 is read as Windows-1252 where it has bytes of
    that alone, else as Latin-1: no byte is wrong in these, so the notice shows a word to look at.
    Where other letters of the file are UTF-8, single bytes are damaged, and DataError names the
    first; it also refuses UTF-32 and control characters, which no text has.
    """
    data = path.read_bytes()
    if data.startswith(UTF_32):
        raise DataError(f"{name}: UTF-32; save the file as UTF-8")
    for mark, codec in UTF_16.items():
        if data.startswith(mark):
            return _utf_16(data, codec, name)
    head = data[: 4096 & ~1]
    halves = (("utf-16-le", head[1::2], head[0::2]), ("utf-16-be", head[0::2], head[1::2]))
    for codec, zeros, letters in halves:
        if len(zeros) > 8 and zeros.count(0) > MOSTLY * len(zeros) and 0 not in letters:
            return _utf_16(data, codec, name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        first = error.start
    else:
        _check_controls(text[:65536].encode(), data, name)
        return "utf-8-sig", ""
    line = data.count(b"\n", 0, first) + 1
    if not data.decode("utf-8", "ignore").removeprefix("\ufeff").isascii():
        raise DataError(
            f"{name}: near line {line}: byte 0x{data[first]:02x} is not UTF-8, which the rest of "
            "the file is; save the file as UTF-8"
        )
    _check_controls(data, data, name)
    codec, called = "latin-1", "Latin-1"
    if C1.intersection(data):
        codec, called = "cp1252", "Windows-1252"
        try:
            data.decode(codec)
        except UnicodeDecodeError as error:
            bad = data.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{name}: line {bad}: byte 0x{data[error.start]:02x} is no text in UTF-8, Latin-1 "
                "or Windows-1252; save the file as UTF-8"
            ) from None
    start = max(data.rfind(b"\n", 0, first), first - 15) + 1
    word = data[start : first + 15].decode(codec, "replace").partition("\n")[0]
    return codec, f"not UTF-8; read as {called} (line {line}: {one_line(word, 40)!r})"


def _utf_16(data: bytes, codec: str, name: str) -> tuple[str, str]:
    try:
        data.decode(codec)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: damaged UTF-16 at byte {error.start}; save the file as UTF-8"
        ) from None
    return codec, "read as UTF-16"


def _check_controls(sample: bytes, data: bytes, name: str) -> None:
    """DataError for a zero byte anywhere, and for other control characters in the sample that are
    more than a few: such bytes are no text."""
    if (at := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise DataError(f"{name}: line {line}: a zero byte; this is no text. Save it as CSV, UTF-8")
    odd = sum(map(sample.count, (bytes([code]) for code in CONTROL)))
    if odd > max(8, len(sample) // 50):
        raise DataError(f"{name}: {odd} control characters; this is no text. Save it as CSV, UTF-8")
