"""The first commit that made a model worse: ids at every commit, A/B tests at those that matter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .ab_test import BAD, FAILS, common_cells, judged
from .checkout import commits_between, git, remove_worktrees, subject, worktree
from .context import NightContext
from .libraries import NoEnvironment, pins
from .sides import Row, Side, SideError, ids, lock_of, side_of

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
    where no commit changes the model's trials.
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
    found: dict[str, Row] = {}
    low, high = 0, len(candidates)  # the first bad one is in candidates[low:high], or there is none
    while low < high:
        middle = (low + high) // 2 if low or high < len(candidates) else len(candidates) - 1
        commit = candidates[middle]
        context.say(f"  judging {subject(context.root, commit)}")
        found[commit] = _judge(context, model, good, commit)
        if found[commit]["verdict"] in BAD:
            high = middle
        else:
            low = middle + 1
    first = candidates[low] if low < len(candidates) else ""
    remove_worktrees(context.root, context.store)
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


def _judge(context: NightContext, model: str, good: str, commit: str) -> Row:
    try:
        base = side_of(context, good)
        head = side_of(context, commit, side="head")
        cells, _ = common_cells(context, base, head, None)
        mine = {model: cells[model]} if model in cells else {}
        if not mine:
            return {
                "model": model,
                "verdict": "equal",
                "note": "the same trials as at the good one",
            }
        return next(row for row in judged(context, base, head, mine) if row["kind"] == "model")
    except (SideError, NoEnvironment) as error:
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
