"""Tables from a user's CSV file: kinds of columns, task and classes are inferred."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ..common.text import one_line, suggest
from .errors import DataError
from .table import Table, categorical_column, content_sha256

__all__ = ["DataError", "table_from_csv"]

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none")
DELIMITERS = ",;\t|"
MAX_CLASSES_GUESSED = 20
SMALL_CLASS = 10  # rows; fewer than the folds of the usual protocol
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?([eE][-+]?\d+)?")
LEADING_ZERO = re.compile(r"0\d+")
NO_MEMORY = re.compile("out of memory|can't start new thread")  # as pandas and Python put it
BYTES_PER_BYTE = 15  # memory that reading takes for each byte of the file: 9 to 20 were measured


def records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, from 1; fields) of each record; blank lines are skipped."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True)
        line = 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path.name}: line {line}: {one_line(error)}") from None
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path.name}: near line {line}: byte 0x{error.object[error.start]:02x} is not"
                " UTF-8; save the file as UTF-8"
            ) from None


def free_memory() -> float:
    """Bytes that this process can still allocate: the least of what the machine, its container
    (cgroup v2) and its own limits (`ulimit`) leave; infinity where the system does not say."""
    found = [math.inf]
    try:
        import resource

        page = resource.getpagesize()
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
        used = [int(n) * page for n in Path("/proc/self/statm").read_text(encoding="ascii").split()]
        for limit, mine in ((resource.RLIMIT_AS, used[0]), (resource.RLIMIT_DATA, used[5])):
            soft = resource.getrlimit(limit)[0]
            if soft != resource.RLIM_INFINITY:
                found.append(soft - mine)
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (ImportError, OSError, ValueError):
        pass  # another system; or no limit on the container
    return max(0, min(found))


def check_size(path: Path) -> None:
    """DataError for a path that is no file, an empty file, or one too large for the free memory."""
    if not path.is_file():
        raise DataError(f"{one_line(path)}: there is no such file")
    size = path.stat().st_size
    if size == 0:
        raise DataError(f"{path.name}: the file is empty")
    free = free_memory()
    if size * BYTES_PER_BYTE > free:
        raise DataError(
            f"{path.name}: {size / 1e6:.0f} MB need about {size * BYTES_PER_BYTE / 1e6:.0f} MB of"
            f" memory, {free / 1e6:.0f} MB are free; use a sample of the rows"
        )


def find_delimiter(path: Path) -> str:
    """Comma, semicolon, tab or bar: the one that splits the first line into most fields."""

    def n_fields(delimiter: str) -> int:
        try:
            return len(next(records(path, delimiter), (0, []))[1])
        except DataError:
            return 0

    with open(path, "rb") as stream:
        if stream.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError(f"{path.name}: UTF-16; save the file as UTF-8")
    return max(DELIMITERS, key=n_fields)  # a tie goes to the comma


def check_header(names: list[str], where: str) -> None:
    """DataError for a column name that is empty, repeated, too long or not printable."""
    for position, name in enumerate(names, start=1):
        if not name:
            raise DataError(f"{where}: column {position} has no name; name it or remove it")
        if not name.isprintable() or len(name) > 200:
            raise DataError(
                f"{where}: the name of column {position}, {one_line(name, 40)!r}, has control"
                " characters or more than 200 characters"
            )
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"{where}: {names.count(name)} columns are called {name!r}; rename them"
            )


def read_cells(path: Path) -> tuple[pd.DataFrame, list[int], str]:
    """(cells as stripped strings, line on which each row begins, delimiter) of a CSV file."""
    delimiter = find_delimiter(path)
    rows = records(path, delimiter)
    header = [name.strip() for name in next(rows, (1, []))[1]]
    check_header(header, path.name)
    lines = []
    for line, fields in rows:
        if len(fields) != len(header):
            raise DataError(
                f"{path.name}: line {line} has {len(fields)} fields, the header has {len(header)}"
            )
        lines.append(line)
    if not lines:
        raise DataError(f"{path.name}: a header and no rows")
    cells = pd.read_csv(
        path,
        sep=delimiter,
        dtype=str,
        keep_default_na=False,
        na_filter=False,
        skipinitialspace=True,
        encoding="utf-8-sig",
        header=0,
        names=header,
        index_col=False,
    )
    if len(cells) != len(lines):
        raise DataError(
            f"{path.name}: {len(lines)} or {len(cells)} rows, depending on how its quotes are read"
        )
    return cells.apply(lambda column: column.str.strip()), lines, delimiter


def as_numbers(cells: pd.Series, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """(numbers (N,), NaN where a cell is no number; mask (N,) of the missing cells)."""
    missing = cells.isin(MISSING).to_numpy()
    present = cells[~missing]
    if delimiter == ";" and present.str.contains(",", regex=False).any():
        if present.str.fullmatch(DECIMAL_COMMA).all():
            cells = cells.str.replace(",", ".", regex=False)
    numbers = pd.to_numeric(cells.where(~missing, None), errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan), missing


def feature(
    name: str, cells: pd.Series, delimiter: str, warnings: list[str]
) -> pd.Series | np.ndarray:
    """A column: float64 where every present cell is a number, else categorical.

    Numbers with a leading zero (postal codes) are categories. A column without any value is kept as
    missing numbers, and infinite numbers count as missing; both add to `warnings`.
    """
    numbers, missing = as_numbers(cells, delimiter)
    present = cells[~missing]
    n_present, n_numbers = len(present), int((~np.isnan(numbers[~missing])).sum())
    if n_present == 0:
        warnings.append(f"column {name!r} has no value in any row; kept as missing numbers")
        return numbers
    coded = present.str.fullmatch(LEADING_ZERO).any() and n_numbers == n_present
    if n_numbers == n_present and not coded:
        infinite = np.isinf(numbers)
        if infinite.any():
            warnings.append(f"column {name!r}: {infinite.sum()} infinite values count as missing")
            numbers = np.where(infinite, np.nan, numbers)
        return numbers
    if coded:
        warnings.append(f"column {name!r} has numbers with leading zeros; read as categories")
    elif n_numbers > n_present / 2:
        texts = present[np.isnan(numbers[~missing])]
        shown = ", ".join(repr(one_line(text, 20)) for text in sorted(set(texts))[:3])
        warnings.append(
            f"column {name!r} mixes {n_numbers} numbers and {len(texts)} texts ({shown}); read as"
            " categories: empty those cells to have numbers"
        )
    n_distinct = present.nunique()
    if n_distinct > max(50, n_present / 2):
        warnings.append(
            f"column {name!r} has {n_distinct} categories in {n_present} rows: an identifier, a"
            " date or free text? A model can learn little from it"
        )
    return categorical_column(cells.where(~missing, None).tolist())


def guess_task(cells: pd.Series, numbers: np.ndarray, name: str, warnings: list[str]) -> str:
    """'regression' for fractions and for many distinct whole numbers, else 'classification'.

    DataError where most of the texts differ, so that they are no classes.
    """
    n_distinct = cells.nunique()
    if np.isnan(numbers).any():
        if n_distinct > max(MAX_CLASSES_GUESSED, len(cells) / 2):
            raise DataError(
                f"target {name!r} has {n_distinct} different texts in {len(cells)} rows: it is"
                " neither a class nor a number"
            )
        return "classification"
    whole = (numbers == np.round(numbers)).all()
    if not whole or n_distinct > min(MAX_CLASSES_GUESSED, max(2, len(cells) // 5)):
        return "regression"
    if n_distinct > 2:
        warnings.append(
            f"target {name!r} has {n_distinct} whole numbers; taken as classes: say task"
            " 'regression' if they are amounts"
        )
    return "classification"


def encode_target(
    name: str, cells: pd.Series, lines: list[int], delimiter: str, task: str | None
) -> tuple[np.ndarray, str, tuple[str, ...], list[str]]:
    """(target (N,), task, classes, warnings); DataError where cells are missing or do not fit the
    task."""
    warnings: list[str] = []
    numbers, missing = as_numbers(cells, delimiter)
    bad = missing | np.isinf(numbers)
    if bad.any():
        raise DataError(
            f"target {name!r} is missing or infinite in {bad.sum()} rows, first on line"
            f" {lines[int(np.argmax(bad))]}; remove or mend these rows"
        )
    chosen = task or guess_task(cells, numbers, name, warnings)
    if chosen == "regression":
        wrong = np.isnan(numbers)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise DataError(
                f"target {name!r}: {one_line(cells.iloc[first], 40)!r} on line {lines[first]} is no"
                " number; a regression needs numbers"
            )
        if len(np.unique(numbers)) < 2:
            raise DataError(f"target {name!r} has one value in all rows: nothing to learn")
        return numbers, "regression", (), warnings
    column = categorical_column(cells if np.isnan(numbers).any() else numbers)
    classes = tuple(column.cat.categories)
    if len(classes) < 2:
        raise DataError(f"target {name!r} has one value in all rows: nothing to learn")
    if chosen == "binary" and len(classes) > 2:
        raise DataError(f"target {name!r} has {len(classes)} classes, task 'binary' needs two")
    if chosen == "multiclass" and len(classes) == 2:
        raise DataError(f"target {name!r} has two classes; say task 'binary'")
    codes = column.cat.codes.to_numpy().astype(np.int64)
    for label, count in zip(classes, np.bincount(codes), strict=True):
        if count < SMALL_CLASS:
            warnings.append(
                f"class {one_line(label, 40)!r} has {count} rows, fewer than {SMALL_CLASS} folds:"
                " some folds test or train without it"
            )
    return codes, "binary" if len(classes) == 2 else "multiclass", classes, warnings


def same_as_target(column: pd.Series, target: np.ndarray, task: str) -> bool:
    """Whether a feature equals the target: the same numbers, or the same classes renamed."""
    if column.isna().any():
        return False
    if task == "regression" and column.dtype == np.float64:
        return bool(np.array_equal(column.to_numpy(), target))
    codes = pd.factorize(column)[0]
    pairs = len(np.unique(np.stack([codes, target]), axis=1).T)
    return task != "regression" and pairs == len(np.unique(codes)) == len(np.unique(target))


def table_from_csv(
    path: str | Path, target: str, *, task: str | None = None, name: str | None = None
) -> Table:
    """The table in a CSV file with a header; `target` names the column to predict.

    The file is UTF-8 with or without a byte-order mark; fields are separated by comma, semicolon
    (numbers may then have decimal commas), tab or bar; MISSING lists the cells that count as
    missing. Columns of numbers are numeric, others categorical. `task` is 'binary', 'multiclass',
    'classification' or 'regression', by default guessed from the target. No row is ever dropped:
    what cannot be used raises a DataError that names the line or column; doubtful decisions are
    listed in the table's `warnings`.
    """
    path = Path(path)
    known = ("binary", "multiclass", "classification", "regression")
    if task is not None and task not in known:
        raise DataError(f"unknown task {task!r}; {suggest(task, known)}")
    check_size(path)
    try:
        cells, lines, delimiter = read_cells(path)
    except (MemoryError, RuntimeError, pd.errors.ParserError) as error:
        if not isinstance(error, MemoryError) and not NO_MEMORY.search(str(error)):
            raise
        raise DataError(
            f"{path.name}: the memory ran out while reading; use a sample of the rows"
        ) from None
    if target not in cells.columns:
        raise DataError(f"{path.name} has no column {target!r}; {suggest(target, cells.columns)}")
    if cells.shape[1] < 2:
        raise DataError(f"{path.name} has the target alone, and no feature")
    codes, found, classes, warnings = encode_target(target, cells[target], lines, delimiter, task)
    frame = pd.DataFrame(
        {
            column: feature(column, cells[column], delimiter, warnings)
            for column in cells.columns
            if column != target
        }
    )
    for column in frame.columns:
        if same_as_target(frame[column], codes, found):
            raise DataError(
                f"column {column!r} is the target {target!r} itself, perhaps by other names;"
                " remove it from the file"
            )
    digest = hashlib.sha256(path.read_bytes())
    digest.update(f"|{found}|{target}|".encode())
    digest.update(content_sha256(frame, codes, classes).encode())
    slug = re.sub(r"[^a-z0-9]+", "-", (name or path.stem).lower()).strip("-")[:60] or "csv"
    return Table(slug, frame, codes, found, classes, digest.hexdigest(), (), tuple(warnings))
