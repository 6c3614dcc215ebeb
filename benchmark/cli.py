"""The verbs of `bench`; heavy modules are imported by the verb that needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..common.network import PASSWORD_FILE, password_from_file
from ..common.portable import pin_or_restart
from .arguments import (
    ADDRESS,
    ALLOW_CODE_CHANGE,
    DATA,
    FALLBACK,
    MEMORY,
    PAPER,
    RUN,
    RUNS,
    SEVERAL_RUNS,
    TIMEOUT,
    URI,
    WORKERS,
    clean_options,
    compare_options,
    experiment_options,
    logs_options,
    report_options,
    reproduce_options,
    sweep_options,
)
from .checkpoint_options import checkpoint_options
from .cli_beside import beside, portfolio
from .cli_data import data
from .cli_lists import models, runs, suites
from .cli_nightly import baseline, nightly
from .cli_publish import publish
from .cli_track import fit, track, ui
from .cli_upkeep import merge, verify
from .completion import complete_runs, script
from .console import OK, Console, Verbs, common
from .errors import check_address_form, check_run
from .option_checks import check_options, without_choice


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
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
    try:
        password_from_file()
    except OSError as error:
        raise click.UsageError(f"{PASSWORD_FILE}: {error}") from error


@main.command(short_help="Tune every model of a suite on every dataset; write tables.")
@sweep_options
@checkpoint_options
@common
def sweep(console: Console, **given: Any) -> int:
    """Tune every model of a suite on every dataset, then write the tables.

    Started again under the same name it resumes or extends the run; no finished trial runs twice.
    """
    check_address_form(given["address"])
    chosen = check_options(given)  # before the heavy imports
    if given["portable"]:
        pin_or_restart(own_process=Verbs.own_process)
    from .running.early_start import early_ray

    with early_ray(chosen, given) as ray:
        from .commands.sweep import sweep_command

        return sweep_command(console, chosen, ray, **given)


@main.command(
    short_help="Run a sweep on a Ray cluster, from outside it.",
    context_settings={"ignore_unknown_options": True},
)
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
        from .commands.submit import submit_command

        return submit_command(console, parsed, words, **given)


@main.command()
@RUN
@WORKERS
@click.option("--retry-failed", is_flag=True, help="Run failed trials again, too.")
@click.option(
    "--verify", is_flag=True, help="Read all predictions, run trials of damaged ones again."
)
@ADDRESS
@DATA
@URI
@ALLOW_CODE_CHANGE
@checkpoint_options
@common
def resume(console: Console, run: Path, retry_failed: bool, **given: Any) -> int:
    """Resume an interrupted run, as it was started."""
    check_address_form(given["address"])
    from .commands.sweep import resume_command

    return resume_command(console, run, causes=None if retry_failed else (), **given)


@main.command(short_help="Run failed trials again, under larger limits if given.")
@RUN
@click.option(
    "--cause",
    "causes",
    multiple=True,
    metavar="CAUSE[,CAUSE]",
    help="Only these: oom, gpu_oom, timeout, killed, nonfinite, invalid_config, error.",
)
@TIMEOUT
@MEMORY
@WORKERS
@ADDRESS
@DATA
@URI
@ALLOW_CODE_CHANGE
@checkpoint_options
@common
def retry(console: Console, run: Path, causes: tuple[str, ...], **given: Any) -> int:
    """Run failed trials again (all, or those of a cause), under larger limits if given.

    \b
    bench retry runs/uci-small-quick --cause oom,killed --memory-mb 16000
    """
    check_address_form(given["address"])
    from .commands.sweep import retry_command

    causes = tuple(cause.strip() for words in causes for cause in words.split(","))
    return retry_command(console, run, causes=causes, **given)


@main.command(short_help="Show a run's progress.")
@RUN
@click.option("--watch", is_flag=True, help="Until the run ends: workers, queue, best so far.")
@click.option("--every", type=click.FloatRange(min=0.2), help="Seconds between updates of --watch.")
@common
def status(console: Console, run: Path, watch: bool, every: float | None) -> int:
    """Show a run's progress: trials planned, done, failed by cause, running, and time to go.

    With --watch until the run ends or Ctrl-C: one line per update where standard output is not a
    terminal, one JSON object per line with --json.
    """
    check_run(run)
    from .commands.status import status_command, watch_command

    if watch or every:
        return watch_command(console, run, every)
    return status_command(console, run)


@main.command(short_help="Show the output of trials, or the events of a run.")
@RUN
@logs_options
@common
def logs(console: Console, run: Path, **given: Any) -> int:
    """Show the output of trials, also of those that failed or lost their worker."""
    from .commands.logs import logs_command

    return logs_command(console, run, **given)


@main.command(short_help="Remove files that a run does not need.")
@click.argument("run", type=click.Path(path_type=Path), metavar="[DIR/NAME]", required=False)
@clean_options
@common
def clean(console: Console, run: Path | None, everything: bool, parts: Any, **given: Any) -> int:
    """Remove files of a run that are not needed any more, or those named by options.

    Without options: files that crashes left behind, and the checkpoints of a finished run. The
    ledger, the predictions and a run in use are never touched. Tables and MLflow's files can be
    made again from the ledger (bench report, bench track sync).
    """
    from .commands.clean import PARTS, clean_command

    return clean_command(console, run, parts=PARTS if everything else parts, **given)


@main.command(short_help="Write the report of one or several runs.")
@click.argument(
    "runs",
    nargs=-1,
    type=click.Path(path_type=Path),
    metavar="DIR/NAME...",
    shell_complete=complete_runs,
)
@report_options
@common
def report(
    console: Console, runs: tuple[Path, ...], results: Path | None, out: Path | None, **how: Any
) -> int:
    """Write the report of one or several runs: scores, ranks, tests, coverage, costs.

    \b
    bench report runs/uci-small-quick
    bench report --from results.csv
    bench report --beside rtdl
    bench report --from results.csv --where kind=single --where method!=mlp --ranking available
    """
    if bool(runs) == bool(results) and not (how["beside"] and not runs):
        raise click.UsageError(
            "name runs, --from a CSV, or --beside alone: bench report runs/uci-small-quick"
        )
    from .commands.report import report_command

    return report_command(console, runs, results, out, **how)


@main.command(short_help="Show where a number in a table comes from.")
@click.argument("table")
@click.argument("dataset")
@click.argument("model")
@click.option(
    "--run",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR/NAME",
    help="Default: the only run with the dataset. Repeatable, for a report of several runs.",
)
@FALLBACK
@click.option(
    "--portfolio",
    type=click.IntRange(1),
    metavar="N",
    help="For `regimes ... portfolio`: its size, as given to bench report --portfolio.",
)
@PAPER
@RUNS
@DATA
@common
def explain(console: Console, table: str, dataset: str, model: str, **given: Any) -> int:
    """Show the trials behind a cell of TABLE, how its number is computed from them, and the command
    that makes it again.

    TABLE is scores, ranks, seeds, leaderboard, regimes (default, tuned and ensembled) or a
    published table (`bench reproduce --list`).

    \b
    bench explain scores iris knn --run runs/smoke-quick
    bench explain npt-table-11 yacht catboost --run runs/npt-small-paper
    """
    from .commands.explain import explain_command

    return explain_command(console, table, dataset, model, **given)


@main.command(short_help="Analyse a run's trials and predictions; fits nothing.")
@SEVERAL_RUNS
@click.option(
    "--what",
    type=click.Choice(["budgets", "tuners", "ensembles", "calibration", "metric", "warm-start"]),
    required=True,
    help="budgets: ranks after n trials; tuners: samplers compared (one run: by replay); "
    "ensembles: greedy ensembles; calibration: ECE, Brier; metric: another metric; warm-start: "
    "runs with and without one.",
)
@click.option("--metric", help="For --what metric: accuracy, log_loss, mae, ...")
@click.option("--out", type=click.Path(path_type=Path), help="Default: report/ in the first run.")
@DATA
@common
def analyse(console: Console, runs: tuple[Path, ...], **given: Any) -> int:
    """Analyse the stored trials and predictions of runs; nothing is fitted.

    \b
    bench analyse runs/uci-small-quick --what ensembles
    bench analyse runs/random runs/tpe --what tuners
    bench analyse runs/random --what tuners
    """
    from .commands.analyse import analyse_command

    return analyse_command(console, runs, **given)


@main.command(short_help="Show what changed from one run to another.")
@click.argument("base", type=click.Path(path_type=Path), metavar="RUN_A")
@click.argument("new", type=click.Path(path_type=Path), metavar="RUN_B")
@compare_options
@common
def compare(console: Console, base: Path, new: Path, **given: Any) -> int:
    """Show what changed from RUN_A to RUN_B: scores, coverage, failures, CPU time.

    \b
    bench compare runs/nightly-1 runs/nightly-2 --fail-on-regression
    """
    from .commands.compare import compare_command

    return compare_command(console, base, new, **given)


@main.command(short_help="Print a paper's published values beside ours.")
@click.argument("table", required=False)
@reproduce_options
@common
def reproduce(console: Console, table: str | None, listing: bool, **given: Any) -> int:
    """Run what a paper's table needs, then print the published values beside ours. --list names
    every table and figure of the papers, with its command or why there is none.

    \b
    bench reproduce --list
    bench reproduce npt-table-11 --budget reduced
    bench reproduce rtdl-table-2 --from results.csv
    """
    if given["results"] is not None:
        from .commands.papers.from_results import reproduce_from_results

        return reproduce_from_results(console, table, **given)
    if listing and table is not None:
        raise click.UsageError(f"--list names all tables; leave it out to make {table!r}")
    given = without_choice(given, "results", "out")
    from .commands.papers.reproduce import list_tables, reproduce_command

    if table is None:
        return list_tables(console, given["paper"])
    return reproduce_command(console, table, **given)


@main.command(short_help="Run an experiment of a paper that is not a sweep.")
@click.argument("name", required=False)
@experiment_options
@common
def experiment(console: Console, name: str | None, paper: Path | None, **given: Any) -> int:
    """Run an experiment: lookup, interventions, corruption, memory, cost, ...; without a name, list
    them.

    \b
    bench experiment
    bench experiment npt-lookup

    Prints its tables, published numbers beside ours, and writes them with figures and facts.json
    to OUT/NAME. On a CPU a second run writes the same bytes but for facts.json and measured times.
    """
    from .commands.papers.experiment import experiment_command, list_experiments

    if name is None:
        return list_experiments(console, paper)
    return experiment_command(console, name, paper, **given)


@main.command(short_help="Predict every row of a file with a saved model.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="CSV to write.")
@click.option(
    "--trust",
    multiple=True,
    metavar="PACKAGE.MODULE:CLASS",
    help="Allow the file to import this class. Repeatable.",
)
@click.option(
    "--keep/--no-keep",
    default=True,
    show_default=True,
    help="Copy the columns that the model does not know, such as identifiers.",
)
@checkpoint_options
@common
def predict(console: Console, model: Path, file: Path, out: Path, **given: Any) -> int:
    """Predict every row of a file with a model that `bench fit` saved."""
    from .commands.predict import predict_file

    if given["trust"]:
        from .running.request import import_folders

        import_folders(given["trust"])
    n = predict_file(model, file, out, warn=console.warn, **given)
    console.data({"rows": n, "out": str(out)})
    console.say(f"{n} predictions in {out}")
    return OK


for listing in (models, suites, runs):
    main.add_command(listing)
main.add_command(fit)


@main.command(short_help="Print what makes a shell complete names.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def completion(console: Console, shell: str) -> int:
    """Print the lines with which a shell completes commands, options and names.

    \b
    bash, in ~/.bashrc:  eval "$(bench completion bash)"
    zsh, in ~/.zshrc:    eval "$(bench completion zsh)"
    fish:                bench completion fish > ~/.config/fish/completions/bench.fish
    """
    text = script(shell, main)
    console.data({"shell": shell, "script": text})
    console.say(text)
    return OK


main.add_command(data)
main.add_command(beside)
main.add_command(portfolio)
main.add_command(publish)
main.add_command(track)
main.add_command(ui)
main.add_command(verify)
main.add_command(merge)
main.add_command(nightly)
main.add_command(baseline)


@main.command(short_help="Check this machine or its cluster, with advice.")
@ADDRESS
@RUNS
@DATA
@common
def doctor(console: Console, runs: Path, **given: Any) -> int:
    """Check this machine: libraries, Ray, disk, limits, datasets, MLflow.

    With --address also the cluster: versions, clock and disk of every node, and who may use it.
    """
    check_address_form(given["address"])
    from .commands.doctor import doctor_command

    return doctor_command(console, runs, **given)


if __name__ == "__main__":
    main()
