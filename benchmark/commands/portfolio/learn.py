"""`bench portfolio learn`: a portfolio file from the ledgers of runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from ....common.files import write_atomically
from ....common.text import one_line
from ...arguments import SEVERAL_RUNS
from ...console import OK, Console, common, count
from ...errors import check_run, file_to_replace
from ...planning.portfolios import portfolio_file
from ...portfolio.regrets import MIN_TRIALS, trials_of
from ...portfolio.selection import learn, scope_of

REGRET = (
    "regret: mean over the datasets of the least normalised validation regret of the",
    "configurations up to this one (alone: of this one). On a fold 0 is the best trial and 1",
    "the median one or worse. measured: datasets on which it ran; estimated: those on which a",
    f"forest on the model's own trials there says it (it needs {MIN_TRIALS}). Elsewhere it is 1.",
)
SHOWN = 20


@click.group()
def portfolio() -> None:
    """Learn configurations for a warm start from finished runs."""


@portfolio.command("learn", short_help="Choose a few configurations from finished runs.")
@SEVERAL_RUNS
@click.option(
    "--size",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Number of configurations.",
)
@click.option(
    "--per-model", is_flag=True, help="--size configurations for each model, not in total."
)
@click.option(
    "--leave-one-out",
    is_flag=True,
    help="For each dataset, also choose configurations without using it (for sweeps on these "
    "datasets).",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The portfolio file to write, for bench sweep --warm-start FILE.",
)
@common
def portfolio_learn(
    console: Console,
    runs: Sequence[Path],
    *,
    size: int,
    per_model: bool,
    leave_one_out: bool,
    out: Path,
) -> int:
    """Choose the configurations that together have the lowest validation regret, on average over
    the datasets of the runs, and write them as a portfolio file; nothing is fitted again.

    \b
    bench portfolio learn runs/uci-small-quick --per-model --size 3 --out portfolio.toml
    bench sweep --suite mine.toml --warm-start portfolio.toml

    What is in the file, and how regret is estimated: docs/suites.md, Portfolios.
    """
    for run in runs:
        check_run(run)
    out.parent.mkdir(parents=True, exist_ok=True)
    path = file_to_replace(out)
    trials = trials_of(runs)
    entries = learn(trials, size, per_model=per_model, leave_one_out=leave_one_out)
    words = ["bench", "portfolio", "learn", *map(str, runs), "--size", str(size)]
    words += ["--per-model"] if per_model else []
    words += ["--leave-one-out"] if leave_one_out else []
    words += ["--out", str(out)]
    learned_on = {name: trials.sha256[name] for name in trials.datasets}
    text = portfolio_file.to_toml(
        entries,
        learned_on,
        scope=scope_of(per_model),
        size=size,
        comments=[one_line(shlex.join(words), 1000), *REGRET],
    )
    write_atomically(path, text.encode("utf-8"))
    found = portfolio_file.load(out)
    whole = [entry for entry in entries if not entry.without]
    console.data(
        {
            "portfolio": str(out),
            "id": found.id,
            "datasets": trials.datasets,
            "trials": len(trials.frame),
            "configurations": [entry.model_dump(mode="json") for entry in entries],
        }
    )
    console.table(
        ["model", "regret", "alone", "measured", "estimated", "configuration"],
        [
            [e.model, f"{e.regret:.3f}", f"{e.alone:.3f}", e.measured, e.estimated, e.config]
            for e in whole[:SHOWN]
        ],
    )
    if len(whole) > SHOWN:
        console.say(f"and {len(whole) - SHOWN} more")
    console.say(
        f"{count(len(whole), 'configuration')} learned on "
        f"{count(len(trials.datasets), 'dataset')}, from {count(len(trials.frame), 'trial')}"
        + (f"; {len(entries) - len(whole)} more, each dataset left out once" * leave_one_out)
    )
    console.say(f"{out}   use it: bench sweep --suite NAME --warm-start {shlex.quote(str(out))}")
    return OK
