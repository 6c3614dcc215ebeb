"""`bench explain`: the trials behind a table cell, and the command that makes it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...sweeps.store.ledger import Ledger
from ..arguments import DATA, PAPER, named_model
from ..console import OK, Console, common
from ..errors import NoRun, SweepError, check_run
from ..planning import suite as suites
from ..planning.options import READING
from ..planning.plan_record import RunPlan, plan_in

if TYPE_CHECKING:
    from ...reports.explain import Trace

SHOWN = ("table", "dataset", "model", "metric", "value", "state", "steps", "flags")  # of a trace
REGIMES = "default-and-tuned"
FEATURES = "features"
FRESH = "recomputed"  # folder of runs in which nothing can be reused


@click.command()
@click.argument("table")
@click.argument("dataset")
@click.argument("model", required=False, callback=named_model)
@click.option(
    "--run",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR/NAME",
    required=True,
    help="The run; repeatable, for a report of several runs.",
)
@PAPER
@DATA
@common
def explain(
    console: Console,
    table: str,
    dataset: str,
    model: str | None,
    *,
    folders: Sequence[Path],
    paper: Path | None,
) -> int:
    """Show the trials behind a cell of TABLE, how its number is computed from them, and the command
    that makes it again.

    TABLE is scores, leaderboard (the rank on the DATASET), default-and-tuned or a published table
    (`bench reproduce --list`). With `features` it shows what the MODEL (default: the best by
    validation) loses on test rows where a feature is shuffled.

    \b
    bench explain scores iris knn --run runs/smoke-quick
    bench explain npt-table-11 yacht catboost --run runs/npt-small-paper
    bench explain features houses --run runs/csv-houses-quick
    """
    for folder in folders:
        check_run(folder)
    if table == FEATURES:
        having = [f for f in folders if dataset in plan_in(Ledger(f)).datasets]
        return _features(console, [*having, *folders][0], model, dataset)
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    from ...reports.explain import TABLES, trace
    from ...reports.metrics import METRICS
    from ...reports.output.escape import visible
    from ..papers.catalog import published_tables
    from ..results.evidence_builder import evidence_of
    from ..results.seed_ensembles import with_ensembles

    if table == REGIMES:
        return _regimes(console, dataset, model, folders)
    evidence = evidence_of(folders)
    published = published_tables(paper, set(evidence.trials["dataset"]))
    if table not in TABLES:  # which use no ensembles
        evidence = with_ensembles(evidence, folders)
    cell = trace(evidence, table, dataset, model, published=published, elsewhere=(REGIMES,))
    origin = next(r for r in map(Origin.of, folders) if (dataset, cell.model) in r.cells)
    command = origin.command(dataset, None if cell.ranked else cell.model)
    warnings = origin.differences()
    if cell.ranked and len(folders) > 1:
        warnings.append(
            f"the command runs only the models of {origin.folder}; this rank is among more"
        )
    document = {name: getattr(cell, name) for name in SHOWN}
    frames = {name: getattr(cell, name).to_dict("records") for name in ("folds", "trials")}
    more = {"run": str(origin.folder), "command": shlex.join(command), "differences": warnings}
    console.data(document | frames | more)
    value = "no number" if cell.value is None else f"{cell.value:.12g}"
    console.say(f"{table}, {dataset}, {cell.model}: {value}")
    better = METRICS[cell.metric].better
    console.say(f"metric {cell.metric}, {better} is better; run {origin.folder}")
    console.say(f"scores are of {origin.plan.fits[dataset]}\n")
    for step in cell.steps:
        console.say(f"  {visible(step)}")
    for flag in cell.flags:
        console.say(f"  ! {visible(flag)}")
    console.say()
    console.table(*_columns(cell))
    console.say(
        "* counts towards the score. The command that computes the number again from nothing:"
    )
    for warning in warnings:
        console.say(f"  ! {warning}")
    console.say(f"\n{shlex.join(command)}")
    return OK


def _features(console: Console, run: Path, model: str | None, dataset: str) -> int:
    from ..outcome.feature_importance import feature_importance
    from ..running.request import import_folders

    import_folders([model] if model else [])
    importance = feature_importance(
        run, dataset=dataset, models=[model] if model else [], note=console.tell
    )
    console.data({"run": str(run), "features": importance.to_dict("records")})
    known = importance.dropna(axis="columns", how="all")  # no spread of one fold
    words = known.map(lambda value: f"{value:.4g}" if isinstance(value, float) else str(value))
    console.table(list(known.columns), words.to_numpy().tolist())
    console.say(f"\nbench report {shlex.quote(str(run))} puts it on the dataset's page")
    return OK


def _regimes(console: Console, dataset: str, model: str, folders: Sequence[Path]) -> int:
    """The scores of a model's regimes, computed again from the stored predictions, with what they
    follow from. Raises NoRun, SweepError."""
    from ...common.text import suggest
    from ..outcome.regimes import regimes_of
    from ..results.evidence_builder import evidence_of

    origins = [Origin.of(folder) for folder in folders]
    there = [o for o in origins if dataset in {name for name, _ in o.cells}]
    if not there:
        raise NoRun(f"no run of {', '.join(map(str, folders))} holds {dataset[:80]!r}")
    made = regimes_of(evidence_of(folders), folders, only=dataset)
    rows = made.frame[made.frame["model"] == model]
    if not len(rows):
        known = sorted(set(made.frame["model"]))
        raise SweepError(f"no model {model!r} on {dataset!r}; {suggest(model, known)}")
    origin = next(o for o in there if (dataset, model) in o.cells)
    command = shlex.join(origin.command(dataset, model))
    scores = rows.groupby("regime", sort=False)["score"]
    means = scores.mean().where(scores.count() == scores.size()).to_dict()
    console.data(
        {
            **{"table": REGIMES, "dataset": dataset, "model": model},
            "regimes": [{"regime": regime, "value": value} for regime, value in means.items()],
            "folds": [{k: v for k, v in row.items() if v == v} for row in rows.to_dict("records")],
            **{"command": command, "notes": made.notes, "differences": origin.differences()},
        }
    )
    shown = rows[["regime", "fold", "score", "val", "n_candidates", "members", "reason"]]
    words = shown.map(lambda value: "" if value != value or value is None else str(value))
    console.say(f"{REGIMES}, {dataset}, {model}; metric {rows['metric'].iloc[0]}\n")
    console.table(list(words.columns), words.to_numpy().tolist())
    for regime, value in means.items():
        console.say(f"{regime}: {'no score on every fold' if value != value else f'{value:.12g}'}")
    for note in [*made.notes, *made.damage]:
        console.warn(note)
    console.say("members: {trial: its weight}. The command that makes the trials from nothing:")
    for text in origin.differences():
        console.say(f"  ! {text}")
    console.say(f"\n{command}")
    return OK


@dataclass(frozen=True)
class Origin:
    """A run and the plan in force in it."""

    folder: Path
    plan: RunPlan
    unwritten: list[str] = field(default_factory=list)  # files that the command names

    @classmethod
    def of(cls, folder: Path) -> Origin:
        """The run in a folder. Raises NoRun, LedgerError."""
        return cls(folder, plan_in(Ledger(folder)))

    @property
    def cells(self) -> set[tuple[str, str]]:
        """The (dataset, model) pairs that the plan has studies of."""
        return {(study.dataset, study.model) for study in self.plan.studies}

    def command(self, dataset: str, model: str | None) -> list[str]:
        """The command that makes the cell again, as words; of all models for a rank. It gives the
        options of the plan, and the installed suite where that is still the plan's, else a file of
        the plan's suite."""
        asked = replace(
            self.plan.options,
            datasets=(dataset,),
            runs=_fresh(self.folder.parent),
        )
        if model is not None:
            asked = replace(asked, models=(self._asked(model),))
        csv = self.plan.datasets[dataset].csv
        if csv and not self.plan.suite.file:
            reading = {name: csv[name] for name in READING if name in csv}
            lists = {k: tuple(v) if isinstance(v, list) else v for k, v in reading.items()}
            source: dict[str, Any] = {"csv": (csv["path"],), "target": (csv["target"],), **lists}
            source["datasets"] = ()
        elif self._is_installed():
            source = {"suite": self.plan.suite.name}
        else:
            source = {"suite": str(self._write_suite())}
        return ["bench", "sweep", *replace(asked, **source).words()]

    def _is_installed(self) -> bool:
        """Whether the installed suite of the run's name is the one that the run had."""
        mine = self.plan.suite
        return mine.name in suites.files() and suites.load(mine.name) == mine

    def _asked(self, model: str) -> str:
        """The value of `--model` for a model of the tables (a class may have another name). A plan
        has its models in the order in which they were asked for: the class, which may come from
        anybody with the run, is not imported."""
        asked = dict.fromkeys(self.plan.options.models or self.plan.budget.models)
        names = self.plan.models
        if model in asked or len(asked) != len(names):
            return model
        return str(dict(zip(names, asked, strict=True)).get(model, model))

    def _write_suite(self) -> Path:
        """Write the run's suite to a file in the report's folder, which the command can name; its
        path. Where that cannot be, `differences` says so."""
        text = json.dumps(self.plan.suite_data, indent=1)
        path = self.folder / "report" / "suite.json"
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            self.unwritten.append(
                f"{path} cannot be written ({error.strerror}), and the command needs it: explain "
                "from where you may write into the run, or from a copy of it"
            )
        return path

    def differences(self) -> list[str]:
        """Reasons why the number may come out different now: code, libraries, order of trials."""
        from ..planning import environment

        reasons = [
            *self.unwritten,
            *environment.differences(self.plan.environment, environment.capture()),
        ]
        if any(study.asynchronous for study in self.plan.studies):
            reasons.append(
                "the search was asynchronous: it depends on the order in which trials finish"
            )
        return reasons


def _fresh(beside: Path) -> Path:
    """A folder of runs that does not exist yet."""
    beside = beside.parent if beside.name else beside.resolve().parent
    path, number = beside / FRESH, 1
    while path.exists():
        number += 1
        path = beside / f"{FRESH}-{number}"
    return path


def _columns(cell: Trace) -> tuple[list[str], list[list[Any]]]:
    """(header, rows) of the trials as printed: numbers shortened, configurations last."""
    from ...reports.output.escape import visible

    header = ["fold", "stage", "trial", "seed", "status", "validation", "test", "s", "id", "from"]

    def number(value: float, digits: int = 6) -> str:
        return "" if value != value else f"{value:.{digits}g}"

    rows = [
        [
            f"{'*' if r.counts else ' '}{r.fold}",
            r.stage,
            r.index,
            r.seed,
            r.cause or r.status,
            number(r.validation),
            number(r.test),
            number(r.seconds, 3),
            r.id[:12],
            visible(r.origin),
            visible(r.config),
        ]
        for r in cell.trials.itertuples(index=False)
    ]
    return [*header, "configuration"], rows
