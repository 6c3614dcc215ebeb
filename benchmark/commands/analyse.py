"""`bench analyse`: a run's scores by any metric, or its intervals, from stored predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..arguments import DATA, SEVERAL_RUNS
from ..console import OK, Console, common
from ..errors import check_run

if TYPE_CHECKING:
    from ...reports.output.tables import Section
    from ..results.stored_predictions import Block


@click.command()
@SEVERAL_RUNS
@click.option("--metric", help="accuracy, log_loss, ece, mae, ...")
@click.option("--intervals", is_flag=True, help="Prediction intervals of regressions.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: report/ in the first run.")
@DATA
@common
def analyse(
    console: Console,
    runs: Sequence[Path],
    metric: str | None,
    *,
    intervals: bool,
    out: Path | None,
) -> int:
    """Score the chosen configurations of runs by another metric, or their prediction intervals;
    nothing is fitted.

    \b
    bench analyse runs/uci-small-quick --metric log_loss
    bench analyse runs/uci-small-quick --metric ece        calibration
    bench analyse runs/uci-small-quick --intervals         coverage, width, pinball loss, CRPS
    """
    from ...reports.evidence import EvidenceError
    from ...reports.output.files import render, write_files
    from ...reports.output.tables import to_text
    from ..results.stored_predictions import blocks_of

    if intervals == (metric is not None):
        raise click.UsageError("give either --metric or --intervals")
    for run in runs:
        check_run(run)
    blocks, left_out = blocks_of(runs)
    notes = [f"Without {dataset}: {why}" for dataset, why in left_out.items()]
    if notes and not blocks:
        raise EvidenceError(f"no rows for the stored predictions: {'; '.join(notes)}")
    if metric is None:
        section = _intervals(runs, blocks)
    else:
        section = _by_metric(runs, blocks, metric, notes)
    files = write_files(render(section), out or runs[0] / "report")
    rows = section.frame.to_dict("records")
    console.data({"metric": metric, "files": files, "notes": notes, "rows": rows})
    for note in notes:
        console.warn(note)
    console.say(to_text(section))
    for path in files:
        console.say(str(path))
    return OK


def _by_metric(
    runs: Sequence[Path], blocks: Sequence[Block], metric: str, notes: Sequence[str]
) -> Section:
    """The score tables by any metric of the task."""
    from ...reports.analyses.rescored import with_metric
    from ...reports.metrics import metric as named
    from ...reports.report import rescored_section
    from ..results.evidence_builder import evidence_of

    wanted = named(metric)
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
    return rescored_section(with_metric(evidence_of(runs), metric, values), metric, notes)


def _intervals(runs: Sequence[Path], blocks: Sequence[Block]) -> Section:
    """Split-conformal intervals of regressions."""
    from ...reports.analyses import intervals
    from ..results.evidence_builder import evidence_of

    shown = []
    for block in blocks:
        study = {"dataset": block.dataset, "task": block.task, "fold": block.fold}
        for trial in block.trials:
            if trial.counts and block.task == "regression":
                facts = {**study, "model": trial.model, "seed": trial.seed}
                shown.append((facts, block.y, trial.arrays()))
    return intervals.section(evidence_of(runs), shown)
