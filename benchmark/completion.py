"""Words that a shell completes: suites, models and datasets, found without heavy imports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

ROOT = Path(__file__).resolve().parents[1]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def words(known: Callable[[], Iterable[str]], *, files: bool = False) -> Completer:
    """A completer of known words; with `files` the shell completes paths where no word fits."""

    def complete(
        context: click.Context, option: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        items = [CompletionItem(word) for word in sorted(known()) if word.startswith(incomplete)]
        return items or ([CompletionItem(incomplete, type="file")] if files else [])

    return complete


def suites() -> list[str]:
    """The names of the built-in suites."""
    files = [*ROOT.glob("benchmark/suites/*.toml"), *ROOT.glob("benchmark/papers/*/suites/*.toml")]
    return [path.stem for path in files]


def models() -> list[str]:
    """The names of the registered models, each of which has a file of spaces."""
    return [path.stem for path in ROOT.glob("models/spaces/*.toml")]


def datasets() -> list[str]:
    """The names of all datasets."""
    from ..datasets import catalog

    return catalog.names()


def added() -> list[str]:
    """The names of the datasets that the user added."""
    from ..datasets.added import store

    return store.names()


SUITES = words(suites, files=True)
MODELS = words(models)
DATASETS = words(datasets)
ADDED = words(added)
