"""Step ab-test: the accepted commit against this one, on fresh seeds, on this machine, tonight.

Both versions fit the same cells with the same seeds, drawn from a hash of the two commits: a stored
baseline that is used night after night would pass on its luck. A seed also draws the rows, so that
models without chance in them are tested on fresh rows.
"""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...reports.regression.verdicts import EQUAL, HARMLESS, UNDECIDED, WORSE, as_log_ratio
from ...sweeps.trial import DONE, derive_seed
from .baseline import cells_of
from .checkout import SHORT, NoCommit, full_commit
from .context import NightContext
from .decision import Judge
from .libraries import NoEnvironment
from .sides import Row, Side, SideError, fit, head_of, ids, side_of
from .step_result import NO_DATA, NOT_RUN, OK, REGRESSION, StepResult

NAME = "ab-test"
FAILS = "fails"  # a fit fails now that succeeded at the accepted commit
LEAST_CPU_S = 1.0  # of the accepted commit's fits: the kernel counts CPU time in ticks of 10 ms
BAD = (WORSE, FAILS)
Cells = dict[str, list[str]]  # model -> datasets
PairedFits = dict[str, list[tuple[Row, Row]]]  # model -> (row of base, row of head) of each fit
PairsOf = Callable[[Cells, Sequence[int]], PairedFits]


def ab_test(context: NightContext, screened: StepResult | None = None) -> StepResult:
    """Judge every model whose ids changed since the baseline, or since `context.against`. screened:
    what the screen of this night found, None against a commit."""
    if not context.accepted:  # the screen is red for it
        return StepResult(NAME, NOT_RUN, "no baseline", reason="there is nothing to compare with")
    try:
        commit = full_commit(context.checkout.root, context.accepted)
    except NoCommit as error:
        return StepResult(NAME, NO_DATA, "the accepted commit is not here", reason=str(error))
    models = list(context.models)
    if screened is not None:  # without a screen, every model whose ids differ between the two
        rows = [row for row in screened.findings if row.get("kind") == "changed"]
        models = sorted(row["model"] for row in rows if row["datasets"])
        if not models and screened.verdict == NO_DATA:
            return StepResult(NAME, NOT_RUN, "nothing to judge", reason=screened.headline)
        if not models:
            return StepResult(NAME, OK, "no model changed")
    try:
        base, head = side_of(context, commit), head_of(context)
        old, new = (ids(context, side, models=models) for side in (base, head))
        cells, beside = common_cells(old, new, base.commit, models=models)
        found = judged(context, base, cells, partial(_both, context, base, head))
    except (SideError, NoEnvironment, ValueError) as error:
        return StepResult(NAME, NO_DATA, "the A/B test could not run", reason=str(error))
    return result_of(found, beside, commit, shared=bool(set(old["cells"]) & set(new["cells"])))


def common_cells(
    old: Mapping[str, Any], new: Mapping[str, Any], commit: str, *, models: Sequence[str] = ()
) -> tuple[Cells, list[Row]]:
    """({model: datasets} that both versions plan and whose ids differ, rows on what only one has).

    old, new: what `sides.ids` found at the accepted `commit` and at head. models: names that must
    be planned somewhere. The rows are of kind "dataset" (could not be had: NO_DATA), "lost" (head
    does not plan it any more: REGRESSION), "unknown" (no version plans the model: NO_DATA) and
    "new" (nothing to compare with).
    """
    both = old["cells"].keys() & new["cells"].keys()
    cells = cells_of(k for k in both if old["cells"][k]["id"] != new["cells"][k]["id"])
    rows: list[Row] = []
    for where, plan in ((f"at {commit[:SHORT]}", old), ("at this commit", new)):
        rows += [
            {"kind": "dataset", "dataset": d, "verdict": NO_DATA, "note": f"{where}: {why}"}
            for d, why in sorted(plan["left_out"].items())
        ]
    rows += lost(old["cells"].keys() - new["cells"].keys(), new)
    unlike = new["cells"].keys() - old["cells"].keys()
    added = cells_of(key for key in unlike if key.split("/")[1] not in old["left_out"])
    note = f"the commit {commit[:SHORT]} does not have it: nothing to compare with"
    rows += [
        {"kind": "new", "model": model, "datasets": datasets, "verdict": "new", "note": note}
        for model, datasets in added.items()
    ]
    return cells, rows + not_planned(models, old, new)


def lost(keys: Iterable[str], plan: Mapping[str, Any]) -> list[Row]:
    """A REGRESSION row for each cell that the plan has lost; none for a cell whose dataset is not
    available."""
    rows = []
    for key in sorted(keys):
        model, dataset, _, _ = key.split("/")
        if dataset not in plan["left_out"]:
            note = plan["absent"].get(f"{model}/{dataset}", "this commit does not plan it")
            note = "no model of this version" if model in plan["unknown"] else note
            row = {"kind": "lost", "model": model, "dataset": dataset, "verdict": REGRESSION}
            rows.append({**row, "note": note})
    return rows


def not_planned(models: Sequence[str], *plans: Mapping[str, Any]) -> list[Row]:
    """A NO_DATA row for each model without a cell in any plan, if the model was asked for or is
    unknown to the newest plan. If a dataset could not be had, a model that was asked for gets no
    row: the row of the dataset says why."""
    have = {_model(key) for plan in plans for key in plan["cells"]}
    missing = {*models, *plans[-1]["unknown"]} - have
    if any(plan["left_out"] for plan in plans):
        missing &= set(plans[-1]["unknown"])
    rows = []
    for model in sorted(missing):
        absent = [
            f"{key}: {why}" for key, why in plans[-1]["absent"].items() if _model(key) == model
        ]
        note = "; ".join(absent) or "neither the suite nor the registry has a model of this name"
        rows.append({"kind": "unknown", "model": model, "verdict": NO_DATA, "note": note})
    return rows


def _model(key: str) -> str:
    return key.partition("/")[0]


# ---------------------------------------------------------------------- the test


def judged(context: NightContext, base: Side, cells: Cells, pairs_of: PairsOf) -> list[Row]:
    """A row for each model, and behind it one for each of its cells, judged look by look.

    The row of a model: {kind "model", model, verdict, change, upper, p, cpu, n_seeds, n_fits,
    command}; `change` is the relative change of the error, positive is worse, `cpu` that of the CPU
    time of all fits, which makes no verdict. pairs_of: fits these cells with the seeds of these
    numbers.
    """
    judge = Judge(sorted(cells))
    fits: PairedFits = defaultdict(list)
    n_done = 0
    while looked := judge.open:
        new = pairs_of({model: cells[model] for model in looked}, range(n_done, judge.wanted))
        for model in looked:
            fits[model] += new[model]
        n_done = judge.wanted
        judge.look({model: errors_of(fits[model]) for model in looked})
        for model in looked:
            if any(map(_broken, fits[model])):
                judge.verdicts[model] = FAILS
        told = ", ".join(f"{model} {v}" for model in looked if (v := judge.verdicts[model]))
        context.say(f"  after {n_done} seeds: {told or 'none decided'}")
    rows = []
    for model in sorted(cells):
        rows += [
            _model_row(context, base, model, judge, fits[model]),
            *_cell_rows(model, fits[model]),
        ]
    return rows


def _both(
    context: NightContext, base: Side, head: Side, cells: Cells, numbers: Sequence[int]
) -> PairedFits:
    """{model: [(row of base, row of head)]} of the seeds with these numbers. Raises SideError."""
    runs = context.runs / f"ab-{base.commit[:SHORT]}-{head.commit[:SHORT]}"
    rows: list[list[Row]] = []
    pair = base.commit, head.commit + head.changed  # whose seeds are fresh
    chosen = {f"seed-{n}": derive_seed("nightly", *pair, n) % 2**31 for n in numbers}
    for side in (base, head):
        n_fits = len(chosen) * sum(map(len, cells.values()))
        context.say(f"  {side.name} {side.commit[:SHORT]}: {n_fits} fits")
        rows.append(fit(context, side, cells, seeds=chosen, runs=runs / side.name))
    return paired(rows[0], rows[1], cells, len(chosen))


def paired(base: Sequence[Row], head: Sequence[Row], cells: Cells, n_seeds: int) -> PairedFits:
    """{model: [(row of base, row of head)]}, every cell with so many seeds. Raises SideError where
    a version has returned no row of a planned fit."""
    sides = [
        {(row["model"], row["dataset"], row["seed"]): row for row in rows} for rows in (base, head)
    ]
    for model, datasets in cells.items():
        for dataset in datasets:
            keys = [{key for key in side if key[:2] == (model, dataset)} for side in sides]
            if keys[0] != keys[1] or len(keys[0]) != n_seeds:
                raise SideError(
                    f"{model} on {dataset}: of {n_seeds} planned fits the accepted commit returned "
                    f"{len(keys[0])}, this one {len(keys[1])}, both {len(keys[0] & keys[1])}"
                )
    pairs: PairedFits = defaultdict(list)
    for key in sorted(sides[0]):
        pairs[key[0]].append((sides[0][key], sides[1][key]))
    return pairs


def _usable(row: Row) -> bool:
    """Whether a fit has an error that can be compared."""
    return row["status"] == DONE and row["error"] is not None and math.isfinite(row["error"])


def _broken(pair: tuple[Row, Row]) -> bool:
    """Whether a fit fails now, or has no finite error, that the other version could do."""
    old, new = pair
    return old["status"] == DONE != new["status"] or _usable(old) and not _usable(new)


def _why(row: Row) -> str:
    """Why a fit cannot be compared."""
    if row["status"] == DONE:
        return f"the error is {row['error']} on {row['dataset']}, seed {row['seed']}"
    return f"{row['cause']} on {row['dataset']}: {row['message']}"


def errors_of(pairs: Sequence[tuple[Row, Row]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{dataset: (errors of base, errors of head)} of the pairs of finite errors, in their order.

    Equal predictions have equal errors, and others almost never: `equal` of a change is about
    errors.
    """
    found: dict[str, tuple[list[float], list[float]]] = {}
    for old, new in pairs:
        if _usable(old) and _usable(new):
            both = found.setdefault(old["dataset"], ([], []))
            both[0].append(old["error"])
            both[1].append(new["error"])
    return {dataset: (np.array(a), np.array(b)) for dataset, (a, b) in found.items()}


def _model_row(
    context: NightContext, base: Side, model: str, judge: Judge, pairs: Sequence[tuple[Row, Row]]
) -> Row:
    change = judge.changes.get(model)
    failed = [new for old, new in pairs if _broken((old, new))]
    found: Row = {
        **{"kind": "model", "model": model, "verdict": judge.verdicts[model]},
        **{"n_seeds": judge.n_seeds[model], "n_fits": 2 * len(pairs)},
        "change": change and relative(change.mean),
        "lower": change and relative(float(np.clip(2 * change.mean - change.upper, -1.99, 1.99))),
        "upper": change and relative(float(np.clip(change.upper, -1.99, 1.99))),
        "p": change and change.p,
        "cpu": cpu_change(pairs),
        "datasets": sorted({old["dataset"] for old, _ in pairs}),
        "command": command(context, base.commit, model),
    }
    have = errors_of(pairs)
    unlike = [old for old, _ in pairs if old["dataset"] not in have and not _usable(old)]
    if failed:
        found["note"] = _why(failed[0])
    elif unlike:  # the night is red where it is all datasets
        names = ", ".join(sorted({old["dataset"] for old in unlike}))
        found["note"] = f"not compared on {names}: at {base.commit[:SHORT]} {_why(unlike[0])}"
    return found


def cpu_change(pairs: Sequence[tuple[Row, Row]]) -> float | None:
    """The relative change of the CPU time of all fits that both versions could do; None where they
    are too short to tell."""
    done = [(old, new) for old, new in pairs if old["status"] == DONE == new["status"]]
    before, after = (sum(pair[side].get("cpu_s") or 0.0 for pair in done) for side in (0, 1))
    return after / before - 1.0 if before >= LEAST_CPU_S else None


def relative(change: float) -> float | None:
    """b / a - 1 of a change 2 (b - a) / (b + a); None where it is infinite or unknown."""
    value = float(np.expm1(as_log_ratio(change)))
    return value if np.isfinite(value) else None


def _cell_rows(model: str, pairs: Sequence[tuple[Row, Row]]) -> list[Row]:
    rows = []
    for dataset, (a, b) in sorted(errors_of(pairs).items()):
        old, new = float(a.mean()), float(b.mean())
        rows.append(
            {
                **{"kind": "cell", "model": model, "dataset": dataset, "n_seeds": len(a)},
                **{"old": old, "new": new, "change": new / old - 1.0 if old > 0 else None},
                "equal": bool((a == b).all()),
            }
        )
    return rows


def command(context: NightContext, commit: str, model: str) -> str:
    """The command that repeats the test of a model."""
    suite = "" if context.suite == "nightly" else f" --suite {shlex.quote(context.suite)}"
    return f"bench nightly --against {commit[:SHORT]} --model {model}{suite}"


def result_of(found: list[Row], beside: list[Row], commit: str, *, shared: bool) -> StepResult:
    """The step's result: what is worse before what could not be judged, and that before all else.

    found, beside: rows of `judged` and of `common_cells`. shared: whether both versions plan a cell
    at all.
    """
    models = [row for row in found if row["kind"] == "model"]
    worse = [_told(row) for row in models if row["verdict"] in BAD]
    parts = [f"{'; '.join(worse)} since {commit[:SHORT]}"] if worse else []
    if gone := {(row["model"], row["dataset"]) for row in beside if row["kind"] == "lost"}:
        names = ", ".join(f"{model} on {dataset}" for model, dataset in sorted(gone))
        parts.append(f"planned at {commit[:SHORT]} and not any more: {names}")
    if parts:
        return StepResult(NAME, REGRESSION, "; ".join(parts), found + beside)
    unknown = [row for row in models + beside if row["verdict"] == NO_DATA]
    if unknown:
        names = ", ".join(dict.fromkeys(str(row.get("model") or row["dataset"]) for row in unknown))
        reason = str(unknown[0].get("note", ""))
        return StepResult(NAME, NO_DATA, f"not judged: {names}", found + beside, reason=reason)
    if not shared:
        reason = f"no cell of the suite is planned both at {commit[:SHORT]} and at this commit"
        return StepResult(NAME, NO_DATA, "nothing to compare", found + beside, reason=reason)
    if not models:
        return StepResult(NAME, OK, "no model's trials differ between the two commits", beside)
    counts = {
        verdict: [row["model"] for row in models if row["verdict"] == verdict]
        for verdict in (HARMLESS, UNDECIDED, EQUAL)
    }
    parts = [f"{verdict}: {', '.join(names)}" for verdict, names in counts.items() if names]
    headline = f"no model is worse than at {commit[:SHORT]} ({'; '.join(parts)})"
    return StepResult(NAME, OK, headline, found + beside)


def _told(row: Mapping[str, Any]) -> str:
    if row["verdict"] == FAILS:
        return f"{row['model']} fails where it did not ({row['note'][:120]})"
    if row["change"] is None or row["lower"] is None:
        return f"{row['model']} is worse beyond measure"
    return (
        f"{row['model']} is worse by {100 * row['change']:.1f} % "
        f"(95 % at least {100 * row['lower']:.1f} %)"
    )
