"""The cells of a table's file: CSV in any usual encoding, Parquet or Arrow, compressed or not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ...common.columns.kinds import MAX_COLUMNS
from ...common.columns.numbers import as_float
from ...common.columns.plain import Column, PlainTexts, cells_of
from ...common.counting import count
from ...common.text import one_line
from ..errors import DataError
from .columnar import read_columnar
from .encoding import NAMES, encoding_of
from .files import check_memory, check_size, kind_of, unpacked
from .names import clean_name
from .records import DELIMITERS, read_records

INDEX = re.compile(r"__index_level_\d+__")  # row numbers that pandas writes into Parquet
NO_THREAD = "can't start new thread"  # what Python says where there is no memory for one


@dataclass(frozen=True)
class Cells:
    """The cells of a file. `columns` are of stripped texts or, from a file with types, float64;
    texts may be held as categories or as `PlainTexts`. `lines` are the lines on which the rows
    begin, empty for a file without lines. `delimiter` is "" for a file that has none. `kinds` are
    those that the file itself states. `refused` are columns that cannot be read, which are empty
    here, and why. `form` says in a few words how the file is written, `notices` what was decided
    about it."""

    name: str
    columns: Mapping[str, Column]
    lines: Sequence[int] = ()
    delimiter: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    form: str = ""
    notices: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> pd.Series:
        """A column, of texts or of float64."""
        return cells_of(self.columns[name], name)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    @property
    def frame(self) -> pd.DataFrame:
        """All columns as texts and float64."""
        columns = {at: self[name] for at, name in enumerate(self.columns)}
        return pd.DataFrame(columns).set_axis(pd.Index(self.columns, dtype=object), axis=1)

    def where(self, row: int) -> str:
        """A row, counted from 0, as readers of the file find it: "line 7" or "row 6"."""
        return f"line {self.lines[row]}" if self.lines else f"row {row + 1}"

    def are_levels(self, name: str) -> bool:
        """Whether the texts of a column are categories as they stand, as the file states them."""
        return name in self.kinds and self[name].dtype != np.float64

    def rows(self, mask: np.ndarray) -> Cells:
        """The rows of the mask (N,) alone; the others keep their lines."""
        at = np.flatnonzero(mask)
        lines = [self.lines[row] for row in at.tolist()] if self.lines else ()
        columns = {
            name: c.rows(at) if isinstance(c, PlainTexts) else c.iloc[at].reset_index(drop=True)
            for name, c in self.columns.items()
        }
        return replace(self, columns=columns, lines=lines)


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
                names, parts, kinds, refused = read_columnar(plain, kind, path.name)
                if not parts or parts[0].empty:
                    raise DataError(f"{path.name}: {len(parts)} columns and no rows")
                known = [at for at, name in enumerate(names) if not INDEX.fullmatch(name)]
                check_header([names[at] for at in known], path.name)
                cells = {names[at]: parts[at] for at in known}
                found = Cells(path.name, cells, kinds=kinds, refused=refused, form=kind)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and NO_THREAD not in str(error):
            raise
        raise DataError(
            f"{path.name}: the memory ran out while reading; use a sample of the rows"
        ) from None
    form = f"{found.form}, {packed}" if packed else found.form
    notices = found.notices
    if next(iter(found.columns)) == "" and _numbers_rows(found[""]):
        columns = {name: c for name, c in found.columns.items() if name}
        found = replace(found, columns=columns)
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
    records = read_records(path, encoding, name)
    notices = [notice, *records.notices] if notice else list(records.notices)
    names = [clean_name(text) for text in records.header]
    check_header(names, name)
    unnamed = [at for at, text in enumerate(names) if not text]
    empty = [at for at in unnamed if not cells_of(records.columns[at], "").any()]
    if empty:
        notices.append(f"{count(len(empty), 'column')} without a name and a value left out")
    if len(unnamed) - len(empty) > 1:
        raise DataError(f"{name}: {len(unnamed)} columns have no name; name them")
    cells = {names[at]: c for at, c in enumerate(records.columns) if at not in empty}
    if shown := first_line_is_a_row(cells):
        notices.append(
            f"the first line looks like a row ({shown}), and is taken for the names of the "
            "columns; write a line with names above it if it is one"
        )
    form = f"CSV, separated by {DELIMITERS.get(records.delimiter, repr(records.delimiter))}"
    form += "" if encoding == "utf-8-sig" else f", {NAMES[encoding]}"
    form += f" (read by {records.reader})" if records.reader else ""
    how = {"form": form, "notices": tuple(notices)}
    return Cells(name, cells, records.lines, records.delimiter, **how)  # type: ignore[arg-type]


def first_line_is_a_row(columns: Mapping[str, Column]) -> str:
    """The names of the columns, as they stand, where all are numbers or values of their columns; ""
    elsewhere."""
    names = [name for name in columns if name]
    for name in names:
        column = columns[name]
        if np.isnan(as_float(name)) and not (
            name in column if isinstance(column, PlainTexts) else (column == name).any()
        ):
            return ""
    return one_line(", ".join(names), 60)


def check_header(names: list[str], where: str) -> None:
    """DataError for a column name that is repeated or not printable, and for more columns than are
    read. One may have no name, which `--drop ""` knows."""
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"{where}: {len(names):,} columns; at most {MAX_COLUMNS:,} are read: leave some out of "
            "the file, or turn it if its rows are columns"
        )
    for position, name in enumerate(names, start=1):
        if not name.isprintable():
            raise DataError(
                f"{where}: the name of column {position}, {one_line(name, 40)!r}, has control "
                "characters"
            )
    for name, n in Counter(names).items():
        if n > 1 and name:
            raise DataError(f"{where}: {n} columns are called {name!r}; rename them")
