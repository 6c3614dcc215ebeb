"""The first commit that made a model worse: ids at every commit, A/B tests at those that matter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...reports.regression.verdicts import EQUAL
from .ab_test import BAD, FAILS, common_cells, judged, not_planned
from .checkout import commits_between, git, remove_worktrees, subject, worktree
from .context import NightContext
from .libraries import pins
from .sides import Row, Side, SideError, ids, lock_of, side_of
from .step_result import NO_DATA

# What changes under these paths changes no trial; of the rooms of code (ROOMS), only what a trial
# imports does, and what makes the trials.
NO_TRIAL = ("docs/", "tests/", "deploy/", ".github/", ".ci/", "benchmark/perf/", "models/spaces/")
ROOMS = ("models/", "reports/", "benchmark/")
MAKES_TRIALS = ("benchmark/planning/", "models/registry", "models/space", "models/model_spec")


@dataclass(frozen=True)
class Bisection:
    """What a search among commits found.

    n_commits: commits between good and bad; asked: those whose ids were computed. candidates: those
    that change the model's trials, oldest first. judged: {commit: row of the model} of those that
    an A/B test judged against `good`. first: the first bad one, "" where no test said worse.
    """

    model: str
    good: str
    bad: str
    n_commits: int
    asked: list[str]
    candidates: list[str]
    judged: dict[str, Row]
    first: str


def bisect(context: NightContext, model: str, good: str, bad: str) -> Bisection:
    """Find the first commit after `good`, up to `bad`, at which a model is worse than at `good`.

    As with `git bisect`, a model that is worse once is taken to stay worse. Raises ValueError
    where no commit changes the model's trials or `good` plans none, SideError where `good` cannot
    be fitted, NoEnvironment.
    """
    commits = commits_between(context.root, good, bad)
    if not commits:
        raise ValueError(f"no commit lies between {good[:10]} and {bad[:10]}: --good must be older")
    before, files = state(context, model, good)
    asked, candidates = [], []
    for number, commit in enumerate(commits, start=1):
        told = f"  {number}/{len(commits)} {subject(context.root, commit)}"
        changed = git(context.root, "diff", "--name-only", f"{commit}^", commit).splitlines()
        if not any(matters(path, files, model) for path in changed):
            continue
        asked.append(commit)
        now, files = state(context, model, commit)
        context.say(told + ("" if now == before else "  <- other trials"))
        if now != before:
            candidates.append(commit)
        before = now
    if not candidates:
        raise ValueError(
            f"no commit between {good[:10]} and {bad[:10]} changes a trial of {model}: look at the "
            "data, the installed libraries or the machine"
        )
    base = side_of(context, good)
    old = ids(context, base, models=[model])
    if not old["cells"]:
        said = not_planned([model], old) or [{"note": str(why)} for why in old["left_out"].values()]
        raise ValueError(f"at {good[:10]} no cell of {model} is planned: {said[0]['note']}")
    found: dict[str, Row] = {}
    low, high = 0, len(candidates)  # the first bad one is in candidates[low:high], or there is none
    while low < high:
        middle = (low + high) // 2 if low or high < len(candidates) else len(candidates) - 1
        commit = candidates[middle]
        context.say(f"  judging {subject(context.root, commit)}")
        found[commit] = _judge(context, model, base, old, commit)
        if found[commit]["verdict"] in BAD:
            high = middle
        else:
            low = middle + 1
    first = candidates[low] if low < len(candidates) else ""
    kept = [str(context.baseline["commit"])] if context.baseline else []
    remove_worktrees(context.root, context.store, but=kept)
    return Bisection(model, good, bad, len(commits), asked, candidates, found, first)


def matters(path: str, files: Collection[str], model: str) -> bool:
    """Whether a changed file may change a model's trials; `files`: of the code that they import,
    before the change. A file can only join it by an edit of one that is in it."""
    if path in files or path == f"models/spaces/{model}.toml":
        return True
    if path.endswith(".md") or path.startswith(NO_TRIAL):
        return False
    if path.startswith(MAKES_TRIALS) or not path.endswith(".py"):
        return True
    return not path.startswith(ROOMS) or not files


def state(context: NightContext, model: str, commit: str) -> tuple[Any, list[str]]:
    """(all that a model's trials depend on at a commit, the files of the code that they import).

    That is their ids without the installed versions of libraries, and the versions that the lock
    file pins. A commit that cannot be asked has its reason, which differs from every other state.
    """
    side = side_of_ids(context, commit)
    try:
        found = ids(context, side, models=[model])
    except SideError as error:
        return f"{commit}: {error}", []
    about = found["models"].get(model)
    if about is None:
        return f"no {model}", []
    locked = pins(lock_of(side.root))
    libraries = {name: locked.get(name, ("", ""))[0] for name in about["libraries"]}
    cells = {key: cell["id"] for key, cell in found["cells"].items()}
    return (cells, libraries), about["files"]


def side_of_ids(context: NightContext, commit: str) -> Side:
    """A commit in the worktree that moves from commit to commit, under the running interpreter: the
    versions in its lock file are compared as text, so nothing is installed."""
    root = worktree(context.root, commit, context.store, name="moving")
    return Side("bisect", commit, root, context.python, {})


def _judge(
    context: NightContext, model: str, base: Side, old: Mapping[str, Any], commit: str
) -> Row:
    """The row of the A/B test of a commit against `base`, whose ids are `old`."""
    head = side_of(context, commit, side="head")
    try:
        new = ids(context, head, models=[model])
        cells, beside = common_cells(old, new, base.commit, models=[model])
        if not cells:
            shared = bool({*old["cells"]} & {*new["cells"]})
            return without_cells(model, commit, beside, shared=shared)
        rows = judged(context, base, head, cells)
    except SideError as error:
        return failed(model, error)
    return judgeable(commit, next(row for row in rows if row["kind"] == "model"))


def without_cells(model: str, commit: str, beside: Sequence[Row], *, shared: bool) -> Row:
    """The row of a commit none of whose trials is to be fitted: those that it shares with the good
    one are equal, or it plans none of the good one's any more. Raises ValueError where that is for
    want of data."""
    if shared:
        return {"model": model, "verdict": EQUAL, "note": "the same trials as at the good one"}
    lost = [row for row in beside if row["kind"] == "lost"]
    missing = [row for row in beside if row["verdict"] == NO_DATA]
    if not lost:
        why = missing[0]["note"] if missing else f"it plans no cell of {model}"
        raise ValueError(f"{commit[:10]} cannot be judged: {why}")
    return {"model": model, "verdict": FAILS, "note": lost[0]["note"]}


def judgeable(commit: str, row: Row) -> Row:
    """The row itself. Raises ValueError where nothing could be compared: that is no verdict."""
    if row["verdict"] == NO_DATA:
        raise ValueError(f"{commit[:10]} cannot be judged: {row['note']}")
    return row


def failed(model: str, error: SideError) -> Row:
    """The row of a commit that could not be fitted; raises the error where it is the good side's,
    for nothing is known of the commit then."""
    if error.side != "head":
        raise error
    return {"model": model, "verdict": FAILS, "note": str(error)}


def told(found: Bisection, subjects: Sequence[str]) -> list[str]:
    """The result in lines; `subjects`: of the candidates, in their order."""
    names = dict(zip(found.candidates, subjects, strict=True))
    lines = [
        f"{found.n_commits} commits, {len(found.asked)} asked for ids, {len(found.candidates)} "
        f"change the trials of {found.model}"
    ]
    for commit in found.candidates:
        row = found.judged.get(commit)
        said = "not judged" if row is None else row["verdict"]
        if row is not None and row.get("change") is not None:
            said += f", error {100 * row['change']:+.1f} %"
        lines.append(f"  {names[commit]}: {said}")
    if found.first:
        lines.append(f"first bad commit: {names[found.first]}")
    else:
        lines.append(f"none of them is worse than {found.good[:10]}")
    return lines
