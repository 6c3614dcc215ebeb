"""The cells of a table's file: CSV in any usual encoding, Parquet or Arrow, compressed or not."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from ...common.columns.kinds import MAX_COLUMNS
from ...common.text import one_line
from ..errors import DataError
from .columnar import read_columnar
from .encoding import NAMES, encoding_of
from .files import check_memory, check_size, kind_of, unpacked

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ROWS = 4096  # that become columns at once
INDEX = re.compile(r"__index_level_\d+__")  # row numbers that pandas writes into Parquet
NO_THREAD = "can't start new thread"  # what Python says where there is no memory for one


@dataclass(frozen=True)
class Cells:
    """The cells of a file. `frame` has a column each, of stripped texts or, from a file with types,
    float64. `lines` are the lines on which the rows begin, empty for a file without lines.
    `delimiter` is "" for a file that has none. `kinds` are those that the file itself states.
    `form` says in a few words how the file is written, `notices` what was decided about it."""

    name: str
    frame: pd.DataFrame
    lines: Sequence[int] = ()
    delimiter: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    form: str = ""
    notices: tuple[str, ...] = ()

    def where(self, row: int) -> str:
        """A row, counted from 0, as readers of the file find it: "line 7" or "row 6"."""
        return f"line {self.lines[row]}" if self.lines else f"row {row + 1}"

    def rows(self, mask: np.ndarray) -> Cells:
        """The rows of the mask (N,) alone; the others keep their lines."""
        at = np.flatnonzero(mask)
        lines = [self.lines[row] for row in at.tolist()] if self.lines else ()
        return replace(self, frame=self.frame.iloc[at].reset_index(drop=True), lines=lines)


def read_file(path: Path) -> Cells:
    """The cells of a file of a table. Raises DataError, in one line, for what is no such file.

    Read are CSV (fields separated by comma, semicolon, tab or bar; in any usual encoding), Parquet,
    Arrow and Feather; each also compressed by gzip, bzip2, xz or zip. Row numbers in a first column
    without a name, as pandas and R write them, are left out with a notice.
    """
    check_size(path)
    try:
        with unpacked(path) as (plain, packed):
            check_memory(path.name, plain.stat().st_size)
            kind = kind_of(plain)
            if kind == "text":
                found = read_text(plain, path.name)
            else:
                frame, kinds = read_columnar(plain, kind, path.name)
                rows = [name for name in frame.columns if INDEX.fullmatch(str(name))]
                found = Cells(path.name, frame.drop(columns=rows), kinds=kinds, form=kind)
                if frame.empty:
                    raise DataError(f"{path.name}: {len(frame.columns)} columns and no rows")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and NO_THREAD not in str(error):
            raise
        raise DataError(
            f"{path.name}: the memory ran out while reading; use a sample of the rows"
        ) from None
    form = f"{found.form}, {packed}" if packed else found.form
    check_header(list(map(str, found.frame.columns)), path.name)
    notices = found.notices
    if found.frame.columns[0] == "" and _numbers_rows(found.frame[""]):
        found = replace(found, frame=found.frame.drop(columns=""))
        notices += ("the first column has no name and numbers the rows; left out",)
    told = tuple(f"{path.name}: {notice}" for notice in notices)
    return replace(found, form=form, notices=told)


def _numbers_rows(column: pd.Series) -> bool:
    """Whether a column counts its rows, from 0 or from 1."""
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return any(np.array_equal(numbers, np.arange(len(column)) + first) for first in (0, 1))


def read_text(path: Path, name: str) -> Cells:
    """The cells of a plain CSV file in any of the encodings; `name` is for errors (DataError)."""
    encoding, notice = encoding_of(path, name)
    delimiter = find_delimiter(path, encoding)
    rows = records(path, delimiter, encoding, name)
    header = [text.strip() for text in next(rows, (1, []))[1]]
    check_header(header, name)
    lines: list[int] = []
    parts = []
    while some := list(islice(rows, ROWS)):
        for line, fields in some:
            if len(fields) != len(header):
                raise DataError(
                    f"{name}: line {line} has {len(fields)} fields, the header has {len(header)}"
                )
            lines.append(line)
        parts.append(pd.DataFrame([fields for _, fields in some], columns=header, dtype=str))
    if not lines:
        raise DataError(f"{name}: a header and no rows")
    cells = pd.concat(parts, ignore_index=True)
    stripped = pd.DataFrame({n: c.str.strip() for n, c in cells.items()})
    form = f"CSV, separated by {DELIMITERS[delimiter]}"
    form += "" if encoding == "utf-8-sig" else f", {NAMES[encoding]}"
    return Cells(name, stripped, lines, delimiter, form=form, notices=(notice,) if notice else ())


def records(
    path: Path, delimiter: str, encoding: str, name: str
) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, from 1; fields) of each record; blank lines are skipped."""
    with open(path, encoding=encoding, newline="") as stream:
        reader = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True)
        line = 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            said = one_line(error)
            if said == "unexpected end of data":
                said = 'a quotation mark (") that opens a field here is never closed'
            raise DataError(f"{name}: line {line}: {said}") from None


def find_delimiter(path: Path, encoding: str) -> str:
    """Comma, semicolon, tab or bar. Delimiters that split the first two lines into equally many
    fields come first; among them, and else among all, the one with most fields in the first line
    wins."""

    def rank(delimiter: str) -> tuple[bool, int]:
        try:
            first, *second = islice(records(path, delimiter, encoding, ""), 2)
        except (DataError, ValueError):  # ValueError: an empty file
            return False, 0
        n = len(first[1])
        return n > 1 and all(len(fields) == n for _, fields in second), n

    return max(DELIMITERS, key=rank)  # a tie goes to the comma


def check_header(names: list[str], where: str) -> None:
    """DataError for a column name that is repeated, too long or not printable, and for more columns
    than are read. One may have no name, which `--drop ""` knows."""
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"{where}: {len(names):,} columns; at most {MAX_COLUMNS:,} are read: leave some out of "
            "the file, or turn it if its rows are columns"
        )
    for position, name in enumerate(names, start=1):
        if not name.isprintable() or len(name) > 200:
            raise DataError(
                f"{where}: the name of column {position}, {one_line(name, 40)!r}, has control"
                " characters or more than 200 characters"
            )
    for name, n in Counter(names).items():
        if n > 1:
            called = f"are called {name!r}; rename them" if name else "have no name; name them"
            raise DataError(f"{where}: {n} columns {called}")
