"""`bench data list`, `fetch`, `verify`, `passport` and `remove`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ...arguments import DATA
from ...completion import ADDED, DATASETS, SUITES
from ...console import ENVIRONMENT, OK, Console, common, count, size

if TYPE_CHECKING:
    from ....datasets.added.importing import Added
    from ....datasets.card import Card


@click.command("list")
@common
def data_list(console: Console) -> int:
    """List the datasets."""
    from dataclasses import asdict

    cards = _every_card(console)
    console.data([asdict(card) for card in cards])
    console.table(
        ["dataset", "task", "rows", "features", "protocol", "source", "faults"],
        [
            [c.name, c.task, c.n_rows, c.n_features, c.protocol, source_of(c), ", ".join(c.faults)]
            for c in cards
        ],
    )
    return OK


def _every_card(console: Console) -> list[Card]:
    """The cards of all datasets; an added one that was damaged is left out with a warning."""
    from ....datasets import catalog
    from ....datasets.added import store
    from ....datasets.errors import DataError

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


def added_data(one: Added, **more: Any) -> dict[str, Any]:
    """An added dataset for --json, with `more` of its kind."""
    from ....datasets.added import store

    card = one.card
    shown = ("name", "task", "n_rows", "n_features", "protocol", "licence", "origin")
    place = {"new": one.new, "card": str(store.folder() / card.name / store.CARD)}
    return {**{name: getattr(card, name) for name in shown}, **place, **more}


def added_line(one: Added, rows: str, kinds: str, known: str = "the same") -> str:
    """One line on an added dataset. known: the word for a dataset that was added before."""
    done = "added" if one.new else f"is there already, {known}"
    return f"{one.card.name}: {done}; {one.card.task}, {rows} rows, {kinds}"


@click.command("fetch", short_help="Fetch datasets into the cache.")
@click.argument("names", nargs=-1, shell_complete=DATASETS)
@click.option("--suite", shell_complete=SUITES, help="Every dataset of this suite.")
@DATA
@common
def data_fetch(console: Console, names: tuple[str, ...], suite: str | None) -> int:
    """Fetch datasets into the cache, from the mirror or their pinned addresses."""
    from ....datasets import catalog
    from ....datasets.source import fetch
    from ...planning import suite as suites
    from ...planning.own_tables import added_for

    asked = list(names)
    if suite:
        chosen = suites.load(suite)
        listed = [name for name in chosen.datasets if name not in chosen.file]
        asked += [added_for(chosen, name) or name for name in listed]
    # an unknown name is refused first
    cards = [catalog.card(name) for name in dict.fromkeys(asked)] if asked else _not_large(console)

    def look(card: Card) -> str:
        files = fetch(card)
        return count(len(files), "file") if files else "ships with scikit-learn"

    return _each(console, cards, look)


@click.command("verify")
@click.argument("names", nargs=-1, shell_complete=DATASETS)
@DATA
@common
def data_verify(console: Console, names: tuple[str, ...]) -> int:
    """Check the bytes and the shape of datasets against their cards."""
    from ....datasets import catalog

    cards = [catalog.card(name) for name in names] if names else _not_large(console)

    def look(card: Card) -> str:
        table = catalog.load_dataset(card.name)
        return f"ok: {table.n_rows} rows, {table.n_features} features"

    return _each(console, cards, look)


def _not_large(console: Console) -> list[Card]:
    """All cards but those of large datasets and of datasets that only come in an archive; these are
    printed."""
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
    from ....datasets.errors import DataError, DatasetUnavailable

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


@click.command("passport", short_help="Show the known problems of a dataset.")
@click.argument("name", shell_complete=DATASETS)
@DATA
@common
def data_passport(console: Console, name: str) -> int:
    """Show the known problems of a dataset: duplicates, leaks, drift, faults. Those of a file of
    yours are shown by `bench data inspect FILE --target COLUMN`."""
    from ....datasets import catalog
    from ....datasets.passport import passport
    from ....datasets.protocols import make_folds

    card = catalog.card(name)
    table = catalog.load_dataset(name)
    facts = passport(table, make_folds(table, card.protocol), overlaps=card.overlaps)
    console.data(facts)
    console.say(
        f"{facts['name']}: {facts['task']}, {facts['n_rows']} rows, "
        f"{facts['n_features']} features, sha256 {facts['sha256'][:16]}..."
    )
    say_flags(console, facts["flags"])
    return OK


def say_flags(console: Console, flags: Iterable[Mapping[str, str]]) -> None:
    """Print the flags of a passport, a line each."""
    shown = [f"{flag['severity']:8}{flag['id']}: {flag['detail']}" for flag in flags]
    for line in shown or ["no problems were found"]:
        console.say(line)


@click.command("remove", short_help="Delete datasets that were added.")
@click.argument("names", nargs=-1, required=True, shell_complete=ADDED)
@common
def data_remove(console: Console, names: tuple[str, ...]) -> int:
    """Delete datasets that were added; runs that used them keep their results."""
    from ....datasets import catalog
    from ....datasets.added import store
    from ....datasets.errors import DataError, UnknownDataset

    there = store.names()
    for name in names:
        if name in there:
            continue
        if name in catalog.built_in():
            raise DataError(f"{name!r} is a built-in dataset; only added ones can be removed")
        raise UnknownDataset(f"no added dataset {name[:80]!r}; added: {', '.join(there) or 'none'}")
    freed = {name: store.remove(name) for name in dict.fromkeys(names)}
    console.data(freed)
    for name, n_bytes in freed.items():
        console.say(f"{name}: removed, {size(n_bytes)}")
    return OK
