"""The commands of `bench`, by name; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from ..common.network import PASSWORD_FILE, ask_loopback_directly, password_from_file
from .console import Verbs

# name: (its module in commands/, what the list of commands says of it)
COMMANDS = {
    "analyse": ("analyse", "Score a run by another metric; fits nothing."),
    "baseline": ("nightly.group", "Accept the baseline of bench nightly."),
    "beside": ("listings", "Published results that can stand beside those of a run."),
    "clean": ("upkeep.clean", "Remove files that a run does not need."),
    "compare": ("compare", "Show what changed from one run to another."),
    "data": ("data.group", "List, fetch, check and add datasets."),
    "doctor": ("doctor", "Check this machine or its cluster, with advice."),
    "experiment": ("papers.group", "Run an experiment of a paper that is not a sweep."),
    "explain": ("explain", "Show where a number in a table comes from."),
    "export": ("publish.export", "Write the trials of a run for Optuna's tools, CSV, Parquet."),
    "fit": ("fit", "Fit a run's chosen configuration on all data and save it."),
    "logs": ("logs", "Show the output of trials, or the events of a run."),
    "merge": ("upkeep.merge", "Unite runs of several machines or people."),
    "models": ("models", "List the models, show one with its spaces, or check one."),
    "nightly": ("nightly.group", "Judge this checkout against its accepted baseline."),
    "predict": ("predict", "Predict every row of a file with a saved model."),
    "publish": ("publish.command", "Write a static site with the leaderboard of runs."),
    "report": ("report", "Write the report of one or several runs."),
    "reproduce": ("papers.group", "Print a paper's published values beside ours."),
    "resume": ("running", "Resume an interrupted run, as it was started."),
    "retry": ("running", "Run failed trials again, under larger limits if given."),
    "runs": ("listings", "List the runs in a folder, with their state."),
    "status": ("status", "Show a run's progress."),
    "submit": ("running", "Run a sweep on a Ray cluster, from outside it."),
    "suites": ("listings", "List the suites, or show one: datasets, budgets, models."),
    "sweep": ("running", "Tune every model of a suite on every dataset; write tables."),
    "track": ("track", "Bring runs into MLflow."),
    "ui": ("track", "Serve the MLflow UI for a run, on this machine only."),
    "verify": ("upkeep.verify", "Check all checksums and scores of a run."),
}


class Late(Mapping[str, click.Command]):
    """The commands by name, imported as they are looked up."""

    def __getitem__(self, name: str) -> click.Command:
        module = import_module(f".commands.{COMMANDS[name][0]}", __package__)
        command: click.Command = getattr(module, name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Bench(Verbs):
    """The group of all commands, which lists them without importing them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click has it, with what `COMMANDS` says."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in COMMANDS.items()])


@click.group(
    cls=Bench,
    commands=Late(),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="tabsweep", prog_name="bench")
def main() -> None:
    """Tune tabular models against each other, survive anything, and print the comparison tables.

    \b
    bench sweep --suite uci-small            tune, track, report
    bench status runs/uci-small-quick        show its progress
    bench report runs/uci-small-quick        write the tables again
    bench sweep --csv houses.csv --target price

    Exit codes: 0 ok, 1 some trials failed (or an unexpected error), 2 usage, 3 environment, 4
    regression, 5 nothing to do, 6 done, but MLflow lacks some of it, 130 interrupted.
    """
    ask_loopback_directly()
    try:
        password_from_file()
    except OSError as error:
        raise click.UsageError(f"{PASSWORD_FILE}: {error}") from error


if __name__ == "__main__":
    main()
