"""What does `bench report` write? Five or six files of tables, and one page about the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from . import accounts, context, escape, pairwise, rankings, scores, seeds, tables
from .cells import cells, pool, scopes, studies
from .evidence import Evidence
from .tables import Section

# The files that hold no time and no hardware: the same results give the same bytes anywhere.
TIMELESS = ("scores", "ranks", "tests", "seeds")


def sections(evidence: Evidence) -> list[Section]:
    """The report's parts, computed: scores, ranks, tests, seeds where a configuration ran under
    several, coverage, costs."""
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
    return [
        scores.section(evidence, blocks, pools),
        rankings.section(evidence, pools),
        pairwise.section(evidence, pools),
        *([seeds.section(evidence)] if seeds.has_seeds(evidence) else []),
        accounts.coverage(evidence, table),
        accounts.costs(evidence),
    ]


def write(evidence: Evidence, out: str | Path) -> list[Path]:
    """Write <section>.tex, .md and .csv for each section, and about.md; return the paths.

    `out` is made where it is missing. Each file appears whole or not at all. The same evidence, in
    any order of rows, gives the same bytes. Raises EvidenceError for evidence that breaks a law.
    """
    parts = sections(evidence)
    texts = {"about.md": about(evidence, parts)}
    for part in parts:
        texts.update(render(part))
    return write_files(texts, out)


def write_files(texts: Mapping[str, str], out: str | Path) -> list[Path]:
    """Write each text to its file under `out`, whole or not at all; return the sorted paths."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    return [_write_whole(folder / name, text) for name, text in sorted(texts.items())]


def render(section: Section) -> dict[str, str]:
    """File name -> text of a section in its three forms."""
    return {
        f"{section.name}.tex": tables.to_latex(section.tables),
        f"{section.name}.md": tables.to_markdown(section),
        f"{section.name}.csv": tables.to_csv(section.frame),
    }


def about(evidence: Evidence, parts: list[Section]) -> str:
    """The page that says what the numbers are numbers of: suite, protocol, versions, machine."""
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
        "models": context.join(evidence.models, limit=100),
        "last record (UTC)": meta.get("last_record_utc"),
        "code": meta.get("code"),
        "lock file": meta.get("lock"),
    }
    lines += _list({k: v for k, v in facts.items() if v not in (None, "")})
    for task in evidence.tasks:
        title = context.TASK_TITLES[task].capitalize()
        named = context.metric_title(evidence.headline(task))
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
        "ranks": "mean and median ranks, win rates",
        "tests": "Friedman, and Wilcoxon with Holm's correction for every pair of models",
        "seeds": "the chosen configurations over the seeds of one split, and ensembles of them",
        "coverage": "what was run, what failed and why",
        "costs": "trials, CPU and wall seconds, memory",
    }
    lines += [f"- `{p.name}.tex`, `{p.name}.md`, `{p.name}.csv`: {files[p.name]}" for p in parts]
    return "\n".join(lines) + "\n"


def _list(facts: Mapping[str, object]) -> list[str]:
    return [
        f"- **{escape.markdown(escape.label(str(name)))}**: "
        f"{escape.markdown(escape.one_line(str(value)))}"
        for name, value in facts.items()
    ]


def _write_whole(path: Path, text: str) -> Path:
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(text.encode("utf-8"))
    os.replace(beside, path)
    return path
