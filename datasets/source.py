"""A dataset's files from cache, mirror or pinned URL, checked by sha256 each time."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import tempfile
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from ..common.files import write_atomically
from ..common.text import one_line
from .added import store
from .archive import unpack
from .card import UNKNOWN, Card, SourceFile
from .download import NetworkAccess, Unreachable
from .download import network as shared_network
from .errors import ChecksumMismatch, DataError, DatasetUnavailable

MANIFEST = "MANIFEST.csv"
MAX_MANIFEST_BYTES = 16 << 20


def sha256_of(data: bytes) -> str:
    """The SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def cache_dir(cache: str | Path | None = None) -> Path:
    """`cache`, or TABSWEEP_CACHE, or ~/.cache/tabsweep."""
    chosen = cache or os.environ.get("TABSWEEP_CACHE") or Path("~/.cache/tabsweep")
    return Path(chosen).expanduser()


def read_if_there(path: Path, limit: int) -> bytes | None:
    """The bytes of `path`, at most `limit` + 1 of them; None where there is no such file."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit + 1)
    except FileNotFoundError:
        return None


def manifest_entries(data: bytes) -> dict[str, tuple[str, str, int]]:
    """sha256 -> (file, sha256 of the file as stored, bytes as stored), from a mirror's manifest.

    A mirror may keep a file gzipped: it is then found under the sha256 of the raw bytes as well.
    """
    entries: dict[str, tuple[str, str, int]] = {}
    try:
        for row in csv.DictReader(io.StringIO(data.decode("utf-8-sig"))):
            entry = (row["file"], row["sha256"], int(row["bytes"]))
            entries.setdefault(row.get("sha256_of_raw") or entry[1], entry)
            entries[entry[1]] = entry
    except (KeyError, TypeError, ValueError, csv.Error):  # UnicodeDecodeError is a ValueError
        raise Unreachable(
            f"{MANIFEST} of the mirror is no UTF-8 CSV with file, sha256 and bytes in each row"
        ) from None
    return entries


@lru_cache(maxsize=8)
def _manifest_at(path: str, stamp: tuple[int, int]) -> dict[str, tuple[str, str, int]]:
    return manifest_entries(Path(path).read_bytes())


def _mirror_bytes(mirror: str, path: str, limit: int, net: NetworkAccess) -> bytes:
    """The bytes of `path` under the mirror, a directory or a base URL; Unreachable without."""
    if mirror.startswith(("http://", "https://")):
        return net.get(f"{mirror.rstrip('/')}/{quote(path)}", limit=limit)
    root = Path(mirror).expanduser().resolve()
    wanted = (root / path).resolve()
    if not wanted.is_relative_to(root):
        raise Unreachable(f"mirror {mirror}: {path!r} leads outside of it")
    try:
        data = read_if_there(wanted, limit)
    except OSError as error:
        raise Unreachable(f"mirror {mirror}: {one_line(error)}") from None
    if data is None:
        raise Unreachable(f"mirror {mirror} has no {path}")
    return data


def _mirror_entries(mirror: str, net: NetworkAccess) -> dict[str, tuple[str, str, int]]:
    if mirror.startswith(("http://", "https://")):
        data = net.get_once(f"{mirror.rstrip('/')}/{MANIFEST}", limit=MAX_MANIFEST_BYTES)
        return manifest_entries(data)
    path = Path(mirror).expanduser() / MANIFEST
    try:
        stat = path.stat()
        return _manifest_at(str(path), (stat.st_mtime_ns, stat.st_size))
    except OSError:
        raise Unreachable(f"mirror {mirror} has no readable {MANIFEST}") from None


def _from_mirror(card: Card, file: SourceFile, mirror: str, net: NetworkAccess) -> bytes:
    entries = _mirror_entries(mirror, net)
    if file.sha256 not in entries:
        raise Unreachable(f"mirror {mirror} has no file with the sha256 of {file.name}")
    path, stored_sha256, stored_bytes = entries[file.sha256]
    data = _mirror_bytes(mirror, path, stored_bytes, net)
    actual = sha256_of(data)
    if actual != stored_sha256:
        raise ChecksumMismatch(card.name, file.name, stored_sha256, actual, f"mirror {mirror}")
    if stored_sha256 != file.sha256:
        data = unpack(data, "gzip", member="", limit=file.bytes)
    return data


def _check(card: Card, file: SourceFile, data: bytes, where: str) -> None:
    actual = sha256_of(data)
    if actual != file.sha256:
        if len(data) > file.bytes:
            actual = f"(not computed: more than {file.bytes} bytes)"
        raise ChecksumMismatch(card.name, file.name, file.sha256, actual, where)


@lru_cache(maxsize=1)
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that is removed when the process ends, for use where the cache is not writable."""
    return tempfile.TemporaryDirectory(prefix="tabsweep-")


def _kept(place: Path, data: bytes, cache: Path) -> Path:
    """Write `data` to `place` in the cache, or with a warning to a scratch folder; the path."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, data)
        return place
    except OSError as error:
        warnings.warn(
            f"cache {cache} cannot be written ({one_line(error, 80)}): files are kept for this"
            " process only; TABSWEEP_CACHE names another place",
            RuntimeWarning,
            stacklevel=2,
        )
    elsewhere = Path(_scratch().name) / place.relative_to(cache)
    elsewhere.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(elsewhere, data)
    return elsewhere


def first_seen(card: Card, file: SourceFile, *, cache: Path, net: NetworkAccess) -> SourceFile:
    """`file` with the checksum of its first download in place of "unknown".

    The checksum is stored in the cache beside the file. DatasetUnavailable where it cannot be
    downloaded, DataError where it is larger than the card's bound.
    """
    place = cache / card.name / f"{file.name}.sha256"
    noted = (read_if_there(place, 64) or b"").decode("ascii", "replace").strip()
    if len(noted) == 64:
        return replace(file, sha256=noted)
    try:
        data = net.get(file.url, limit=file.bytes)
    except Unreachable as error:
        raise DatasetUnavailable(card.name, one_line(str(error))) from None
    if len(data) > file.bytes:
        raise DataError(f"dataset {card.name!r}: {file.url} has more than {file.bytes} bytes")
    actual = sha256_of(data)
    _kept(cache / card.name / f"{actual[:16]}-{file.name}", data, cache)
    _kept(place, actual.encode(), cache)
    warnings.warn(
        f"{card.name}: the checksum of {file.name} was not known; the {len(data)} bytes that came "
        f"from {file.url} have sha256 {actual}, which is required from now on",
        RuntimeWarning,
        stacklevel=2,
    )
    return replace(file, sha256=actual)


def fetch_file(
    card: Card, file: SourceFile, *, mirror: str, cache: Path, net: NetworkAccess
) -> Path:
    """One file of `card`, checked, as a path; see `fetch`."""
    if file.sha256 == UNKNOWN:
        file = first_seen(card, file, cache=cache, net=net)
    place = cache / card.name / f"{file.sha256[:16]}-{file.name}"
    spoiled = ""
    try:
        held = read_if_there(place, file.bytes)
    except OSError:  # an unreadable cache counts as empty
        held = None
    if held is not None:
        if sha256_of(held) == file.sha256:
            return _opened(card, file, place, held)
        spoiled = sha256_of(held)
    tried = []
    for where in (f"mirror {mirror}", file.url) if mirror else (file.url,):
        try:
            if where == file.url:
                data = net.get(file.url, limit=file.bytes, expected=file.bytes)
            else:
                data = _from_mirror(card, file, mirror, net)
        except Unreachable as error:
            tried.append(str(error))
            continue
        _check(card, file, data, where)
        return _opened(card, file, _kept(place, data, cache), data)
    if spoiled:
        raise ChecksumMismatch(card.name, file.name, file.sha256, spoiled, f"cache {place}")
    advice = "" if mirror else "; a mirror can be named (TABSWEEP_MIRROR)"
    raise DatasetUnavailable(card.name, one_line("; ".join(tried)) + advice)


def _opened(card: Card, file: SourceFile, place: Path, data: bytes) -> Path:
    """`place`; for an archive the file unpacked from it, which is written beside it."""
    if not file.unpack:
        return place
    inner = place.with_name(f"{place.name}.unpacked")
    try:
        content = unpack(data, file.unpack, member=file.member, limit=file.member_bytes)
    except DataError as error:
        raise DataError(f"dataset {card.name!r}: {file.name}: {error}") from None
    if read_if_there(inner, len(content)) == content:
        return inner
    return _kept(inner, content, place.parents[1])


def fetch(
    card: Card,
    *,
    mirror: str | Path | None = None,
    cache: str | Path | None = None,
    network: NetworkAccess | None = None,
) -> dict[str, Path]:
    """The files of `card` on this disk: role -> path, each checked against its sha256.

    Sources in order: the cache; the mirror (a directory or base URL whose MANIFEST.csv lists
    the sha256); the pinned URL. Downloads are bounded in size, checked before use and moved into
    the cache atomically. A cached file whose checksum is wrong is fetched again. Errors:
    DatasetUnavailable (no source has the file; this is found out within 20 s), ChecksumMismatch
    (a source has other bytes under its name). The files of an added dataset lie beside its card.
    """
    if card.origin:
        return store.files(card)
    if card.archive and not card.files:
        raise DatasetUnavailable(card.name, card.archive)
    where, chosen = cache_dir(cache), str(mirror or os.environ.get("TABSWEEP_MIRROR") or "")
    net = network or shared_network()
    return {f.role: fetch_file(card, f, mirror=chosen, cache=where, net=net) for f in card.files}
