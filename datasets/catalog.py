"""Datasets by name: the list of names, cards, tables and folds."""

from __future__ import annotations

from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.text import one_line, suggest
from .added import store
from .card import Card, read_card
from .errors import UnknownDataset

if TYPE_CHECKING:
    from .protocols import Fold
    from .table import Table

CARDS = Path(__file__).parent / "cards"


@remember
def _paths() -> dict[str, Path]:
    return dict(sorted((path.stem, path) for path in CARDS.glob("*.toml")))


def built_in() -> list[str]:
    """The names of the datasets that have a card in this folder, sorted; reads no card."""
    return list(_paths())


def names() -> list[str]:
    """The names of all datasets, those that were added (`bench data add`) too, sorted; reads no
    card."""
    return sorted({*_paths(), *store.names()})


@remember
def _built_in_card(name: str) -> Card:
    return read_card(_paths()[name])


def card(name: str) -> Card:
    """The card of dataset `name`; UnknownDataset, with the nearest names, where there is none. A
    built-in dataset comes before an added one of its name."""
    if name in _paths():
        return _built_in_card(name)
    if name in store.names():
        return store.card(name)
    raise UnknownDataset(f"unknown dataset {one_line(name)!r}; {suggest(name, names())}")


def load_dataset(
    name: str, *, mirror: str | Path | None = None, cache: str | Path | None = None
) -> Table:
    """The table of dataset `name`, in memory.

    Parameters
    ----------
    name
        One of `tabsweep.datasets.catalog.names()`; `bench data list` shows them with task, size,
        licence and protocol, `datasets/cards/` has a file for each built-in one. "iris", "wine",
        "digits", "diabetes" and "breast-cancer-wdbc" come with scikit-learn, without a download.
    mirror
        A directory or base URL that holds the files; default: the environment's TABSWEEP_MIRROR.
    cache
        Where downloads are kept; default: TABSWEEP_CACHE, or ~/.cache/tabsweep.

    Returns
    -------
    Table
        `frame` (the features: float64 or categorical columns), `target` (class codes, or numbers
        for regression), `task`, `classes`; `rows(index)` gives the features of some rows.

    Files come from the cache, the mirror or their pinned URLs, in that order, and are checked by
    sha256 each time. Errors, all of them ValueErrors: UnknownDataset (with the nearest names),
    DatasetUnavailable (with what was tried), ChecksumMismatch, DataError.

    >>> load_dataset("iris").n_rows
    150
    """
    from .parsers import parse
    from .source import fetch

    wanted = card(name)
    return parse(wanted, fetch(wanted, mirror=mirror, cache=cache))


def splits(
    name: str,
    protocol: str | None = None,
    *,
    seed: int = 0,
    mirror: str | Path | None = None,
    cache: str | Path | None = None,
) -> list[Fold]:
    """The folds of dataset `name` under `protocol`; default: the protocol of its card.

    `protocol` is one of "kfold", "fivefold", "holdout", "official", "official-permuted", "rtdl" and
    "cheatt" (`datasets/protocols.py`), `seed` that of the shuffling. Each fold has the row numbers
    `train`, `val` and `test`. ValueError for a protocol that the dataset does not support; the
    other parameters and errors are those of `load_dataset`.

    >>> fold = splits("iris")[0]
    >>> len(fold.train), len(fold.val), len(fold.test)
    (104, 31, 15)
    """
    from .protocols import make_folds

    table = load_dataset(name, mirror=mirror, cache=cache)
    return make_folds(table, card(name).protocol if protocol is None else protocol, seed=seed)
