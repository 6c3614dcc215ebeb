"""Step screen: the models whose trial ids differ from the baseline's; whether bytes repeat.

A trial's id names all that it depends on, so a model with the baseline's ids counts as unchanged.
An id cannot say whether the same trial gives the same bytes again. Therefore every cell is fitted,
and twice if its id changed or the baseline was made on another processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...sweeps.trial import DONE, FAILED
from ..planning.environment import cpu_model
from .ab_test import lost, not_planned
from .baseline import cells_of, key_of
from .context import NightContext
from .libraries import NoEnvironment
from .sides import Row, SideError, fit, head_of, ids
from .step_result import NO_DATA, OK, REGRESSION, StepResult

NAME = "screen"
ACCEPT = "bench baseline accept --reason TEXT writes one"


def screen(context: NightContext) -> StepResult:
    """Compare ids and bytes with the baseline's.

    Findings: rows of kind "changed" (a model whose ids differ: datasets, why), "nondeterminism",
    "failed", "missing" (a fit that returned no row), "lost" (a planned cell of the baseline that is
    not planned any more), "dataset" (could not be had), "unknown" (a model that was asked for, or
    that the suite names, and that is not planned), "new" (a model that the baseline does not have).
    """
    baseline = context.baseline
    if baseline is None:
        reason = f"{context.baseline_file} does not exist; {ACCEPT}"
        return StepResult(NAME, NO_DATA, "there is no accepted baseline", reason=reason)
    try:
        head = head_of(context)
        planned = ids(context, head, models=context.models)
        findings = [
            {"kind": "dataset", "dataset": name, "verdict": NO_DATA, "note": why}
            for name, why in sorted(planned["left_out"].items())
        ]
        wanted = context.models
        accepted = {
            key: cell
            for key, cell in baseline["cells"].items()
            if not wanted or key.split("/")[0] in wanted
        }
        if not planned["cells"] or not accepted:
            what = "this commit plans" if not planned["cells"] else "the baseline has"
            reason = f"{what} no cell of suite {context.suite}"
            told = [f"{name}: {why}" for name, why in sorted(planned["left_out"].items())]
            reason = "; ".join([reason, *told])
            headline = "there is no cell to compare"
            return StepResult(NAME, NO_DATA, headline, findings, reason=reason)
        findings += compared(accepted, planned, baseline)
        findings += not_planned(context.models, {"cells": accepted, "left_out": {}}, planned)
        cells = planned["cells"]
        changed = [key for key, cell in cells.items() if _differs(accepted, key, cell)]
        foreign = cpu_model() != baseline.get("cpu")  # the baseline's bytes say nothing here
        again = list(cells) if foreign else changed
        rows = _fit(context, head, cells, "screen")
        twice = _fit(context, head, again, "screen-again")
    except (SideError, NoEnvironment) as error:
        return StepResult(NAME, NO_DATA, "the screen could not run", reason=str(error))
    findings += missing(cells, rows) or missing(again, twice)
    findings += failures(rows, accepted)
    findings += unstable(rows, {key_of(row): row for row in twice}, "another run tonight")
    if not foreign:
        findings += unstable(rows, accepted, "the baseline")
    return result_of(findings, n_same=len(cells) - len(changed), head_added=head.added)


def _differs(accepted: Mapping[str, Any], key: str, cell: Mapping[str, Any]) -> bool:
    return key not in accepted or accepted[key]["id"] != cell["id"]


def _fit(context: NightContext, head: Any, keys: Iterable[str], name: str) -> list[Row]:
    cells = cells_of(keys)
    if not cells:
        return []
    context.say(f"  {name}: {sum(map(len, cells.values()))} cells")
    # A folder of its own: in one folder with the other run its results would be copied.
    return fit(context, head, cells, seeds={name: 0}, runs=context.runs / name)


# ---------------------------------------------------------------------- findings


def compared(
    accepted: Mapping[str, Any], planned: Mapping[str, Any], baseline: Mapping[str, Any]
) -> list[Row]:
    """A row for each model whose ids differ, with what differs; each new model; each lost cell."""
    cells, known = planned["cells"], cells_of(accepted)
    rows: list[Row] = []
    for model, datasets in cells_of(
        k for k, c in cells.items() if _differs(accepted, k, c)
    ).items():
        common = [key for key in cells if key.split("/")[0] == model and key in accepted]
        kind = "changed" if model in known else "new"
        both = [d for d in datasets if d in known.get(model, ())]
        row: Row = {"kind": kind, "model": model, "datasets": both, "verdict": kind}
        row["n_cells"] = len(datasets)
        row["why"] = reasons(model, common, planned, baseline)
        rows.append(row)
    return rows + lost(set(accepted) - set(cells), planned)


def reasons(
    model: str, keys: Iterable[str], planned: Mapping[str, Any], baseline: Mapping[str, Any]
) -> list[str]:
    """The parts of a model's trial ids that changed: source, libraries, configuration, data; if
    none of these did, the split or form of its trials."""
    found: list[str] = []
    old, new = baseline["models"].get(model, {}), planned["models"].get(model, {})
    if old.get("source") != new.get("source"):
        found.append("source")
    was, now = old.get("libraries", {}), new.get("libraries", {})
    for name in sorted(set(was) | set(now)):
        if was.get(name) != now.get(name):
            found.append(f"{name} {was.get(name, 'absent')} -> {now.get(name, 'absent')}")
    keys = list(keys)
    if any(baseline["cells"][k]["config"] != planned["cells"][k]["config"] for k in keys):
        found.append("configuration")
    datasets = sorted({key.split("/")[1] for key in keys})
    found += [
        f"data of {name}"
        for name in datasets
        if baseline["data"].get(name) != planned["data"][name]
    ]
    return found or ["split or form of the trials"]


def missing(keys: Iterable[str], rows: Iterable[Row]) -> list[Row]:
    """A row for each of these cells that was to be fitted and of which nothing came back."""
    have = {key_of(row) for row in rows}
    return [
        {
            **{"kind": "missing", "model": key.split("/")[0], "dataset": key.split("/")[1]},
            **{"verdict": NO_DATA, "note": f"the fit of {key} returned no row"},
        }
        for key in sorted(set(keys) - have)
    ]


def failures(rows: Iterable[Row], accepted: Mapping[str, Any]) -> list[Row]:
    """A row for each cell that failed and did not at the baseline."""
    return [
        {
            **{"kind": "failed", "model": row["model"], "dataset": row["dataset"]},
            **{"verdict": REGRESSION, "note": f"{row['cause']}: {row['message']}"},
        }
        for row in rows
        if row["status"] == FAILED and accepted.get(key_of(row), {}).get("status") != FAILED
    ]


def unstable(rows: Iterable[Row], others: Mapping[str, Any], what: str) -> list[Row]:
    """A row for each cell whose bytes differ from those of the same trial elsewhere (`what`)."""
    found = []
    for row in rows:
        other = others.get(key_of(row))
        if other is None or other["id"] != row["id"]:
            continue
        if DONE == row["status"] == other["status"] and row["sha256"] != other["sha256"]:
            found.append(
                {
                    **{"kind": "nondeterminism", "model": row["model"], "dataset": row["dataset"]},
                    **{"verdict": REGRESSION, "note": f"other bytes than {what}"},
                }
            )
    return found


# Kind of a finding -> what the headline says of it, which of its keys it names, and its verdict.
TOLD = {
    "nondeterminism": ("not deterministic", "model", REGRESSION),
    "failed": ("failing now and not before", "model", REGRESSION),
    "lost": ("not planned any more", "model", REGRESSION),
    "dataset": ("could not be had", "dataset", NO_DATA),
    "missing": ("no result of", "model", NO_DATA),
    "unknown": ("no such model", "model", NO_DATA),
    "changed": ("changed", "model", OK),
    "new": ("new", "model", OK),
}


def result_of(findings: list[Row], *, n_same: int, head_added: Mapping[str, str]) -> StepResult:
    """The verdict: a regression before missing data, and missing data before all else."""
    parts = []
    notes: dict[str, list[str]] = {verdict: [] for verdict in (REGRESSION, NO_DATA, OK)}
    for kind, (told, key, verdict) in TOLD.items():
        rows = [row for row in findings if row["kind"] == kind]
        notes[verdict] += [row.get("note", "") for row in rows]
        if rows:
            parts.append(f"{told}: {', '.join(sorted({row[key] for row in rows}))}")
        elif kind == "changed":
            parts.append("no model changed")
    parts.append(f"{n_same} cells have the baseline's ids")
    if head_added:
        parts.append(f"fitted with the lock file's {', '.join(sorted(head_added.values()))}")
    verdict = next((verdict for verdict, those in notes.items() if those), OK)
    reason = notes[NO_DATA][0] if verdict == NO_DATA else ""
    return StepResult(NAME, verdict, "; ".join(parts), findings, reason=reason)
