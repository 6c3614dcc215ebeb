"""`bench analyse`: a run's scores by any metric, from its stored predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..arguments import SEVERAL_RUNS
from ..console import OK, Console, common
from ..errors import check_run
from ..planning.options import DATA


@click.command()
@SEVERAL_RUNS
@click.option("--metric", required=True, help="accuracy, log_loss, ece, mae, ...")
@click.option("--out", type=click.Path(path_type=Path), help="Default: report/ in the first run.")
@DATA
@common
def analyse(
    console: Console,
    runs: Sequence[Path],
    metric: str,
    *,
    out: Path | None,
    mirror: str | None,
    cache: str | None,
) -> int:
    """Score the chosen configurations of runs by another metric; nothing is fitted.

    \b
    bench analyse runs/uci-small-quick --metric log_loss
    bench analyse runs/uci-small-quick --metric ece        calibration
    """
    from ...reports.analyses.rescored import with_metric
    from ...reports.evidence import EvidenceError
    from ...reports.metrics import metric as named
    from ...reports.output.files import render, write_files
    from ...reports.output.tables import to_text
    from ...reports.report import rescored_section
    from ..results.evidence_builder import evidence_of
    from ..results.stored_predictions import blocks_of

    for run in runs:
        check_run(run)
    wanted = named(metric)
    blocks, notes = blocks_of(runs, mirror=mirror, cache=cache)
    if notes and not blocks:
        raise EvidenceError(f"no rows for the stored predictions: {'; '.join(notes)}")
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
    section = rescored_section(with_metric(evidence_of(runs), metric, values), metric, notes)
    files = write_files(render(section), out or runs[0] / "report")
    rows = [{str(k): v for k, v in row.items()} for row in section.frame.to_dict("records")]
    console.data(
        {"metric": metric, "files": [str(path) for path in files], "notes": notes, "rows": rows}
    )
    for note in notes:
        console.warn(note)
    console.say(to_text(section))
    for path in files:
        console.say(str(path))
    return OK
