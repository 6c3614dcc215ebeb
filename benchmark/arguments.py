"""Click options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .completion import DATASETS, MODELS, SUITES, complete_runs

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_RUNS: dict[str, Any] = {
    "type": click.Path(file_okay=False, path_type=Path),
    "envvar": "TABSWEEP_RUNS",
    "default": Path("runs"),
    "show_default": True,
}
RUNS = click.option("--runs", **_RUNS, help="Folder of runs.")
REUSED = "Folder of runs; finished trials of its other runs are reused."
MIRROR = click.option(
    "--mirror",
    envvar="TABSWEEP_MIRROR",
    help="Folder or base URL with the datasets' files (MANIFEST.csv).",
)
CACHE = click.option("--cache", envvar="TABSWEEP_CACHE", help="Folder of downloaded files.")
URI = click.option(
    "--tracking-uri",
    envvar="TABSWEEP_TRACKING_URI",
    help="MLflow server; default: SQLite in the run's folder. 'none' switches tracking off.",
)


def _store(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    if given != "none":
        return given
    if context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT:
        return None  # there it keeps sweeps from tracking; such a command is asked for MLflow
    raise click.BadParameter(
        "'none' keeps a sweep from writing to MLflow; leave it out here for mlflow.db in the run's "
        "folder, or give the address of a server"
    )


STORE = click.option(
    "--tracking-uri",
    envvar="TABSWEEP_TRACKING_URI",
    callback=_store,
    help="MLflow server; default, also where the variable says none: SQLite in the run's folder.",
)
POSITIVE = click.FloatRange(min=0, min_open=True)
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
TIMEOUT = click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Time limit of a trial, seconds."
)
MEMORY = click.option(
    "--memory-mb", type=click.FloatRange(min=64), help="Memory limit of a trial, MB."
)
ALLOW_CODE_CHANGE = click.option(
    "--allow-code-change", is_flag=True, help="Run trials again whose code has changed."
)
PAPER = click.option(
    "--paper",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="A paper's folder (docs/reproduction.md) instead of the built-in ones.",
)
FALLBACK = click.option(
    "--fallback",
    metavar="MODEL",
    help="Model whose score replaces a missing one in the leaderboard's second view, or 'worst'. "
    "Default: constant.",
)
GPU = click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="cuda: models that use a GPU get one, or a share of one.",
)
RANKINGS = ("average", "ordinal", "missing-last", "available")
CHOICE = (
    click.option(
        "--where",
        multiple=True,
        metavar="COLUMN=VALUE",
        help="With --from: only lines with this value (or VALUE,VALUE; != for all others). "
        "Repeatable.",
    ),
    click.option(
        "--rename",
        multiple=True,
        metavar="COLUMN:OLD=NEW",
        help="With --from: another name for a method, dataset or metric. Repeatable.",
    ),
    click.option(
        "--untuned",
        metavar="VARIANT",
        help="With --from: this variant's runs stand in on datasets where a method has no tuned "
        "ones, such as default.",
    ),
)
COLUMNS = ("group", "time", "weight", "drop", "missing", "categorical", "numeric")
READING = (
    click.option("--group", metavar="COLUMN", help="Rows with one value here stay in one part."),
    click.option(
        "--time",
        metavar="COLUMN",
        help="Split by time: the earliest rows train, the latest are tested.",
    ),
    click.option("--weight", metavar="COLUMN", help="How much each row counts."),
    click.option("--drop", multiple=True, metavar="COLUMN", help="Not a feature. Repeatable."),
    click.option(
        "--missing", multiple=True, metavar="TEXT", help="Marks a missing value, too. Repeatable."
    ),
    click.option(
        "--categorical",
        multiple=True,
        metavar="COLUMN",
        help="Categories, not numbers. Repeatable.",
    ),
    click.option(
        "--numeric", multiple=True, metavar="COLUMN", help="Numbers, not categories. Repeatable."
    ),
)
TASK = click.option(
    "--task",
    type=click.Choice(["binary", "multiclass", "classification", "regression"]),
    help="Task of a file; default: from the values of its target.",
)
RUN = click.argument(
    "run", type=click.Path(path_type=Path), metavar="DIR/NAME", shell_complete=complete_runs
)
BESIDE = click.option(
    "--beside",
    multiple=True,
    metavar="NAME[,NAME]",
    help="Published results beside the run's: names of `bench beside list`, or folders of the same "
    "form. Ranked where rows and metric are the same. Repeatable.",
)
SEVERAL_RUNS = click.argument(
    "runs",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR/NAME...",
    shell_complete=complete_runs,
)


def options(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, listed by --help in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def seed(what: str) -> Decorator:
    """The option --seed of a command; `what` it is the seed of."""
    whole = click.IntRange(min=0)
    return click.option("--seed", type=whole, default=0, show_default=True, help=f"Seed of {what}.")


DATA = options(MIRROR, CACHE)


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `bench sweep`."""
    return options(
        click.option(
            "--suite",
            shell_complete=SUITES,
            help="Name of a suite (`bench suites`) or path of a suite file.",
        ),
        click.option(
            "--csv",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A file of yours instead: CSV, Parquet or Arrow, also compressed. Repeatable.",
        ),
        click.option(
            "--target",
            multiple=True,
            metavar="COLUMN",
            help="Column of --csv to predict: one for all files, or one each.",
        ),
        TASK,
        *READING,
        click.option("--budget", help="quick, standard, paper, ... as the suite defines them."),
        click.option(
            "--model",
            "models",
            multiple=True,
            callback=lambda context, option, given: tuple(map(model_name, given)),
            shell_complete=MODELS,
            help="Name, package.module:Class or file.py:Class. Repeatable.",
        ),
        click.option(
            "--dataset",
            "datasets",
            multiple=True,
            shell_complete=DATASETS,
            help="Only this dataset of the suite, or another one by name. Repeatable.",
        ),
        click.option("--folds", type=click.IntRange(min=1), help="First K folds of each protocol."),
        click.option("--trials", type=click.IntRange(min=1), help="Configurations per study."),
        click.option(
            "--study-s",
            type=POSITIVE,
            help="A study starts no more trials after this many CPU seconds.",
        ),
        click.option(
            "--time-limit-s",
            type=POSITIVE,
            help="Stop a fit after this many seconds and keep its best state (models trained in "
            "steps).",
        ),
        click.option(
            "--sampler",
            type=click.Choice(["grid", "random", "tpe", "hyperopt"]),
            help="Default: the budget's.",
        ),
        click.option("--space", help="Search space: default, npt, hopular, rtdl, ..."),
        click.option(
            "--warm-start",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="PORTFOLIO",
            help="Begin each study with its model's configurations of this file (bench portfolio).",
        ),
        seed("folds, search and fits"),
        GPU,
        click.option(
            "--portable",
            is_flag=True,
            help="Pin instruction sets, for the same bytes on other x86-64 processors; slower.",
        ),
        click.option(
            "--async",
            "asynchronous",
            type=click.Choice(["asha", "pbt"]),
            help="ASHA or PBT on Ray Tune; its tables may differ from run to run.",
        ),
        WORKERS,
        BESIDE,
        click.option("--runs", **_RUNS, help=REUSED),
        click.option("--name", help="Name of the run; default <suite>-<budget>."),
        click.option(
            "--reuse",
            multiple=True,
            type=click.Path(path_type=Path),
            help="A run elsewhere whose finished trials may be copied. Repeatable.",
        ),
        ADDRESS,
        DATA,
        URI,
        TIMEOUT,
        MEMORY,
        ALLOW_CODE_CHANGE,
        click.option("--dry-run", is_flag=True, help="Show what would run; write nothing."),
    )(command)


def logs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `bench logs`."""
    return options(
        click.option(
            "--failed", is_flag=True, help="Only failed trials (with --events: warnings)."
        ),
        click.option("--study", help="Only this study: dataset/fold/model; * matches anything."),
        click.option("--trial", help="Only this trial: its id, or the beginning of it."),
        click.option("--worker", help="Only this worker, or the workers of this host."),
        click.option("--events", is_flag=True, help="The events of the run instead."),
        click.option(
            "--last",
            type=click.IntRange(min=0),
            default=20,
            show_default=True,
            help="Number of entries; 0: all.",
        ),
        click.option("--follow", "-f", is_flag=True, help="Show new entries too, until Ctrl-C."),
    )(command)


def clean_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `bench clean`."""
    return options(
        click.option("--runs", type=click.Path(path_type=Path), help="Every run in this folder."),
        click.option("--report", "parts", multiple=True, flag_value="report", help="The tables."),
        click.option(
            "--tracking", "parts", multiple=True, flag_value="tracking", help="MLflow's files."
        ),
        click.option(
            "--checkpoints",
            "parts",
            multiple=True,
            flag_value="checkpoints",
            help="Saved states of fits.",
        ),
        click.option(
            "--logs",
            "parts",
            multiple=True,
            flag_value="logs",
            help="Irreversible: events, output.",
        ),
        click.option(
            "--quarantine",
            "parts",
            multiple=True,
            flag_value="quarantine",
            help="Irreversible: damaged records.",
        ),
        click.option("--all", "everything", is_flag=True, help="All of these."),
        click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
    )(command)


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `bench report`."""
    return options(
        click.option(
            "--from",
            "results",
            type=click.Path(path_type=Path),
            help="Results of another tool instead: CSV of method, dataset, split, seed, metric, "
            "value; or the name of results that come with the package, such as rtdl.",
        ),
        *CHOICE,
        BESIDE,
        click.option(
            "--regimes/--no-regimes",
            default=None,
            help="Default, tuned and ensembled results of each model. Default: up to 2,000 trials.",
        ),
        click.option(
            "--portfolio",
            type=click.IntRange(1),
            metavar="N",
            help="With this, the regimes also have a portfolio of N configurations, learned on the "
            "other datasets.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            help="Default: report/ in the first run, or beside the CSV.",
        ),
        click.option(
            "--reference", metavar="MODEL", help="Model that the others are tested against."
        ),
        FALLBACK,
        click.option(
            "--ranking",
            type=click.Choice(RANKINGS),
            default="average",
            show_default=True,
            help="Rules of the file ranks: average ranks, or those of a paper's table.",
        ),
        click.option(
            "--siunitx", is_flag=True, help="Align LaTeX columns with the package siunitx."
        ),
        click.option(
            "--html/--no-html", default=True, show_default=True, help="Write the page in html/."
        ),
        DATA,
    )(command)


def compare_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `bench compare`."""
    return options(
        click.option(
            "--history",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="DIR/NAME",
            help="Another run before RUN_B; with two or more, single cells are tested. Repeatable.",
        ),
        click.option(
            "--min-effect",
            type=click.FloatRange(min=0, max=1),
            default=0.01,
            show_default=True,
            help="Relative change of the error below which nothing counts as worse (single cells: "
            "three times this).",
        ),
        click.option("--fail-on-regression", is_flag=True, help="Exit with 4 if RUN_B is worse."),
        click.option(
            "--out", type=click.Path(path_type=Path), help="Write compare.md, .tex, .csv here."
        ),
    )(command)


def reproduce_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `bench reproduce`."""
    return options(
        click.option(
            "--list", "listing", is_flag=True, help="List every table and figure of the papers."
        ),
        PAPER,
        click.option("--budget", help="Default: the table's own, mostly paper."),
        click.option("--model", "models", multiple=True, help="Only this method. Repeatable."),
        click.option("--dataset", "datasets", multiple=True, help="Only this dataset. Repeatable."),
        click.option("--folds", type=click.IntRange(min=1), help="First K folds."),
        click.option("--trials", type=click.IntRange(min=1), help="Configurations per study."),
        GPU,
        click.option("--no-run", is_flag=True, help="Compare an existing run; run nothing."),
        click.option(
            "--from",
            "results",
            type=click.Path(path_type=Path),
            help="Compare a CSV of another tool's results, in the format of `bench report --from`; "
            "run nothing.",
        ),
        *CHOICE,
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            help="With --from: folder for the tables. Default: report/ beside the CSV.",
        ),
        WORKERS,
        click.option("--runs", **_RUNS, help=REUSED),
        click.option("--name", help="Name of the run; default <suite>-<budget>."),
        DATA,
        URI,
    )(command)


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `bench experiment`."""
    return options(
        PAPER,
        click.option(
            "--size",
            type=click.Choice(["tiny", "reduced", "full"]),
            default="reduced",
            show_default=True,
            help="reduced: minutes on two CPU cores. full: the paper's; most want a GPU. tiny: a "
            "trial run in seconds, whose numbers mean nothing.",
        ),
        seed("the experiment"),
        GPU,
        click.option(
            "--threads",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Threads of a fit.",
        ),
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path("experiments"),
            show_default=True,
            help="Folder for the results; each experiment has its own in it.",
        ),
        DATA,
    )(command)


def model_name(text: str) -> str:
    """The name of a model; `folder/mymodel.py:Class` is the class of the module `folder.mymodel`,
    seen from the working directory. Raises click.BadParameter for a file elsewhere.

    >>> model_name("mymodel.py:Mine"), model_name("./a/b.py:Mine"), model_name("knn")
    ('mymodel:Mine', 'a.b:Mine', 'knn')
    """
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        return text
    parts = [part for part in Path(path).with_suffix("").parts if part != "."]
    if not all(part.isidentifier() for part in parts):
        raise click.BadParameter(
            f"{text!r}: the file must be below the working directory, and its path made of names "
            "that Python can import"
        )
    return f"{'.'.join(parts)}:{name}"
