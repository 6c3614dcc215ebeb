"""The commands that a page offers to copy."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def explain(runs: Sequence[str], dataset: str, model: str) -> str:
    """The command that lists the trials behind a score; "" without a run (another tool's results).

    >>> explain(["runs/a"], "glass", "knn")
    'bench explain scores glass knn --run runs/a'
    """
    if not runs:
        return ""
    named = [word for run in runs for word in ("--run", run)]
    return _joined(["bench", "explain", "scores", dataset, model, *named])


def fit(runs: Sequence[str]) -> str:
    """The command that saves the best model of a run; "" without one run.

    >>> fit(["runs/a"])
    'bench fit runs/a --out best.tabsweep'
    """
    return _joined(["bench", "fit", runs[0], "--out", "best.tabsweep"]) if len(runs) == 1 else ""


def features(runs: Sequence[str], dataset: str) -> str:
    """The command that says what a run's best model loses without a feature; "" without one run.

    >>> features(["runs/a"], "houses")
    'bench explain features houses --run runs/a'
    """
    words = ["bench", "explain", "features", dataset, "--run"]
    return _joined([*words, runs[0]]) if len(runs) == 1 else ""


def passport(dataset: str) -> str:
    """The command that prints all of a dataset's passport.

    >>> passport("glass")
    'bench data passport glass'
    """
    return _joined(["bench", "data", "passport", dataset])


def _joined(words: Sequence[str]) -> str:
    """The words as a shell command, or "" if a word holds an invisible character such as a line
    break: a command on a page must show all that it does.

    >>> _joined(["bench", "a  b"]), _joined(["bench", "a\\nb"])
    ("bench 'a  b'", '')
    """
    return shlex.join(words) if all(map(str.isprintable, words)) else ""
