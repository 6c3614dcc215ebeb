"""Checks of the options of `bench sweep` before anything heavy is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..arguments import flag_of
from ..errors import SweepError, check_name, check_run
from .options import FIELDS, READING, Options

if TYPE_CHECKING:
    from .suite import Suite


def sizes_asked(text: str | None) -> list[int]:
    """The training rows that --sizes names, ascending; [] for None. Raises SweepError.

    >>> sizes_asked("300,1000")
    [300, 1000]
    """
    if text is None:
        return []
    from ...datasets.protocols import nested

    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise SweepError(f"--sizes {text}: whole numbers of rows, such as 300,1000,3000")
    sizes = [int(part) for part in parts]
    try:
        nested(sizes)
    except ValueError as error:
        raise SweepError(f"--sizes {text}: {error}") from None
    return sizes


def check_options(asked: Options) -> Suite | None:
    """The suite that the options of `bench sweep` name, None for --csv.

    Raises SweepError for options that exclude each other, SuiteError, UnknownDataset, NoRun.
    """
    from ...datasets import catalog
    from . import suite as suites
    from .own_tables import targets_for

    if (asked.suite is None) != bool(asked.csv):
        raise SweepError("what to sweep: give either --suite NAME or --csv FILE --target COLUMN")
    if asked.name is not None:
        check_name(asked.name)
    if asked.portable and asked.device != "cpu":
        raise SweepError("--portable pins the instruction sets of processors; leave --device out")
    for folder in asked.reuse:
        check_run(folder)
    sizes_asked(asked.sizes)
    for flag, column in (("--group", asked.group), ("--time", asked.time)):
        if asked.sizes and column:
            raise SweepError(f"--sizes draws single rows: it does not go with {flag}")
    if asked.minutes is not None:
        check_minutes(asked)
    if asked.suite is None:
        if asked.predict_missing and not asked.drop_missing_target:
            raise SweepError("--predict-missing needs --drop-missing-target")
        targets_for(asked.csv, asked.target)
        if asked.datasets:
            raise SweepError("--dataset goes with --suite, not with --csv")
        return None
    for name in asked.given("target", "predict_missing", *READING):
        flag = flag_of(FIELDS[name])
        raise SweepError(f"{flag} goes with --csv, not with --suite (see docs/suites.md)")
    chosen = suites.load(asked.suite)
    chosen.budget(asked.budget)
    for name in chosen.file:
        if name in catalog.built_in():
            raise SweepError(
                f"suite {chosen.name!r}: file.{name} has the name of a built-in dataset; rename it"
            )
    for name in (*asked.datasets, *chosen.datasets, *chosen.offline):
        if name not in chosen.file:
            catalog.card(name)
    return chosen


def check_minutes(asked: Options) -> None:
    """Raises SweepError where `minutes` stands beside what would plan otherwise."""
    others = asked.given("suite", "budget", "trials", "bag", "validation", "asynchronous")
    if others:
        flag = flag_of(FIELDS[next(iter(others))])
        raise SweepError(f"--minutes makes the plan for files of --csv: leave {flag} out")
