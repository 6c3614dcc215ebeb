"""`bench reproduce TABLE --from`: published values beside another tool's results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...arguments import flag_of
from ...console import NOTHING, OK, Console
from ...errors import SweepError
from ...papers.catalog import find_entry, published_tables
from ...papers.published_values import published_table
from ...planning.options import FIELDS, Options

# Options that say where things are: also those of an environment in which sweeps run.
PLACES = {"runs", "tracking_uri"}


def reproduce_from_results(
    console: Console,
    table: str | None,
    options: Options,
    results: Path,
    paper: Path | None,
    *,
    out: Path | None,
) -> int:
    """Write a published table beside the results in a CSV to `out` (default: report/ beside the
    CSV), and print it. Models of --model are rows, too: methods of the file, or else models that
    run. Exit code NOTHING where no result stands beside a published value.

    Raises SweepError for a table that no suite stands behind and for options of a run without one,
    EvidenceError and DataError for the file.
    """
    if table is None:
        raise SweepError("--from goes with a table; bench reproduce --list names them")
    chosen, known = find_entry(table, paper), published_tables(paper)
    if table not in known:
        raise SweepError(
            f"{table} is not of scores by dataset and method, so that no results stand beside it; "
            f"these are: {', '.join(known)}"
        )
    from ....datasets import catalog
    from ....reports.aggregation import choice
    from ....reports.output.tables import to_text
    from ....reports.reproduction.comparison import (
        is_empty,
        whole_comparison,
        write_comparison,
    )
    from ....reports.reproduction.names import fitted, with_models_of
    from ...results.entrants import results_file
    from ...results.evidence_builder import noting

    published, file = published_table(chosen.paper, table), results_file(results)
    built_in = set(published.dataset_names()).intersection(catalog.built_in())
    evidence = file.evidence(
        chosen.paper.file.table[table].untuned, {name: catalog.card(name).task for name in built_in}
    )
    rows = [name for name in options.models if name in evidence.models]
    evidence, hints = fitted(evidence, published, chosen.paper.file.aliases, keep=rows)
    evidence = noting(evidence, *hints)
    run = tuple(name for name in options.models if name not in rows)
    for name in () if run else sorted(options.given().keys() - PLACES - {"models", "datasets"}):
        flag = flag_of(FIELDS[name])
        raise SweepError(f"--from runs nothing without a --model of yours, so it takes no {flag}")
    code = OK
    if run:
        from .reproduce import names_in_tables, run_of

        budget = options.budget or chosen.entry.budget
        options = replace(options, models=run, budget=budget)
        code, mine, _ = run_of(console, chosen, options, no_run=False)
        if mine is None:
            return code
        names = names_in_tables(chosen, options)
        evidence, rows = with_models_of(evidence, mine, names), [*rows, *names]
    if options.datasets:
        evidence = choice.only(evidence, datasets=options.datasets)
    notes = evidence.facts.notes
    section = whole_comparison(evidence, published, rows)
    files = write_comparison(section, out or file.folder / "report")
    console.data({"files": [str(path) for path in files], "notes": notes})
    if is_empty(section):
        for note in notes:  # else they stand below the table
            console.tell(f"note: {note}")
        why = next(path for path in files if path.suffix == ".md")
        console.say(f"no value of {table} has one of {results} beside it; {why} says why")
        return NOTHING
    console.say(to_text(section).rstrip())
    console.say("\n".join(str(path) for path in files))
    return code
