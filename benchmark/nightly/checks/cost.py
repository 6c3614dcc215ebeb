"""CPU time, time and peak memory of changed models: the accepted commit and head in turn."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from ....sweeps.trial import DONE, derive_seed
from ..ab_test import accepted
from ..checkout import SHORT, NoCommit
from ..context import NightContext
from ..libraries import NoEnvironment
from ..sides import Side, SideError, fit, head_of, side_of
from ..step_result import ADVISORY, NO_DATA, NOT_RUN, OK, StepResult

NAME = "cost"
ROUNDS = 3  # fits of each cell on each side; doubled where they say that a model costs more
MEAN, CELL = 1.10, 1.25  # more than that is said: over all cells of a model, in one cell
LEAST_CPU_S = 0.05  # of a cell's fit, on average: kernels count CPU time in ticks of 10 ms
MEASURES = {"cpu_s": "CPU time", "fit_s": "time to fit", "peak_ram_mb": "peak memory"}
SLOWER, AGAIN, SAME = "dearer", "dearer, two nights", "ok"


def cost(context: NightContext) -> StepResult:
    """Fit every changed model on its datasets in both checkouts, in turn, and compare what it took.

    A model is dearer where, by CPU time, time to fit or peak memory, head over the accepted commit
    is above 1.10 in the median round and above 1 in all three rounds, or one cell above 1.25, and
    above 1.10 in all; then five of six rounds must say so. Found by two nights running, it is an
    advisory; found once, it stands in the table. It never makes a night red.
    """
    changed = _changed(context)
    if changed is None:
        reason = "neither the A/B test nor the screen has run: they say which models changed"
        return StepResult(NAME, NOT_RUN, "not measured", reason=reason)
    if not changed:
        return StepResult(NAME, OK, "no model changed, so none costs more")
    try:
        commit = accepted(context)
        if commit is None:
            reason = "no accepted commit to compare with"
            return StepResult(NAME, NOT_RUN, "not measured", reason=reason)
        judged = _measured(context, side_of(context, commit), head_of(context), changed)
    except (SideError, NoEnvironment, NoCommit) as error:
        return StepResult(NAME, NO_DATA, "the costs could not be measured", reason=str(error))
    return summed_up(context, judged, commit)


def summed_up(
    context: NightContext, judged: Mapping[str, list[dict[str, Any]]], commit: str
) -> StepResult:
    """The step's result from {model: its rows of `judge`}, and what the night before had found."""
    before = _found_before(context)
    findings = [
        {
            **row,
            "verdict": verdict_of(row, before=row["model"] in before),
            "command": f"bench nightly --only ab-test,cost --against {commit[:SHORT]} "
            f"--model {row['model']}{context.cells_words}",
        }
        for found in judged.values()
        for row in found
    ]
    return _result(findings)


def _result(findings: list[dict[str, Any]]) -> StepResult:
    now = sorted({row["model"] for row in findings if row["verdict"] != SAME})
    twice = sorted({row["model"] for row in findings if row["verdict"] == AGAIN})
    worst = [
        max(
            (row for row in findings if row["model"] == model and row["verdict"] != SAME),
            key=lambda row: row["change"],
        )
        for model in twice or now
    ]
    said = "; ".join(
        f"{row['model']} takes {100 * row['change']:.0f} % more {row['measure']}" for row in worst
    )
    if twice:
        return StepResult(NAME, ADVISORY, f"{said}, as in the night before", findings)
    if now:
        return StepResult(NAME, OK, f"{said}; an advisory if the next night finds it too", findings)
    models = len({row["model"] for row in findings})
    return StepResult(NAME, OK, f"{models} changed, none costs more", findings)


def _changed(context: NightContext) -> dict[str, list[str]] | None:
    """{changed model: its datasets} as the A/B test judged them, else as the screen found them;
    None where neither has run."""
    for name, kind in (("ab-test", "model"), ("screen", "changed")):
        before = context.result(name)
        if before is not None and before.verdict not in (NOT_RUN, NO_DATA):
            rows = (row for row in before.findings if row.get("kind") == kind)
            return {row["model"]: list(row["datasets"]) for row in rows if row.get("datasets")}
    return None


def _measured(
    context: NightContext, base: Side, head: Side, changed: dict[str, list[str]]
) -> dict[str, list[dict[str, Any]]]:
    """{model: its rows of `judge`}, with twice the fits for those that seem dearer."""
    rows = _fits(context, (base, head), changed, range(1 if context.tiny else ROUNDS))
    found = {model: judge(rows, model) for model in changed}
    dear = {
        model: changed[model]
        for model, its in found.items()
        if any(verdict_of(row) != SAME for row in its)
    }
    if dear and not context.tiny:
        rows += _fits(context, (base, head), dear, range(ROUNDS, 2 * ROUNDS))
        found |= {model: judge(rows, model) for model in dear}
    return found


def _fits(
    context: NightContext,
    both: tuple[Side, Side],
    cells: Mapping[str, list[str]],
    rounds: Iterable[int],
) -> list[dict[str, Any]]:
    """The rows of all fits: in each round every cell on each side with one seed; the side that
    begins changes from round to round, and each side and round has a run of its own."""
    found = []
    for number in rounds:
        seed = derive_seed("nightly cost", context.date, number) % 2**31
        for side in both if number % 2 == 0 else both[::-1]:
            n_cells = sum(map(len, cells.values()))
            context.say(f"  round {number + 1}: {side.name} fits {n_cells} cells")
            runs = context.runs / "cost" / side.name
            rows = fit(context, side, cells, seed=seed, runs=runs, name=f"round-{number + 1}")
            found += [{**row, "side": side.name, "round": number} for row in rows]
    return found


def judge(rows: list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    """A row a measure of one model's fits: the geometric means of what they took, their relative
    change, its lower bound, and the cell with the largest change.

    Head is compared with base within a round, for what else runs on a machine changes from minute
    to minute. The change is the median over rounds of head over base: of the geometric mean over
    cells, for CPU time of the sums, since the kernel counts it in ticks. `lower` is the least round
    of three, or the second least of six: below the median change with 88 and 89 %. A cell without
    fits on both sides is left out, and so is CPU time where there is too little of it.
    """
    found = []
    for measure, words in MEASURES.items():
        cells = _cells(rows, model, measure)
        rounds = sorted({n for pairs in cells.values() for n in pairs})
        if not cells:
            continue
        ratios = [_of_round([p[n] for p in cells.values() if n in p], measure) for n in rounds]
        by_cell = {
            cell: [new / old for old, new in pairs.values()] for cell, pairs in cells.items()
        }
        worst = max(by_cell, key=lambda cell: median(by_cell[cell]))
        every = [pair for pairs in cells.values() for pair in pairs.values()]
        found.append(
            {
                "model": model,
                "measure": words,
                "old": round(_geometric(old for old, _ in every), 4),
                "new": round(_geometric(new for _, new in every), 4),
                "change": round(median(ratios) - 1, 4),
                "lower": round(_least(ratios) - 1, 4),
                "worst": round(median(by_cell[worst]) - 1, 4),
                "worst_lower": round(_least(by_cell[worst]) - 1, 4),
                "worst_dataset": worst[0],
                "cells": len(cells),
                "rounds": len(rounds),
            }
        )
    return found


Pairs = dict[int, tuple[float, float]]  # round -> (base, head)


def _cells(rows: list[dict[str, Any]], model: str, measure: str) -> dict[tuple[str, int], Pairs]:
    """{(dataset, fold): its pairs} of a measure: the rounds that both sides have."""
    values: dict[tuple[str, int], dict[str, dict[int, float]]] = defaultdict(dict)
    for row in rows:
        if row["model"] == model and row.get("status") == DONE and row.get(measure):
            of_side = values[row["dataset"], row["fold"]].setdefault(row["side"], {})
            of_side[row["round"]] = float(row[measure])
    found: dict[tuple[str, int], Pairs] = {}
    for cell, both in values.items():
        base, head = both.get("base", {}), both.get("head", {})
        pairs = {n: (base[n], head[n]) for n in sorted(base.keys() & head.keys())}
        least = LEAST_CPU_S if measure == "cpu_s" else 0.0
        if pairs and sum(old for old, _ in pairs.values()) / len(pairs) >= least:
            found[cell] = pairs
    return found


def _of_round(pairs: list[tuple[float, float]], measure: str) -> float:
    """Head over base of one round: of the sums for CPU time, else the cells' geometric mean."""
    if measure == "cpu_s":
        return sum(new for _, new in pairs) / sum(old for old, _ in pairs)
    return _geometric(new / old for old, new in pairs)


def _least(ratios: list[float]) -> float:
    """The least of up to five rounds, the second least of six: one of them may have been hit."""
    return sorted(ratios)[len(ratios) // 6]


def _geometric(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def verdict_of(row: Mapping[str, Any], *, before: bool = False) -> str:
    """Whether a measure of a model says that it costs more, by the mean or by one cell, in (nearly)
    every round; `before`: the night before has found it, too."""
    by_mean = row["change"] > MEAN - 1 and row["lower"] > 0
    by_cell = row["worst"] > CELL - 1 and row["worst_lower"] > MEAN - 1 and row["change"] > 0
    if not (by_mean or by_cell):
        return SAME
    return AGAIN if before else SLOWER


def _found_before(context: NightContext) -> set[str]:
    """The models that the night before found dearer, from its folder."""
    folders = [path.parent.parent for path in context.night.parent.glob("*/steps/cost.json")]
    older = [f for f in folders if _day(f) < context.date and "-against-" not in f.name]
    if not older:
        return set()
    last: Path = max(older, key=lambda folder: (_day(folder), folder.stat().st_mtime))
    findings = json.loads((last / "steps" / "cost.json").read_text(encoding="utf-8"))["findings"]
    return {row["model"] for row in findings if row.get("verdict") in (SLOWER, AGAIN)}


def _day(folder: Path) -> str:
    return folder.name[:10]
