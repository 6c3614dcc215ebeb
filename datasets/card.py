"""Dataset cards: one TOML file a dataset with its source, columns and faults, strictly parsed."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..common.tasks import TASKS
from ..common.text import one_line, suggest
from .errors import DataError

PROTOCOLS = (
    *("kfold", "fivefold", "holdout", "official", "rtdl", "cheatt"),
    *("grouped", "temporal"),
)
# Parser -> the options that it takes.
PARSERS = {
    "whitespace": (),
    "coded": ("part_from_row",),
    "bundled": ("loader", "arguments", "categorical"),
    "table": (
        *("target", "classes", "header", "drop", "missing", "test_rows"),
        *("quote", "unique", "folds", "val_share", "separator", "label_end"),
        *("complete", "dates"),
    ),
    "indicators": ("classes",),
    "california": (),
    "counted": ("classes",),
    "arrays": ("numeric", "binary", "categorical", "sizes", "infinite"),
    "file": (
        *("group", "time", "weight", "drop", "missing"),
        *("date", "text", "join", "day_first", "drop_missing_target", "positive", "costs"),
    ),
    "openml": ("task", "dataset", "version", "md5", "date", "text"),
}
ROLES = {
    "whitespace": {"data"},
    "coded": {"features", "labels", "test_masks", "val_masks"},
    "bundled": set(),
    "table": {"data"},
    "indicators": {"data"},
    "california": {"data"},
    "counted": {"data"},
    "arrays": set(),
    "file": {"data"},
    "openml": {"data", "splits"},
}
MORE_ROLES = {  # optional files
    "table": {"more", "test"},
    "arrays": {"numbers", "categories", "target", "parts", "labels"},
}
STORED = {"target", "parts", "labels"}  # what an added dataset has at least
LARGE_BYTES = 100_000_000
UNKNOWN = "unknown"  # the checksum of a file that was not at hand when its card was written
FAULTS = {
    "label-is-attribute": "the label is an attribute of the source, not its class",
    "answered-or-not": "the features only say whether a question was answered",
    "standardised-separately": "train and test were standardised separately",
}
# The fields that a trial's id depends on; the others are for readers.
MEANING = ("name", "task", "parser", "options", "columns", "categorical", "n_classes")


@dataclass(frozen=True)
class SourceFile:
    """One file of a dataset, pinned: `url` holds `bytes` bytes with checksum `sha256`.

    With sha256 "unknown" the first download is trusted: its checksum is stored beside it, reported
    in a warning, and required from then on; `bytes` is then an upper bound.

    With `unpack` ("gzip" or "zip") the URL holds an archive; `member` is the wanted file of a zip,
    `member_bytes` the bound on its unpacked size.

    A file of an added dataset lies beside its card and has no URL.
    """

    role: str
    name: str
    url: str
    sha256: str
    bytes: int
    unpack: str = ""
    member: str = ""
    member_bytes: int = 0


@dataclass(frozen=True)
class Card:
    """Source, columns, protocol, licence and known faults of one dataset.

    `columns` are the names of the features in the source's order, `categorical` the categorical
    ones among them. `n_rows`, `n_features`, `n_classes` are checked against the parsed table.
    `protocol` is the default one. `learnable` is False where a fault leaves little but the majority
    class to learn; `overlaps` are the names of the datasets that share rows with this one.
    `origin` says where an added dataset came from, and is "" for the built-in ones. `archive` says
    where the bytes of a built-in dataset without files are (to be had by `bench data add`).
    """

    name: str
    title: str
    task: str
    target: str
    parser: str
    n_rows: int
    n_features: int
    protocol: str
    licence: str
    citation: str
    n_classes: int = 0
    columns: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    learnable: bool = True
    faults: tuple[str, ...] = ()
    overlaps: tuple[str, ...] = ()
    notes: str = ""
    origin: str = ""
    archive: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()

    @property
    def kinds(self) -> dict[str, str]:
        """Column name -> 'numeric', 'categorical', 'date' or 'text'; empty where the source names
        its columns."""
        kinds = dict.fromkeys(self.columns, "numeric") | dict.fromkeys(
            self.categorical, "categorical"
        )
        for kind in ("date", "text") if self.parser in ("file", "openml") else ():
            kinds |= dict.fromkeys(self.options.get(kind, ()), kind)
        return kinds

    @property
    def large(self) -> bool:
        """Whether its files have over 100 MB: they are then fetched only for a dataset that is
        selected by name."""
        return not self.origin and sum(file.bytes for file in self.files) > LARGE_BYTES

    @property
    def meaning_sha256(self) -> str:
        """A hash of the fields that decide how the files are parsed, without titles and notes."""
        plain = {name: getattr(self, name) for name in MEANING}
        plain["options"] = dict(self.options)
        plain["files"] = [[f.role, f.unpack, f.member] for f in self.files]
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


_TYPES = {"str": str, "int": int, "bool": bool, "tuple[str, ...]": list}


def _build(kind: type, data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`data` as keyword arguments of the dataclass `kind`; DataError for an unknown key, a value of
    another type and a missing key."""
    known = {f.name: f for f in fields(kind)}
    for key in data:
        if key not in known:
            raise DataError(f"{where}: unknown key {key!r}; {suggest(key, known)}")
    values: dict[str, Any] = {}
    for name, spec in known.items():
        if name not in data:
            if spec.default is not spec.default_factory:  # one of them is set: there is a default
                continue
            raise DataError(f"{where}: the key {name!r} is missing")
        value, wanted = data[name], _TYPES.get(str(spec.type))
        right = wanted is None or type(value) is wanted
        if wanted is list and right:
            right = all(isinstance(item, str) for item in value)
        if not right:
            raise DataError(f"{where}: {name} = {value!r} should be of type {spec.type}")
        values[name] = tuple(value) if wanted is list else value
    return values


def _one_of(value: str, known: Iterable[str], what: str, where: str) -> None:
    if value not in known:
        raise DataError(f"{where}: unknown {what} {value!r}; {suggest(value, known)}")


def parse_card(text: str, where: str) -> Card:
    """The card written in `text`; `where` names the file in errors (DataError)."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where}: not TOML: {error}") from None
    for key, kind, shape in (("options", dict, "a table"), ("files", list, "tables, [[files]]")):
        if not isinstance(data.get(key, kind()), kind):
            raise DataError(f"{where}: {key} = {data[key]!r} should be {shape}")
    files = []
    for number, entry in enumerate(data.get("files", [])):
        at = f"{where}: files[{number}]"
        file = SourceFile(**_build(SourceFile, entry, at))
        if not re.fullmatch(rf"[0-9a-f]{{64}}|{UNKNOWN}", file.sha256):
            raise DataError(f"{at}: sha256 = {file.sha256!r} is not 64 lower-case hex digits")
        local = file.url == "" and bool(data.get("origin"))
        if not local and not re.fullmatch(r"https?://\S+", file.url):
            raise DataError(f"{at}: url = {file.url!r} is not an http(s) address")
        if not re.fullmatch(r"[\w][\w .-]*", file.name):
            raise DataError(f"{at}: name = {file.name!r} is not a plain file name")
        if file.bytes <= 0:
            raise DataError(f"{at}: bytes = {file.bytes} should be at least 1")
        if file.unpack:
            _one_of(file.unpack, ("gzip", "zip"), "unpack", at)
            if file.member_bytes <= 0:
                raise DataError(f"{at}: unpack needs member_bytes, the size after unpacking")
            if file.unpack != "gzip" and not file.member:
                raise DataError(f"{at}: unpack = {file.unpack!r} needs member, the file wanted")
        files.append(file)
    card = Card(**{**_build(Card, data, where), "files": tuple(files)})
    _one_of(card.task, TASKS, "task", where)
    _one_of(card.parser, PARSERS, "parser", where)
    _one_of(card.protocol, PROTOCOLS, "protocol", where)
    for fault in card.faults:
        _one_of(fault, FAULTS, "fault", where)
    for column in card.categorical:
        _one_of(column, card.columns, "column", where)
    if card.columns and len(card.columns) != card.n_features:
        raise DataError(f"{where}: {len(card.columns)} columns, n_features = {card.n_features}")
    if len(set(card.columns)) != len(card.columns):
        raise DataError(f"{where}: columns has a name twice")
    if card.protocol in ("grouped", "temporal"):
        column = {"grouped": "group", "temporal": "time"}[card.protocol]
        if column not in card.options:
            raise DataError(f"{where}: protocol {card.protocol!r} needs options.{column}, a column")
    if (card.task == "regression") != (card.n_classes == 0):
        raise DataError(f"{where}: task {card.task!r} with n_classes = {card.n_classes}")
    for option in card.options:
        _one_of(option, PARSERS[card.parser], "option", where)
    wanted = sorted(ROLES[card.parser])
    more = MORE_ROLES.get(card.parser, set())
    roles = sorted(file.role for file in files)
    if card.origin and card.parser == "arrays":
        wanted, more = sorted(STORED), more - STORED
    if card.parser == "arrays" and not files and not card.archive:
        raise DataError(f"{where}: neither files nor the name of an archive that has them")
    if sorted(set(roles) - more) != wanted or len(set(roles)) != len(roles):
        raise DataError(f"{where}: files of roles {roles}; parser {card.parser!r} needs {wanted}")
    return card


def read_card(path: Path, *, name: str | None = None) -> Card:
    """The card in the file `path` of the dataset `name`, by default the file's stem. DataError
    where the card names another one, or is wrong."""
    due = path.stem if name is None else name
    shown = path.name if name is None else f"{due}/{path.name}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"card {shown}: {one_line(error)}") from None
    card = parse_card(text, f"card {shown}")
    if card.name != due:
        raise DataError(f"card {shown}: name = {card.name!r} should be {due!r}")
    return card
