"""`bench verify` and `bench merge`: check and merge runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .arguments import DATA, RUN, SEVERAL_RUNS
from .checkpoint_options import checkpoint_options
from .console import Console, common
from .errors import check_run


@click.command(short_help="Check all checksums of a run.")
@RUN
@common
def verify(console: Console, run: Path) -> int:
    """Check every checksum of a run, and its ledger against its predictions; changes nothing.

    Names what is damaged and what a resume would run again; exit code 3 for damage.
    """
    check_run(run)
    from .commands.upkeep.verify import verify_command

    return verify_command(console, run)


@click.command(short_help="Unite runs of several machines or people.")
@SEVERAL_RUNS
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR/NAME", help="The new run."
)
@click.option("--leave-out", is_flag=True, help="Merge without the trials that are refused.")
@click.option("--keep-first", is_flag=True, help="Where runs differ, the one named first counts.")
@click.option(
    "--csv",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A table of the runs, where it is not at their paths; known by its sha256. Repeatable.",
)
@click.option(
    "--trust",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Allow the runs to import this class of yours. Repeatable.",
)
@DATA
@checkpoint_options
@common
def merge(console: Console, runs: tuple[Path, ...], out: Path, **given: Any) -> int:
    """Unite runs of one suite, made by several machines or people; nothing is run again.

    \b
    bench merge runs/mine /mnt/yours --out runs/ours

    Every trial is verified: its id from the data, code and versions here, its scores from its
    predictions. One that fails this is refused by name, and so is a contradiction of two runs.
    """
    from .commands.upkeep.merge import merge_command

    return merge_command(console, runs, out, **given)
