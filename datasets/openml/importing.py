"""Import of a task of OpenML: the file as it came, all its folds, and a card that pins both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...common.text import one_line, slug
from ..added import store
from ..added.importing import Added
from ..card import Card
from ..errors import DataError
from ..protocols import cut
from ..table import kind_of
from . import tables
from .api import Description, Server, Task
from .arff import read_arff

VALIDATION = 0.2  # share of a fold's training rows
VALIDATION_SEED = 0
ROLES = {"TRAIN": tables.TRAIN, "TEST": tables.TEST}
MOST_SPLIT_CELLS = 1 << 31
NAMED_BY_NONE = 255  # a row of a fold that no line of the splits has named


@dataclass(frozen=True)
class _Fetched:
    """A task with what the server said of its dataset, and the path of the file that was chosen."""

    task: Task
    about: Description
    file: Path
    form: str


def stored(task: int, name: str | None = None) -> Card | None:
    """The card of a task that was added before, under any name or under `name`; None without one.
    DataError where `name` is another dataset."""
    for known in [name] if name else store.names():
        if known not in store.names() or not (name or known.startswith("openml-")):
            continue
        card = store.card(known)
        if card.parser == "openml" and card.options["task"] == task:
            return card
        if name:
            raise DataError(f"{name!r} is another dataset: give this task another --name")
    return None


def add(
    task: int, server: Server, name: str | None, built_in: Iterable[str]
) -> tuple[Added, tuple[str, ...]]:
    """Store a task of OpenML: (what became of it, warnings).

    A task that is stored with all its files is not asked for again. The file that is fetched is the
    ARFF, whose MD5 OpenML states; a dataset that was uploaded as Parquet has this file alone.
    Raises DataError and its subclasses, see `Server`; OSError.
    """
    old = stored(task, name)
    if old is not None:
        try:
            store.files(old)
            return Added(old, False), ()
        except DataError:  # a file is gone or changed: fetched again
            name = old.name
    what = f"openml:{task}"
    described = server.task(task)
    about = server.dataset(described.dataset, what)
    wanted = name or f"openml-{task}-{slug(about.name)}"[:64].strip("-")
    store.checked_name(wanted, built_in)
    with store.incoming() as scratch:
        made = scratch / wanted
        made.mkdir()
        fetched = _fetch(described, about, server, made, what)
        warnings = _write(fetched, server, wanted, made, what)
        new = store.install(made, wanted)
    return Added(store.card(wanted), new), warnings


def _fetch(task: Task, about: Description, server: Server, made: Path, what: str) -> _Fetched:
    """The dataset's file, downloaded and checked."""
    form = "parquet" if about.format.lower() in ("parquet", "pq") else "arff"
    url = (about.parquet_url or about.url) if form == "parquet" else about.url
    if not url:
        raise DataError(f"{what}: OpenML names no file of dataset {about.id}")
    data = server.file(url, what, about.md5 if url == about.url else "")
    if form == "parquet" and (data[:4] != b"PAR1" or data[-4:] != b"PAR1"):
        raise DataError(
            f"{what}: the Parquet file at {url} is damaged or cut short ({len(data):,} bytes); "
            "nothing was kept: try again later"
        )
    place = made / f"data.{form}"
    place.write_bytes(data)
    return _Fetched(task, about, place, form)


def _write(fetched: _Fetched, server: Server, name: str, made: Path, what: str) -> tuple[str, ...]:
    """Read the file, fetch the splits, write both and the card into `made`: the warnings."""
    task, about = fetched.task, fetched.about
    shown = f"{what}: {fetched.file.name} of dataset {about.id}"
    columns = tables.read_columns(fetched.file, shown)
    target, classes = tables.target_of(columns, task.target, task.regression, what)
    kept = [c for c in columns.values if c != task.target and c not in about.ignored]
    if not kept:
        raise DataError(f"{what}: dataset {about.id} has no column besides the target")
    frame = tables.features_of(columns, kept)
    kinds = {name: kind_of(frame[name].dtype) for name in kept}
    parts = read_splits(server.file(task.splits_url, what), len(target), f"splits of {what}")
    if classes:  # by their names, as their codes depend on the kind of file
        target = np.argsort(np.argsort(classes))[target]
    add_validation(parts, target, stratified=bool(classes))
    np.save(made / "splits.npy", parts)
    kind = "regression" if task.regression else "binary" if len(classes) == 2 else "multiclass"
    write_card(fetched, name, kind, kinds, len(classes), parts)
    warnings = [
        f"{what}: column {c!r} has another text in each row, which are categories of their own"
        for c in columns.free
        if kinds.get(c) == "categorical" and frame[c].nunique() == len(frame)
    ]
    if about.status not in ("", "active"):
        warnings.append(f"{what}: OpenML marks dataset {about.id} as {about.status!r}")
    if fetched.form == "parquet" and not about.md5:
        warnings.append(
            f"{what}: OpenML states no checksum of the Parquet file; the card pins what came now"
        )
    return tuple(warnings)


def read_splits(data: bytes, n_rows: int, where: str) -> np.ndarray:
    """(folds, n_rows) uint8 of `tables.TRAIN` and `tables.TEST`, ordered by repeat and fold, from
    the ARFF file of a task's splits (columns type, rowid, repeat, fold).

    DataError, with `where`, for a file that is cut short, a row that a fold names twice or leaves
    out, and a row number that the dataset does not have.
    """
    arff = read_arff(data, where)
    names = [one.name.lower() for one in arff.attributes]
    lacking = [name for name in ("type", "rowid", "repeat", "fold") if name not in names]
    if lacking:
        raise DataError(f"{where}: no column {lacking[0]!r}: these are no splits of a task")
    cells = {name: arff.frame[names.index(name)] for name in names}
    if "sample" in cells and cells["sample"].nunique() > 1:
        raise DataError(f"{where}: folds of several samples (a learning curve) cannot be added")
    numbers = {}
    for name in ("rowid", "repeat", "fold"):
        values = cells[name].to_numpy()
        if values.dtype != np.float64 or not (values == np.round(values)).all():
            raise DataError(f"{where}: column {name!r} holds no whole numbers: cut short?")
        numbers[name] = values.astype(np.int64)
    roles = cells["type"].map({**ROLES, **{key.lower(): value for key, value in ROLES.items()}})
    if roles.isna().any():
        raise DataError(f"{where}: a type other than TRAIN and TEST")
    rows = numbers["rowid"]
    if rows.min() < 0 or rows.max() >= n_rows:
        raise DataError(
            f"{where}: row {rows.max()} of a dataset with {n_rows} rows: they do not belong "
            "together, or the data are cut short"
        )
    pairs, fold = np.unique(
        np.stack([numbers["repeat"], numbers["fold"]]), axis=1, return_inverse=True
    )
    n_folds = pairs.shape[1]
    if n_folds * n_rows > MOST_SPLIT_CELLS:
        raise DataError(f"{where}: {n_folds} folds of {n_rows} rows are too many")
    fold = np.ravel(fold)
    cells = fold * n_rows + rows
    parts = np.full(n_folds * n_rows, NAMED_BY_NONE, dtype=np.uint8)
    parts[cells] = roles.to_numpy(dtype=np.uint8)
    absent = parts == NAMED_BY_NONE
    if absent.any() or len(cells) > len(parts):
        named = np.sort(cells)
        odd = absent.argmax() if absent.any() else named[1:][named[1:] == named[:-1]][0]
        at, row = divmod(int(odd), n_rows)
        how = "in no part" if absent[odd] else "named twice or more often"
        repeat, number = pairs[:, at]
        raise DataError(
            f"{where}: row {row} is {how} of repeat {repeat}, fold {number}; each row has to be "
            "trained on or tested: cut short, or a task that cannot be added"
        )
    parts = parts.reshape(n_folds, n_rows)
    for at in range(n_folds):
        if len(np.unique(parts[at])) < 2:
            raise DataError(f"{where}: fold {at} has no row to train on, or none to test")
    return parts


def add_validation(parts: np.ndarray, target: np.ndarray, *, stratified: bool) -> None:
    """Mark a fifth of each fold's training rows as validation rows, in place."""
    # DIFF(OpenML, tasks): a fold there has a training and a test part alone. Tuning and early
    # stopping need rows of their own; they are taken from the training part with one seed, and the
    # test part is the task's.
    for fold in parts:
        rows = np.flatnonzero(fold == tables.TRAIN)
        if len(rows) < 5:
            raise DataError(
                f"a fold has {len(rows)} training rows; 5 are needed to validate on some"
            )
        _, val = cut(target, rows, VALIDATION, stratified=stratified, seed=VALIDATION_SEED)
        fold[val] = tables.VALIDATION


def write_card(
    fetched: _Fetched,
    name: str,
    kind: str,
    kinds: Mapping[str, str],
    n_classes: int,
    parts: np.ndarray,
) -> None:
    """Write the card beside the stored files. kinds: {column: its kind}."""
    task, about = fetched.task, fetched.about
    origin = f"OpenML task {task.id}, dataset {about.id} version {about.version}, {fetched.form}"
    left_out = [c for c in about.ignored if c != task.target]
    notes = (
        f"The {len(parts)} folds of the task ({task.procedure}); a fifth of each one's training "
        "rows validates, drawn here."
    )
    if left_out:
        notes += f" OpenML says that these are no features: {', '.join(left_out)}."
    card = {
        "name": name,
        "title": one_line(about.name, 500),
        "task": kind,
        "target": task.target,
        "n_rows": parts.shape[1],
        "n_features": len(kinds),
        "n_classes": n_classes,
        "protocol": "official",
        "licence": about.licence,
        "citation": about.citation,
        "notes": one_line(notes, 500),
        "origin": origin,
        "parser": "openml",
        "columns": list(kinds),
        "categorical": [column for column, of in kinds.items() if of == "categorical"],
    }
    options = {
        "task": task.id,
        "dataset": about.id,
        "version": one_line(about.version, 500),
        "md5": one_line(about.md5, 500),
    }
    of_kind = {one: [c for c, of in kinds.items() if of == one] for one in ("date", "text")}
    options |= {one: names for one, names in of_kind.items() if names}
    files = {"data": fetched.file, "splits": fetched.file.with_name("splits.npy")}
    store.write_card(fetched.file.parent, card, options, files)
