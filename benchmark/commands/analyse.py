"""`bench analyse`: calibration, or a metric that no trial recorded, from a run's predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..arguments import SEVERAL_RUNS
from ..console import OK, Console, common
from ..errors import SweepError, check_run
from ..planning.options import DATA

if TYPE_CHECKING:
    from ...reports.output.tables import Section
    from ..results.stored_predictions import Block


@dataclass(frozen=True)
class Found:
    """What an analysis writes: its section, other files by name, and what it could not use."""

    section: Section
    files: dict[str, str]
    notes: list[str]


@click.command()
@SEVERAL_RUNS
@click.option(
    "--what",
    type=click.Choice(["calibration", "metric"]),
    required=True,
    help="calibration: ECE, Brier; metric: another metric.",
)
@click.option("--metric", help="For --what metric: accuracy, log_loss, mae, ...")
@click.option("--out", type=click.Path(path_type=Path), help="Default: report/ in the first run.")
@DATA
@common
def analyse(
    console: Console,
    runs: Sequence[Path],
    what: str,
    *,
    out: Path | None,
    metric: str | None,
    **where: Any,
) -> int:
    """Analyse the stored predictions of runs; nothing is fitted.

    \b
    bench analyse runs/uci-small-quick --what calibration
    bench analyse runs/uci-small-quick --what metric --metric log_loss
    """
    from ...reports.output.files import render, write_files
    from ...reports.output.tables import to_text

    for run in runs:
        check_run(run)
    if metric and what != "metric":
        raise SweepError(f"--metric belongs to --what metric, not to --what {what}")
    found = ANALYSES[what](runs, metric=metric, **where)
    files = write_files({**render(found.section), **found.files}, out or runs[0] / "report")
    console.data(
        {
            "what": what,
            "files": [str(path) for path in files],
            "notes": found.notes,
            "rows": [
                {str(k): v for k, v in row.items()}
                for row in found.section.frame.to_dict("records")
            ],
        }
    )
    for note in found.notes:
        console.warn(note)
    console.say(to_text(found.section))
    for path in files:
        console.say(str(path))
    return OK


def calibration(runs: Sequence[Path], **where: Any) -> Found:
    """Calibration of the chosen configurations."""
    from ...reports.analyses import calibration as made
    from ..results.evidence_builder import evidence_of

    blocks, notes = _blocks(runs, where)
    found = [
        (
            {
                "dataset": block.dataset,
                "task": block.task,
                "fold": block.fold,
                "model": trial.model,
                "seed": trial.seed,
            },
            block.y["test"],
            trial.arrays()["test"],
            block.weights["test"],
        )
        for block in blocks
        if block.task != "regression"
        for trial in block.trials
        if trial.counts
    ]
    section = made.section(evidence_of(runs), found)
    from ...reports.output.tables import to_csv

    files = {
        "calibration-curves.csv": to_csv(made.curves(found)),
        "figures/calibration.svg": made.figure(found),
    }
    return Found(section, files, notes)


def another_metric(runs: Sequence[Path], *, metric: str | None, **where: Any) -> Found:
    """The chosen configurations by any metric."""
    from ...reports.analyses.rescored import with_metric
    from ...reports.metrics import METRICS
    from ...reports.metrics import metric as named
    from ...reports.report import rescored_section
    from ..results.evidence_builder import evidence_of

    if metric is None:
        raise ValueError(f"--what metric needs --metric; known: {', '.join(METRICS)}")
    wanted = named(metric)
    blocks, notes = _blocks(runs, where)
    values: dict[str, tuple[float | None, float | None]] = {}
    for block in blocks:
        for trial in block.trials:
            if trial.counts and block.task in wanted.tasks:
                arrays = trial.arrays()
                val, test = (
                    wanted.value(block.y[part], arrays[part], block.weights[part], block.costs)
                    for part in ("val", "test")
                )
                values[trial.id] = val, test
    evidence = with_metric(evidence_of(runs), metric, values)
    return Found(rescored_section(evidence, metric, notes), {}, notes)


def _blocks(runs: Sequence[Path], where: dict[str, Any]) -> tuple[list[Block], list[str]]:
    """The stored predictions, and why some are left out. Raises EvidenceError where all are."""
    from ...reports.evidence import EvidenceError
    from ..results.stored_predictions import blocks_of

    blocks, notes = blocks_of(runs, mirror=where.get("mirror"), cache=where.get("cache"))
    if notes and not blocks:
        raise EvidenceError(f"no rows for the stored predictions: {'; '.join(notes)}")
    return blocks, notes


ANALYSES: dict[str, Callable[..., Found]] = {
    "calibration": calibration,
    "metric": another_metric,
}
