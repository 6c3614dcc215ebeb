"""`bench report`: the evidence of runs, or of another tool's results, written out as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..arguments import ANY_RUNS, DATA, FALLBACK, named_model, options_of
from ..console import ENVIRONMENT, OK, Console, common, split_names
from ..errors import SweepError, command_on
from ..outcome.run_report import make_report, of_choice, parts_and_files
from ..planning.options import Options


def _models(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """The names of models in the values, files of the user's as modules."""
    return named_model(context, parameter, tuple(split_names(given)))


@click.command()
@ANY_RUNS
@click.option(
    "--from",
    "results",
    type=click.Path(path_type=Path),
    help="Results of another tool instead: CSV of method, dataset, split, seed, metric, value; or "
    "the name of results that come with the package, such as rtdl.",
)
@options_of(Options, "beside")
@click.option(
    "--only",
    multiple=True,
    callback=_models,
    metavar="MODEL[,MODEL]",
    help="Show these models alone, those beside ours included; they are ranked among each other. "
    "Repeatable.",
)
@click.option(
    "datasets",
    "--dataset",
    "--datasets",
    multiple=True,
    metavar="DATASET[,DATASET]",
    help="Show these datasets alone. Repeatable.",
)
@click.option(
    "--regimes/--no-regimes",
    default=None,
    help="Default, tuned and ensembled results of each model. Default: up to 2,000 trials.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Default: report/ in the first run (with --only or --dataset report-only/), or beside "
    "the CSV.",
)
@click.option("--reference", metavar="MODEL", help="Model that the others are tested against.")
@FALLBACK
@click.option("--html/--no-html", default=True, show_default=True, help="Write the page in html/.")
@DATA
@common
def report(
    console: Console, runs: Sequence[Path], results: Path | None, out: Path | None, **how: Any
) -> int:
    """Write the report of one or several runs: scores, ranks, tests, coverage, costs. Exit code 3
    where the runs are damaged.

    \b
    bench report runs/uci-small-quick
    bench report --from results.csv
    bench report --beside rtdl
    bench report runs/mine --beside uci-small-reference --only mine:Net,catboost,xgboost
    """
    if bool(runs) == bool(results) and not (how["beside"] and not runs):
        raise click.UsageError(
            "name runs, --from a CSV, or --beside alone: bench report runs/uci-small-quick"
        )
    notes: list[str] = []
    for name in ("beside", "datasets"):
        how[name] = split_names(how[name])
    if not (runs or results):  # nothing of one's own: theirs alone
        if len(how["beside"]) != 1:
            raise SweepError("without a run, --beside names one set of published results")
        results, how["beside"] = Path(how["beside"][0]), ()
    if results is not None and how["beside"]:
        raise SweepError("--beside goes with runs; published results have no rows beside them")
    if results is not None and how.pop("regimes"):
        raise SweepError("--regimes goes with runs, which keep their predictions")
    if results is None:
        made = make_report(runs, out, **how)
    else:
        from ...reports.aggregation import choice
        from ..results.entrants import results_file
        from ..results.evidence_builder import noting

        del how["beside"]
        file = results_file(results)
        evidence = file.evidence()
        only, datasets = how.pop("only"), how.pop("datasets")
        if only or datasets:
            evidence = choice.only(evidence, only, datasets)
            evidence = noting(evidence, of_choice(evidence, only, datasets))
        notes = [*evidence.facts.notes]
        made = parts_and_files(evidence, out or file.folder / "report", **how)
        for note in notes:
            console.tell(f"note: {note}")
    said = {"notes": notes, "damage": made.damage, "missed": made.missed}
    said = {key: lines for key, lines in said.items() if lines}
    console.data({"files": [str(path) for path in made.files], **said})
    for path in made.files:
        console.say(str(path))
    console.say_page(made.files)
    for text in made.missed:
        console.warn(text)
    damage = made.damage
    for text in damage:
        console.tell(f"damaged: {text}")
    if damage:
        console.tell(
            "to list everything that is damaged: "
            + "; ".join(command_on(run, "verify") for run in runs)
        )
    return ENVIRONMENT if damage else OK
