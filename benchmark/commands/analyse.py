"""`bench analyse`: further analyses of a run's trials and predictions, without any fit.

Calibration and a metric that no trial recorded come from the stored predictions, tuners from
the trials' scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...sweeps.store.ledger import Ledger, Record
from ..arguments import SEVERAL_RUNS
from ..console import OK, Console, common
from ..errors import SweepError, check_run
from ..planning.options import DATA
from ..planning.plan_record import key_of, plan_in, sampler_of

if TYPE_CHECKING:
    import pandas as pd

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
    type=click.Choice(["tuners", "calibration", "metric"]),
    required=True,
    help="tuners: samplers compared; calibration: ECE, Brier; metric: another metric.",
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
    """Analyse the stored trials and predictions of runs; nothing is fitted.

    \b
    bench analyse runs/uci-small-quick --what calibration
    bench analyse runs/random runs/tpe --what tuners
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


# ---------------------------------------------------------------------- from scores


def _pair(study: Record) -> tuple[str, str]:
    """(dataset, model) of a planned study."""
    return study["dataset"], study["model"]


def tuners(runs: Sequence[Path], **unused: Any) -> Found:
    """Samplers on the same studies and spaces, beside each other."""
    import numpy as np

    from ...reports.aggregation.anytime import running
    from ...reports.analyses import tuners as made
    from ...reports.evidence import EvidenceError
    from ..results.evidence_builder import evidence_of

    evidences = {run: evidence_of([run]) for run in runs}
    plans = {run: plan_in(Ledger(run)) for run in runs}
    steps: dict[tuple[str, Path], pd.DataFrame] = {}
    for run, evidence in evidences.items():
        mine = running(evidence)
        samplers = {
            (s["dataset"], s["fold"], s["model"]): sampler_of(plans[run], s)
            for s in plans[run]["studies"]
        }
        keys = zip(mine["dataset"], mine["fold"], mine["model"], strict=True)
        names = np.array([samplers[key] for key in keys], dtype=object)
        for name in sorted(set(names)):
            steps[name, run] = mine[names == name]
    often = [name for name, _ in steps]
    alone = len({run.name for run in runs}) == len(set(runs))
    labelled = {
        name if often.count(name) == 1 else f"{name} ({run.name if alone else run})": part
        for (name, run), part in steps.items()
    }
    alike, notes = same_searches(plans)
    if not alike:
        why = " ".join(notes) or "They have no pair of dataset and model in common."
        raise EvidenceError(f"no study was searched by all of {', '.join(labelled)}. {why}")
    kept = {
        label: part[[pair in alike for pair in zip(part["dataset"], part["model"], strict=True)]]
        for label, part in labelled.items()
    }
    found = made.frame(kept)
    first = evidences[runs[0]]
    section = made.section(first, found, notes)
    return Found(section, {"figures/tuners.svg": made.figure(found)}, notes)


def same_searches(plans: dict[Path, Record]) -> tuple[set[tuple[str, str]], list[str]]:
    """({(dataset, model) that all plans search in the same way}, notes on pairs left out). The same
    way: equal space, metric, folds, seed and data."""
    asked: list[dict[tuple[str, str], tuple[Any, ...]]] = []
    for plan in plans.values():
        identity = plan["identity"]
        asked.append(
            {
                _pair(s): (
                    identity["space"].get(key_of(plan, s)),
                    plan["metric"][s["task"]],
                    identity["protocol"].get(s["dataset"]),
                    identity["seed"],
                    plan["datasets"][s["dataset"]]["sha256"],
                )
                for s in plan["studies"]
            }
        )
    common = set.intersection(*map(set, asked))
    alike = {pair for pair in common if all(one[pair] == asked[0][pair] for one in asked)}
    other = sorted({model for _, model in common - alike})
    parts = "space, metric, folds, seed or data"
    notes = [f"Left out, as the runs differ in {parts}: {', '.join(other)}."]
    return alike, notes if other else []


# ---------------------------------------------------------------------- from predictions


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
                    wanted.value(block.y[part], arrays[part], block.weights[part])
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
    "tuners": tuners,
    "calibration": calibration,
    "metric": another_metric,
}
