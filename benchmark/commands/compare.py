"""`bench compare`: what changed between two runs, and whether it is a regression."""

from __future__ import annotations

from pathlib import Path

import click

from ...sweeps.store.ledger import Ledger
from ..console import NOTHING, OK, REGRESSION, Console, common
from ..errors import SweepError, check_run
from ..planning import environment
from ..planning.plan_record import RunPlan, fits_apart, plan_in


@click.command()
@click.argument("base", type=click.Path(path_type=Path), metavar="RUN_A")
@click.argument("new", type=click.Path(path_type=Path), metavar="RUN_B")
@click.option(
    "--min-effect",
    type=click.FloatRange(min=0, max=1),
    default=0.01,
    show_default=True,
    help="Relative change of the error below which nothing counts as worse.",
)
@click.option("--fail-on-regression", is_flag=True, help="Exit with 4 if RUN_B is worse.")
@click.option("--out", type=click.Path(path_type=Path), help="Write compare.md, .tex, .csv here.")
@common
def compare(
    console: Console,
    base: Path,
    new: Path,
    *,
    min_effect: float,
    fail_on_regression: bool,
    out: Path | None,
) -> int:
    """Show what changed from RUN_A to RUN_B: scores, coverage, failures. Exit code 5 where no cell
    has a score in both runs.

    \b
    bench compare runs/nightly-1 runs/nightly-2 --fail-on-regression
    """
    from ...reports.output.files import render, write_files
    from ...reports.output.tables import to_text
    from ...reports.regression.run_diff import compare_runs
    from ...reports.regression.run_diff_section import section, summary
    from ..results.evidence_builder import evidence_of

    for run in (base, new):
        check_run(run)
    first, second = plan_in(Ledger(base)), plan_in(Ledger(new))
    apart = drawn_apart(first, second)
    if apart:
        raise SweepError(
            f"{base} has seed {first.options.seed}, {new} {second.options.seed}: the "
            f"folds of {', '.join(sorted(apart))} are drawn by seed and hold other rows, so their "
            "scores are no pairs; sweep both with the same --seed"
        )
    names = (base.name, new.name) if base.name != new.name else (str(base), str(new))
    diff = compare_runs(
        evidence_of([base]),
        evidence_of([new]),
        min_effect=min_effect,
        names=names,
    )
    notes = differences(first, second)
    made = section(diff)
    files = write_files(render(made), out) if out is not None else []
    console.data(
        {
            **{"a": str(base), "b": str(new), "identical": diff.identical},
            **{"cells": len(diff.cells), "equal": diff.n_equal, "notes": notes},
            "regressions": diff.regressions,
            "summary": summary(diff),
            "changed": diff.cells[~diff.cells["equal"]].to_dict("records"),
            **{
                name: getattr(diff, name).to_dict("records")
                for name in ("models", "coverage", "failures")
            },
            "files": [str(path) for path in files],
        }
    )
    for note in notes:
        console.say(f"note: {note}")
    if diff.identical:
        console.say(summary(diff)[0])
    else:
        console.say(to_text(made).rstrip())
    for path in files:
        console.say(str(path))
    if fail_on_regression and diff.regressions:
        return REGRESSION
    if diff.cells.empty:
        console.warn("nothing was compared: no cell has a score in both runs")
        return NOTHING
    return OK


def drawn_apart(first: RunPlan, second: RunPlan) -> set[str]:
    """The datasets of two runs with different seeds whose folds are drawn by seed: fold 0 of one
    has other rows than fold 0 of the other."""
    return {
        name
        for name, described in first.datasets.items()
        if name in second.datasets
        and described.protocol == second.datasets[name].protocol
        and first.drawn(name) != second.drawn(name)
        and not described.added  # its split is stored
    }


def differences(first: RunPlan, second: RunPlan) -> list[str]:
    """How the plans of the two runs differ: seed, bags, data, code, processor, libraries."""
    texts = []
    seeds = [plan.options.seed for plan in (first, second)]
    if seeds[0] != seeds[1]:
        texts.append(f"seed {seeds[0]} and {seeds[1]}: fits differ by chance, too")
    if (apart := fits_apart(first, second)) is not None:
        texts.append(f"scores of the first are of {apart[0]}, of the second of {apart[1]}")
    for name in sorted(first.datasets.keys() & second.datasets.keys()):
        if first.datasets[name].sha256 != second.datasets[name].sha256:
            texts.append(f"{name} holds other data")
    return texts + environment.differences(first.environment, second.environment)
