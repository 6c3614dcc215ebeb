"""The page of a night, its summary in Markdown, and a file for each issue."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...reports.html.write import other_page
from ...reports.output.escape import markdown
from ...reports.output.files import write_files
from ..console import count, duration
from .checkout import SHORT
from .context import NightContext
from .findings import Column, Rows, bad, command_of, is_advisory, subject_of, table
from .step_result import ADVISORY, NO_DATA, NOT_RUN, OK, REGRESSION, Night, StepResult

HERE = Path(__file__).parent
DRIFT = "-against-"  # in the name of a night that is judged against a release
NIGHTS = 60  # of the strip
IN_SUMMARY = 20  # findings of a step
SIGNS = {OK: "✓", ADVISORY: "~", REGRESSION: "!", NO_DATA: "?", NOT_RUN: "–"}
SAID = {
    OK: "nothing broke",
    ADVISORY: "nothing broke; something to look at",
    REGRESSION: "a regression",
    NO_DATA: "could not be judged",
    NOT_RUN: "not run",
}


def write_page(night: Night, context: NightContext) -> list[Path]:
    """Write night.html, summary.md and the folder issues/ into the night's folder; returns the
    files. The nights before come from the history, the baselines from the context."""
    before = past_nights(context.history, context.night.name)
    texts = {
        "night.html": page(night, context.baseline, before),
        "summary.md": summary(night, context.baseline, before),
    }
    for old in (context.night / "issues").glob("*.md"):
        old.unlink()
    files = issues(night, before, drift=DRIFT in context.night.name)
    return write_files(
        {**texts, **{f"issues/{name}": files[name] for name in files}}, context.night
    )


# ---------------------------------------------------------------------- what both forms say


def past_nights(history: Path, this: str) -> list[dict[str, Any]]:
    """The nights of the history before the night named `this`, the oldest first, each as it was
    recorded last: those against a release for one of these, else the others."""
    if not history.is_file():
        return []
    found: dict[str, dict[str, Any]] = {}
    for line in history.read_text(encoding="utf-8").splitlines():
        try:
            past = json.loads(line)
        except ValueError:  # a line that a crash has torn
            continue
        name = str(past["night"])
        if name != this and (DRIFT in name) == (DRIFT in this):
            found[name] = past
    return sorted(found.values(), key=lambda past: str(past["started"]))[-NIGHTS:]


def verdict_line(night: Night) -> str:
    """The verdict in one sentence.

    >>> step = StepResult("faults", REGRESSION, "1 of 9 tests failed")
    >>> verdict_line(Night("a" * 40, "b" * 40, "2026-11-22T02:17:00Z", {}, [step]))
    'Red: 1 step found a regression.'
    """
    n = {kind: sum(step.verdict == kind for step in night.steps) for kind in SAID}
    if night.red:
        said = []
        if n[REGRESSION]:
            said.append(f"{count(n[REGRESSION], 'step')} found a regression")
        if n[NO_DATA]:
            said.append(f"{count(n[NO_DATA], 'step')} could not judge")
        return f"Red: {', '.join(said)}."
    if n[ADVISORY]:
        return f"Nothing broke; {count(n[ADVISORY], 'step')} found something to look at."
    return "Nothing broke."


def red_since(step: StepResult, night: Night, before: Sequence[Mapping[str, Any]]) -> str:
    """Since which night a step has been red, and which commit was the last that was not.

    Nights in which the step did not run are passed over.
    """
    first, good = (night.started, night.commit), ""
    for past in reversed(before):
        verdict = next((s["verdict"] for s in past["steps"] if s["name"] == step.name), NOT_RUN)
        if verdict in (REGRESSION, NO_DATA):
            first = (past["started"], past["commit"])
        elif verdict != NOT_RUN:
            good = past["commit"]
            break
    since = f"Red since the night of {first[0][:10]} ({first[1][:SHORT]})"
    return f"{since}; {good[:SHORT]} was not." if good else f"{since}."


def _why(night: Night) -> list[str]:
    """The headlines of the steps that are red, else of those that are advisories."""
    return [
        f"{step.name}: {step.headline}" + (f" ({step.reason})" if step.reason else "")
        for step in night.steps
        if step.red or (not night.red and is_advisory(step))
    ]


def _commit(name: str) -> str:
    """A commit for people: its first digits, and that the files were not all as in it."""
    return name[:SHORT] + (", with changes that are not committed" if "-changed-" in name else "")


def _facts(night: Night, baseline: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    host = night.host
    accepted = baseline or {}
    day = f", accepted {accepted['accepted']}" if accepted.get("commit") == night.baseline else ""
    return [
        ("commit", _commit(night.commit)),
        ("compared with", (night.baseline[:SHORT] or "nothing") + day),
        ("started (UTC)", night.started),
        ("machine", f"{host.get('cpu', 'unknown')}, {count(int(host.get('cores', 0)), 'core')}"),
        ("time", duration(sum(step.seconds for step in night.steps))),
        ("CPU time", duration(sum(step.cpu_s for step in night.steps))),
    ]


def _steps(night: Night) -> Rows:
    columns = [
        Column("name", "step"),
        Column("verdict", "verdict"),
        Column("headline", "found", words=True),
        Column("seconds", "time", numeric=True),
        Column("cpu", "CPU time", numeric=True),
    ]
    rows = [
        {
            "name": step.name,
            "verdict": f"{SIGNS[step.verdict]} {SAID[step.verdict]}",
            "headline": step.headline,
            "seconds": "" if step.verdict == NOT_RUN else f"{step.seconds:.0f} s",
            "cpu": "" if step.verdict == NOT_RUN else f"{step.cpu_s:.0f} s",
        }
        for step in night.steps
    ]
    return Rows("Steps", columns, rows)


def _baselines(baseline: Mapping[str, Any] | None) -> Rows:
    columns = [
        Column("accepted", "accepted"),
        Column("commit", "commit"),
        Column("reason", "reason", words=True),
    ]
    known = [baseline, *reversed(baseline.get("previous") or [])] if baseline else []
    rows = [
        {
            "accepted": str(each.get("accepted", ""))[:10],
            "commit": str(each.get("commit", ""))[:SHORT],
            "reason": str(each.get("reason", "")),
        }
        for each in known
    ]
    rows[1:] = sorted(rows[1:], key=lambda row: row["accepted"], reverse=True)
    return Rows("Accepted baselines, the newest first", columns, rows)


def _groups(night: Night, before: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The sections of what changed, the worst first; those without content are left out."""
    red: dict[str, list[Rows]] = {REGRESSION: [], NO_DATA: []}
    for step in (step for step in night.steps if step.red):
        lines = (step.reason, red_since(step, night, before))
        command = command_of(step, night.options)
        groups = red[step.verdict]
        groups.append(
            table(f"{step.name}: {step.headline}", bad(step), lines=lines, command=command)
        )
        models = {row["model"] for row in bad(step) if row.get("model")}
        cells = [
            row
            for row in step.findings
            if row.get("kind") == "cell" and row["model"] in models and row not in bad(step)
        ]
        groups += [table("The cells of these models", cells)] * bool(cells)
    advisories = [
        table(
            f"{step.name}: {step.headline}",
            step.findings,
            lines=(step.reason,),
            command=command_of(step, night.options),
        )
        for step in night.steps
        if is_advisory(step)
    ]
    judged = next((step for step in night.steps if step.name == "ab-test"), None)
    worse = bad(judged) if judged else []
    rest = [
        row
        for row in (judged.findings if judged else ())
        if row.get("kind") != "cell" and row not in worse
    ]
    others = [table("Judged by the A/B test of this night", rest)] if rest else []
    costs = next((step for step in night.steps if step.name == "cost" and step.findings), None)
    dear = [table(costs.headline, costs.findings)] if costs and not is_advisory(costs) else []
    found = [
        {"id": "regressions", "title": "What broke", "groups": red[REGRESSION]},
        {"id": "no-data", "title": "What could not be judged", "groups": red[NO_DATA]},
        {"id": "advisories", "title": "Advisories", "groups": advisories},
        {"id": "changed", "title": "Changed models that are not worse", "groups": others},
        {"id": "cost", "title": "Cost of changed models", "groups": dear},
    ]
    return [part for part in found if part["groups"]]


# ---------------------------------------------------------------------- the page


def page(
    night: Night, baseline: Mapping[str, Any] | None, before: Sequence[Mapping[str, Any]]
) -> str:
    """The text of night.html: one file that loads no other."""
    groups = _groups(night, before)
    nights = [*before, {**night.to_data(), "now": True}]
    strip = [
        {
            "verdict": past["verdict"],
            "sign": SIGNS[past["verdict"]],
            "moved": i > 0 and past["baseline"] != nights[i - 1]["baseline"],
            "said": f"{past['started'][:10]}, {past['commit'][:SHORT]}: {SAID[past['verdict']]}",
        }
        for i, past in enumerate(nights)
    ]
    plain = [
        {"id": "nights", "title": "Nights and baselines"},
        {"id": "steps", "title": "Steps and what they cost"},
        {"id": "not-run", "title": "Not run"},
        {"id": "details", "title": "All findings"},
    ]
    variables = {
        "title": f"Night of {night.started[:10]}, {_commit(night.commit)}",
        "verdict": verdict_line(night),
        "kind": "red" if night.red else night.verdict,
        "why": _why(night),
        "facts": _facts(night, baseline),
        "parts_of_page": [*groups, *plain],
        "strip": strip,
        "baselines": _baselines(baseline),
        "steps": _steps(night),
        "not_run": [(s.name, s.reason or s.headline) for s in night.steps if s.verdict == NOT_RUN],
        "details": [table(s.name, s.findings) for s in night.steps if s.findings],
    }
    style = (HERE / "night.css").read_text(encoding="utf-8")
    return other_page(HERE / "night.html.j2", variables, style=style)


# ---------------------------------------------------------------------- Markdown


def summary(
    night: Night, baseline: Mapping[str, Any] | None, before: Sequence[Mapping[str, Any]]
) -> str:
    """The text of summary.md: what a step's page of CI shows."""
    lines = [f"## {markdown(verdict_line(night))}", ""]
    lines += [f"* {markdown(line)}" for line in _why(night)]
    for part in _groups(night, before):
        for group in part["groups"]:
            lines += ["", f"### {markdown(part['title'])}: {markdown(group.title)}", ""]
            lines += [f"{markdown(line)}\n" for line in group.lines]
            lines += _markdown_table(group)
            if group.command:
                lines += ["", f"To repeat: `{group.command}`"]
    lines += ["", "### Steps", "", *_markdown_table(_steps(night))]
    not_run = [step for step in night.steps if step.verdict == NOT_RUN]
    lines += ["", *(f"* not run: {s.name}: {markdown(s.reason or s.headline)}" for s in not_run)]
    facts = ", ".join(f"{name} {value}" for name, value in _facts(night, baseline))
    return "\n".join([*lines, "", markdown(facts), ""])


def _markdown_table(rows: Rows) -> list[str]:
    if not rows.rows:
        return []
    head = [column.title for column in rows.columns]
    rules = ["---:" if column.numeric else "---" for column in rows.columns]
    body = [
        [_cell(column.key, row[column.key]) for column in rows.columns]
        for row in rows.rows[:IN_SUMMARY]
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, rules, *body)]
    left = len(rows.rows) - IN_SUMMARY
    return [*lines, "", f"and {left} more: see the page"] if left > 0 else lines


def _cell(key: str, text: str) -> str:
    """A cell's text; a command as code, where it can be that in a table."""
    if key == "command" and text and not re.search(r"[`|\n<>&]", text):
        return f"`{text}`"
    return markdown(text)


def issues(
    night: Night, before: Sequence[Mapping[str, Any]], *, drift: bool = False
) -> dict[str, str]:
    """{file name: text} for deploy/nightly-issues.sh: a file for each thing that is red, its first
    line the issue's title, which is the same in every night; and `judged`, the steps that gave a
    verdict. The steps of a night against a release have names of their own."""
    found: dict[str, str] = {}
    kind = " (drift)" if drift else ""
    for step in (step for step in night.steps if step.red):
        rows = bad(step)
        apart: dict[str, list[dict[str, Any]]] = {}
        for row in rows or [{}]:
            subject = subject_of(row)
            title = f"nightly: {step.name}{kind}" + (f": {subject}" if subject else "")
            # One line of at most the length that GitHub takes (256).
            apart.setdefault(" ".join(title.split())[:240], []).extend([row] if row else [])
        for title, mine in apart.items():
            shown = table(step.headline, mine)
            command = command_of(step, night.options)
            body = [
                f"{markdown(step.headline)}.",
                markdown(step.reason),
                red_since(step, night, before),
                "\n".join(_markdown_table(shown)),
                f"To repeat: `{command}`" if command else "",
                f"Judged: {_commit(night.commit)}; "
                f"compared with: {night.baseline[:SHORT] or 'nothing'}.",
                "A change that is wanted: `bench baseline accept --reason TEXT`, in a commit.",
            ]
            text = "\n\n".join(part for part in body if part)
            found[f"{len(found) + 1:03d}.md"] = f"{title}\n{text}\n"
    judged = (step.name for step in night.steps if step.verdict not in (NOT_RUN, NO_DATA))
    found["judged"] = "".join(f"{name}{kind}\n" for name in judged)
    return found
