"""What does `bench` offer? Verbs; a suite file says the rest. Heavy imports wait their turn."""

from __future__ import annotations

import atexit
import gc
from pathlib import Path
from typing import Any

import click

from .console import ENVIRONMENT, NOTHING, OK, Face, by_reason, common, count, duration

# Python ends with a search for cycles in all that a command imported and made, which the system
# takes back without it: half a second after a large report.
atexit.register(gc.freeze)

RUNS = click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="TABSWEEP_RUNS",
    default=Path("runs"),
    show_default=True,
    help="Folder of runs; its other runs are read-only caches.",
)
MIRROR = click.option(
    "--mirror",
    envvar="TABSWEEP_MIRROR",
    help="Folder or base URL that holds the datasets' files (MANIFEST.csv).",
)
CACHE = click.option("--cache", envvar="TABSWEEP_CACHE", help="Folder of downloaded files.")
URI = click.option(
    "--tracking-uri",
    envvar="TABSWEEP_TRACKING_URI",
    help="MLflow server; default: SQLite in the run's folder. 'none' switches tracking off.",
)
WORKERS = click.option(
    "--workers",
    type=click.IntRange(min=0),
    help="CPUs for trials; default all. 0 runs in this process, for a debugger.",
)
ADDRESS = click.option(
    "--address",
    default="local",
    show_default=True,
    help="Ray: local, auto (the cluster of this machine) or HOST:PORT.",
)
FALLBACK = click.option(
    "--fallback",
    metavar="MODEL",
    help="What stands for a missing score in the leaderboard's second view: this model's, or "
    "'worst'. Default: constant.",
)
PAPER = click.option(
    "--paper",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="A paper's folder (docs/reproduction.md) instead of the built-in ones.",
)
RANKINGS = ("average", "npt", "hopular")
RUN = click.argument("run", type=click.Path(path_type=Path), metavar="DIR/NAME")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tabsweep", prog_name="bench")
def main() -> None:
    """Tune tabular models against each other, survive anything, and print the comparison tables.

    \b
    bench sweep --suite uci-small            tune, track, report
    bench status runs/uci-small-quick        how far is it
    bench report runs/uci-small-quick        write the tables again
    bench sweep --csv houses.csv --target price

    Exit codes: 0 ok, 1 some trials failed, 2 usage, 3 environment, 4 regression, 5 nothing to do,
    130 interrupted.
    """


@main.command(short_help="Tune every model of a suite on every dataset; write tables.")
@click.option("--suite", help="Name of a suite (`bench suites`) or path of a suite file.")
@click.option("--csv", type=click.Path(path_type=Path), help="A table of your own instead.")
@click.option("--target", help="Column of --csv to predict.")
@click.option(
    "--task",
    type=click.Choice(["binary", "multiclass", "classification", "regression"]),
    help="Of --csv; guessed without.",
)
@click.option("--budget", help="quick, standard, paper, ... as the suite defines them.")
@click.option("--model", "models", multiple=True, help="Name or package.module:Class. Repeatable.")
@click.option("--dataset", "datasets", multiple=True, help="Only this dataset. Repeatable.")
@click.option("--folds", type=click.IntRange(min=1), help="The first K folds of each protocol.")
@click.option("--trials", type=click.IntRange(min=1), help="Configurations a study tries.")
@click.option("--sampler", type=click.Choice(["grid", "random", "tpe", "hyperopt"]))
@click.option("--space", help="Search space: default, npt, hopular, rtdl, ...")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="cuda: models that use a GPU get one, or a share of one.",
)
@click.option(
    "--async",
    "asynchronous",
    type=click.Choice(["asha", "pbt"]),
    help="Stop or change fits on the way, by Ray Tune; not reproducible to the byte.",
)
@WORKERS
@RUNS
@click.option("--name", help="Name of the run; default <suite>-<budget>.")
@click.option(
    "--reuse",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A run elsewhere whose finished trials may be copied. Repeatable.",
)
@ADDRESS
@MIRROR
@CACHE
@URI
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds a trial.")
@click.option("--memory-mb", type=click.FloatRange(min=64), help="Memory a trial may use.")
@click.option("--allow-code-change", is_flag=True, help="Run cells again whose code changed.")
@click.option("--dry-run", is_flag=True, help="Say what would run; write nothing.")
@common
def sweep(face: Face, **given: Any) -> int:
    """Tune every model of a suite on every dataset, then write the tables.

    Started again with the same name it resumes or extends; nothing that finished runs twice.
    """
    from .errors import check_address_form, check_options

    check_address_form(given["address"])
    chosen = check_options(given)  # before the heavy imports
    from .commands.sweep import sweep_command

    return sweep_command(face, chosen, **given)


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
    help="Folder to bring along: a suite file, a CSV and models of your own are found in it.",
)
@click.option("--no-wait", is_flag=True, help="Come back once the cluster has the job.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] SWEEP-OPTIONS...")
@common
def submit(face: Face, words: tuple[str, ...], **given: Any) -> int:
    """Run `bench sweep` with these options as a job on a cluster's head, from anywhere.

    \b
    bench submit --address http://head:8265 -- --suite uci-small --budget standard

    Shows what the sweep prints and ends with its exit code. Ctrl-C leaves the job running; a run
    that is submitted again goes on where it was.
    """
    with sweep.make_context("bench sweep", list(words)) as parsed:  # a misspelt option ends it here
        from .commands.submit import submit_command

        return submit_command(face, parsed, words, **given)


@main.command()
@RUN
@WORKERS
@click.option("--retry-failed", is_flag=True, help="Run failed trials again, too.")
@ADDRESS
@MIRROR
@CACHE
@URI
@click.option("--allow-code-change", is_flag=True, help="Run cells again whose code changed.")
@common
def resume(face: Face, run: Path, retry_failed: bool, **given: Any) -> int:
    """Go on with an interrupted run, as it was started."""
    from .errors import check_address_form

    check_address_form(given["address"])
    from .commands.sweep import resume_command

    return resume_command(face, run, causes=None if retry_failed else (), **given)


@main.command(short_help="Run failed trials again, under larger limits if given.")
@RUN
@click.option(
    "--cause",
    "causes",
    multiple=True,
    metavar="CAUSE[,CAUSE]",
    help="Only these: oom, gpu_oom, timeout, killed, nonfinite, invalid_config, error.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds a trial.")
@click.option("--memory-mb", type=click.FloatRange(min=64), help="Memory a trial may use.")
@WORKERS
@ADDRESS
@MIRROR
@CACHE
@URI
@common
def retry(face: Face, run: Path, causes: tuple[str, ...], **given: Any) -> int:
    """Run failed trials again (all, or those of a cause), under larger limits if given.

    \b
    bench retry runs/uci-small-quick --cause oom,killed --memory-mb 16000
    """
    from .errors import check_address_form

    check_address_form(given["address"])
    from .commands.sweep import count_failed, resume_command

    causes = tuple(cause.strip() for words in causes for cause in words.split(","))
    if not count_failed(run, causes):
        from .results.run_status import status_of

        failed = ", ".join(f"{n} {cause}" for cause, n in status_of(run).failed.items())
        face.say(
            f"{run}: no failed trial{' of that cause' if causes else ''} to run again"
            + (f"; failed here: {failed}" if failed else "")
        )
        face.data({"retried": 0})
        return NOTHING
    return resume_command(face, run, causes=causes or None, **given)


@main.command(short_help="Say how far a run is.")
@RUN
@click.option("--watch", is_flag=True, help="Show it until it ends: workers, queue, best so far.")
@click.option("--every", type=click.FloatRange(min=0.2), help="Seconds between looks of --watch.")
@common
def status(face: Face, run: Path, watch: bool, every: float | None) -> int:
    """Say how far a run is: planned, done, failed by cause, running, time to go.

    With --watch again and again, until the run ends or Ctrl-C; a line a look where standard output
    is no terminal, a JSON object a line with --json.
    """
    from .errors import check_run

    check_run(run)
    if watch or every:
        from .commands.status import watch_command

        return watch_command(face, run, every)
    from .results.run_status import status_of

    found = status_of(run)
    face.data(found.to_data())
    failed = sum(found.failed.values())
    causes = ", ".join(f"{n} {cause}" for cause, n in found.failed.items())
    face.say(
        f"{found.suite} ({found.budget}): {count(found.datasets, 'dataset')}, "
        f"{count(found.models, 'model')}"
    )
    face.say(
        f"{found.done} of {found.planned} trials done, {failed} failed"
        + (f" ({causes})" if causes else "")
        + f", {found.running} running, {found.left} to go"
        + (f", ETA {duration(found.eta_s)}" if found.left and found.eta_s else "")
    )
    if found.unsupported_studies:
        n = count(found.unsupported_studies, "study")
        face.say(f"{n} not supported by their models: see report/coverage.md")
    for line in by_reason(found.left_out):
        face.say(f"left out: {line}")
    if found.left and not found.owner:
        face.say(f"nobody is working on it; go on with: bench resume {run}")
    return OK


@main.command(short_help="Show what trials printed, and what happened.")
@RUN
@click.option("--failed", is_flag=True, help="Only trials without a score (warnings, of --events).")
@click.option("--study", help="Only this study: dataset/fold/model; * stands for anything.")
@click.option("--trial", help="Only this trial: its id, or how its id begins.")
@click.option("--worker", help="Only this worker, or the workers of this host.")
@click.option("--events", is_flag=True, help="What happened in the run instead.")
@click.option("--last", type=click.IntRange(min=0), default=20, show_default=True, help="0: all.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@common
def logs(face: Face, run: Path, **given: Any) -> int:
    """Show what trials printed, those that failed or lost their worker among them."""
    from .commands.logs import logs_command

    return logs_command(face, run, **given)


@main.command(short_help="Remove what a run can do without.")
@click.argument("run", type=click.Path(path_type=Path), metavar="[DIR/NAME]", required=False)
@click.option("--runs", type=click.Path(path_type=Path), help="Every run in this folder.")
@click.option("--report", "parts", multiple=True, flag_value="report", help="The tables.")
@click.option("--tracking", "parts", multiple=True, flag_value="tracking", help="MLflow's files.")
@click.option("--checkpoints", "parts", multiple=True, flag_value="checkpoints", help="Of fits.")
@click.option("--logs", "parts", multiple=True, flag_value="logs", help="For good: events, output.")
@click.option(
    "--quarantine", "parts", multiple=True, flag_value="quarantine", help="Gone for good."
)
@click.option("--all", "everything", is_flag=True, help="All of these.")
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
def clean(face: Face, run: Path | None, everything: bool, parts: Any, **given: Any) -> int:
    """Remove what is left over in a run, or what is named.

    Without a choice that is what crashes left behind, and in a finished run the checkpoints. The
    ledger and the predictions are never touched, nor a run that somebody works on; tables and
    MLflow's files come back from the ledger (bench report, bench track sync).
    """
    from .commands.clean import PARTS, clean_command

    return clean_command(face, run, parts=PARTS if everything else parts, **given)


@main.command(short_help="Write the report of one or several runs.")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="DIR/NAME...")
@click.option(
    "--from",
    "results",
    type=click.Path(path_type=Path),
    help="Results of another tool instead: a CSV of method, dataset, split, seed, metric, value.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Default: report/ in the first run, or beside the CSV.",
)
@click.option("--reference", metavar="MODEL", help="The model that the others are tested against.")
@FALLBACK
@click.option(
    "--ranking",
    type=click.Choice(RANKINGS),
    default="average",
    show_default=True,
    help="Whose rules the file ranks follows: ours, or those of a paper's table.",
)
@click.option("--siunitx", is_flag=True, help="LaTeX columns aligned by the package siunitx.")
@click.option("--html/--no-html", default=True, show_default=True, help="The page in html/.")
@MIRROR
@CACHE
@common
def report(
    face: Face, runs: tuple[Path, ...], results: Path | None, out: Path | None, **how: Any
) -> int:
    """Write the report of one or several runs: scores, ranks, tests, coverage, costs.

    \b
    bench report runs/uci-small-quick
    bench report --from results.csv
    """
    if runs and results:
        raise click.UsageError("either runs or --from, not both")
    if not runs and not results:
        raise click.UsageError(
            "name at least one run, or --from a CSV: bench report runs/uci-small-quick"
        )
    from .errors import check_run

    for run in runs:
        check_run(run)
    from .commands.report import write_report

    files = write_report(runs, out, results=results, **how)
    face.data({"files": [str(path) for path in files]})
    for path in files:
        face.say(str(path))
    return OK


@main.command(short_help="Show where a number of a table comes from.")
@click.argument("table")
@click.argument("dataset")
@click.argument("model")
@click.option(
    "--run",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR/NAME",
    help="Default: the only run that holds the dataset. Repeatable, as for a common report.",
)
@FALLBACK
@PAPER
@RUNS
@MIRROR
@CACHE
@common
def explain(face: Face, table: str, dataset: str, model: str, **given: Any) -> int:
    """Show the trials behind a cell of TABLE, how its number follows from them, and the one command
    that makes it again.

    TABLE is scores, ranks, seeds, leaderboard or a published table (`bench reproduce --list`).

    \b
    bench explain scores iris knn --run runs/smoke-quick
    bench explain npt-table-11 yacht catboost --run runs/npt-small-paper
    """
    from .commands.explain import explain_command

    return explain_command(face, table, dataset, model, **given)


@main.command(short_help="Ask more of a run's trials and predictions; fits nothing.")
@click.argument(
    "runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR/NAME..."
)
@click.option(
    "--what",
    type=click.Choice(["budgets", "tuners", "ensembles", "calibration", "metric"]),
    required=True,
    help="Ranks after n trials; samplers compared; greedy ensembles; ECE; another metric.",
)
@click.option("--metric", help="For --what metric: accuracy, log_loss, mae, ...")
@click.option("--out", type=click.Path(path_type=Path), help="Default: report/ in the first run.")
@MIRROR
@CACHE
@common
def analyse(face: Face, runs: tuple[Path, ...], **given: Any) -> int:
    """Ask more of the trials and predictions that runs have stored; nothing is fitted again.

    \b
    bench analyse runs/uci-small-quick --what ensembles
    bench analyse runs/random runs/tpe --what tuners
    """
    from .commands.analyse import analyse_command

    return analyse_command(face, runs, **given)


@main.command(short_help="Say what changed from one run to another.")
@click.argument("base", type=click.Path(path_type=Path), metavar="RUN_A")
@click.argument("new", type=click.Path(path_type=Path), metavar="RUN_B")
@click.option(
    "--history",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR/NAME",
    help="One more run before RUN_B; single cells are tested from two of them on. Repeatable.",
)
@click.option(
    "--min-effect",
    type=click.FloatRange(min=0, max=1),
    default=0.01,
    show_default=True,
    help="Relative change of the error that matters over all cells; of one cell three times it.",
)
@click.option("--fail-on-regression", is_flag=True, help="Exit with 4 if RUN_B is worse.")
@click.option("--out", type=click.Path(path_type=Path), help="Write compare.md, .tex, .csv here.")
@common
def compare(face: Face, base: Path, new: Path, **given: Any) -> int:
    """Say what changed from RUN_A to RUN_B: scores, coverage, failures, CPU time.

    \b
    bench compare runs/nightly-1 runs/nightly-2 --fail-on-regression
    """
    from .commands.compare import compare_command

    return compare_command(face, base, new, **given)


@main.command(short_help="Print a paper's published values beside ours.")
@click.argument("table", required=False)
@click.option("--list", "listing", is_flag=True, help="Which tables can be reproduced.")
@PAPER
@click.option("--budget", help="Default: the table's own, mostly paper.")
@click.option("--model", "models", multiple=True, help="Only this method. Repeatable.")
@click.option("--dataset", "datasets", multiple=True, help="Only this dataset. Repeatable.")
@click.option("--folds", type=click.IntRange(min=1))
@click.option("--trials", type=click.IntRange(min=1))
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--no-run", is_flag=True, help="Compare what is there; run nothing.")
@WORKERS
@RUNS
@click.option("--name", help="Name of the run; default <suite>-<budget>.")
@MIRROR
@CACHE
@URI
@common
def reproduce(face: Face, table: str | None, listing: bool, **given: Any) -> int:
    """Run what a paper's table needs, then print the published values beside ours.

    \b
    bench reproduce --list
    bench reproduce npt-table-11
    """
    from .commands.reproduce import list_tables, reproduce_command

    if listing or table is None:
        return list_tables(face, given["paper"])
    return reproduce_command(face, table, **given)


@main.command(short_help="Run one of the papers' experiments that is no sweep.")
@click.argument("name", required=False)
@PAPER
@click.option(
    "--size",
    type=click.Choice(["reduced", "full"]),
    default="reduced",
    show_default=True,
    help="reduced: minutes on two CPU cores. full: the paper's; most want a GPU.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("experiments"),
    show_default=True,
    help="Folder in which the experiment's own is made.",
)
@MIRROR
@CACHE
@common
def experiment(face: Face, name: str | None, paper: Path | None, **given: Any) -> int:
    """Run an experiment: lookup, interventions, corruption, memory, cost, ...; without a name, list
    them.

    \b
    bench experiment
    bench experiment npt-lookup

    Prints its tables, published numbers beside ours, and writes them with figures and facts.json
    to OUT/NAME. On a CPU a second run writes the same bytes but for facts.json and measured times.
    """
    from .commands.experiment import experiment_command, list_experiments
    from .errors import check_gpu
    from .papers.catalog import find_experiment

    if name is None:
        return list_experiments(face, paper)
    chosen = find_experiment(name, paper)
    check_gpu(given["device"])
    return experiment_command(face, chosen, **given)


@main.command(short_help="Fit a run's chosen configuration on all data and save it.")
@RUN
@click.option("--model", help="Default: the best by validation score.")
@click.option("--dataset", help="Needed where the run has several.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write.")
@click.option("--csv", type=click.Path(path_type=Path), help="Where the run's CSV lies now.")
@MIRROR
@CACHE
@common
def fit(face: Face, run: Path, **given: Any) -> int:
    """Fit the configuration that a run chose on all data, and save it with its preprocessing."""
    from .errors import check_run

    check_run(run)
    from .commands.fit import fit_chosen

    path = fit_chosen(run, note=face.say, **given)
    face.data({"model": str(path)})
    face.say(str(path))
    return OK


@main.command(short_help="Predict every row of a CSV with a saved model.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="CSV to write.")
@click.option(
    "--trust",
    multiple=True,
    metavar="PACKAGE.MODULE:CLASS",
    help="Import this class if the file asks for it. Repeatable.",
)
@common
def predict(face: Face, model: Path, file: Path, out: Path, trust: tuple[str, ...]) -> int:
    """Predict every row of a CSV with a model that `bench fit` saved."""
    from .commands.predict import predict_file

    n = predict_file(model, file, out, trust=trust, warn=face.warn)
    face.data({"rows": n, "out": str(out)})
    face.say(f"{n} predictions in {out}")
    return OK


@main.command(short_help="List the models, or show one with its spaces.")
@click.argument("name", required=False)
@common
def models(face: Face, name: str | None) -> int:
    """List the models, or show one: what it is, its hyperparameters and its spaces."""
    from .commands.listings import models_command

    return models_command(face, name)


@main.command()
@click.argument("name", required=False)
@PAPER
@common
def suites(face: Face, name: str | None, paper: Path | None) -> int:
    """List the suites, or show one: datasets, budgets, models."""
    from .commands.listings import suites_command

    return suites_command(face, name, paper)


@main.group()
def data() -> None:
    """Datasets: what there is, fetch it, check it, know its faults."""


@data.command("list")
@common
def data_list(face: Face) -> int:
    """List the datasets."""
    from .commands.listings import datasets_command

    return datasets_command(face)


@data.command("fetch", short_help="Bring datasets into the cache.")
@click.argument("names", nargs=-1)
@click.option("--suite", help="Every dataset of this suite.")
@MIRROR
@CACHE
@common
def data_fetch(face: Face, names: tuple[str, ...], suite: str | None, **given: Any) -> int:
    """Bring datasets into the cache (from the mirror, or their pinned addresses)."""
    from .commands.listings import fetch_command

    return fetch_command(face, names, suite, **given)


@data.command("verify")
@click.argument("names", nargs=-1)
@MIRROR
@CACHE
@common
def data_verify(face: Face, names: tuple[str, ...], **given: Any) -> int:
    """Check the bytes and the shape of datasets against their cards."""
    from .commands.listings import verify_command

    return verify_command(face, names, **given)


@data.command("passport", short_help="Show what is odd about a dataset.")
@click.argument("name")
@click.option("--csv", is_flag=True, help="NAME is a CSV file; needs --target.")
@click.option("--target", help="Column of the CSV to predict.")
@MIRROR
@CACHE
@common
def data_passport(face: Face, name: str, csv: bool, target: str | None, **given: Any) -> int:
    """Show what is known to be odd about a dataset: duplicates, leaks, drift, faults."""
    from .commands.listings import passport_command

    return passport_command(face, name, target, csv, **given)


@main.group()
def track() -> None:
    """MLflow, fed from the ledger."""


@track.command("sync")
@RUN
@URI
@common
def track_sync(face: Face, run: Path, tracking_uri: str | None) -> int:
    """Bring MLflow up to what the ledger holds; a second call adds nothing."""
    from .errors import check_run

    check_run(run)
    from .tracking.follower import sync

    found = sync(run, uri=tracking_uri)
    face.data(found.to_data())
    face.say(str(found))
    return OK


@main.command()
@RUN
@URI
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@common
def ui(face: Face, run: Path, tracking_uri: str | None, port: int) -> int:
    """Open the MLflow UI on a run's records, on this machine only."""
    from .errors import check_run

    check_run(run)
    import subprocess

    from .tracking.follower import sync, ui_command, ui_environment, ui_url

    if tracking_uri is None:
        sync(run)
    command, environment = ui_command(run, tracking_uri, port), ui_environment(run, tracking_uri)
    face.say(f"MLflow UI: {ui_url(run, tracking_uri, port)}  (Ctrl-C ends it)")
    try:
        code = subprocess.call(command, env=environment)
    except KeyboardInterrupt:
        return OK
    return OK if code == 0 else ENVIRONMENT


@main.command(short_help="Check this machine or its cluster, and say what to do.")
@ADDRESS
@RUNS
@MIRROR
@CACHE
@common
def doctor(face: Face, runs: Path, **given: Any) -> int:
    """Check this machine: libraries, Ray, disk, limits, datasets, MLflow.

    With --address the cluster too: every node's versions, clock and disk, and who may use it.
    """
    from .errors import check_address_form

    check_address_form(given["address"])
    from .commands.doctor import doctor_command

    return doctor_command(face, runs, **given)


if __name__ == "__main__":
    main()
