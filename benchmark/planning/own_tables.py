"""The user's data: files given by --csv or named in a suite, and added datasets."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.files import file_sha256
from ...common.text import slug
from ...sweeps.fingerprint import versions
from ...sweeps.trial import digest
from ..errors import SweepError
from . import suite as suites
from .environment import rooms_sha256
from .plan_record import PlannedDataset
from .portfolio import budget_of, slots_for

if TYPE_CHECKING:
    from ...datasets.infer import Reading
    from ...datasets.table import Table

KEPT = ".tables"  # folder below `runs` with the parsed tables of files
NAMED = 3  # files whose names stand in the name of a run


@dataclass(frozen=True)
class OwnTable:
    """A table without a card. origin: its part of the plan, {"csv": {path, sha256, target, task,
    other fields of Reading}}. asked: the task that the user gave, None if it was guessed."""

    table: Table
    origin: Mapping[str, Any] = field(default_factory=dict)
    asked: str | None = None

    def keep(self, runs: Path) -> None:
        """Store the parsed table in the folder `runs`, if it is not there and the disk has room."""
        from ...datasets.kept import keep

        place, how = kept_place(runs, self.origin["csv"]), {"asked": self.asked}
        if kept_table(place, features=False, **how) is None:
            with suppress(OSError):
                keep(self.table, place, **how)

    def mapped(self, runs: Path) -> OwnTable:
        """The same with the features of the stored table, which are mapped and not held; as it is
        where none is stored in the folder `runs`, and where it is wide: then none are mapped."""
        if self.table.n_features > self.table.n_rows:
            return self
        stored = kept_table(kept_place(runs, self.origin["csv"]), asked=self.asked)
        return replace(self, table=replace(self.table, frame=stored.frame)) if stored else self


def kept_place(runs: Path, csv: Mapping[str, Any]) -> Path:
    """The path of a file's parsed table. Its name is a digest of the file's hash and reading
    settings (csv, as in the plan), and of the code and the libraries that read and store tables."""
    known = {key: value for key, value in csv.items() if key not in ("path", "task")}
    return runs / KEPT / f"{digest(known | _reader())}.arrow"


@cache
def _reader() -> dict[str, str]:
    """What reads and stores tables: the source of its rooms, and the versions of its libraries."""
    return {
        "reader": rooms_sha256("common", "datasets"),
        **versions(("numpy", "pandas", "pyarrow")),
    }


def kept_table(place: Path, *, features: bool = True, **how: Any) -> Table | None:
    """The stored table at `place`, None if there is none or it was read with other settings (`how`,
    see `datasets.kept.kept`). A damaged one is removed with a warning."""
    from ...datasets.errors import DataError
    from ...datasets.kept import kept

    try:
        return kept(place, features=features, **how) if place.is_file() else None
    except DataError as error:
        warnings.warn(f"{error}: its file is read again", RuntimeWarning, stacklevel=2)
        with suppress(OSError):
            place.unlink()
        return None


def own_table(path: Path, reading: Reading, runs: Path | None = None) -> OwnTable:
    """The table in a user's file, from its stored copy in `runs` if there is one. Raises DataError
    if the file holds no table with this target."""
    from ...datasets.infer import table_from_file

    csv: dict[str, Any] = {"path": str(path.resolve()), **reading.to_data()}
    table = None
    if path.is_file():
        csv["sha256"] = file_sha256(path)
        table = runs and kept_table(kept_place(runs, csv), asked=reading.task)
    table = table or table_from_file(path, reading)
    return OwnTable(table, {"csv": {**csv, "task": table.task}}, reading.task)


def targets_for(paths: Sequence[Path], targets: Sequence[str]) -> list[str]:
    """The target of each file: one for all of them, or one each. Raises SweepError."""
    if not targets:
        raise SweepError("--csv needs --target COLUMN, the column to predict")
    if len(targets) not in (1, len(paths)):
        raise SweepError(
            f"{len(paths)} --csv and {len(targets)} --target: give one --target for all, or one "
            "for each, in the same order"
        )
    return list(targets) * (len(paths) if len(targets) == 1 else 1)


def csv_names(paths: Sequence[Path]) -> list[str]:
    """The names of the files as datasets. Raises SweepError where two are the same."""
    names = [csv_name(path) for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise SweepError(
                f"{names.count(name)} --csv would be called {name!r}: rename one, or name them in "
                f"a suite file ([file.{name}])"
            )
    return names


def csv_run_name(paths: Sequence[Path]) -> str:
    """The name of the suite of these files, made of their names.

    >>> csv_run_name([Path("houses.csv"), Path("flats.csv.gz")])
    'csv-houses-flats'
    """
    names = csv_names(paths)
    more = [f"and-{len(names) - NAMED}-more"] if len(names) > NAMED else []
    room = 55 // min(len(names), NAMED)
    return "-".join(["csv", *(name[:room].strip("-") for name in names[:NAMED]), *more])[:64]


def csv_suite(
    paths: Sequence[Path],
    targets: Sequence[str],
    reading: Reading,
    runs: Path | None = None,
) -> tuple[suites.Suite, dict[str, OwnTable]]:
    """(a suite of these files, {name: table}). reading: of all files, but for the target. runs: see
    `own_table`. Budgets: `quick`, the usual plan for files of this size (`portfolio.py`); `all`,
    the twelve models of uci-small's quick; and uci-small's other budgets.

    Raises SweepError without a target, DataError for a file without such a table.
    """
    from ...datasets.infer import Reading

    shared = {key: _utf8(value) for key, value in reading.to_data().items()}
    names = csv_names(paths)
    tables: dict[str, OwnTable] = {}
    asked = [as_utf8(target) for target in targets_for(paths, targets)]
    for name, path, target in zip(names, paths, asked, strict=True):
        tables[name] = own_table(path, Reading.of({**shared, "target": target}), runs)
    shown = ", ".join(as_utf8(path.name) for path in paths)
    usual = suites.load("uci-small")
    n_rows = max(one.table.n_rows for one in tables.values())
    titles = dict.fromkeys(asked)
    made = suites.Suite(
        name=csv_run_name(paths),
        title=f"{shown}: {', '.join(titles)}",
        datasets=names,
        metric=usual.metric,
        budgets={
            key: budget.model_copy(update={"note": f"{key} budget of uci-small on {shown}."})
            for key, budget in usual.budgets.items()
            if key != "quick"
        }
        | {
            "quick": budget_of(slots_for(n_rows, usual=True), n_rows, f"quick budget on {shown}."),
            "all": usual.budgets["quick"].model_copy(
                update={"note": f"The twelve models of uci-small's quick budget on {shown}."}
            ),
        },
    )
    return made, tables


def _utf8(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(as_utf8, value)]
    return as_utf8(value) if isinstance(value, str) else value


def suite_tables(
    suite: suites.Suite, wanted: Sequence[str] = (), runs: Path | None = None
) -> dict[str, OwnTable]:
    """{name: table} of the files that a suite names; of the names in `wanted` only, if there are
    any. Raises DataError, which names the file's key, for a file without such a table."""
    from ...datasets.errors import DataError
    from ...datasets.infer import Reading

    tables = {}
    for name, file in suite.file.items():
        if wanted and name not in wanted:
            continue
        reading = Reading.of(file.model_dump(exclude={"path"}))
        try:
            tables[name] = own_table(Path(file.path), reading, runs)
        except DataError as error:
            raise DataError(f"file.{name}: {error}") from None
    return tables


def planned_tables(
    plans: Sequence[Mapping[str, PlannedDataset]],
    files: Sequence[Path] = (),
    runs: Path | None = None,
) -> dict[str, OwnTable]:
    """{name: table} of the user's files in these plans, stored in `runs` or read again. Where plans
    of several machines have a dataset, the settings of the first count.

    A file is known by its sha256: it is one of `files`, or at the path that a plan has for it. No
    other file is read. Raises SweepError if a file is at none of these places.
    """
    from ...datasets.infer import Reading, table_from_file

    given = {file_sha256(path): path for path in files if path.is_file()}
    tables: dict[str, OwnTable] = {}
    of_files = [
        (name, described.csv)
        for datasets in plans
        for name, described in datasets.items()
        if described.csv
    ]
    for name, csv in of_files:
        if name in tables:
            continue
        sha256 = csv["sha256"]
        places = dict.fromkeys(Path(one["path"]) for _, one in of_files if one["sha256"] == sha256)
        here = given.get(sha256) or next((p for p in places if _holds(p, sha256)), None)
        if here is None:
            raise SweepError(
                f"the table of dataset {name} (sha256 {sha256[:16]}...) is not at "
                f"{' nor at '.join(map(str, places))} any more, or has changed: put it back there "
                "(bench fit and bench merge take a copy: --csv FILE), or start a new run with "
                "another --name"
            )
        table = kept_table(kept_place(runs, csv)) if runs is not None else None
        if table is None or table.task != csv["task"]:
            table = table_from_file(here, Reading.of(csv), name=Path(csv["path"]).stem)
        origin = {"csv": {**csv, "path": str(here.resolve())}}
        tables[name] = OwnTable(table, origin, csv["task"])
    return tables


def _holds(path: Path, sha256: str) -> bool:
    try:
        return path.is_file() and file_sha256(path) == sha256
    except OSError:  # a folder of another machine's that may not be read here
        return False


def added_for(suite: suites.Suite, name: str) -> str | None:
    """The added dataset that a suite uses for its dataset `name`: the one of that name or, if the
    suite says `official`, the authors' own split of the built-in one. Else None."""
    from ...datasets import catalog
    from ...datasets.added import store

    there = store.names()
    if name not in catalog.built_in():
        return name if name in there else None
    own = f"{suite.official}-{name}"
    return own if suite.official and own in there else None


def added_table(added: str, name: str) -> Table:
    """The table of the added dataset `added`, under the name `name` that it has in a suite.

    Raises DatasetUnavailable if the added dataset was removed. Raises DataError if it stands for a
    built-in dataset but has another task or another number of rows, features or classes.
    """
    from ...datasets import catalog
    from ...datasets.errors import DataError, DatasetUnavailable, UnknownDataset

    try:
        card = catalog.card(added)
    except UnknownDataset:
        reason = f"{added}, which this run began with, was removed: bench data add it again"
        raise DatasetUnavailable(name, reason) from None
    if added != name:
        due = catalog.card(name)
        facts = ("task", "n_rows", "n_features", "n_classes")
        odd = [
            f"{fact} {getattr(card, fact)}, {name} has {getattr(due, fact)}"
            for fact in facts
            if getattr(card, fact) != getattr(due, fact)
        ]
        if odd:
            raise DataError(
                f"the added dataset {added!r} is not {name}: {'; '.join(odd)}. Remove it (bench "
                f"data remove {added}), or add it under another --name"
            )
    return replace(catalog.load_dataset(added), name=name)


def planned_table(
    name: str,
    described: PlannedDataset,
    *,
    files: Sequence[Path] = (),
    runs: Path | None = None,
    features: bool = True,
) -> Table:
    """The table of a dataset of a plan: a user's file (now perhaps one of `files`; from its stored
    copy in `runs` or read again), an added dataset, or a built-in one. features: False if the
    target is enough; a stored table then has no features. Raises SweepError,
    DataError."""
    from ...datasets.catalog import load_dataset

    if csv := described.csv:
        if runs is not None and not features:
            table = kept_table(kept_place(runs, csv), features=False)
            if table is not None and table.sha256 == described.sha256:
                return table
        return planned_tables([{name: described}], files, runs)[name].table
    if described.added:
        return added_table(described.added, name)
    return load_dataset(name)


def csv_name(path: Path) -> str:
    """The name of a file as a dataset.

    >>> csv_name(Path("data/My houses (2).csv")), csv_name(Path("flats.csv.gz"))
    ('my-houses-2', 'flats')
    """
    from ...datasets.added.store import stem_of

    return slug(stem_of(path))[:40] or "table"


def as_utf8(word: str) -> str:
    """A word of the command line, decoded as UTF-8.

    Tables are UTF-8. Under a locale that is not (LC_ALL=C on a server), Python leaves the bytes of
    other letters undecoded.

    >>> as_utf8("gr\\udcc3\\udcb6\\udcc3\\udc9fe"), as_utf8("größe")
    ('größe', 'größe')
    """
    try:
        word.encode()
        return word
    except UnicodeEncodeError:
        return os.fsencode(word).decode("utf-8", "replace")
