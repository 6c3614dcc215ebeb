"""The user's own datasets: a folder with a card and its files each, beside the built-in cards."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...common.files import file_sha256
from ...common.text import one_line, suggest, toml_string
from ..card import Card, read_card
from ..errors import ChecksumMismatch, DataError, DatasetUnavailable, UnknownDataset

CARD = "card.toml"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
INCOMING = ".incoming-"
ENDINGS = {"gz", "bz2", "xz", "zip", "csv", "tsv", "txt", "tab", "data"}
ENDINGS |= {"parquet", "pq", "arrow", "feather", "ipc"}


def folder() -> Path:
    """TABSWEEP_DATA, or tabsweep/datasets in XDG_DATA_HOME (~/.local/share)."""
    chosen = os.environ.get("TABSWEEP_DATA")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "tabsweep" / "datasets"


def write_card(
    made: Path, facts: Mapping[str, Any], options: Mapping[str, Any], files: Mapping[str, Path]
) -> None:
    """Write the card of the dataset in the folder `made`: its fields, the options of its parser,
    and its files (role -> path) with checksum and size."""
    pinned = [
        {
            "role": role,
            "name": path.name,
            "url": "",
            "sha256": file_sha256(path),
            "bytes": path.stat().st_size,
        }
        for role, path in files.items()
    ]
    tables = [("", facts), ("\n[options]\n", options), *(("\n[[files]]\n", f) for f in pinned)]
    text = "".join(
        head + "".join(f"{key} = {as_toml(value)}\n" for key, value in table.items())
        for head, table in tables
    )
    (made / CARD).write_text(text, encoding="utf-8")


def as_toml(value: Any) -> str:
    """A text, number, truth value or list of these as TOML."""
    if isinstance(value, str):
        return toml_string(value)
    return f"[{', '.join(map(as_toml, value))}]" if isinstance(value, list) else json.dumps(value)


def checked_name(name: str, built_in: Iterable[str]) -> str:
    """The name under which a dataset may be stored. Raises DataError for one that is no name, or is
    that of a built-in dataset."""
    if not NAME.fullmatch(name):
        raise DataError(
            f"{one_line(name, 80)!r} is no name of a dataset (lower-case letters, digits and '-', "
            "at most 64): give --name"
        )
    if name in built_in:
        raise DataError(f"{name!r} is the name of a built-in dataset: give another one by --name")
    return name


def names() -> list[str]:
    """The names of the added datasets, sorted; reads no card."""
    try:
        found = [p.name for p in folder().iterdir() if NAME.fullmatch(p.name) and _has_card(p)]
    except OSError:  # no folder yet, or one that may not be read
        return []
    return sorted(found)


def _has_card(path: Path) -> bool:
    return (path / CARD).is_file()


@lru_cache(maxsize=1024)
def _read(path: Path, stamp: tuple[int, int]) -> Card:
    return read_card(path / CARD, name=path.name)


def card(name: str) -> Card:
    """The card of an added dataset. Raises UnknownDataset, DataError."""
    path = folder() / name
    if not NAME.fullmatch(name) or not _has_card(path):
        raise UnknownDataset(f"no added dataset {one_line(name)!r}; {suggest(name, names())}")
    stat = (path / CARD).stat()
    return _read(path, (stat.st_mtime_ns, stat.st_size))


def files(wanted: Card) -> dict[str, Path]:
    """The files of an added dataset, checked against its card: role -> path. Raises
    DatasetUnavailable for a missing file, ChecksumMismatch for another one."""
    found = {}
    for file in wanted.files:
        path = folder() / wanted.name / file.name
        try:
            actual = file_sha256(path)
        except OSError as error:
            raise DatasetUnavailable(
                wanted.name, f"{one_line(error)}; add it again: bench data add"
            ) from None
        if actual != file.sha256:
            where = str(path.parent)
            raise ChecksumMismatch(wanted.name, file.name, file.sha256, actual, where)
        found[file.role] = path
    return found


def stem_of(path: Path) -> str:
    """A file's name without its endings.

    >>> stem_of(Path("data/My houses.csv.gz")), stem_of(Path("v1.2.csv"))
    ('My houses', 'v1.2')
    """
    name = path.name
    while "." in name[1:] and name.rpartition(".")[2].lower() in ENDINGS:
        name = name.rpartition(".")[0]
    return name


@contextmanager
def incoming() -> Iterator[Path]:
    """A folder beside the datasets for one that is being made; removed at the end."""
    place = folder() / f"{INCOMING}{os.getpid()}-{secrets.token_hex(4)}"
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def install(made: Path, name: str) -> bool:
    """Move the complete dataset in `made` to its place. Returns False if it was there already.

    The move is one rename, so a dataset is there whole or not at all. A damaged copy of the same
    dataset and a folder without a card are replaced. Raises DataError if the name belongs to
    another dataset, to the same dataset with another protocol, or to an unreadable card.
    """
    place = folder() / name
    new = read_card(made / CARD, name=name)
    way_out = f"remove it (bench data remove {name}) or give this one another --name"
    in_the_way = place.is_dir()  # looked up first: what comes from here on is another's, and whole
    if _has_card(place):
        try:
            old = card(name)
        except DataError as error:
            raise DataError(f"{name!r} is a damaged dataset ({error}): {way_out}") from None
        if new.meaning_sha256 != old.meaning_sha256 or new.files != old.files:
            raise DataError(f"{name!r} is a dataset with other data: {way_out}")
        if new.protocol != old.protocol:
            raise DataError(f"{name!r} is a dataset with the protocol {old.protocol}: {way_out}")
        try:
            files(old)
            return False
        except DataError:  # a file is gone or changed: the new ones take their place
            pass
    if in_the_way:
        _delete(place)
    try:
        os.rename(made, place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return install(made, name)  # another process was first
    return True


def _delete(place: Path) -> None:
    """Delete a dataset's folder: gone from its place at once."""
    going = folder() / f"{INCOMING}{os.getpid()}-{secrets.token_hex(4)}"
    os.rename(place, going)
    shutil.rmtree(going)


def remove(name: str) -> int:
    """Delete an added dataset; the bytes that this frees. Raises UnknownDataset."""
    path = folder() / name
    if not NAME.fullmatch(name) or not path.is_dir():
        raise UnknownDataset(f"no added dataset {one_line(name)!r}; {suggest(name, names())}")
    freed = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    _delete(path)
    return freed
