"""What does `bench report` write? Five or six files of tables, and one page about the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..common.files import write_atomically
from .aggregation.cells import Pool, cells, pool, scopes, studies
from .evidence import Evidence
from .output import escape, footnotes, parquet, tables
from .output.tables import Section
from .sections import (
    coverage_and_costs,
    critical_difference,
    folds,
    leaderboard,
    nemenyi,
    ranks,
    scores,
    seeds,
    wilcoxon_tests,
)

# The files that hold no time and no hardware: the same results give the same bytes anywhere.
TIMELESS = ("scores", "leaderboard", "ranks", "tests", "folds", "seeds")
# What not every report has: left by an earlier one in the same folder, it would tell old numbers.
NOT_ALWAYS = ("seeds.*", "figures/critical-difference-*", "html/index.html", "html/dataset-*")


@dataclass(frozen=True)
class Parts:
    """What a report is made of: its sections, and what figures are drawn from."""

    sections: list[Section]
    headline: pd.DataFrame  # cells of each task's headline metric
    pools: list[Pool]  # the complete matrix of every scope


def parts_of(
    evidence: Evidence,
    *,
    reference: str | None = None,
    fallback: str | None = None,
    ranking: str = "average",
) -> Parts:
    """The report's parts, computed: scores, leaderboard, ranks, tests across datasets, across folds
    and, where a configuration ran under several, across seeds; coverage, costs.

    `reference`, `fallback`: names of models, see `posthoc.added` and `leaderboard.section`.
    `ranking`: the rules of the file `ranks`, a name of `conventions`.
    """
    evidence.validate()
    table = studies(evidence)
    blocks = {
        (task, name): cells(evidence, table[table["task"] == task], name)
        for task in evidence.tasks
        for name in evidence.test_metrics(task)
    }
    heads = [blocks[task, evidence.headline(task)] for task in evidence.tasks]
    headline = pd.concat(heads, ignore_index=True)
    pools = [pool(evidence, headline, scope) for scope in scopes(evidence)]
    found = [
        scores.section(evidence, blocks, pools),
        leaderboard.section(evidence, headline, pools, fallback),
        ranks.section(evidence, pools, ranking),
        nemenyi.added(wilcoxon_tests.section(evidence, pools), evidence, pools, reference),
        folds.section(evidence, table, headline),
        *([seeds.section(evidence)] if seeds.has_seeds(evidence) else []),
        coverage_and_costs.coverage(evidence, table),
        coverage_and_costs.costs(evidence),
    ]
    return Parts(found, headline, pools)


def sections(
    evidence: Evidence, *, reference: str | None = None, fallback: str | None = None
) -> list[Section]:
    """The sections alone, as `parts_of` computes them."""
    return parts_of(evidence, reference=reference, fallback=fallback).sections


def write(
    evidence: Evidence,
    out: str | Path,
    *,
    siunitx: bool = False,
    reference: str | None = None,
    fallback: str | None = None,
    ranking: str = "average",
    html: bool = True,
    parts: Parts | None = None,
) -> list[Path]:
    """Write <section>.tex, .md and .csv for each section, scores.parquet, about.md and the folder
    `figures` with the critical-difference diagrams and, with `html`, the folder `html` of pages;
    return the paths.

    `siunitx`: LaTeX columns stand on their decimal points. `reference`: the model that all others
    are tested against (default: the best by mean rank). `fallback`: the model whose score stands
    for a missing one in the leaderboard's second view (default: `constant`, or 'worst'). `ranking`:
    whose rules the file `ranks` follows, ours ('average'), 'npt' or 'hopular'. `parts`: those of
    this evidence and these options, where they are computed already. `out` is made where
    it is missing. Each file appears whole or not at all. The same evidence, in any order
    of rows, gives the same bytes. What an earlier report left there and this one has not (pages, a
    diagram) goes. Raises EvidenceError for evidence that breaks a law.
    """
    found = parts or parts_of(evidence, reference=reference, fallback=fallback, ranking=ranking)
    texts: dict[str, str | bytes] = dict(critical_difference.critical_differences(found.pools))
    for part in found.sections:
        texts.update(render(part, siunitx=siunitx))
    texts["scores.parquet"] = parquet.to_parquet(found.sections[0].frame)
    if html:
        from .html.write import pages

        made = pages(evidence, found.sections, sorted(texts))
        texts.update({f"html/{name}": text for name, text in made.items()})
    texts["about.md"] = about(evidence, found.sections, sorted(texts))
    written = write_files(texts, out)
    there = {path for pattern in NOT_ALWAYS for path in Path(out).glob(pattern)}
    for path in there.difference(written):
        path.unlink()
    return written


def write_files(texts: Mapping[str, str | bytes], out: str | Path) -> list[Path]:
    """Write each text to its file under `out`, whole or not at all; return the sorted paths."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for parent in {(folder / name).parent for name in texts}:
        parent.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        data = text.encode("utf-8") if isinstance(text, str) else text
        write_atomically(folder / name, data, sync=False)
    return [folder / name for name in sorted(texts)]


def render(section: Section, *, siunitx: bool = False) -> dict[str, str]:
    """File name -> text of a section in its three forms."""
    return {
        f"{section.name}.tex": tables.to_latex(section.tables, aligned=siunitx),
        f"{section.name}.md": tables.to_markdown(section),
        f"{section.name}.csv": tables.to_csv(section.frame),
    }


def about(evidence: Evidence, parts: list[Section], others: Sequence[str] = ()) -> str:
    """The page that says what the numbers are numbers of: suite, protocol, versions, machine.
    others: names of further files of the report."""
    meta, esc = evidence.meta, escape.markdown
    lines = ["# About this report", ""]
    lines += [f"> {esc(escape.one_line(str(note)))}\n" for note in meta.get("notes") or []]
    facts = {
        "suite": meta.get("suite"),
        "suite hash": meta.get("suite_hash"),
        "budget": meta.get("budget"),
        "sampler": meta.get("sampler"),
        "seed": meta.get("seed"),
        "datasets": len(evidence.datasets()),
        "models": footnotes.join(evidence.models, limit=100),
        "last record (UTC)": meta.get("last_record_utc"),
        "code": meta.get("code"),
        "lock file": meta.get("lock"),
    }
    lines += _list({k: v for k, v in facts.items() if v not in (None, "")})
    for task in evidence.tasks:
        title = footnotes.TASK_TITLES[task].capitalize()
        named = footnotes.metric_title(evidence.headline(task))
        lines += ["", f"## {title}: {esc(named)}", ""]
        protocol = meta.get("protocol") or {}
        lines += _list({d: protocol.get(d, "protocol not stated") for d in evidence.datasets(task)})
    for title, key in (
        ("Left out", "left_out"),
        ("Versions", "versions"),
        ("Environment", "environment"),
    ):
        facts = dict(meta.get(key) or {})
        if facts:
            lines += ["", f"## {title}", ""]
            lines += _list({str(k): facts[k] for k in sorted(facts, key=str)})
    lines += ["", "## Files", ""]
    files = {
        "scores": "every model on every dataset: mean over folds, its standard error or spread",
        "leaderboard": "Elo, mean rank, wins, normalised score and improvability with 95 % "
        "intervals: on complete datasets, and with missing cells imputed",
        "ranks": "mean and median ranks, win rates",
        "tests": "across datasets: Friedman, Nemenyi, and Wilcoxon with Holm's correction for "
        "every pair of models and for all against one reference",
        "folds": "within a dataset, across its folds: the best model against each other one",
        "seeds": "within one split, across seeds: the chosen configurations, and ensembles of them",
        "coverage": "what was run, what failed and why",
        "costs": "trials, CPU and wall seconds, memory",
    }
    lines += [f"- `{p.name}.tex`, `{p.name}.md`, `{p.name}.csv`: {files[p.name]}" for p in parts]
    if "html/index.html" in others:
        lines.append("- `html/index.html`: all of this as a page, with filters; a page a dataset")
    if "scores.parquet" in others:
        lines.append("- `scores.parquet`: what `scores.csv` holds, unrounded")
    lines += [
        f"- `{name}`: critical-difference diagram as {kind}"
        for end, kind in ((".svg", "SVG"), (".pdf", "PDF"), (".tex", "TikZ"))
        for name in others
        if name.startswith("figures/") and name.endswith(end)
    ]
    return "\n".join(lines) + "\n"


def _list(facts: Mapping[str, object]) -> list[str]:
    return [
        f"- **{escape.markdown(escape.label(str(name)))}**: "
        f"{escape.markdown(escape.one_line(str(value)))}"
        for name, value in facts.items()
    ]
