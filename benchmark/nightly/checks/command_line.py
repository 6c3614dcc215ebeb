"""CPU time of the command line against stored budgets, as a ratio to an import beside it."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

from ..context import NightContext
from ..step_result import ADVISORY, NO_DATA, OK, REGRESSION, StepResult
from . import child

BUDGETS = Path(__file__).with_suffix(".toml")
STARTS = 3  # of each command; the least CPU time counts
LIMIT_S = 120.0
QUICK = 5.0  # the budget of a command that a tiny night starts


def command_line(context: NightContext) -> StepResult:
    """Start each command of command_line.toml several times, in turn with the reference.

    A command that fails is a regression. One whose least CPU time is above its budget (a multiple
    of the reference's) is shown: an advisory.
    """
    stored = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    reference = [str(context.python), "-c", stored["reference"]]
    budgets = {
        words: budget
        for words, budget in stored["budgets"].items()
        if budget <= QUICK or not context.tiny
    }
    commands = {words: child.bench(context, *shlex.split(words)) for words in budgets}
    folder = context.night / "command-line"
    folder.mkdir(parents=True, exist_ok=True)
    least: dict[str, float] = {}
    failed: dict[str, dict[str, object]] = {}
    for _ in range(1 if context.tiny else STARTS):
        for words, command in {"": reference, **commands}.items():
            ended = child.run(
                context, command, log=folder / "output.txt", limit_s=LIMIT_S, cwd=folder
            )
            if words == "" and (ended.code != 0 or ended.cpu_s <= 0):
                reason = f"{shlex.join(reference)}: {ended.how}"
                headline = "the reference could not be measured"
                return StepResult("command-line", NO_DATA, headline, reason=reason)
            if ended.code != 0:
                failed[words] = _failure(words, ended)
            least[words] = min(least.get(words, ended.cpu_s), ended.cpu_s)
    rows = [*failed.values()] + [
        {
            "subject": words,
            "old": budget,
            "new": round(least[words] / least[""], 3),
            "verdict": "slow" if least[words] / least[""] > budget else "ok",
            "cpu_s": round(least[words], 3),
            "command": f"bench {words}",
        }
        for words, budget in budgets.items()
        if words not in failed
    ]
    slow = [row for row in rows if row["verdict"] == "slow"]
    if failed:
        names = ", ".join(f"bench {words}" for words in failed)
        return StepResult("command-line", REGRESSION, f"failed: {names}", rows)
    if slow:
        names = ", ".join(f"bench {row['subject']}" for row in slow)
        return StepResult("command-line", ADVISORY, f"above its budget of CPU time: {names}", rows)
    return StepResult("command-line", OK, f"{len(rows)} commands within their budgets", rows)


def _failure(words: str, ended: child.Ended) -> dict[str, object]:
    return {
        "subject": words,
        "verdict": "failed",
        "message": ended.how,
        "command": f"bench {words}",
    }
