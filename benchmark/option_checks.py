"""Checks of options before anything heavy is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import COLUMNS
from .errors import SweepError, check_name, check_run

if TYPE_CHECKING:
    from .planning.suite import Suite


def check_options(given: dict[str, Any]) -> Suite | None:
    """The suite that the options of `bench sweep` name, None for --csv.

    Raises SweepError for options that exclude each other, SuiteError, UnknownDataset, NoRun.
    """
    from ..datasets import catalog
    from .planning import suite as suites
    from .planning.own_tables import csv_names, targets_for
    from .planning.portfolios import portfolio_file

    if given["warm_start"] is not None:
        portfolio_file.load(given["warm_start"])
    if (given["suite"] is None) != bool(given["csv"]):
        raise SweepError("what to sweep: give either --suite NAME or --csv FILE --target COLUMN")
    if given["name"] is not None:
        check_name(given["name"])
    if given["portable"] and given["device"] != "cpu":
        raise SweepError("--portable pins the instruction sets of processors; leave --device out")
    for folder in given["reuse"]:
        check_run(folder)
    if given["csv"]:
        targets_for(given["csv"], given["target"])
        csv_names(given["csv"])
        if given["datasets"]:
            raise SweepError("--dataset goes with --suite, not with --csv")
        return None
    for option in ("target", "task", *COLUMNS):
        if given[option]:
            raise SweepError(f"--{option} goes with --csv, not with --suite (see docs/suites.md)")
    chosen = suites.load(given["suite"])
    chosen.budget(given["budget"])
    for name in chosen.file:
        if name in catalog.built_in():
            raise SweepError(
                f"suite {chosen.name!r}: file.{name} has the name of a built-in dataset; rename it"
            )
    for name in (*given["datasets"], *chosen.datasets, *chosen.offline):
        if name not in chosen.file:
            catalog.card(name)
    return chosen


def without_choice(given: dict[str, Any], *more: str) -> dict[str, Any]:
    """The options without those of `--from`, CHOICE and `more`. Raises SweepError where one of them
    is given."""
    own = ("where", "rename", "untuned", *more)
    used = [name for name in own if given[name]]
    if used:
        raise SweepError(f"--{used[0].replace('_', '-')} goes with --from, a CSV of results")
    return {name: value for name, value in given.items() if name not in own}
