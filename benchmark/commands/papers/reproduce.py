"""`bench reproduce`: run what a published table needs, then print published values beside ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....common.text import first_few, suggest
from ...arguments import flag_of
from ...console import BEHIND, FAILED, NOTHING, OK, Console, count
from ...errors import NoRun, SweepError, check_gpu, check_name, check_run
from ...papers.catalog import (
    Experiment,
    PaperEntry,
    entries,
    experiments,
    find_entry,
    find_experiment,
    suite_of,
)
from ...papers.cost_tables import as_printed
from ...papers.experiment_result import TINY, Setting, Size
from ...papers.published_values import published_table, table_rows
from ...planning.options import FIELDS, Options

if TYPE_CHECKING:
    from ....reports.evidence import Evidence

SIZES: dict[str, Size] = {"tiny": "tiny", "reduced": "reduced", "full": "full", "paper": "full"}


def list_tables(console: Console, paper: Path | None = None) -> int:
    """`bench reproduce --list`: every table and figure. paper: the folder of a paper, instead of
    the built-in ones."""
    rows = [entry.to_data() for entry in entries(paper)]
    console.data(rows)
    known = experiments(paper)
    for number, (reference, group) in enumerate(groupby(rows, lambda row: row["reference"])):
        console.say(f"{chr(10) if number else ''}{reference}")
        lines = [[row["name"], row.get("command", "none"), _said(row, known)] for row in group]
        console.table(["name", "command", "what it shows, or why there is none"], lines)
    return OK


def _said(row: Mapping[str, Any], known: Mapping[str, Experiment]) -> str:
    """One line on a table or figure: what ours shows, or why nothing does."""
    what = row["title"].partition(", ")[2] or row["title"]
    if "metric" in row:
        return f"{what}: {row['metric']}; {count(row.get('cells', 0), 'published value')}"
    if "experiment" in row:
        return f"{what}: {known[row['experiment']].entry.title}"
    return f"{what}: {row['why']}" if "why" in row else what


def reproduce_command(
    console: Console, table: str, options: Options, *, paper: Path | None, no_run: bool
) -> int:
    """`bench reproduce NAME`: exit code of the sweep, or 0 where nothing had to run. The budget is
    the table's where none is given. Raises ValueError for an unknown table or figure, SweepError
    where no sweep and no experiment makes the table or figure."""
    chosen = find_entry(table, paper)
    if not chosen.is_reproduced:
        way = f"is not made here: {chosen.entry.why}"
        if chosen.command:
            way = f"has its counterpart in: {chosen.command}"
        if chosen.is_table and chosen.paper.file.table[chosen.name].published:
            return _as_printed(console, chosen, f"{chosen.name} {way}")
        raise SweepError(f"{chosen.name} {way}; `bench reproduce --list` says what is")
    options = replace(options, budget=options.budget or chosen.entry.budget)
    if chosen.is_table and chosen.entry.suite:
        return _from_suite(console, chosen, options, no_run=no_run)
    return _from_experiment(console, chosen, options, no_run=no_run)


def _as_printed(console: Console, table: PaperEntry, way: str) -> int:
    """The published values alone, and why nothing of ours stands beside them."""
    from ....reports.output.tables import to_text

    rows, title = table_rows(table.paper, table.name), table.paper.file.table[table.name].title
    section = as_printed(rows, table.name, title, (f"{way}.",))
    console.say(to_text(section).rstrip())
    shown = section.frame.astype(object).where(section.frame.notna(), None)
    console.data({"published": shown.to_dict("records"), "why": way})
    return OK


def _from_suite(console: Console, table: PaperEntry, options: Options, *, no_run: bool) -> int:
    """A table that a run stands beside: RUNS/NAME holds it, by default <suite>-<budget>."""
    from ....reports.output.tables import to_text
    from ....reports.reproduction.comparison import is_empty, whole_comparison, write_comparison

    code, evidence, folder = run_of(console, table, options, no_run=no_run)
    if evidence is None:
        return code
    paper = table.paper.for_run(set(evidence.trials["dataset"]))
    published = published_table(paper, table.name)
    section = whole_comparison(evidence, published, names_in_tables(table, options))
    files = write_comparison(section, folder / "report")
    _show(console, files, to_text(section))
    if is_empty(section):
        console.warn(f"{folder} has nothing that stands beside a value of {table.name}")
    return NOTHING if is_empty(section) and code == OK else code


def names_in_tables(table: PaperEntry, options: Options) -> list[str]:
    """What tables call the models of --model. Raises UnknownModel."""
    from ...planning.own_models import find_model

    budget = suite_of(table).budget(options.budget)[1]
    return [n if n in budget.model else find_model(n).name for n in options.models]


def run_of(
    console: Console, table: PaperEntry, options: Options, *, no_run: bool
) -> tuple[int, Evidence | None, Path]:
    """(exit code, evidence with ensembles of seeds, folder) of the run behind a table, which runs
    as far as it lacks something, unless `no_run`; no evidence where it did not end, or was only
    planned (--dry-run)."""
    from ...results.evidence_builder import evidence_of
    from ...results.seed_ensembles import with_ensembles
    from ...running.request import import_folders, models_of
    from .. import sweep

    published, suite = published_table(table.paper, table.name), suite_of(table)
    paper, known = table.paper, published.dataset_names()
    known += [name for name in paper.file.stand_ins if paper.whole(name) in known]
    known = [name for name in suite.datasets if name in known]
    if not options.datasets:  # a suite may have datasets of other tables
        options = replace(options, datasets=tuple(known))
    elif known and not set(known).intersection(options.datasets):  # Hopular's medians name none
        named = first_few(options.datasets, 5)
        raise SweepError(f"{table.name} has no value on {named}; it has: {', '.join(known)}")
    budget, rows = suite.budget(options.budget)[1], published.model_names()
    mine = tuple(name for name in rows if name in budget.models or name in budget.model)
    if not options.models and set(mine) != set(budget.models):
        options = replace(options, models=mine)  # the table lacks some, or has some of its own
    request = sweep.request_of(console, suite, options)
    request.paths = import_folders(models_of(request))
    if options.dry_run:
        return sweep.dry_run(console, request), None, request.folder
    code = OK
    if no_run:
        check_run(request.folder)
    else:
        code = sweep.run_and_report(console, request, cost_first=True)
        if code not in (OK, FAILED, BEHIND):
            return code, None, request.folder
    evidence = with_ensembles(evidence_of([request.folder]), [request.folder])
    return code, evidence, request.folder


def _from_experiment(console: Console, table: PaperEntry, options: Options, *, no_run: bool) -> int:
    """A table or figure that an experiment shows: RUNS/NAME holds it, by default
    <experiment>-<size>, on another device than the CPU with its name."""
    from ....reports.output.escape import from_markdown

    of_sweeps = "models", "datasets", "folds", "trials", "workers", "address"
    for name in sorted(options.given(*of_sweeps)):
        raise SweepError(f"{table.name} is no sweep: it takes no {flag_of(FIELDS[name])}")
    experiment = find_experiment(table.entry.experiment, table.paper.folder)
    budget, device = options.budget, options.device
    if budget not in SIZES:
        raise SweepError(f"{table.name} has no budget {budget!r}; {suggest(str(budget), SIZES)}")
    size = SIZES[budget]
    where = "" if device == "cpu" else f"-{device}"
    run = check_name(options.name or f"{experiment.name}-{size}{where}")
    folder = options.runs / run / experiment.name
    if _facts_of(folder, size, device) is None:
        from ...papers.run_experiment import run_experiment

        if no_run:
            raise NoRun(
                f"{folder} holds no {size} {experiment.name} on {device}; leave --no-run out"
            )
        check_gpu(device)
        planned = experiment.in_words(size)
        console.say(f"{experiment.name}, {size}: {planned}")
        if options.dry_run:
            console.say(f"to be written to {folder}; --budget reduced or tiny is less")
            console.data({"experiment": experiment.name, "size": size, "planned": planned})
            return OK
        run_experiment(experiment, Setting(size, 0, device, 1, folder, console.say))
    else:
        console.say(f"{folder} holds what was measured before; without that folder it runs anew")
    names = table.entry.shows or [table.name]
    own = [path for name in names for path in sorted(folder.glob(f"{name}.*"))]
    files = own or [path for path in sorted(folder.iterdir()) if path.is_file()]
    pages = [path for path in files if path.suffix == ".md" and path.stem != "README"]
    texts = [from_markdown(path.read_text(encoding="utf-8")) for path in pages]
    texts[1:] = [text.partition("\n")[2] for text in texts[1:]]  # all have the same heading
    _show(console, files, "\n".join(texts))
    for remark in (_facts_of(folder, size, device) or {}).get("remarks", []):
        if remark != TINY:
            console.say(remark)
    if size == "tiny":
        console.warn(TINY)
    return OK


def _facts_of(folder: Path, size: str, device: str) -> dict[str, Any] | None:
    """The facts of an experiment of that size that ended in `folder`, on that device."""
    try:
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(facts, dict) or facts.get("size") != size:
        return None
    return facts if facts.get("device", "cpu") == device else None


def _show(console: Console, files: list[Path], text: str) -> None:
    """Print a page and where the files are."""
    console.say(text.rstrip())
    console.say("\n".join(str(path) for path in files))
    console.data({"files": [str(path) for path in files]})
