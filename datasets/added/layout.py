"""Folders of arrays as papers publish them: the parts of a dataset, checked against each other.

Two forms are read. *Parts*: a file for each part, `N_train.npy`, `C_train.npy`, `y_train.npy`
(RTDL, TALENT), or `X_num_train.npy`, `X_bin_train.npy`, `X_cat_train.npy`, `Y_train.npy` (TabR,
TabDDPM). *Whole*: `X_num.npy`, `X_bin.npy`, `X_cat.npy`, `Y.npy` and the row numbers of the parts
in `split-default/` (TabReD). Both have an `info.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...common.text import one_line, suggest
from ..errors import DataError
from ..reading.files import check_memory
from .npy import read_array

PARTS = ("train", "val", "test")
TASK_TYPES = {"binclass": "binary", "multiclass": "multiclass", "regression": "regression"}
STEMS = {"num": ("N", "X_num"), "bin": ("X_bin",), "cat": ("C", "X_cat"), "y": ("y", "Y")}
COUNTS = {"num": "n_num_features", "bin": "n_bin_features", "cat": "n_cat_features"}
SPLIT = "split-default"
INFO = "info.json"
MAX_INFO_BYTES = 10_000_000
BYTES_PER_BYTE = 4  # memory for each byte of the arrays: the parts, all of a block, and a mask


@dataclass(frozen=True)
class Arrays:
    """A dataset in such a folder. `blocks`: "num", "bin" and "cat" (those that there are), an array
    of each for each of PARTS, two-dimensional; `target` the same, one-dimensional. `unused`: rows
    that are in no part; `form`: "N" (files `N_train.npy`, ...), "X" (files `X_num_train.npy`, ...)
    or "whole"."""

    name: str
    form: str
    task: str
    info: Mapping[str, Any]
    blocks: Mapping[str, tuple[np.ndarray, ...]]
    target: tuple[np.ndarray, ...]
    unused: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows to train, validate and test."""
        return tuple(map(len, self.target))

    def width(self, block: str) -> int:
        """Number of columns of a block; 0 where there is none."""
        return int(self.blocks[block][0].shape[1]) if block in self.blocks else 0


def folders_in(path: Path, depth: int = 4) -> list[Path]:
    """The folders with an `info.json` or a target at or below `path`, sorted."""
    if any((path / name).is_file() for name in (INFO, "y_train.npy", "Y_train.npy", "Y.npy")):
        return [path]
    if depth == 0:
        return []
    below = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    return [inner for folder in below for inner in folders_in(folder, depth - 1)]


def read_info(folder: Path, shown: str) -> dict[str, Any]:
    """The folder's `info.json`, with a known `task_type`. Raises DataError."""
    path, where = folder / INFO, f"{shown}/{INFO}"
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_INFO_BYTES + 1)
        if len(text) > MAX_INFO_BYTES:
            raise DataError(f"{where} has more than {MAX_INFO_BYTES} bytes")
        info = json.loads(text)
    except FileNotFoundError:
        raise DataError(f"{where} is missing: it names the task_type") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{where} cannot be read: {one_line(error)}") from None
    if not isinstance(info, dict) or "task_type" not in info:
        raise DataError(f"{where} has no task_type; known: {', '.join(TASK_TYPES)}")
    kind = info["task_type"]
    if not isinstance(kind, str) or kind not in TASK_TYPES:
        shown_kind = one_line(repr(kind), 60)
        raise DataError(f"{where}: unknown task_type {shown_kind}; {suggest(kind, TASK_TYPES)}")
    return info


def read_folder(folder: Path, shown: str, *, name: str | None = None) -> Arrays:
    """The dataset in `folder`, which errors call `shown`; `name` replaces the folder's own. Raises
    DataError in one line."""
    info = read_info(folder, shown)
    check_memory(shown, sum(file.stat().st_size for file in folder.glob("*.npy")), BYTES_PER_BYTE)
    cut = _stem(folder, "y", "_train", shown)
    if cut is not None or any((folder / f"y_{part}.npy").exists() for part in PARTS):
        unused = 0
        rows_of = {what: _parts(folder, what, shown) for what in STEMS}
        form = "X" if any(folder.glob("X_*_train.npy")) else "N"
    else:
        form = "whole"
        rows_of, unused = _whole(folder, shown)
    target = rows_of.pop("y")
    if target is None:
        raise DataError(f"{shown} has no target: y_train.npy, or Y.npy with {SPLIT}/")
    blocks = {what: rows for what, rows in rows_of.items() if rows is not None}
    if not blocks:
        raise DataError(f"{shown} has no features: N_train.npy, C_train.npy or X_num.npy, ...")
    made = Arrays(
        name=name or folder.name,
        form=form,
        task=TASK_TYPES[info["task_type"]],
        info=info,
        blocks=blocks,
        target=tuple(_flat(rows, shown) for rows in target),
        unused=unused,
    )
    _check(made, shown)
    return made


def _stem(folder: Path, what: str, end: str, shown: str) -> str | None:
    """The beginning of the files of `what`; None where there are none. Raises DataError for two."""
    there = [stem for stem in STEMS[what] if (folder / f"{stem}{end}.npy").is_file()]
    if len(there) > 1 and not (folder / f"{there[0]}{end}.npy").samefile(
        folder / f"{there[1]}{end}.npy"  # one file where a file system knows no capital letters
    ):
        raise DataError(f"{shown} has both {there[0]}{end}.npy and {there[1]}{end}.npy")
    return there[0] if there else None


def _parts(folder: Path, what: str, shown: str) -> tuple[np.ndarray, ...] | None:
    """The arrays of `what`, one a part; None where there is none."""
    stems = {part: _stem(folder, what, f"_{part}", shown) for part in PARTS}
    known = [stem for stem in stems.values() if stem]
    if not known:
        return None
    rows = []
    for part in PARTS:
        name = f"{known[0]}_{part}.npy"
        if not (folder / name).is_file():
            raise DataError(f"{shown}/{name} is missing, {known[0]} of other parts is there")
        rows.append(_shaped(read_array(folder / name, f"{shown}/{name}"), what))
    return tuple(rows)


def _whole(folder: Path, shown: str) -> tuple[dict[str, tuple[np.ndarray, ...] | None], int]:
    """({what: its rows by part}, number of rows in no part) of the form with row numbers."""
    stems = {what: _stem(folder, what, "", shown) for what in STEMS}
    if stems["y"] is None:
        return dict.fromkeys(STEMS), 0
    arrays = {
        what: _shaped(read_array(folder / f"{stem}.npy", f"{shown}/{stem}.npy"), what)
        for what, stem in stems.items()
        if stem is not None
    }
    n_rows = len(arrays["y"])
    for what, array in arrays.items():
        if len(array) != n_rows:
            raise DataError(
                f"{shown}: {stems[what]}.npy has {len(array)} rows, {stems['y']}.npy {n_rows}"
            )
    indices = [_row_numbers(folder, part, n_rows, shown) for part in PARTS]
    times = np.zeros(n_rows, dtype=np.uint8)
    for index in indices:
        times[index] += 1
    if (times > 1).any():
        raise DataError(f"{shown}/{SPLIT}: row {int(np.argmax(times > 1))} is in two parts")
    rows_of = {
        what: tuple(arrays[what][index] for index in indices) if what in arrays else None
        for what in STEMS
    }
    return rows_of, int((times == 0).sum())


def _row_numbers(folder: Path, part: str, n_rows: int, shown: str) -> np.ndarray:
    """The row numbers of a part: whole, in range, each once."""
    names = [f"{part}_idx.npy", f"{part}.npy", f"idx_{part}.npy"]
    name = next((name for name in names if (folder / SPLIT / name).is_file()), None)
    if name is None:
        raise DataError(f"{shown}/{SPLIT}/{names[0]} is missing: the row numbers of the part")
    where = f"{shown}/{SPLIT}/{name}"
    index = np.asarray(read_array(folder / SPLIT / name, where))
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise DataError(f"{where} holds no list of row numbers ({index.dtype}, {index.shape})")
    if len(index) and (index.min() < 0 or index.max() >= n_rows):
        raise DataError(f"{where}: row numbers {index.min()}..{index.max()} of {n_rows} rows")
    if len(np.unique(index)) != len(index):
        raise DataError(f"{where} names a row twice")
    return index.astype(np.int64)


def _shaped(array: np.ndarray, what: str) -> np.ndarray:
    """Features with two dimensions: a single column may have been saved with one."""
    return array[:, None] if what != "y" and array.ndim == 1 else array


def _flat(array: np.ndarray, shown: str) -> np.ndarray:
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1:
        raise DataError(f"{shown}: the target has shape {array.shape}; one value a row is due")
    return flat


def _check(arrays: Arrays, shown: str) -> None:
    """Rows, columns, kinds of values and the figures of `info.json` agree, or DataError."""
    if not any(map(arrays.width, arrays.blocks)):
        raise DataError(f"{shown} has no features: its arrays have no column")
    for part, target in zip(PARTS, arrays.target, strict=True):
        if target.dtype.kind not in "USOfiub":
            raise DataError(f"{shown}: the target's {part} part is of dtype {target.dtype}")
    for part, n in zip(PARTS, arrays.sizes, strict=True):
        if n == 0:
            raise DataError(f"{shown}: the {part} part has no row")
    for block, rows in arrays.blocks.items():
        widths = {part.shape[1:] for part in rows}
        if len(widths) != 1 or rows[0].ndim != 2:
            shapes = ", ".join(str(part.shape) for part in rows)
            raise DataError(f"{shown}: the parts of {STEMS[block][0]} have shapes {shapes}")
        for part, own, due in zip(PARTS, rows, arrays.sizes, strict=True):
            if len(own) != due:
                raise DataError(
                    f"{shown}: {STEMS[block][0]}_{part} has {len(own)} rows, y_{part} {due}"
                )
            if own.dtype.kind not in ("USOfiub" if block == "cat" else "fiubO"):
                raise DataError(f"{shown}: {STEMS[block][0]} is of dtype {own.dtype}")
    stated = {COUNTS[block]: arrays.width(block) for block in COUNTS}
    stated |= {f"{part}_size": n for part, n in zip(PARTS, arrays.sizes, strict=True)}
    for key, actual in stated.items():
        said = arrays.info.get(key)
        if said is not None and said != actual:
            said = one_line(repr(said), 40)
            raise DataError(f"{shown}/{INFO}: {key} is {said}, the arrays have {actual}")
