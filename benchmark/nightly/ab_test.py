"""Step ab-test: the accepted commit against this one, on fresh seeds, on this machine, tonight.

Both versions fit the same cells with the same seeds, drawn from a hash of the two commits: a stored
baseline that is used night after night would pass on its luck. A seed also draws the rows, so that
models without chance in them are tested on fresh rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...reports.regression.verdicts import EQUAL, HARMLESS, UNDECIDED, WORSE, as_log_ratio
from ...sweeps.trial import DONE, derive_seed
from .checkout import SHORT, NoCommit, commits_between, full_commit, subject
from .context import NightContext
from .decision import RULE, Judge, Rule
from .libraries import NoEnvironment
from .sides import Row, Side, SideError, fit_seeds, head_of, ids, side_of
from .step_result import NO_DATA, NOT_RUN, OK, REGRESSION, StepResult

NAME = "ab-test"
TINY = Rule(looks=(2, 3), spending=(0.005, 0.005))
FAILS = "fails"  # a fit fails that did not
BAD = (WORSE, FAILS)
Cells = dict[str, list[str]]  # model -> datasets


def ab_test(context: NightContext) -> StepResult:
    """Judge every model whose ids changed since the baseline, or since `context.against`."""
    try:
        commit = accepted(context)
    except NoCommit as error:
        return StepResult(NAME, NO_DATA, "the accepted commit is not here", reason=str(error))
    if commit is None:
        return StepResult(NAME, NOT_RUN, "no baseline", reason="there is nothing to compare with")
    asked: Cells | None = None
    before = context.result("screen") if context.against is None else None
    if before is not None:  # without a screen, every model whose ids differ between the two
        rows = [row for row in before.findings if row.get("kind") == "changed"]
        asked = {row["model"]: row["datasets"] for row in rows if row["datasets"]}
        if not asked and before.verdict == NO_DATA:
            return StepResult(NAME, NOT_RUN, "nothing to judge", reason=before.headline)
        if not asked:
            return StepResult(NAME, OK, "no model changed")
    try:
        base, head = side_of(context, commit), head_of(context)
        cells, left_out = common_cells(context, base, head, asked)
        if not cells:
            return StepResult(NAME, OK, "no model's trials differ between the two commits")
        found = judged(context, base, head, cells)
        worse = [row for row in found if row.get("verdict") in BAD]
        about = ids(context, head, models=[r["model"] for r in worse])["models"] if worse else {}
    except (SideError, NoEnvironment, ValueError) as error:
        return StepResult(NAME, NO_DATA, "the A/B test could not run", reason=str(error))
    for row in worse:
        files = about.get(row["model"], {}).get("files", [])
        row["since"] = since(context, base.commit, row["model"], files)
    return StepResult(NAME, *_verdict(found, context, commit), findings=found + left_out)


def accepted(context: NightContext) -> str | None:
    """The commit to compare with, None without a baseline. Raises NoCommit."""
    if context.against is not None:
        return full_commit(context.root, context.against)
    if context.baseline is None:
        return None
    return full_commit(context.root, str(context.baseline["commit"]))


def common_cells(
    context: NightContext, base: Side, head: Side, asked: Cells | None
) -> tuple[Cells, list[Row]]:
    """({model: datasets} that both versions have and whose ids differ, rows on models that only one
    has). `asked`: these alone; None for all."""
    models = sorted(asked) if asked is not None else list(context.models)
    old = ids(context, base, models=models)
    new = ids(context, head, models=models)
    cells: Cells = {}
    for key in sorted(set(old["cells"]) & set(new["cells"])):
        model, dataset, _, _ = key.split("/")
        if old["cells"][key]["id"] == new["cells"][key]["id"]:
            continue
        if asked is None or dataset in asked.get(model, ()):
            cells.setdefault(model, []).append(dataset)
    kept = {key.split("/")[0] for key in old["cells"]}
    rows = [
        {
            **{"kind": "new", "model": model, "verdict": "new"},
            "note": f"the commit {base.commit[:SHORT]} does not have it: nothing to compare with",
        }
        for model in sorted({key.split("/")[0] for key in new["cells"]} - kept)
    ]
    return cells, rows


# ---------------------------------------------------------------------- the test


def seeds_of(base: str, head: str, n: int) -> list[int]:
    """Fresh seeds of a pair of commits, fewer than 2**31."""
    return [derive_seed("nightly", base, head, i) % 2**31 for i in range(n)]


def judged(
    context: NightContext, base: Side, head: Side, cells: Cells, *, rule: Rule | None = None
) -> list[Row]:
    """A row for each model, and one for each of its cells, judged look by look.

    The row of a model: {kind "model", model, verdict, change, upper, p, n_seeds, n_fits, command};
    `change` is the relative change of the error, positive is worse.
    """
    rule = rule or (TINY if context.tiny else RULE)
    judge = Judge(sorted(cells), rule)
    fits: dict[str, list[tuple[Row, Row]]] = defaultdict(list)
    seeds = seeds_of(base.commit, head.commit + head.changed, rule.looks[-1])
    n_done = 0
    while judge.open:
        wanted = {model: cells[model] for model in judge.open}
        numbers = range(n_done, judge.wanted)
        for model, pairs in _both(context, base, head, wanted, numbers, seeds).items():
            fits[model] += pairs
        n_done = judge.wanted
        judge.look({model: errors_of(fits[model]) for model in wanted})
        for model in wanted:
            if any(_broken(pair) for pair in fits[model]):
                judge.verdicts[model] = FAILS
        told = ", ".join(f"{m} {v}" for m, v in judge.verdicts.items() if v and m in wanted)
        context.say(f"  after {n_done} seeds: {told or 'none decided'}")
    rows = []
    for model in sorted(cells):
        rows.append(_model_row(context, base, model, judge, fits[model]))
        rows += _cell_rows(model, fits[model])
    return rows


def _both(
    context: NightContext,
    base: Side,
    head: Side,
    cells: Cells,
    numbers: Sequence[int],
    seeds: Sequence[int],
) -> dict[str, list[tuple[Row, Row]]]:
    """{model: [(row of base, row of head)]} of the seeds with these numbers."""
    runs = context.runs / f"ab-{base.commit[:SHORT]}-{head.commit[:SHORT]}"
    rows: dict[str, dict[tuple[str, str, int], Row]] = {}
    chosen = {f"seed-{number}": seeds[number] for number in numbers}
    for side in (base, head):
        n_fits = len(chosen) * sum(map(len, cells.values()))
        context.say(f"  {side.name} {side.commit[:SHORT]}: {n_fits} fits")
        found = fit_seeds(context, side, cells, seeds=chosen, runs=runs / side.name)
        rows[side.name] = {(row["model"], row["dataset"], row["seed"]): row for row in found}
    pairs: dict[str, list[tuple[Row, Row]]] = defaultdict(list)
    for key, row in sorted(rows["base"].items()):
        if key in rows["head"]:
            pairs[key[0]].append((row, rows["head"][key]))
    return pairs


def _broken(pair: tuple[Row, Row]) -> bool:
    """Whether a fit fails now that the other version could do."""
    return pair[0]["status"] == DONE != pair[1]["status"]


def errors_of(pairs: Sequence[tuple[Row, Row]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{dataset: (errors of base, errors of head)} of the pairs that both have, in their order.

    Equal predictions have equal errors, and others almost never: `equal` of a change is about
    errors.
    """
    found: dict[str, tuple[list[float], list[float]]] = {}
    for old, new in pairs:
        if old["error"] is not None and new["error"] is not None:
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
        "lower": change and relative(max(-1.99, change.mean - (change.upper - change.mean))),
        "upper": change and relative(min(1.99, change.upper)),
        "p": change and change.p,
        "datasets": sorted({old["dataset"] for old, _ in pairs}),
        "command": command(context, base.commit, model),
    }
    if failed:
        found["note"] = f"{failed[0]['cause']} on {failed[0]['dataset']}: {failed[0]['message']}"
    return found


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
    return f"bench nightly --only ab-test --against {commit[:SHORT]} --model {model}"


def since(context: NightContext, commit: str, model: str, files: Sequence[str]) -> list[str]:
    """The commits after `commit` that touch a file on which a model's trials depend, oldest first;
    which of them it was, `bench nightly bisect` finds."""
    paths = [*files, f"models/spaces/{model}.toml", "requirements.lock"]
    if not context.suite.endswith(".toml"):
        paths.append(f"benchmark/suites/{context.suite}.toml")
    try:
        found = commits_between(context.root, commit, context.commit, paths)
    except ValueError:  # a shallow clone has the two commits, not what lies between
        return []
    return [subject(context.root, commit) for commit in found]


def _verdict(rows: Sequence[Row], context: NightContext, commit: str) -> tuple[str, str]:
    """(verdict, headline) of the step."""
    models = [row for row in rows if row["kind"] == "model"]
    worse = [row for row in models if row["verdict"] in BAD]
    if worse:
        told = "; ".join(_told(row) for row in worse)
        return REGRESSION, f"{told} since {commit[:SHORT]}"
    counts = {
        verdict: [row["model"] for row in models if row["verdict"] == verdict]
        for verdict in (HARMLESS, UNDECIDED, EQUAL)
    }
    parts = [f"{verdict}: {', '.join(names)}" for verdict, names in counts.items() if names]
    return OK, f"no model is worse than at {commit[:SHORT]} ({'; '.join(parts)})"


def _told(row: Mapping[str, Any]) -> str:
    if row["verdict"] == FAILS:
        return f"{row['model']} fails where it did not ({row['note'][:120]})"
    if row["change"] is None or row["lower"] is None:
        return f"{row['model']} is worse beyond measure"
    return (
        f"{row['model']} is worse by {100 * row['change']:.1f} % "
        f"(95 % at least {100 * row['lower']:.1f} %)"
    )
