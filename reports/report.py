"""The report of a run: its sections computed, and written as tables, diagrams and HTML pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from . import paper
from .aggregation import anytime, at_times
from .aggregation import by_size as by_size_of
from .aggregation.cells import cells, headline_cells, studies
from .aggregation.ranking_matrix import RankingMatrix, ranking_matrices, widest
from .evidence import Evidence, EvidenceError
from .metrics import METRICS
from .optional import made
from .output import escape, footnotes
from .output.files import render, write_files
from .output.tables import Section
from .sections import (
    across_datasets,
    beside,
    by_size,
    coverage_and_costs,
    folds,
    implausible,
    leaderboard,
    out_of_fold,
    regimes,
    scores,
    seeds,
    time,
)

# Files that not every report has; those of an earlier report in the same folder are deleted.
NOT_ALWAYS = (
    "folds.tex",
    "seeds.*",
    f"{out_of_fold.NAME}.*",
    "time.*",
    "beside.*",
    f"{by_size.NAME}.*",
    f"{regimes.NAME}.*",
    "paper/*",
    # of 0.2.0 and before
    *("scores.parquet", "ranks.*", "regimes.*", "regime-scores.*"),
    *("figures/critical-difference-*", "figures/time.svg"),
    "html/index.html",
    "html/dataset-*",
    "html/model-*",
)


@dataclass(frozen=True)
class Parts:
    """The computed parts of a report: its sections, and what the figures are drawn from."""

    sections: list[Section]
    matrices: list[RankingMatrix]  # one for each scope
    steps: pd.DataFrame  # anytime.running
    timed: pd.DataFrame  # at_times.ranks_at
    missed: list[str]  # a sentence on each optional part that could not be made


def parts_of(
    evidence: Evidence,
    *,
    reference: str | None = None,
    fallback: str | None = None,
    apart: pd.DataFrame | None = None,
    by_regime: tuple[pd.DataFrame, Sequence[str]] | None = None,
) -> Parts:
    """Compute the sections: implausible cells, scores, leaderboard, tests across datasets
    and across folds, seeds (if a configuration ran under several), coverage, costs, and
    scores against time (where CPU seconds are known).

    `reference`, `fallback`: names of models, see `across_datasets` and `leaderboard`.
    `apart`: published scores on other splits, see `beside.section`. `by_regime`: each model's
    default, tuned and ensembled results with notes on them, see `sections.regimes`.
    """
    evidence.validate()
    _refuse_alike(evidence)
    table = studies(evidence)
    blocks = {
        (task, name): cells(evidence, table[table["task"] == task], name)
        for task in evidence.tasks
        for name in evidence.test_metrics(task)
    }
    heads = [blocks[task, evidence.headline(task)] for task in evidence.tasks]
    headline = pd.concat(heads, ignore_index=True)
    matrices = ranking_matrices(evidence, headline)
    missed: list[str] = []
    alarms = implausible.section(evidence, table, headline)
    steps = anytime.running(evidence)

    def at_equal_time() -> tuple[list[Section], pd.DataFrame]:
        spent = at_times.spent(evidence, steps)
        scored = at_times.cells_at(spent, headline, at_times.times(spent))
        timed = at_times.ranks_at(evidence, scored)
        return [time.section(evidence, spent, timed)] if len(timed) else [], timed

    never: list[Section] = []
    nowhere = never, at_times.ranks_at(evidence, at_times.cells_at(steps, headline, []))
    of_time, timed = made("The scores against time", at_equal_time, nowhere, missed)

    def optional(what: str, make: Callable[[], list[Section]]) -> list[Section]:
        return made(what, make, [], missed)

    sections = [
        alarms,
        *optional(out_of_fold.TITLE, lambda: _bags(evidence)),
        scores.section(evidence, blocks, matrices),
        leaderboard.section(
            evidence, headline, matrices, fallback, caveat=implausible.caveat(alarms.frame)
        ),
        across_datasets.section(evidence, matrices, reference),
        *optional("The scores by size", lambda: _by_size(evidence)),
        folds.section(evidence, table, headline),
        *optional("The scores by seed", lambda: _seeds(evidence)),
        *optional(regimes.TITLE, lambda: _regimes(evidence, by_regime)),
        *([beside.section(evidence, apart)] if apart is not None and len(apart) else []),
        coverage_and_costs.coverage(evidence, table),
        coverage_and_costs.costs(evidence),
        *of_time,
    ]
    return Parts(sections, matrices, steps, timed, missed)


def _refuse_alike(evidence: Evidence) -> None:
    """Two models, or two datasets, that every output prints alike: each would show the numbers of
    the other. The one place that holds labels to be different."""
    for what, names in (("models", evidence.models), ("datasets", evidence.datasets())):
        printed: dict[str, str] = {}
        for name in names:
            other = printed.setdefault(escape.one_line(escape.label(name)), name)
            if other != name:
                raise EvidenceError(
                    f"two {what} would be printed alike, {other!r} and {name!r}: rename one"
                )


def _bags(evidence: Evidence) -> list[Section]:
    section = out_of_fold.section(evidence)
    return [section] if section is not None else []


def _by_size(evidence: Evidence) -> list[Section]:
    return [by_size.section(evidence)] if by_size_of.has_sizes(evidence) else []


def _seeds(evidence: Evidence) -> list[Section]:
    return [seeds.section(evidence)] if seeds.has_seeds(evidence) else []


def _regimes(
    evidence: Evidence, by_regime: tuple[pd.DataFrame, Sequence[str]] | None
) -> list[Section]:
    """The section of default, tuned and ensembled results; none where nothing has a score."""
    if by_regime is None or not by_regime[0]["score"].notna().any():
        return []
    frame, notes = by_regime
    own = regimes.as_evidence(evidence, frame)
    headline = headline_cells(own, studies(own))
    board = leaderboard.section(own, headline, ranking_matrices(own, headline)).frame
    return [regimes.section(evidence, frame, headline, board, notes)]


def rescored_section(evidence: Evidence, name: str, notes: Sequence[str]) -> Section:
    """The file `metric-<name>`: the score tables for the evidence of `rescored.with_metric`."""
    said = [
        *evidence.facts.notes,
        f"{METRICS[name].label} was computed again from the stored predictions; the configurations "
        "are those that validation chose by the sweep's own metric.",
        *notes,
    ]
    evidence = evidence.knowing(notes=said)
    table = studies(evidence)
    blocks = {
        (task, name): cells(evidence, table[table["task"] == task], name) for task in evidence.tasks
    }
    headline = pd.concat(blocks.values(), ignore_index=True)
    matrices = ranking_matrices(evidence, headline)
    scored = scores.section(evidence, blocks, matrices)
    return replace(
        scored,
        name=f"metric-{name.replace('_', '-')}",
        title=METRICS[name].label,
        remarks=(leaderboard.verdict(widest(matrices), evidence.own),),
    )


def write(
    evidence: Evidence,
    out: str | Path,
    parts: Parts | None = None,
    *,
    html: bool = True,
) -> list[Path]:
    """Write the report into the folder `out` and return the paths of its files: <section>.tex, .md
    and .csv for each section, about.md, a paper's tables and figures in `paper/` and, with `html`,
    the pages in `html/`.

    `parts`: `parts_of` the evidence, by default without options.

    `out` is created if it is missing; each file is written atomically. The same evidence, in any
    order of rows, gives the same bytes. Files of an earlier report that this one does not have
    (pages, diagrams) are deleted. Raises EvidenceError for evidence that breaks a law.
    """
    parts = parts or parts_of(evidence)
    missed = parts.missed
    texts: dict[str, str | bytes] = {}
    for part in parts.sections:
        texts.update(render(part))
    texts.update(made(f"The folder {paper.FOLDER}", lambda: _paper(evidence, parts), {}, missed))
    if html:
        texts.update(made("The folder html/", lambda: _pages(evidence, parts), {}, missed))
    pages = "html/index.html" in texts
    texts["about.md"] = about(_noting(evidence, missed), parts.sections, pages)
    written = write_files(texts, out)
    there = {path for pattern in NOT_ALWAYS for path in Path(out).glob(pattern)}
    for path in there.difference(written):
        path.unlink()
    return written


def _paper(evidence: Evidence, parts: Parts) -> dict[str, str | bytes]:
    missed = parts.missed
    against = {
        "time": made(
            "The figure of ranks at equal time",
            lambda: time.plot(evidence, parts.timed),
            None,
            missed,
        ),
        by_size.NAME: made("The figure by size", lambda: by_size.plot(evidence), None, missed),
    }
    return paper.files(evidence, parts.sections, parts.matrices, against, missed=missed)


def _pages(evidence: Evidence, parts: Parts) -> dict[str, str]:
    from .html.write import pages

    texts = pages(_noting(evidence, parts.missed), parts)
    return {f"html/{name}": text for name, text in texts.items()}


def _noting(evidence: Evidence, missed: list[str]) -> Evidence:
    return evidence.knowing(notes=[*evidence.facts.notes, *missed])


def about(evidence: Evidence, parts: list[Section], html: bool = True) -> str:
    """The file about.md: suite, protocol, versions, machine and the list of files."""
    facts, esc = evidence.facts, escape.markdown
    lines = ["# About this report", ""]
    lines += [f"> {esc(escape.one_line(note))}\n" for note in facts.notes]
    models = {"models": footnotes.join(evidence.models, limit=100)}
    lines += _list({**footnotes.about(evidence), "datasets": len(evidence.datasets()), **models})
    for task in evidence.tasks:
        title = footnotes.TASK_TITLES[task].capitalize()
        named = footnotes.metric_title(evidence.headline(task))
        lines += ["", f"## {title}: {esc(named)}", ""]
        protocol = facts.protocol
        lines += _list({d: protocol.get(d, "protocol not stated") for d in evidence.datasets(task)})
    for title, known in (
        ("Left out", facts.left_out),
        ("Versions", facts.versions),
        ("Environment", facts.environment),
    ):
        if known:
            lines += ["", f"## {title}", "", *_list({name: known[name] for name in sorted(known)})]
    lines += ["", "## Files", ""]
    for part in parts:
        names = ", ".join(f"`{part.name}.{ending}`" for ending in part.endings)
        lines.append(f"- {names}: {part.about}")
    if html:
        lines.append(
            "- `html/index.html`: all of this as a page, with filters; a page a dataset and a model"
        )
    lines.append(
        "- `paper/main.tex`: a paper's tables and figures, one a file, how they were computed, and "
        "the sources of models and datasets"
    )
    return "\n".join(lines) + "\n"


def _list(facts: Mapping[str, object]) -> list[str]:
    return [
        f"- **{escape.markdown(escape.label(str(name)))}**: "
        f"{escape.markdown(escape.one_line(str(value)))}"
        for name, value in facts.items()
    ]
