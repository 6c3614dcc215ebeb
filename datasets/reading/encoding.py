"""The encoding of a text file: UTF-8, UTF-16, or another one that is named in a notice."""

from __future__ import annotations

import codecs
from pathlib import Path

from ...common.text import one_line
from ..errors import DataError

UTF_16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
MOSTLY = 0.7  # of every second byte is zero in UTF-16 without a mark (Latin letters)
OTHERS = {  # codec -> what it is called; these tell themselves apart from Western texts
    "gb18030": "GB 18030 (GBK)",
    "big5": "Big5",
    "cp932": "Shift JIS",
    "euc_jp": "EUC-JP",
    "cp949": "Korean (EUC-KR)",
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
    "cp1253": "Windows-1253",
    "cp1255": "Windows-1255",
    "cp1256": "Windows-1256",
}
NAMES = {"cp1252": "Windows-1252", "utf-16": "UTF-16", **OTHERS}
NAMES |= {"utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
TWO_BYTES = {"gb18030", "big5", "cp932", "euc_jp", "cp949"}
WESTERN = ("cp1250", "cp1252", "latin_1")
FEW_LETTERS = 8  # bytes beyond ASCII, below which a text does not tell its encoding
CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\f")


def encoding_of(path: Path, name: str) -> tuple[str, str]:
    """(codec, notice) of a text file; the notice is "" for UTF-8. `name` stands in errors.

    A file that is not UTF-8 is read in the encoding of OTHERS that its text is likely in, else as
    Windows-1252, which has all letters of Latin-1. Hardly any byte is wrong in these, so the notice
    shows a word for the user to look at. DataError names the first byte that is not UTF-8 where
    other letters of the file are: such a file is damaged. It also refuses UTF-32 and control
    characters, which no text has.
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
        sample = data[:65536] if data.isascii() else data.decode("utf-8")[:65536].encode()
    except UnicodeDecodeError as error:
        first = error.start
    else:
        _check_controls(sample, data, name)
        return "utf-8-sig", ""
    line = data.count(b"\n", 0, first) + 1
    if codec := _other(data):
        return codec, _notice(data, first, codec)
    if not data.decode("utf-8", "ignore").removeprefix("\ufeff").isascii():
        raise DataError(
            f"{name}: near line {line}: byte 0x{data[first]:02x} is not UTF-8, which the rest of "
            "the file is; save the file as UTF-8"
        )
    _check_controls(data, data, name)
    try:
        data.decode("cp1252")
    except UnicodeDecodeError as error:
        bad = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}: line {bad}: byte 0x{data[error.start]:02x} is no text in UTF-8 or "
            "Windows-1252; save the file as UTF-8"
        ) from None
    return "cp1252", _notice(data, first, "cp1252")


def _other(data: bytes) -> str:
    """The codec of OTHERS that the text is likely in, "" for none."""
    counts = [data[: 1 << 20].count(bytes([code])) for code in range(0x80, 0x100)]
    if sum(counts) < FEW_LETTERS:
        return ""
    # letters of one byte, Cyrillic ones too, lie above; few characters of two bytes do with both
    single = sum(counts[0x40:]) > 0.98 * sum(counts)
    from charset_normalizer import from_bytes

    sample = data[: data.rfind(b"\n", 0, 1 << 20) + 1] or data
    codecs_tried = [*(OTHERS.keys() - TWO_BYTES if single else OTHERS), *WESTERN]
    best = from_bytes(sample, cp_isolation=sorted(codecs_tried)).best()
    codec = best.encoding if best else ""
    if codec not in OTHERS:
        return ""
    try:
        data.decode(codec)
    except UnicodeDecodeError:
        return ""
    return codec


def _notice(data: bytes, first: int, codec: str) -> str:
    """Says that a file is no UTF-8, and shows the text around the first byte that shows it."""
    start, end = data.rfind(b"\n", 0, first) + 1, data.find(b"\n", first)
    line, text = data.count(b"\n", 0, first) + 1, data[start : end if end >= 0 else None]
    word = text.decode(codec, "replace")
    at = len(data[start:first].decode(codec, "replace"))
    shown = one_line(word[max(0, at - 15) : at + 15], 40)
    return f"not UTF-8; read as {NAMES[codec]} (line {line}: {shown!r})"


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
