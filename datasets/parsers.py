"""Parsers of source files: one function a format, from files to a table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..common.text import one_line, suggest
from .card import Card
from .errors import DataError
from .infer import Reading, table_from_cells
from .protocols import cut
from .reading.cells import read_file
from .table import Masks, Parsed, Table, categorical_column, coded, content_sha256, number_text


def read_numbers(path: Path, *, delimiter: str | None) -> np.ndarray:  # -> (N, columns)
    """A headerless file of finite numbers; `delimiter` None means blanks and tabs."""
    try:
        numbers = np.loadtxt(path, delimiter=delimiter, ndmin=2, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{path.name}: {one_line(error)}") from None
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
        raise DataError(f"{path.name}: row {row} has a missing or infinite number")
    return numbers


def ranks(column: np.ndarray) -> np.ndarray:
    """The rank of each value among the distinct values of the column, from 0.

    >>> ranks(np.array([0.5, -1.0, 0.5]))
    array([1, 0, 1])
    """
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def stand_apart(numbers: np.ndarray, part: np.ndarray) -> bool:
    """Whether `part` (a mask of rows) shares no value with the other rows in any column.

    Two parts of one table share values in every column that has few distinct ones. Where no column
    does, the parts were scaled separately, and the same number has another meaning in each.
    """
    if not part.any() or part.all():
        return False
    return not any(np.isin(column[part], column[~part]).any() for column in numbers.T)


def frame_of(columns: Mapping[str, np.ndarray], categorical: tuple[str, ...]) -> pd.DataFrame:
    """A frame of numeric columns, those named in `categorical` as categories."""
    return pd.DataFrame(
        {
            name: categorical_column(values) if name in categorical else values.astype(np.float64)
            for name, values in columns.items()
        }
    )


def parse_whitespace(card: Card, files: Mapping[str, Path]) -> Parsed:
    """One file of numbers without header; the last column is a regression target."""
    numbers = read_numbers(files["data"], delimiter=None)
    if numbers.shape[1] != len(card.columns) + 1:
        raise DataError(
            f"{card.name}: {numbers.shape[1]} columns in the file, {len(card.columns)} features"
            " and a target in the card"
        )
    columns = dict(zip(card.columns, numbers.T, strict=False))
    return frame_of(columns, card.categorical), numbers[:, -1].copy(), (), (), ()


def parse_coded(card: Card, files: Mapping[str, Path]) -> Parsed:
    """Four headerless files: features, class codes, and the masks of stored splits.

    Every feature is a standardised number, categories included; a categorical column is coded by
    ranking its distinct values. The option `part_from_row` names the first row of a second part
    that was standardised on its own: there, categories are ranked within each part, and numeric
    columns stay as they are because their common scale cannot be recovered.
    """
    numbers = read_numbers(files["features"], delimiter=",")
    labels = read_numbers(files["labels"], delimiter=",")
    tests = read_numbers(files["test_masks"], delimiter=",")
    vals = read_numbers(files["val_masks"], delimiter=",")
    n_rows = len(numbers)
    for role, array in (("labels", labels), ("test_masks", tests), ("val_masks", vals)):
        if len(array) != n_rows:
            raise DataError(f"{card.name}: {n_rows} rows of features, {len(array)} of {role}")
    if tests.shape != vals.shape or not np.isin(np.hstack([tests, vals]), (0, 1)).all():
        raise DataError(f"{card.name}: the masks are not two equal sets of 0/1 columns")
    if numbers.shape[1] != len(card.columns):
        raise DataError(
            f"{card.name}: {numbers.shape[1]} features in the file, {len(card.columns)} in the card"
        )
    target = labels[:, 0].astype(np.int64)
    if (target != labels[:, 0]).any() or set(target) != set(range(card.n_classes)):
        raise DataError(f"{card.name}: class codes are not 0..{card.n_classes - 1}, all in use")

    second = np.zeros(n_rows, dtype=bool)
    warnings: tuple[str, ...] = ()
    if "part_from_row" in card.options:
        start = int(card.options["part_from_row"])
        second[start:] = True
        if not stand_apart(numbers, second):
            raise DataError(f"{card.name}: part_from_row = {start}, but the parts share values")
    apart = {int(k) for k in range(tests.shape[1]) if stand_apart(numbers, tests[:, k] == 1)}
    if apart:
        warnings = (
            f"standardised-separately: in the source, the test part of stored split"
            f" {', '.join(map(str, sorted(apart)))} shares no value with the other rows in any of"
            f" the {numbers.shape[1]} columns; categories are ranked within each part, numeric"
            " columns keep two scales",
        )
    columns: dict[str, np.ndarray] = {}
    for name, column in zip(card.columns, numbers.T, strict=True):
        if name in card.categorical:
            coded = np.empty(n_rows, dtype=np.int64)
            for part in (second, ~second):
                coded[part] = ranks(column[part])
            column = coded
        columns[name] = column
    masks = tuple((t == 1, v == 1) for t, v in zip(tests.T, vals.T, strict=True))
    classes = tuple(str(code) for code in range(card.n_classes))
    return frame_of(columns, card.categorical), target, classes, masks, warnings


def parse_bundled(card: Card, files: Mapping[str, Path]) -> Parsed:
    """A dataset that is part of scikit-learn; needs no file."""
    from sklearn import datasets

    loader = getattr(datasets, f"load_{card.options['loader']}")
    bunch: Any = loader(**card.options.get("arguments", {}))
    names = [re.sub(r"\W+", "_", str(name)).strip("_") for name in bunch.feature_names]
    columns = dict(zip(names, np.asarray(bunch.data, dtype=np.float64).T, strict=True))
    categorical = tuple(card.options.get("categorical", ()))
    for name in categorical:
        if name not in columns:
            raise DataError(f"{card.name}: unknown column {name!r}; {suggest(name, columns)}")
    frame = frame_of(columns, categorical)
    if card.task == "regression":
        return frame, np.asarray(bunch.target, dtype=np.float64), (), (), ()
    classes = tuple(str(label) for label in bunch.target_names)
    return frame, np.asarray(bunch.target, dtype=np.int64), classes, (), ()


def parse_table(card: Card, files: Mapping[str, Path]) -> Parsed:
    """Comma-separated or parquet files with one row a record, columns of any kind in any order.

    Files by role: "data"; "more", further rows; "test", the rows of a fixed test part. Options
    (columns are given by position in the file):

    - `target`: column of the target; `drop`: columns that are left out
    - `classes`: the labels in the order of their codes; `label_end`: a suffix of some labels
    - `header`: whether the first line has column names; `separator`, if it is no comma
    - `quote`: the quote character; inside of quotes it is escaped with a backslash
    - `missing`: strings that count as missing; `complete`: leave out rows with a missing value
    - `unique`: leave out rows that repeat an earlier one in the kept columns and the target
    - `dates`: numeric columns of dates, read as days since 1970
    - `test_rows`: number of rows at the end that are the fixed test part
    - `folds`, `val_share`: the splits that Hopular's authors draw (`drawn_splits`)

    A fixed test part makes one stored split, whose validation rows are an eighth of the others
    (NPT, app. E).
    """
    options = card.options
    away = {*options.get("drop", ()), int(options["target"])}
    width = len(card.columns) + len(away)
    features = [i for i in range(width) if i not in away]
    names = dict(zip(features, card.columns, strict=True)) | {int(options["target"]): TARGET}
    parts = {role: _read_rows(path, card, names, width) for role, path in files.items()}
    if options.get("complete"):
        parts = {role: part.dropna() for role, part in parts.items()}
    rows = pd.concat([parts[role] for role in ("data", "more") if role in parts])
    if files["data"].suffix == ".parquet":
        rows = rows.sort_index()  # by number in the table that was cut in two
    n_test = int(options.get("test_rows", 0))
    if "test" in parts:
        rows, n_test = pd.concat([rows, parts["test"]]), len(parts["test"])
    rows = rows.drop_duplicates() if options.get("unique") else rows
    rows = rows.reset_index(drop=True)
    missing = tuple(options.get("missing", ()))
    labels, classes = rows.pop(TARGET), tuple(options.get("classes", ()))
    end = str(options.get("label_end", ""))
    target = _codes(labels, classes, card.name, end) if classes else labels.to_numpy()
    for name in card.categorical:
        rows[name] = coded_column(rows[name], missing)
    masks: Masks = ()
    if n_test:
        everything = np.arange(len(rows))
        rest = everything[:-n_test]
        val = cut(target, rest, 0.125, stratified=bool(classes), seed=FIXED_SEED)[1]
        masks = ((everything >= len(rest), np.isin(everything, val)),)
    elif "folds" in options:
        masks = drawn_splits(target, options["folds"], options["val_share"], bool(classes))
    return rows[list(card.columns)], target, classes, masks, ()


def drawn_splits(target: np.ndarray, n_folds: int, val_share: float, stratified: bool) -> Masks:
    """Stored splits from shuffled folds: each fold is tested once, `val_share` of the others
    validates. The seed is that of Hopular's authors, so the rows are theirs too."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = StratifiedKFold if stratified else KFold
    everything = np.arange(len(target))
    masks = []
    for rest, test in kind(n_folds, shuffle=True, random_state=DRAWN_SEED).split(
        everything, target
    ):
        val = cut(target, rest, val_share, stratified=stratified, seed=DRAWN_SEED)[1]
        masks.append((np.isin(everything, test), np.isin(everything, val)))
    return tuple(masks)


TARGET = "the target"
FIXED_SEED = 42  # of the validation rows beside a fixed test part
DRAWN_SEED = 1  # of the splits that Hopular's authors draw


def _read_rows(
    path: Path, card: Card, names: Mapping[int, str], width: int
) -> pd.DataFrame:  # numeric columns float64, the others as they are
    """The columns `names` (position -> name) of a file of `width` columns."""
    dates = set(card.options.get("dates", ()))
    numeric = {i for i, n in names.items() if card.kinds.get(n) == "numeric" and n not in dates}
    numeric |= {i for i, name in names.items() if name == TARGET and not card.n_classes}
    try:
        if path.suffix == ".parquet":
            rows = pd.read_parquet(path)
            n_columns = rows.shape[1]
            rows.columns = pd.RangeIndex(n_columns)
        else:
            how: dict[str, Any] = {
                "header": None,
                "skiprows": 1 if card.options.get("header") else 0,
                "compression": "gzip" if path.suffix == ".gz" else None,
                "sep": card.options.get("separator", ","),
            }
            if "quote" in card.options:
                how |= {"quotechar": card.options["quote"], "escapechar": "\\"}
            n_columns = pd.read_csv(path, nrows=1, **how).shape[1]
            rows = pd.read_csv(
                path,
                dtype={i: np.float64 if i in numeric else str for i in names},
                usecols=sorted(names),
                na_values=["", *card.options.get("missing", ())],
                keep_default_na=False,
                skipinitialspace=True,
                **how,
            )
        if n_columns != width:
            raise ValueError(f"{n_columns} columns, the card says {width}")
        rows = rows[sorted(names)].astype(dict.fromkeys(numeric, np.float64))
        for i in (i for i, name in names.items() if name in dates):
            rows[i] = (pd.to_datetime(rows[i]) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    except (ValueError, OSError, ImportError) as error:  # ImportError: parquet without pyarrow
        raise DataError(f"{card.name}: {path.name}: {one_line(error)}") from None
    return rows.rename(columns=dict(names))


def _text(value: object) -> str:
    """A label without surrounding quotes and blanks; numbers in their shortest form.

    >>> _text(" 'Not in universe'"), _text("1.000e+00"), _text(2)
    ('Not in universe', '1', '2')
    """
    text = str(value).strip().strip("'\"").strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return number_text(number) if np.isfinite(number) else text


def coded_column(values: pd.Series, missing: tuple[str, ...] = ()) -> pd.Series:
    """A categorical column of many rows; only its distinct values are converted to strings.

    >>> coded_column(pd.Series(["b ", "?", "a", "b"]), ("?",)).tolist()
    ['b', nan, 'a', 'b']
    """
    codes, levels, _ = coded(values, _text, missing)
    dtype = pd.CategoricalDtype(pd.Index(levels, dtype=object))
    return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), index=values.index)


def _codes(
    labels: pd.Series, classes: tuple[str, ...], name: str, end: str = ""
) -> np.ndarray:  # (N,) int64
    codes, distinct = pd.factorize(labels)
    texts = [_text(value).removesuffix(end) for value in distinct]
    strange = sorted(set(texts) - set(classes))
    if strange or (codes < 0).any():
        raise DataError(f"{name}: labels {strange[:3] or 'missing'} are none of the card's classes")
    return np.array([classes.index(text) for text in texts], dtype=np.int64)[codes]


def parse_indicators(card: Card, files: Mapping[str, Path]) -> Parsed:
    """One file of numbers without header; the last columns are 0/1, one for each class.

    Where a row marks several classes, the first of them is taken; where none, the first of all.
    """
    numbers = read_numbers(files["data"], delimiter=None)
    n, classes = len(card.columns), tuple(card.options["classes"])
    marked = numbers[:, n:]
    if marked.shape[1] != len(classes) or not np.isin(marked, (0, 1)).all():
        raise DataError(
            f"{card.name}: the file's columns are not {n} features and {len(classes)} of 0/1"
        )
    odd = int((marked.sum(axis=1) != 1).sum())
    warnings = (f"{odd} rows mark no class or several",) if odd else ()
    columns = dict(zip(card.columns, numbers.T, strict=False))
    target = marked.argmax(axis=1).astype(np.int64)
    return frame_of(columns, card.categorical), target, classes, (), warnings


def parse_california(card: Card, files: Mapping[str, Path]) -> Parsed:
    """StatLib's California houses, with header, as the eight features of scikit-learn's version:
    rooms, bedrooms and people per household; the target in units of 100,000."""
    raw = pd.read_csv(files["data"], dtype=np.float64)
    homes = raw["households"].to_numpy()
    columns = {
        "MedInc": raw["median_income"],
        "HouseAge": raw["housing_median_age"],
        "AveRooms": raw["total_rooms"] / homes,
        "AveBedrms": raw["total_bedrooms"] / homes,
        "Population": raw["population"],
        "AveOccup": raw["population"] / homes,
        "Latitude": raw["latitude"],
        "Longitude": raw["longitude"],
    }
    return pd.DataFrame(columns), raw["median_house_value"].to_numpy() / 100_000, (), (), ()


def parse_counted(card: Card, files: Mapping[str, Path]) -> Parsed:
    """Numbers under a first line with the number of rows of each class; rows are in that order."""
    try:
        with open(files["data"], encoding="ascii") as file:
            counts = [int(text) for text in file.readline().split()]
            numbers = pd.read_csv(file, sep=r"\s+", header=None, dtype=np.float64)
    except (ValueError, OSError) as error:
        raise DataError(f"{card.name}: {one_line(error)}") from None
    if len(counts) != card.n_classes or sum(counts) != len(numbers):
        raise DataError(f"{card.name}: {len(numbers)} rows, its first line counts {counts}")
    target = np.repeat(np.arange(len(counts)), counts)
    numbers.columns = pd.Index(card.columns)
    return numbers, target, tuple(card.options["classes"]), (), ()


def parse_arrays(card: Card, files: Mapping[str, Path]) -> Parsed:
    """An added dataset as `datasets/added/importing.py` stores it; its split is the only one.

    Columns are called after their place in the source: `num_0`, ..., `bin_0`, ..., `cat_0`, ....
    """
    options, n_rows = card.options, card.n_rows
    try:
        labels = json.loads(files["labels"].read_text(encoding="utf-8"))
        arrays = {
            role: np.load(path, mmap_mode="r") for role, path in files.items() if role != "labels"
        }
        numbers = np.empty((n_rows, options["numeric"]), dtype=np.float64, order="F")
        if numbers.shape[1]:
            for start in range(0, n_rows, 1 << 16):  # by rows, as they lie on the disk
                numbers[start : start + (1 << 16)] = arrays["numbers"][start : start + (1 << 16)]
        frame = pd.DataFrame(numbers, columns=[f"num_{j}" for j in range(numbers.shape[1])])
        kinds = [f"bin_{j}" for j in range(options["binary"])]
        kinds += [f"cat_{j}" for j in range(options["categorical"])]
        coded = {}
        for j, (name, levels) in enumerate(zip(kinds, labels["levels"], strict=True)):
            dtype = pd.CategoricalDtype(pd.Index(levels, dtype=object))
            codes = np.asarray(arrays["categories"][:, j])
            coded[name] = pd.Series(pd.Categorical.from_codes(codes, dtype=dtype))
        if coded:
            frame = pd.concat([frame, pd.DataFrame(coded)], axis=1)
        target, parts = np.array(arrays["target"]), np.array(arrays["parts"])
        classes = tuple(labels["classes"])
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{card.name}: its files do not fit its card: {one_line(error)}") from None
    n_odd = options.get("infinite", 0)
    warnings = (f"{n_odd} infinite values count as missing",) if n_odd else ()
    return frame, target, classes, ((parts == 2, parts == 1),), warnings


def parse_file(card: Card, path: Path) -> Table:
    """A file of the user as `datasets/added/tables.py` stores it; the card states the kinds of its
    columns. DataError where the file and the card do not agree."""
    reading = reading_of(card)
    cells = read_file(path)
    table = table_from_cells(path, cells, reading, card.name)
    read = (table.n_rows, *map(str, table.frame.columns), table.task, table.n_classes)
    stated = (card.n_rows, *card.columns, card.task, card.n_classes)
    if read != stated:
        raise DataError(
            f"{card.name}: {table.n_rows} rows, {table.n_features} features, {table.n_classes} "
            f"classes, {table.task} were read; the card says {card.n_rows}, {card.n_features}, "
            f"{card.n_classes}, {card.task}, or has other columns"
        )
    return table


def reading_of(card: Card) -> Reading:
    """How the file of a user's card is read."""
    kinds = card.kinds
    return Reading.of(
        {
            **card.options,
            "target": card.target,
            "task": card.task,
            "categorical": [name for name, kind in kinds.items() if kind == "categorical"],
            "numeric": [name for name, kind in kinds.items() if kind == "numeric"],
        }
    )


def parse_openml(card: Card, files: Mapping[str, Path]) -> Parsed:
    """A task of OpenML as `datasets/openml/importing.py` stores it, with all its folds."""
    from .openml.tables import read_table

    return read_table(card, files["data"], files["splits"])


_PARSERS = {
    "arrays": parse_arrays,
    "california": parse_california,
    "indicators": parse_indicators,
    "counted": parse_counted,
    "whitespace": parse_whitespace,
    "coded": parse_coded,
    "bundled": parse_bundled,
    "openml": parse_openml,
    "table": parse_table,
}


def parse(card: Card, files: Mapping[str, Path]) -> Table:
    """The table of `card` from its files (role -> path); DataError where they do not fit it."""
    import hashlib

    if card.parser == "file":
        return parse_file(card, files["data"])
    frame, target, classes, masks, warnings = _PARSERS[card.parser](card, files)
    read = (len(frame), frame.shape[1], len(classes))
    stated = (card.n_rows, card.n_features, card.n_classes)
    if read != stated:
        raise DataError(
            f"{card.name}: {read} rows, features and classes were read, the card says {stated}"
        )
    digest = hashlib.sha256(card.meaning_sha256.encode())
    for file in sorted(card.files, key=lambda f: f.role):  # "unknown" is hashed as it is
        digest.update(f"{file.role}={file.sha256};".encode())
    digest.update(content_sha256(frame, target, classes).encode())
    for test, val in masks:
        digest.update(np.packbits(test).tobytes() + np.packbits(val).tobytes())
    return Table(card.name, frame, target, card.task, classes, digest.hexdigest(), masks, warnings)
