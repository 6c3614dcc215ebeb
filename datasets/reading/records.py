"""The records of a CSV file: its separator, its quotes, and rows that are too short or too long."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...common.columns.kinds import MAX_COLUMNS
from ...common.columns.plain import Column, PlainTexts, packed, plain_columns, text_cells
from ...common.counting import count
from ...common.text import one_line
from ..errors import DataError
from .files import release

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ROWS = 4096  # that become columns at once
BLOCK = 1 << 22  # bytes that Arrow parses at once for each WIDE columns, and the rest of a line
WIDE = 1000  # columns: each costs time in each block
BLANKS = [bytes([code]) for code in (9, 11, 12, 28, 29, 30, 31, 32)]  # that stripping takes
_STATED = re.compile(r"\ufeff?sep=(.)\s*", re.IGNORECASE)  # the line that Excel reads

AS_PANDAS = "neither doubled nor escaped"
QUOTES: dict[str, dict[str, Any]] = {  # how a quotation mark in a field is written -> csv.reader
    "": {"strict": True},  # doubled
    "escaped by a backslash": {"strict": True, "escapechar": "\\"},
    AS_PANDAS: {"strict": False},
    "in no pair": {"quoting": csv.QUOTE_NONE},
}


@dataclass
class Records:
    """The header and the rows of a CSV file: `columns` are of texts (see `Cells`), one for each
    field of the header; `lines` are those on which the rows begin; `reader` is "Arrow" where its
    reader made the cells."""

    header: list[str]
    columns: list[Column]
    lines: Sequence[int]
    delimiter: str
    notices: list[str] = field(default_factory=list)
    reader: str = ""


@dataclass
class Form:
    """How a file is written: its separator, the line of its header and how it writes quotes."""

    path: Path
    encoding: str
    delimiter: str = ","
    first: int = 1
    quotes: str = ""

    def rows(self, name: str) -> Iterator[tuple[int, list[str]]]:
        """(number of its first line, from 1; fields) of each record; blank lines are skipped."""
        with open(self.path, encoding=self.encoding, newline="") as stream:
            for _ in range(1, self.first):
                stream.readline()
            how = QUOTES[self.quotes]
            reader = csv.reader(stream, delimiter=self.delimiter, skipinitialspace=True, **how)
            line = self.first
            try:
                for fields in reader:
                    if fields:
                        yield line, fields
                    line = reader.line_num + self.first
            except csv.Error as error:
                said = one_line(error)
                if said == "unexpected end of data":
                    said = 'a quotation mark (") that opens a field here is never closed'
                elif "expected after" in said:
                    said = (
                        'a quotation mark (") within a quoted field is neither doubled nor escaped'
                    )
                raise DataError(f"{name}: line {line}: {said}") from None


def read_records(path: Path, encoding: str, name: str) -> Records:
    """The records of a CSV file; `name` is for errors (DataError).

    A quotation mark within a quoted field is doubled or, where that fails, escaped by a backslash,
    or taken as pandas takes it. Fields that are missing at the end of a row are empty; empty fields
    beyond the header are left out. All of it is noted.
    """
    form = form_of(path, encoding)
    try:
        return _read(form, name)
    except DataError as error:
        for quotes in list(QUOTES)[1:]:
            if quotes == "in no pair" and form.delimiter != "\t":
                continue
            form.quotes = quotes
            try:
                found = _read(form, name, whole=True)
            except DataError:
                continue
            found.notices.append(f"quotation marks are {quotes}: {one_line(error)}")
            return found
        raise


def _read(form: Form, name: str, *, whole: bool = False) -> Records:
    """The records of a file in a form. whole: whether short and long rows are refused."""
    rows = form.rows(name)
    at, header = next(rows, (1, [""]))
    width = len(header)
    if width > MAX_COLUMNS:  # `check_header` says it
        return Records(header, [], (), form.delimiter)
    if at == 1 and not whole and (found := _read_by_arrow(form, header)):
        return found
    lines: list[int] = []
    short: list[tuple[int, int]] = []
    long: list[tuple[int, int]] = []
    parts = []
    while some := list(islice(rows, ROWS)):
        if not lines and not whole and all(len(f) == width + 1 for _, f in some) and width > 1:
            header, width = ["", *header], width + 1  # the names of the rows, as R writes them
        for line, fields in some:
            lines.append(line)
            n = len(fields)
            if form.quotes == AS_PANDAS and any("\n" in text for text in fields):
                raise DataError(f"{name}: line {line}: a quoted field does not end on its line")
            if n < width:
                short.append((line, n))
                fields.extend([""] * (width - n))
            elif n > width:
                if any(text.strip() for text in fields[width:]):
                    raise DataError(
                        f"{name}: line {line} has {n} fields, the header has {width}; if lines "
                        "stand above the header, remove them"
                    )
                long.append((line, n))
                del fields[width:]
        parts.append(pd.DataFrame([fields for _, fields in some], dtype=str))
    if not lines:
        raise DataError(f"{name}: a header and no rows")
    if short and (whole or 2 * len(short) > len(lines)):
        line, n = short[0]
        raise DataError(f"{name}: line {line} has {n} fields, the header has {width}")
    frame = pd.concat(parts, ignore_index=True)
    found = Records(header, [frame[at].str.strip() for at in frame], lines, form.delimiter)
    for odd, what in (
        (short, "the others count as missing"),
        (long, "the empty ones are left out"),
    ):
        if odd:
            line, n = odd[0]
            more = f" (and {count(len(odd) - 1, 'line')} more)" if odd[1:] else ""
            found.notices.append(
                f"line {line}{more} has {n} fields, the header has {width}: {what}"
            )
    return found


def _read_by_arrow(form: Form, header: list[str]) -> Records | None:
    """The records as `_read` gives them, in a tenth of the time, by Arrow's reader; None where the
    two could differ: other encodings than UTF-8, other quotation marks than those about whole
    fields, blank lines, mixed line ends, lines with another number of fields than the header, and
    fields beyond csv's limit. The file is read a block at a time, and never held as a whole; of a
    column that begins with plain numbers the texts are let go of, as long as it holds no others."""
    if form.encoding != "utf-8-sig" or form.first != 1 or form.delimiter not in DELIMITERS:
        return None
    n_rows, stripped = _looked_through(form)
    if not n_rows:
        return None
    every, size = range(len(header)), form.path.stat().st_size
    block = BLOCK * max(1, len(header) // WIDE)
    values = np.empty((len(header), n_rows))
    places = np.empty(values.shape, np.int8)
    # Where memory runs out in it, Arrow's parser ends the process: that much must be there.
    np.empty(2 * size + 8 * values.size + 16 * min(block, size), np.uint8)
    start, texts = 0, dict[int, list[pa.Array]]()
    for columns in _blocks(form, len(header), block, stripped):
        n = len(columns[0]) if columns else n_rows + 1
        if start + n > n_rows:
            return None
        some = np.array([at for at in every if at not in texts], int)
        if len(some):
            numbers, decimals, plain = plain_columns([columns[at] for at in some])
            values[some[plain], start : start + n] = numbers[plain]
            places[some[plain], start : start + n] = decimals[plain]
            for at in some[~plain].tolist():
                texts[at] = PlainTexts(values[at, :start], places[at, :start]).texts().chunks
        for at, chunks in texts.items():
            chunks.append(packed(columns[at]))
        start += n
    if start != n_rows:
        return None
    found = [
        text_cells(texts.pop(at)) if at in texts else PlainTexts(values[at], places[at])
        for at in every
    ]
    release()
    return Records(header, found, range(2, n_rows + 2), form.delimiter, reader="Arrow")


def _blocks(form: Form, width: int, size: int, stripped: bool) -> Iterator[list[pa.Array]]:
    """The columns of each block of lines, `size` bytes and the rest of a line, as stripped texts.
    An empty list comes last where Arrow does not read what csv reads."""
    from pyarrow import csv as arrow_csv

    names = [str(at) for at in range(width)]
    parsing = arrow_csv.ParseOptions(delimiter=form.delimiter)
    converting = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
    )
    with open(form.path, "rb") as file:
        file.readline()
        while block := file.read(size) + file.readline():
            reading = arrow_csv.ReadOptions(
                column_names=names, use_threads=False, block_size=len(block) + 1
            )
            source = pa.BufferReader(block)
            try:
                read = arrow_csv.read_csv(source, reading, parsing, converting).combine_chunks()
            except pa.ArrowInvalid:  # fields are missing or too many: `_read` knows which
                yield []
                return
            columns = [column.chunk(0) for column in read.columns] if len(read) else []
            cells = pa.concat_arrays(columns or [pa.array([], pa.string())])
            if (pc.max(pc.binary_length(cells)).as_py() or 0) >= csv.field_size_limit():
                columns = []
            if columns and not stripped:
                cells, n = pc.utf8_trim_whitespace(cells), len(read)
                columns = [cells.slice(at * n, n) for at in range(width)]
            yield columns


def _looked_through(form: Form) -> tuple[int, bool]:
    """(rows below the header, 0 where Arrow cannot read the file as csv does: lines that end in
    several ways, or quotation marks other than about whole fields; whether no row has blanks or
    other letters than ASCII's, so that no cell needs to be stripped)."""
    n_lf = n_cr = n_both = 0
    regular = stripped = True
    with open(form.path, "rb") as file:
        header = block = file.readline()
        while block:
            n_lf, n_cr = n_lf + block.count(b"\n"), n_cr + block.count(b"\r")
            n_both += block.count(b"\r\n")
            regular &= b'"' not in block or _about_fields(block, form.delimiter)
            if block is not header:
                stripped &= block.isascii() and not any(blank in block for blank in BLANKS)
            ends, block = block.endswith(b"\n"), file.read(BLOCK) + file.readline()
    odd = n_cr and not n_cr == n_lf == n_both
    return 0 if odd or not n_lf or not regular else n_lf - ends, stripped


def _about_fields(lines: bytes, delimiter: str) -> bool:
    """Whether each quotation mark opens or closes a whole field of one line, and none stands in a
    field."""
    text = np.frombuffer(lines.removeprefix(codecs.BOM_UTF8), np.uint8)
    marks = np.flatnonzero(text == ord('"'))
    ends = np.frombuffer(f"{delimiter}\r\n".encode(), np.uint8)
    first, last = marks[::2], marks[1::2]
    opens = np.isin(text[np.maximum(first - 1, 0)], ends) | (first == 0)
    closes = np.isin(text[np.minimum(last + 1, len(text) - 1)], ends) | (last == len(text) - 1)
    before_lines = np.searchsorted(marks, np.flatnonzero(text == ord("\n")))
    return len(first) == len(last) and bool(
        opens.all() and closes.all() and not (before_lines % 2).any()
    )


def form_of(path: Path, encoding: str) -> Form:
    """How a file is written. Separators that split the first two lines into equally many fields
    come first; among them, and else among all, the one with most fields in the first line wins. A
    line such as sep=; above the header names the separator."""
    with open(path, encoding=encoding, newline="") as stream:
        stated = _STATED.fullmatch(stream.readline(8))
    if stated:
        return Form(path, encoding, stated[1], first=2)

    def rank(delimiter: str) -> tuple[bool, int]:
        for quotes in list(QUOTES)[:3]:
            try:
                form = Form(path, encoding, delimiter, quotes=quotes)
                first, *second = islice(form.rows(""), 2)
            except (DataError, ValueError):  # ValueError: an empty file
                continue
            n = len(first[1])
            return n > 1 and all(len(fields) == n for _, fields in second), n
        return False, 0

    return Form(path, encoding, max(DELIMITERS, key=rank))  # a tie goes to the comma
