"""Reader of ARFF files, dense and sparse: names and kinds of columns, and the cells."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...common.text import one_line
from ..errors import DataError
from ..reading.files import check_memory

NUMBERS = ("numeric", "real", "integer")
QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|[^\s{{]+)\s*(.+)", re.IGNORECASE | re.DOTALL)
# The matcher never goes back over a character (possessive), so a line takes time in proportion to
# its length. A value without quotes may end in spaces; `_value` removes them.
BARE = r"(?!['\"])[^,]*+"
CELL = re.compile(rf"\s*+(?:({QUOTED})\s*+|({BARE}))(,|$)", re.DOTALL)
ENTRY = re.compile(rf"\s*+(\d++)\s++(?:({QUOTED})\s*+|({BARE}))(,|$)", re.DOTALL)
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
QUOTE = re.compile("['\"]")
BYTES_PER_CELL = 10


@dataclass(frozen=True)
class Attribute:
    """A column: `kind` is "numeric", "nominal", "string" or "date"; `levels` are the values of a
    nominal one, in the order of the file."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arff:
    """A file's columns and cells: `frame` has a column each under its place (0, 1, ...), float64
    with NaN for numbers, texts with None where missing for all others."""

    attributes: tuple[Attribute, ...]
    frame: pd.DataFrame


def read_arff(data: bytes, where: str) -> Arff:
    """The table in an ARFF file. `where` names it in errors (DataError).

    A `?` without quotes is a missing value. In a sparse file an entry that is not named is 0, or
    the first level of a nominal column. Attributes of relations are refused.

    >>> found = read_arff(b"@attribute a real\\n@attribute b {x,y}\\n@data\\n1,y\\n?,?", "r")
    >>> found.attributes[1].levels, found.frame[1].tolist()
    (('x', 'y'), ['y', None])
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # what the tools that write ARFF did before UTF-8
    attributes, begin, line = _header(text, where)
    body = text[begin:]
    first = next((row for row in _rows(body, line) if row[1]), None)
    if first is None:
        raise DataError(f"{where}: a header and no rows")
    read = _sparse if first[1].startswith("{") else _dense
    return Arff(attributes, pd.DataFrame(dict(enumerate(read(body, line, attributes, where)))))


def _value(quoted: str | None, bare: str | None) -> str | None:
    """A cell's text; None for a question mark without quotes."""
    return _bare(bare or "") if quoted is None else _unquoted(quoted)


def _bare(text: str) -> str | None:
    plain = text.strip()
    return None if plain == "?" else plain


def _unquoted(token: str) -> str:
    if token[:1] in ("'", '"') and len(token) > 1 and token[-1] == token[0]:
        return ESCAPED.sub(lambda found: ESCAPES.get(found[1], found[1]), token[1:-1])
    return token


def _header(text: str, where: str) -> tuple[tuple[Attribute, ...], int, int]:
    """(columns, place of the first character and number of the first line after @data)."""
    attributes: list[Attribute] = []
    at = number = 0
    for raw in io.StringIO(text):
        at, number = at + len(raw), number + 1
        line = raw.strip()
        word = line[:10].lower()
        if word.startswith("@attribute"):
            match = ATTRIBUTE.match(line)
            if not match:
                raise DataError(f"{where}: line {number}: {one_line(line, 60)!r} names no column")
            attributes.append(
                _attribute(_unquoted(match[1]), match[2].strip(), f"{where}: line {number}")
            )
        elif word.startswith("@data"):
            if not attributes:
                break
            names = [one.name for one in attributes]
            if len(set(names)) < len(names):
                raise DataError(f"{where}: two columns have the same name")
            return tuple(attributes), at, number + 1
    raise DataError(f"{where} is no ARFF file, or was cut short: no @attribute before a line @data")


def _attribute(name: str, kind: str, where: str) -> Attribute:
    if kind.startswith("{"):
        inside = kind[1:].rstrip().removesuffix("}").strip()
        try:
            levels = [level for level in _cells(inside) if level is not None]
        except ValueError as error:
            raise DataError(f"{where}: column {name!r}: its levels end at {error}") from None
        return Attribute(name, "nominal", tuple(dict.fromkeys(levels)))
    word = kind.split()[0].lower()
    if word in NUMBERS:
        return Attribute(name, "numeric")
    if word in ("string", "date"):
        return Attribute(name, word)
    raise DataError(
        f"{where}: column {name!r} has the type {one_line(kind, 40)!r}, which is not read"
    )


def _cells(line: str) -> list[str | None]:
    """The values of a line: without quotes, None for a question mark that has none."""
    if not QUOTE.search(line):
        return [_bare(text) for text in line.split(",")]
    values: list[str | None] = []
    at = 0
    while True:
        match = CELL.match(line, at)
        if not match:  # text after a closing quote
            raise ValueError(one_line(line[at:], 40))
        values.append(_value(match[1], match[2]))
        at = match.end()
        if not match[3]:
            return values


def _rows(body: str, line: int) -> Iterator[tuple[int, str]]:
    """(number of the line, text) of every row; comments and empty lines are left out."""
    for number, raw in enumerate(io.StringIO(body), start=line):
        text = raw.strip()
        if text and not text.startswith("%"):
            yield number, text


def _dense(body: str, line: int, attributes: tuple[Attribute, ...], where: str) -> list[pd.Series]:
    check_memory(where, len(body))
    columns: list[list[str | None]] = [[] for _ in attributes]
    for number, text in _rows(body, line):
        try:
            cells = _cells(text)
        except ValueError as error:
            raise DataError(
                f"{where}: line {number}: text after a closing quote: {error}"
            ) from None
        if len(cells) != len(columns):
            raise DataError(
                f"{where}: line {number} has {len(cells)} values, {len(columns)} columns are "
                "named: was it cut short?"
            )
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    return [_column(one, cells, where) for one, cells in zip(attributes, columns, strict=True)]


def _sparse(body: str, line: int, attributes: tuple[Attribute, ...], where: str) -> list[pd.Series]:
    rows = list(_rows(body, line))
    check_memory(where, len(rows) * len(attributes) * BYTES_PER_CELL)
    absent = [one.levels[0] if one.levels else "0" for one in attributes]
    columns: list[list[str | None]] = [[value] * len(rows) for value in absent]
    for place, (number, text) in enumerate(rows):
        if not (text.startswith("{") and text.endswith("}")):
            raise DataError(f"{where}: line {number} is no sparse row in braces")
        at, inside = 0, text[1:-1].strip()
        while at < len(inside):
            match = ENTRY.match(inside, at)
            if not match or int(match[1]) >= len(columns):
                raise DataError(
                    f"{where}: line {number}: {one_line(inside[at:], 40)!r} is no entry"
                )
            columns[int(match[1])][place] = _value(match[2], match[3])
            at = match.end()
    return [_column(one, cells, where) for one, cells in zip(attributes, columns, strict=True)]


def _column(one: Attribute, cells: list[str | None], where: str) -> pd.Series:
    """Numbers (float64), or texts with None."""
    values = pd.Series(cells, dtype=object)
    values = values.where(values.notna(), None)
    if one.kind != "numeric":
        return values
    try:
        return pd.Series(
            [np.nan if v in (None, "") else float(v) for v in values], dtype=np.float64
        )
    except ValueError as error:
        raise DataError(f"{where}: column {one.name!r} is numeric: {one_line(error, 80)}") from None
