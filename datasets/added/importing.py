"""Import of array folders: stored in one form, with a card that pins their bytes and split.

What is stored of a dataset: `numbers.npy` (N, numeric features; floats as they came, NaN where
missing), `categories.npy` (N, categorical features; int32 codes, -1 where missing), `target.npy`
(N,), `parts.npy` (N,; 0 train, 1 validation, 2 test), and the texts of classes and levels in
`labels.json`. Rows stand in the order train, validation, test.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...common.text import one_line, slug
from ..card import Card
from ..errors import DataError
from ..reading.target import check_range
from ..table import coded, number_text
from . import store
from .layout import INFO, Arrays
from .official import official_name

MISSING = ("nan", "NaN", "", "None", "__nan__", "___null___")
"""Texts that the authors' loaders read as a missing category (RTDL, TALENT, TabDDPM)."""

ROLES = ("numbers", "categories", "target", "parts", "labels")


@dataclass(frozen=True)
class Added:
    """What became of one folder. `new` is False where the same dataset was there already;
    `stands_for` is the built-in dataset whose authors' split it holds, or ""."""

    card: Card
    new: bool
    stands_for: str = ""


def name_of(arrays: Arrays, asked: str | None, several: bool, built_in: Iterable[str]) -> str:
    """The name under which a dataset is stored; `asked` is --name, a prefix where there are
    several. Raises DataError for a name of a built-in dataset, and for one that is none."""
    own = slug(arrays.name)
    name = asked or official_name(arrays, own) or own
    if asked and several:
        name = f"{asked}-{own}"
    return store.checked_name(name, built_in)


def add(arrays: Arrays, name: str, origin: str, missing: Sequence[str] = ()) -> Added:
    """Store a dataset under `name`. `origin` says where it came from, for readers; `missing` are
    texts that stand for a missing category besides MISSING. Raises DataError, OSError."""
    marks = tuple(dict.fromkeys([*MISSING, *missing]))
    with store.incoming() as scratch:
        made = scratch / name
        made.mkdir()
        write_card(arrays, name, origin, _write(arrays, made, marks), made)
        new = store.install(made, name)
    wanted = store.card(name)
    stands_for = official_name(arrays, slug(arrays.name))
    return Added(wanted, new, slug(arrays.name) if stands_for == name else "")


# ---------------------------------------------------------------------- arrays to files


def _write(arrays: Arrays, made: Path, marks: tuple[str, ...]) -> dict[str, Any]:
    """Write the arrays into `made`: facts for the card."""
    parts = np.repeat(np.arange(3, dtype=np.uint8), arrays.sizes)
    target, classes = _target(arrays)
    facts: dict[str, Any] = {"n_classes": len(classes), "infinite": 0}
    levels: list[list[str]] = []
    np.save(made / "parts.npy", parts)
    np.save(made / "target.npy", target)
    if "num" in arrays.blocks:
        facts["infinite"] = _numbers(arrays, made / "numbers.npy")
    n_coded = arrays.width("bin") + arrays.width("cat")
    if n_coded:
        codes = np.empty((len(parts), n_coded), dtype="<i4")
        used: set[str] = set()
        for block in ("bin", "cat"):
            for j in range(arrays.width(block)):
                values = [part[:, j] for part in arrays.blocks[block]]
                coded, texts, gaps = encode(values, marks)
                if block == "bin" and len(texts) > 2:
                    raise DataError(
                        f"{arrays.name}: X_bin column {j} has {len(texts)} values, at most 2 are "
                        "due"
                    )
                codes[:, len(levels)] = coded
                levels.append(texts)
                used |= gaps
        np.save(made / "categories.npy", codes)
        facts["missing"] = sorted(used)
    for text in itertools.chain(classes, *levels):
        _check_text(arrays.name, text)
    labels = {"classes": classes, "levels": levels}
    (made / "labels.json").write_text(json.dumps(labels, sort_keys=True), encoding="utf-8")
    return facts


def _check_text(name: str, text: str) -> None:
    """DataError for a text that no file or report can hold: half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = one_line(ascii(text), 60)
        raise DataError(f"{name}: {shown} is no text: it has half of a surrogate pair") from None


def _numbers(arrays: Arrays, path: Path) -> int:
    """Write the numeric features: the number of infinite values, which count as missing. Floats of
    four bytes stay so; everything else becomes eight."""
    parts = arrays.blocks["num"]
    four = all(part.dtype.kind == "f" and part.dtype.itemsize <= 4 for part in parts)
    try:
        values = np.concatenate(parts, dtype="<f4" if four else "<f8", casting="unsafe")
    except (TypeError, ValueError) as error:
        raise DataError(f"{arrays.name}: a numeric feature: {one_line(error)}") from None
    odd = np.isinf(values)
    values[odd] = np.nan
    np.save(path, np.ascontiguousarray(values))
    return int(odd.sum())


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The parts of a column as one array. Parts of different kinds become an array of objects,
    because NumPy's common type would turn numbers into texts.

    >>> joined([np.array([1.0]), np.array(["1"])]).tolist()
    [1.0, '1']
    """
    alike = len({part.dtype.kind for part in parts}) == 1
    return np.concatenate(parts if alike else [part.astype(object) for part in parts])


def _target(arrays: Arrays) -> tuple[np.ndarray, list[str]]:
    """(codes or numbers, names of the classes) of the target. Raises DataError."""
    if arrays.task == "regression":
        try:
            numbers = joined(arrays.target).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{arrays.name}: the target: {one_line(error)}") from None
        if not np.isfinite(numbers).all():
            row = int(np.argmin(np.isfinite(numbers)))
            raise DataError(
                f"{arrays.name}: the target has a missing or infinite value (row {row})"
            )
        check_range(arrays.name, numbers)
        return numbers, []
    codes, texts, _ = encode(arrays.target, ())
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise DataError(f"{arrays.name}: the target has a missing value (row {row})")
    if len(texts) < 2 or (arrays.task == "binary" and len(texts) > 2):
        due = "2 are" if arrays.task == "binary" else "two or more are"
        raise DataError(f"{arrays.name}: the target has {len(texts)} classes, {due} due")
    said = arrays.info.get("n_classes")
    if said is not None and said != len(texts):
        said = one_line(repr(said), 40)
        raise DataError(f"{arrays.name}/{INFO}: n_classes is {said}, the arrays have {len(texts)}")
    return codes.astype(np.int64), texts


def encode(
    parts: Sequence[np.ndarray], marks: tuple[str, ...]
) -> tuple[np.ndarray, list[str], set[str]]:
    """(codes, levels, marks found) of a column in parts: -1 where a value is None, NaN or a mark.

    Numbers are levels by their shortest text. Levels are ordered by value where all are numbers.

    >>> codes, levels, gaps = encode([np.array(["10", "9", "nan"])], ("nan",))
    >>> codes.tolist(), levels, gaps
    ([1, 0, -1], ['9', '10'], {'nan'})
    """
    column = joined(parts)
    return coded(column if column.dtype.kind in "fiub" else column.astype(object), _level, marks)


def _level(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        number = float(value)
        return number_text(number) if np.isfinite(number) else str(value)
    return str(value)


# ---------------------------------------------------------------------- the card


def write_card(arrays: Arrays, name: str, origin: str, facts: dict[str, Any], made: Path) -> None:
    """Write the card into `made`; `origin` is for readers and no part of its meaning."""
    title = arrays.info.get("name")
    counts = f"{arrays.width('num')} numeric, {arrays.width('cat')} categorical"
    counts += f", {arrays.width('bin')} binary" if arrays.width("bin") else ""
    sizes = " / ".join(f"{n:,}" for n in arrays.sizes)
    notes = [f"The split of the source: {sizes} rows; {counts} features. Read from {origin}."]
    if facts.get("missing"):
        shown = ", ".join(map(repr, facts["missing"]))
        notes.append(f"Missing categories are marked by {shown}.")
    if arrays.unused:
        notes.append(f"{arrays.unused:,} rows are in no part of the split and are left out.")
    options: dict[str, Any] = {
        "numeric": arrays.width("num"),
        "binary": arrays.width("bin"),
        "categorical": arrays.width("cat"),
        "sizes": list(arrays.sizes),
    }
    if facts["infinite"]:
        options["infinite"] = facts["infinite"]
    card = {
        "name": name,
        "title": one_line(title, 500) if isinstance(title, str) and title else name,
        "task": arrays.task,
        "target": "as in the source",
        "n_rows": sum(arrays.sizes),
        "n_features": sum(map(arrays.width, ("num", "bin", "cat"))),
        "n_classes": facts["n_classes"],
        "protocol": "official",
        "licence": "not stated in the files",
        "citation": "the authors of the archive",
        "notes": one_line(" ".join(notes), 500),
        "origin": one_line(origin, 500),
        "parser": "arrays",
    }
    stored = {role: made / f"{role}.{'json' if role == 'labels' else 'npy'}" for role in ROLES}
    store.write_card(made, card, options, {r: path for r, path in stored.items() if path.exists()})
