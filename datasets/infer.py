"""Tables from a user's file: kinds of columns, task and classes are inferred."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..common.columns import kinds
from ..common.columns.dates import DateError, parsed
from ..common.columns.encoder import text_column
from ..common.columns.kinds import Kind, NotOfKind, kind_of
from ..common.columns.levels import level_notes
from ..common.columns.notations import MISSING
from ..common.columns.numbers import GROUPED_BY_POINT, read_numbers
from ..common.columns.plain import plain_kinds
from ..common.text import one_line, slug
from .errors import DataError
from .probes import FIRST, same_classes
from .reading.cells import Cells, read_file
from .reading.columns import Notes, Problems, Reading, column_problems
from .reading.files import release
from .reading.levels import category_of, joined, levels
from .reading.sentinels import note_sentinel
from .reading.target import costs_of, encode_target, extreme_targets, with_target
from .reading.times import read_times
from .table import Table, categorical_column, content_sha256

__all__ = ["MISSING", "DataError", "Reading", "table_from_file"]

FAR_YEAR = 2200  # dates after it are doubtful
LOOKED = 100  # rows that tell most columns of numbers from the target
USUAL_WEIGHTS = 0.1, 10.0  # mean weight of a row from and to which nothing is said of the scale


def feature(
    name: str, cells: Cells, reading: Reading, notes: Notes, plain: Kind | None = None
) -> tuple[Kind, pd.Series | np.ndarray | None]:
    """(kind of a column, its values as a `Table` holds them, or None if it is left out).

    The kind is guessed (`common/columns/kinds.py`; plain: of `plain_kinds`), unless `reading` or
    the file states it. Infinite numbers count as missing, which is noted. DataError for a cell that
    is not of the stated kind, and for dates in several forms.
    """
    stated = reading.stated(name) or cells.kinds.get(name, "")
    if plain is not None and plain.numbers is not None and not stated:
        notes.sentences.extend(plain.notes)
        note_sentinel(f"column {name!r}", plain.numbers.values, notes)
        return plain, plain.numbers.values
    column = cells[name]
    how = {"delimiter": cells.delimiter, "marks": reading.missing, "day_first": reading.day_first}
    try:
        if stated == kinds.CATEGORY:
            kind = category_of(cells, name, reading)
        else:
            kind = kind_of(column, stated=stated, **how)  # type: ignore[arg-type]
    except NotOfKind as error:
        raise DataError(
            f"column {name!r}: {one_line(column.iloc[error.row], 40)!r} on "
            f"{cells.where(error.row)} {error}; say that it is categorical, or that this text "
            "marks a missing value"
        ) from None
    except DateError as error:
        raise DataError(f"column {name!r}: {error}") from None
    notes.sentences.extend(kind.notes)
    if kind.word == kinds.ID:
        return kind, None
    if kind.word in (kinds.NUMBER, kinds.DATE) and column.dtype != np.float64:
        gaps = column[kind.missing].unique()
        notes.add_words(name, (text for text in gaps if text not in kind.odd), reading.missing)
    if kind.word == kinds.DATE:
        moments = parsed(column.where(~kind.missing, None), kind.style)
        far = (moments.dt.year > FAR_YEAR).to_numpy()
        if far.any():
            text = one_line(str(column.iloc[int(np.argmax(far))]), 40)
            notes.sentences.append(
                f"column {name!r}: {far.sum()} dates after the year {FAR_YEAR}, such as {text!r}; "
                f"if they mark a missing one: --missing {text}"
            )
        return kind, moments
    if kind.numbers is None and not kind.notes and not stated:
        notes.add_digits(name, column[~kind.missing].unique().tolist())
    if kind.word == kinds.TEXT:
        return kind, text_column(column.where(~kind.missing, None).astype(object).tolist())
    if kind.word == kinds.CATEGORY:
        found = categorical_column(joined(levels(column, kind), name, reading, notes))
        known = list(found.cat.categories)
        notes.sentences.extend(level_notes(f"column {name!r}", known, "categories"))
        return kind, found
    numbers = kind.numbers
    assert numbers is not None
    notes.add_style(name, numbers)
    infinite = np.isinf(numbers.values)
    if infinite.any():
        notes.sentences.append(
            f"column {name!r}: {infinite.sum()} infinite values count as missing"
        )
    values = np.where(infinite, np.nan, numbers.values)
    note_sentinel(f"column {name!r}", values, notes)
    return kind, values


def doubtful_points(cells: Cells, notes: Notes) -> None:
    """Note columns whose points may stand between thousands: all their points are followed by three
    digits, and other columns have decimal commas."""
    if "decimal commas" not in notes.styles:
        return
    for name in cells.columns:
        column = cells[name]
        if column.dtype == np.float64 or name in notes.styles["decimal commas"]:
            continue
        pointed = column[column.str.contains(".", regex=False)]
        if len(pointed) and pointed.str.fullmatch(GROUPED_BY_POINT).all():
            text = one_line(pointed.iloc[0], 20)
            notes.sentences.append(
                f"column {name!r}: {text!r} is read as {float(text):.15g}, but other columns have "
                f"decimal commas; write {text.replace('.', '')} if that is meant"
            )


def same_as_target(column: pd.Series, target: np.ndarray, task: str) -> bool:
    """Whether a feature is the target: the same numbers, or the same classes by other names."""
    if task == "regression":
        return column.dtype == np.float64 and bool(np.array_equal(column.to_numpy(), target))
    for part in (slice(FIRST), slice(None)):  # most columns differ in the first rows
        codes = pd.factorize(column.iloc[part])[0]
        if codes.min() < 0 or not same_classes(codes, target[part]):
            return False
    return True


def likely_targets(frame: pd.DataFrame, target: np.ndarray, task: str) -> list[str]:
    """The names of the features that may be the target itself, in their order. A feature of numbers
    is none if one of the first LOOKED rows differs from the target, for classes from the first row
    of its class."""
    numbers, y = frame.iloc[:LOOKED].select_dtypes("float64"), target[:LOOKED]
    _, first, classes = np.unique(y, return_index=True, return_inverse=True)
    values = numbers.to_numpy()
    due = y[:, np.newaxis] if task == "regression" else values[first[classes]]
    others = set(numbers.columns[(values != due).any(axis=0)])
    return [name for name in frame.columns if name not in others]


def group_codes(cells: Cells, name: str, reading: Reading) -> np.ndarray:
    """(N,) a number for each group, in the order of the file; see `levels`. DataError for a missing
    group."""
    kind = category_of(cells, name, reading)
    if kind.missing.any():
        raise DataError(
            f"group column {name!r} is missing in {kind.missing.sum()} rows, first on "
            f"{cells.where(int(np.argmax(kind.missing)))}; fill it or remove these rows"
        )
    return pd.factorize(levels(cells[name], kind, styled=True))[0].astype(np.int64)


def row_weights(cells: Cells, reading: Reading, notes: Notes) -> np.ndarray:
    """(N,) how much each row counts; noted. DataError for a weight that is missing, no number,
    infinite or below 0, and where all are 0."""
    name = str(reading.weight)
    column = cells[name]
    found = read_numbers(column, cells.delimiter, reading.missing)
    values = found.values
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        first = int(np.argmax(wrong))
        shown = "missing" if found.missing[first] else repr(one_line(column.iloc[first], 40))
        raise DataError(
            f"weight column {name!r}: on {cells.where(first)} it is {shown}, as {wrong.sum()} rows "
            "in all are no weights; a weight is a number of at least 0"
        )
    if not values.any():
        raise DataError(f"weight column {name!r} is 0 in all rows: no row counts")
    notes.add_style(name, found)
    notes.sentences.append(
        f"rows count by column {name!r} ({values.min():g} to {values.max():g}, mean "
        f"{values.mean():.3g}) in fits and in every validation and test score"
    )
    if not USUAL_WEIGHTS[0] <= values.mean() <= USUAL_WEIGHTS[1]:
        notes.sentences.append(
            f"weights of column {name!r} have the mean {values.mean():.3g}, and are taken as "
            "counts of equal rows: penalties, and least weights of a leaf (min_child_weight), "
            "weigh more beside small weights and less beside large ones; if only their relation "
            "is meant, divide the column by its mean"
        )
    return values


def note_time(cells: Cells, reading: Reading, notes: Notes) -> None:
    """Note that the dates of a time column are no feature."""
    dated = reading.time is not None and reading.time not in reading.date
    if dated and np.isnan(read_numbers(cells[str(reading.time)], "").values).all():
        notes.sentences.append(
            f"time column {reading.time!r} orders the rows and is no feature; --date "
            f"{reading.time} makes its month, weekday and hour features as well"
        )


def table_from_cells(
    path: Path,
    cells: Cells,
    reading: Reading,
    name: str,
    problems: Problems | None = None,
    decided: dict[str, Kind] | None = None,
) -> Table:
    """The table that `reading` makes of the cells of the file `path`; see `table_from_file`.

    problems: where they are kept, and not raised. decided: gets the kind of each feature. With kept
    problems the table lacks what they are about; DataError where nothing is left of it.
    """
    problems = problems or Problems()
    problems.add(*column_problems(path.name, reading, cells.columns))
    notes = Notes(list(cells.notices))
    cells = with_target(cells, reading, notes)
    if (column := str(reading.target)) in cells.columns:  # its texts are looked at often
        cells = replace(cells, columns={**cells.columns, column: cells[column]})
    target = problems.tried(encode_target, cells, reading, notes)
    codes, task, classes = target or (np.zeros(0), "", ())
    aside = {reading.target, reading.group, reading.time, reading.weight, *reading.drop}
    aside -= {reading.time} if reading.time in reading.date else set()  # it is a feature as well
    columns = {}
    styles, left_out = dict[str, str](), list[str]()
    problems.add(*(why for name, why in cells.refused.items() if name not in reading.drop))
    aside |= cells.refused.keys()
    features = [name for name in cells.columns if name not in aside]
    for column, plain in plain_kinds(cells.columns, features, reading.missing):
        if made := problems.tried(feature, column, cells, reading, notes, plain):
            kind, columns[column] = made
            if decided is not None:  # else its numbers and gaps, which are copies, are let go of
                decided[column] = kind
            if kind.style:
                styles[column] = kind.style
            if kind.word == kinds.ID:
                left_out.append(column)
            del made, kind, plain
    weights = groups = times = None
    if reading.weight is not None:
        weights = problems.tried(row_weights, cells, reading, notes)
    doubtful_points(cells, notes)
    others = {n: c for n, c in cells.columns.items() if n in (reading.group, reading.time)}
    cells = replace(cells, columns=others)
    release()  # the texts of the features
    known = {name: values for name, values in columns.items() if values is not None}
    frame = pd.DataFrame(known, copy=len(known) > len(codes))  # one block where it is wide
    del columns, known
    if task == "regression":
        extreme_targets(codes, str(reading.target), notes)
        note_sentinel(f"target {str(reading.target)!r}", codes, notes)
    for column in likely_targets(frame, codes, task) if task else ():
        if same_as_target(frame[column], codes, task):
            problems.add(
                f"column {column!r} is the target {reading.target!r} itself, perhaps by other "
                "names; leave it out (--drop) or remove it from the file"
            )
    if frame.columns.empty:
        problems.add(f"{path.name} has no feature left: {'; '.join(notes.all())}")
    if reading.group is not None:
        groups = problems.tried(group_codes, cells, reading.group, reading)
    if reading.time is not None:
        how = (cells.delimiter, cells.where, reading.missing, reading.day_first)
        times = problems.tried(read_times, cells[reading.time], *how)
        note_time(cells, reading, notes)
    if not task or frame.columns.empty:
        raise DataError(problems.kept[0])
    for given, flag in ((reading.positive is not None, "--positive"), (reading.costs, "--cost")):
        if given and not classes:
            problems.add(f"{flag} goes with classes, and the target {reading.target!r} has none")
    costs = problems.tried(costs_of, reading, classes) if classes else None
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    digest.update(f"|{task}|{reading.target}|".encode())
    digest.update(content_sha256(frame, codes, classes).encode())
    if weights is not None:
        digest.update(f"|weight {reading.weight}|".encode() + weights.astype("<f8").tobytes())
    return Table(
        name,
        frame,
        codes,
        task,
        classes,
        digest.hexdigest(),
        warnings=tuple(notes.all()),
        groups=groups,
        times=times,
        weights=weights,
        styles=styles,
        left_out=tuple(left_out),
        costs=costs or (),
    )


def table_from_file(path: str | Path, reading: Reading, *, name: str | None = None) -> Table:
    """The table in a file; `reading` names the column to predict and what else is known of it.

    Files are CSV with a header (in any usual encoding; fields separated by comma, semicolon, tab or
    bar), Parquet, Arrow and Feather, also compressed (gzip, bzip2, xz, zip). MISSING lists the
    cells that count as missing. Columns are numbers, categories, dates or texts. What cannot be
    used raises a DataError that names the line or column; doubtful decisions, and identifiers that
    are left out, are listed in the table's `warnings`.
    """
    path = Path(path)
    return table_from_cells(path, read_file(path), reading, slug(name or path.stem)[:60] or "csv")
