"""`bench reproduce`: run what a published table needs, then print published values beside ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...console import FAILED, OK, Console
from ...errors import NoRun, SweepError, check_gpu, check_name, check_run
from ...papers.catalog import PaperTable, find_experiment, find_table, suite_of
from ...papers.experiment_result import Size
from ...papers.published_values import published_table
from ...papers.table_sources import TableSource, source_of, table_sources

FULL = ("paper", "full")  # budgets that mean an experiment's full size; others the reduced one


def list_tables(console: Console, paper: Path | None = None) -> int:
    """`bench reproduce --list`. paper: the folder of a paper, instead of the built-in ones."""
    found = table_sources(paper)
    console.data(
        [
            {k: v for k, v in asdict(source).items() if v != "" or k in ("table", "title")}
            for source in found
        ]
    )
    made = [source for source in found if source.command]
    console.table(
        ["table", "what", "metric", "values", "suite or experiment", "command"],
        [[s.table, s.title, s.metric, s.cells, s.suite or s.experiment, s.command] for s in made],
    )
    others = [source for source in found if not source.command]
    if others:
        console.say("\nstored, without anything of ours beside:")
        console.table(
            ["table", "what", "values", "why"], [[s.table, s.title, s.cells, s.why] for s in others]
        )
    return OK


def reproduce_command(
    console: Console,
    table: str,
    *,
    paper: Path | None,
    budget: str | None,
    no_run: bool,
    **given: Any,
) -> int:
    """`bench reproduce TABLE`: exit code of the sweep, or 0 where nothing had to run. budget: the
    table's where it is None. Raises ValueError for an unknown table, SweepError for one that
    nothing here makes."""
    chosen = find_table(table, paper)
    _refuse_others(source_of(chosen, paper))
    given["budget"] = budget or chosen.entry.budget
    make = _from_experiment if chosen.entry.experiment else _from_suite
    return make(console, chosen, no_run=no_run, **given)


def _refuse_others(source: TableSource) -> None:
    """Raises SweepError, with the way, for a published table that this command does not make."""
    if source.command.startswith("bench reproduce"):
        return
    way = f"is not made here: {source.why}"
    if source.command:
        way = f"is set beside ours by: {source.command}"
    raise SweepError(f"{source.table} {way}; `bench reproduce --list` says what is")


def _from_suite(console: Console, table: PaperTable, *, no_run: bool, **given: Any) -> int:
    """A table that a run stands beside: RUNS/NAME holds it, by default <suite>-<budget>."""
    from ....reports.reproduction.comparison import write_comparison
    from ...results.evidence_builder import evidence_of
    from ...results.seed_ensembles import with_ensembles
    from .. import sweep

    published, suite = published_table(table.paper, table.name), suite_of(table)
    if table.entry.only_its_datasets and not given["datasets"]:
        known = published.dataset_names()
        given["datasets"] = tuple(name for name in suite.datasets if name in known)
    if table.entry.level_suffix and not given["models"]:
        given["models"] = tuple(published.model_names())
    request = sweep.request_of(
        suite,
        task=None,
        sampler=None,
        space=None,
        seed=0,
        timeout=None,
        memory_mb=None,
        reuse=(),
        address="local",
        allow_code_change=False,
        **{name: value for name, value in given.items() if name != "tracking_uri"},
    )
    code = OK
    if no_run:
        check_run(request.folder)
    else:
        code = sweep.run_and_report(console, request, given["tracking_uri"])
        if code not in (OK, FAILED):
            return code
    evidence = with_ensembles(
        evidence_of([request.folder]), [request.folder], mirror=request.mirror, cache=request.cache
    )
    files = write_comparison(evidence, published, request.folder / "report")
    _show(console, files, [path for path in files if path.suffix == ".md"])
    return code


def _from_experiment(
    console: Console,
    table: PaperTable,
    *,
    no_run: bool,
    budget: str,
    runs: Path,
    name: str | None,
    device: str,
    mirror: str | None,
    cache: str | None,
    **rest: Any,
) -> int:
    """A table that an experiment measures: RUNS/NAME holds it, by default <experiment>-<size>."""
    unused = sorted(k for k in ("models", "datasets", "folds", "trials") if rest.get(k))
    if unused:
        raise SweepError(f"{table.name} is no sweep: it takes no --{unused[0].rstrip('s')}")
    experiment = find_experiment(table.entry.experiment, table.paper.folder)
    size: Size = "full" if budget in FULL else "reduced"
    out = runs / check_name(name or f"{experiment.name}-{size}")
    folder = out / experiment.name
    if _facts_of(folder, size) is None:
        from ...papers.run_experiment import run_experiment

        if no_run:
            raise NoRun(f"{folder} holds no {size} {experiment.name}; leave --no-run out")
        check_gpu(device)
        console.say(f"{experiment.name}, {size}: {getattr(experiment, size)}")
        run_experiment(
            experiment,
            size=size,
            device=device,
            out=out,
            say=console.say,
            mirror=mirror,
            cache=cache,
        )
    else:
        console.say(f"{folder} holds what was measured before; without that folder it runs anew")
    _show(console, sorted(folder.glob(f"{table.name}.*")), [folder / f"{table.name}.md"])
    return OK


def _facts_of(folder: Path, size: str) -> dict[str, Any] | None:
    """The facts of an experiment of that size that ended in `folder`."""
    try:
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("size") == size else None


def _show(console: Console, files: list[Path], pages: list[Path]) -> None:
    """Print the pages and where the files are."""
    for path in pages:
        console.say(path.read_text(encoding="utf-8").rstrip())
    console.say("\n".join(str(path) for path in files))
    console.data({"files": [str(path) for path in files]})
