"""A scratch clone of this repository with commits of its own, judged by `bench nightly`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

SMALL = """
name = "nightly-small"
default_budget = "night"
title = "A few cheap models on bundled tables and one of the mirror"
datasets = ["diabetes", "iris", "yacht"]
[protocol]
diabetes = "fivefold"
iris = "fivefold"
yacht = "fivefold"
[budgets.night]
models = ["bagging", "knn", "linear", "mlp-sklearn"]
folds = 1
trials = 1
sampler = "random"
[budgets.night.model]
bagging.fixed = { n_estimators = 20 }
mlp-sklearn.fixed = { max_iter = 60 }
"""


@dataclass
class Clone:
    """A clone; its folder is called as the package is, so that its parent can be on the path."""

    root: Path
    nights: Path
    suite: str

    def git(self, *words: str) -> str:
        """What a git command prints in the clone."""
        who = ["-c", "user.name=Scratch", "-c", "user.email=scratch@example.org"]
        run = ["git", "-C", str(self.root), *who, *words]
        done = subprocess.run(
            run, env=self.environment(), capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def edit(self, file: str, *changes: tuple[str, str]) -> None:
        """Replace texts of a file, each of which must stand in it exactly once."""
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{file}: {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")

    def commit(self, message: str) -> str:
        """Commit everything; returns the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def environment(self) -> dict[str, str]:
        """Environment variables under which the package of the clone is imported."""
        return {**os.environ, "PYTHONPATH": str(self.root.parent), "OMP_NUM_THREADS": "1"}

    def command(self, *words: str) -> list[str]:
        """The command line of `bench` in the clone."""
        where = ["--out", str(self.nights), "--suite", self.suite]
        return [sys.executable, "-m", "tabsweep.benchmark.cli", *words, *where]

    def bench(self, *words: str) -> tuple[int, Any, str]:
        """(exit code, the JSON document, standard error) of a call of `bench` in the clone."""
        run = subprocess.run(
            [*self.command(*words), "--json"],
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
        )
        return run.returncode, json.loads(run.stdout or "null"), run.stderr


def cloned(folder: Path, suite: str | None = None, *more: str) -> Clone:
    """A clone of the commit that is checked out here, in a folder. `suite`: None for a small one,
    which its first commit brings; `more`: words for git clone."""
    root = folder / "tabsweep"
    source = f"file://{ROOT}" if "--depth" in more else str(ROOT)
    run = ["git", "clone", "--quiet", *more, source, str(root)]
    subprocess.run(run, check=True, capture_output=True)
    clone = Clone(root, folder / "nights", suite or "nightly-small")
    if suite is None:
        (root / "benchmark" / "suites" / "nightly-small.toml").write_text(SMALL, encoding="utf-8")
        clone.commit("a small suite")
    return clone
