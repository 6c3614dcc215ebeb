"""`bench data`: list, fetch, check, add and remove datasets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console import ENVIRONMENT, OK, USAGE, Console, count

if TYPE_CHECKING:
    from ...datasets.added.importing import Added
    from ...datasets.card import Card


def datasets_command(console: Console) -> int:
    """`bench data list`."""
    from dataclasses import asdict

    cards = _every_card(console)
    console.data([asdict(card) for card in cards])
    console.table(
        ["dataset", "task", "rows", "features", "protocol", "source", "faults"],
        [
            [
                c.name,
                c.task,
                c.n_rows,
                c.n_features,
                c.protocol,
                source_of(c),
                ", ".join(c.faults),
            ]
            for c in cards
        ],
    )
    return OK


def _every_card(console: Console) -> list[Card]:
    """The cards of all datasets; an added one that was damaged is left out with a warning."""
    from ...datasets import catalog
    from ...datasets.added import store
    from ...datasets.errors import DataError

    cards = []
    for name in catalog.names():
        try:
            cards.append(catalog.card(name))
        except DataError as error:
            console.warn(f"{error} (in {store.folder()}: bench data remove {name})")
    return cards


def source_of(card: Card) -> str:
    """Where the bytes of a dataset come from, in a few words."""
    if card.origin:
        return f"added: {card.origin}"
    if card.archive:
        return "archive"
    return "download" if card.files else "scikit-learn"


def fetch_command(console: Console, names: tuple[str, ...], suite: str | None, **given: Any) -> int:
    """`bench data fetch`."""
    from ...datasets import catalog
    from ...datasets.source import fetch
    from ..planning import suite as suites
    from ..planning.own_tables import added_for

    asked = list(names)
    if suite:
        found = suites.load(suite)
        asked += [added_for(found, name) or name for name in found.datasets]
    # an unknown name is refused first
    cards = [catalog.card(name) for name in dict.fromkeys(asked)] if asked else _not_large(console)

    def look(card: Card) -> str:
        files = fetch(card, **given)
        return count(len(files), "file") if files else "ships with scikit-learn"

    return _each(console, cards, look)


def verify_command(console: Console, names: tuple[str, ...], **given: Any) -> int:
    """`bench data verify`: bytes against checksums, shapes against cards."""
    from ...datasets import catalog

    cards = [catalog.card(name) for name in names] if names else _not_large(console)

    def look(card: Card) -> str:
        table = catalog.load_dataset(card.name, **given)
        return f"ok: {table.n_rows} rows, {table.n_features} features"

    return _each(console, cards, look)


def _not_large(console: Console) -> list[Card]:
    """Every card but those of large datasets and of those that come in an archive alone, which are
    listed."""
    cards = _every_card(console)
    left = [f"{c.name} ({sum(f.bytes for f in c.files) / 1e9:.1f} GB)" for c in cards if c.large]
    if left:
        console.say(f"large datasets are left out unless named: {', '.join(left)}")
    alone = [c.name for c in cards if c.archive]
    if alone:
        console.say(f"only in an archive of arrays (bench data add): {', '.join(alone)}")
    return [card for card in cards if not card.large and not card.archive]


def _each(console: Console, cards: Iterable[Card], look: Callable[[Card], str]) -> int:
    """Print what `look` returns for each dataset, with those that are missing or wrong; returns the
    exit code."""
    from ...datasets.errors import DataError, DatasetUnavailable

    results: dict[str, str] = {}
    wrong = 0
    for card in cards:
        try:
            results[card.name] = look(card)
        except DatasetUnavailable as error:
            results[card.name] = f"not available: {error.reason}"
            wrong += 1
        except DataError as error:
            results[card.name] = f"WRONG: {error}"
            wrong += 1
    console.data(results)
    console.table(["dataset", "result"], [[k, v] for k, v in results.items()])
    return ENVIRONMENT if wrong else OK


def passport_command(
    console: Console, name: str, target: str | None, is_csv: bool, **given: Any
) -> int:
    """`bench data passport`."""
    from ...datasets import catalog
    from ...datasets.errors import DatasetUnavailable
    from ...datasets.infer import table_from_csv
    from ...datasets.passport import passport
    from ...datasets.protocols import make_folds
    from ..errors import SweepError

    others = []
    if is_csv:
        if target is None:
            raise SweepError("--csv needs --target COLUMN, the column to predict")
        table = table_from_csv(name, target)
        folds = make_folds(table, "kfold")
    else:
        if target is not None:
            raise SweepError("--target goes with --csv")
        card = catalog.card(name)
        table = catalog.load_dataset(name, **given)
        folds = make_folds(table, card.protocol)
        for other in card.overlaps:
            try:
                others.append(catalog.load_dataset(other, **given))
            except DatasetUnavailable:
                console.warn(f"{other}, which shares rows with {name}, is not here to compare with")
    found = passport(table, folds, others=others)
    console.data(found)
    console.say(
        f"{found['name']}: {found['task']}, {found['n_rows']} rows, "
        f"{found['n_features']} features, sha256 {found['sha256'][:16]}..."
    )
    if not found["flags"]:
        console.say("no problems were found")
    for flag in found["flags"]:
        console.say(f"{flag['severity']:8}{flag['id']}: {flag['detail']}")
    return OK


def add_command(
    console: Console, path: Path, form: str, name: str | None, missing: tuple[str, ...]
) -> int:
    """`bench data add`: the datasets in a folder or tar, each stored with a card."""
    import tempfile

    from ...datasets.added import store
    from ...datasets.added.layout import folders_in
    from ...datasets.added.tar import unpack_arrays
    from ...datasets.errors import DataError

    if form != "arrays":
        raise DataError(f"unknown format {form!r}; known: arrays")
    if not path.exists():
        raise DataError(f"{path} does not exist: give a folder of arrays, or a tar of it")
    if path.is_dir():
        return _add_folders(console, path, folders_in(path), path.absolute().name, name, missing)
    with store.incoming() as scratch, tempfile.TemporaryDirectory(dir=scratch) as unpacked:
        unpack_arrays(path, Path(unpacked))
        folders = folders_in(Path(unpacked))
        return _add_folders(console, Path(unpacked), folders, path.name, name, missing)


def _add_folders(
    console: Console,
    root: Path,
    folders: list[Path],
    origin: str,
    name: str | None,
    missing: tuple[str, ...],
) -> int:
    """Add each folder; one that is refused is named with the reason, and the others are added.
    Returns the exit code."""
    from ...datasets import catalog
    from ...datasets.added import importing
    from ...datasets.added.layout import read_folder
    from ...datasets.errors import DataError

    if not folders:
        raise DataError(
            f"{origin} holds no dataset of arrays: no folder in it has info.json and y_train.npy "
            "(or Y.npy)"
        )
    stem = re.sub(r"\.(tar(\.\w+)?|t[gbx]z)$", "", origin)
    built_in, several = set(catalog.built_in()), len(folders) > 1
    added: list[Added] = []
    refused: dict[str, str] = {}
    for folder in folders:
        place = folder.relative_to(root).as_posix()
        shown = origin if place == "." else f"{origin}/{place}"
        try:
            found = read_folder(folder, shown, name=stem if place == "." else None)
            wanted = importing.name_of(found, name, several, built_in)
            if any(wanted == one.card.name for one in added):
                raise DataError(
                    f"another folder here has the name {wanted!r}, too: add this one alone, with "
                    "a --name"
                )
            added.append(importing.add(found, wanted, f"arrays, {shown}", missing))
        except DataError as error:
            if not several:
                raise
            text = str(error)
            refused[shown] = text if text.startswith(shown) else f"{shown}: {text}"
            console.warn(f"refused: {refused[shown]}")
            continue
        console.say(_added_line(added[-1]))
    stand = [f"{one.stands_for} = {one.card.name}" for one in added if one.stands_for]
    if stand:
        console.say(
            "taken for RTDL's own split by folder, form and the sizes of its Table 1, and used by "
            f"suite rtdl: {', '.join(stand)}"
        )
    console.data(
        {
            "added": [
                {
                    "name": one.card.name,
                    "new": one.new,
                    "stands_for": one.stands_for,
                    "task": one.card.task,
                    "sizes": list(one.card.options["sizes"]),
                    "n_features": one.card.n_features,
                    "origin": one.card.origin,
                }
                for one in added
            ],
            "refused": refused,
        }
    )
    return USAGE if refused else OK


def _added_line(one: Added) -> str:
    card = one.card
    sizes = " / ".join(f"{n:,}" for n in card.options["sizes"])
    kinds = f"{card.options['numeric']} numeric"
    kinds += f", {card.options['binary'] + card.options['categorical']} categorical features"
    done = "added" if one.new else "is there already, the same"
    return f"{card.name}: {done}; {card.task}, {sizes} rows, {kinds}"


def remove_command(console: Console, names: tuple[str, ...]) -> int:
    """`bench data remove`: delete added datasets; the built-in ones have no data to delete."""
    from ...datasets import catalog
    from ...datasets.added import store
    from ...datasets.errors import DataError, UnknownDataset

    there = store.names()
    for name in names:
        if name in there:
            continue
        if name in catalog.built_in():
            raise DataError(f"{name!r} is a built-in dataset; only added ones can be removed")
        raise UnknownDataset(f"no added dataset {name[:80]!r}; added: {', '.join(there) or 'none'}")
    freed = {name: store.remove(name) for name in dict.fromkeys(names)}
    console.data(freed)
    for name, size in freed.items():
        console.say(f"{name}: removed, {size / 1e6:.1f} MB")
    return OK
