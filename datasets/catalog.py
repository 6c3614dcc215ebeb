"""Which datasets are there, and how do I get one by its name?"""

from __future__ import annotations

from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.text import one_line, suggest
from .card import Card, read_card
from .errors import UnknownDataset

if TYPE_CHECKING:
    from .protocols import Fold
    from .table import Table

CARDS = Path(__file__).parent / "cards"


@remember
def _paths() -> dict[str, Path]:
    return dict(sorted((path.stem, path) for path in CARDS.glob("*.toml")))


def names() -> list[str]:
    """The ids of all datasets, sorted; no card is read for it."""
    return list(_paths())


@remember
def card(name: str) -> Card:
    """The card of `name`; UnknownDataset, with a suggestion, where there is none."""
    paths = _paths()
    if name not in paths:
        raise UnknownDataset(f"unknown dataset {one_line(name)!r}; {suggest(name, paths)}")
    return read_card(paths[name])


def load_dataset(
    name: str, *, mirror: str | Path | None = None, cache: str | Path | None = None
) -> Table:
    """The table of dataset `name`.

    Its files come from the cache, a mirror (a directory or a base URL; default TABSWEEP_MIRROR)
    or their pinned URLs, in that order, and are checked by sha256 each time. Errors:
    UnknownDataset, DatasetUnavailable, ChecksumMismatch, DataError.

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
    """The folds of dataset `name` under `protocol`, or under its card's usual one.

    >>> fold = splits("iris")[0]
    >>> len(fold.train), len(fold.val), len(fold.test)
    (105, 30, 15)
    """
    from .protocols import make_folds

    table = load_dataset(name, mirror=mirror, cache=cache)
    return make_folds(table, card(name).protocol if protocol is None else protocol, seed=seed)
