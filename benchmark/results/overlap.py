"""Studies that several runs of one report hold: counted once, where their trials are the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..console import count
from ..planning.plan_record import RunPlan

if TYPE_CHECKING:
    import pandas as pd

Part = tuple[RunPlan, "pd.DataFrame"]  # a run's plan and its rows


def without_repeats(runs: Sequence[Path], parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """(the parts of the runs, each study in one of them, notes on what was repeated).

    A study of several runs is taken from the run that has the most of its trials; the first of
    equals. Raises EvidenceError where neither has all trials of the other: two searches of one name
    are no one result.
    """
    from ...reports.evidence import EvidenceError

    names = [{study.name for study in plan.studies} for plan, _ in parts]
    holders_of = Counter(name for mine in names for name in mine)
    shared = {name for name, n in holders_of.items() if n > 1}
    if not shared:
        return list(parts), []
    ids: list[dict[str, set[str]]] = [defaultdict(set) for _ in parts]
    for mine, (_, frame) in zip(ids, parts, strict=True):
        repeated = frame.loc[frame["study"].isin(list(shared)), ["study", "id"]]
        for study, id in repeated.itertuples(index=False, name=None):
            mine[study].add(id)
    drop: list[set[str]] = [set() for _ in parts]
    for name in sorted(shared):
        holders = [i for i, mine in enumerate(names) if name in mine]
        best = max(holders, key=lambda i: (len(ids[i][name]), -i))
        for other in holders:
            if other != best and not ids[other][name] <= ids[best][name]:
                raise EvidenceError(
                    f"{runs[best]} and {runs[other]} both have the study {name}, with different "
                    "trials; a report counts a study once: give the report one of them, or other "
                    "models or datasets"
                )
            drop[other] |= {name} if other != best else set()
    kept = [_without(part, gone) for part, gone in zip(parts, drop, strict=True)]
    where = ", ".join(str(run) for run, mine in zip(runs, names, strict=True) if mine & shared)
    one = len(shared) == 1
    note = (
        f"{count(len(shared), 'study')} of several runs ({where}) {'has' if one else 'have'} the "
    )
    return kept, [f"{note}same trials there and {'is' if one else 'are'} counted once."]


def first_of_each(parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """(the parts of the runs, each cell (dataset, model) in one of them, notes on repeated ones).

    A cell of several runs is taken whole from the first that has a score in each of its studies;
    from the first of all where none has.
    """
    holders: dict[tuple[str, str], int] = {}
    complete: set[tuple[str, str]] = set()
    repeated: set[tuple[str, str]] = set()
    for i, (plan, frame) in enumerate(parts):
        scored = set(frame.loc[frame["selected"], "study"])
        cells: dict[tuple[str, str], bool] = {}
        for study in plan.studies:
            cell = study.dataset, study.model
            cells[cell] = cells.get(cell, True) and study.name in scored
        for cell, whole in cells.items():
            repeated |= {cell} & holders.keys()
            if cell not in holders or (whole and cell not in complete):
                holders[cell] = i
            complete |= {cell} if whole else set()
    kept = []
    for i, part in enumerate(parts):
        cells_of = {s.name: (s.dataset, s.model) for s in part[0].studies}
        kept.append(_without(part, {name for name, cell in cells_of.items() if holders[cell] != i}))
    note = (
        f"{count(len(repeated), 'cell')} of {len(holders)} were computed by several runs; the "
        "newest run that completed one counts."
    )
    return kept, [note] if repeated else []


def _without(part: Part, gone: set[str]) -> Part:
    plan, frame = part
    if not gone:
        return part
    studies = [study for study in plan.studies if study.name not in gone]
    rows = frame[~frame["study"].isin(list(gone))].reset_index(drop=True)
    return replace(plan, studies=studies), rows
