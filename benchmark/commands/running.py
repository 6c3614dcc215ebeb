"""`bench sweep`, `submit`, `resume` and `retry` on the command line; heavy imports come late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...common.portable import pin_or_restart
from ..arguments import CHECKPOINTS, DATA, RUN, GroupedCommand, options_of
from ..console import Console, Verbs, common
from ..errors import NO_RAY, check_address_form
from ..planning.option_checks import check_options
from ..planning.options import AGAIN, Options


@click.command(cls=GroupedCommand)
@options_of(Options)
@DATA
@CHECKPOINTS
@common
def sweep(console: Console, **given: Any) -> int:
    """Tune every model of a suite on every dataset, then write the tables.

    Started again under the same name it resumes or extends the run; no finished trial runs twice.
    """
    asked = Options(**given)
    check_address_form(asked.address)
    chosen = check_options(asked)  # before the heavy imports
    if asked.portable:
        pin_or_restart(own_process=Verbs.own_process)
    if asked.address or not asked.csv or asked.asynchronous or asked.device != "cpu":
        watch(console, asked.workers, asked.address, asked.dry_run)
    from .sweep import sweep_command

    return sweep_command(console, chosen, asked)


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--address",
    envvar="RAY_API_SERVER_ADDRESS",
    metavar="URL",
    help="The cluster's dashboard, such as http://head:8265.",
)
@click.option(
    "--working-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to upload: suite file, CSV and models of your own are looked up in it.",
)
@click.option("--no-wait", is_flag=True, help="Return as soon as the cluster has the job.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] SWEEP-OPTIONS...")
@common
def submit(console: Console, words: tuple[str, ...], **given: Any) -> int:
    """Run `bench sweep` with these options as a job on a cluster's head, from anywhere.

    \b
    bench submit --address http://head:8265 -- --suite uci-small --budget standard

    Shows the sweep's output and exits with its exit code. Ctrl-C leaves the job running. A run that
    is submitted again resumes.
    """
    with sweep.make_context("bench sweep", list(words)) as parsed:  # a misspelt option ends it here
        from .submit import submit_command

        return submit_command(console, parsed, words, **given)


@click.command()
@RUN
@DATA
@AGAIN
@CHECKPOINTS
@click.option(
    "--verify", is_flag=True, help="Read all predictions, run trials of damaged ones again."
)
@common
def resume(console: Console, run: Path, **given: Any) -> int:
    """Resume an interrupted run, as it was started. `bench retry` runs failed trials again, too."""
    check_address_form(given["address"])
    watch(console, given["workers"], given["address"])
    from .sweep import resume_command

    return resume_command(console, run, causes=(), **given)


@click.command()
@RUN
@click.option(
    "--cause",
    "causes",
    multiple=True,
    metavar="CAUSE[,CAUSE]",
    help="Only these: oom, gpu_oom, gpu_error, timeout, killed, nonfinite, invalid_config, error.",
)
@options_of(Options, "timeout_s", "memory_mb")
@DATA
@AGAIN
@CHECKPOINTS
@common
def retry(console: Console, run: Path, causes: tuple[str, ...], **given: Any) -> int:
    """Run failed trials again (all, or those of a cause), under larger limits if given.

    \b
    bench retry runs/uci-small-quick --cause oom,killed --memory-mb 16000
    """
    check_address_form(given["address"])
    watch(console, given["workers"], given["address"])
    from .sweep import retry_command

    causes = tuple(cause.strip() for words in causes for cause in words.split(","))
    return retry_command(console, run, causes=causes, **given)


def watch(
    console: Console, workers: int | None, address: str | None, dry_run: bool = False
) -> None:
    """If this command may start Ray, go on in a child process that this process watches."""
    if workers != 0 and address != NO_RAY and not dry_run and Verbs.own_process:
        from ..running.watched import watched

        console.teller = watched(console.tell)
