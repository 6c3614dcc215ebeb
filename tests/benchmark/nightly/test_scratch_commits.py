"""What a night says of planted faults, each in a commit of a scratch clone.

Run with `-s` it prints every verdict. TABSWEEP_SCRATCH_SUITE=nightly judges the whole suite.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from repo import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]


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


MODEL = "models/mlp_sklearn.py"


def halved_rate(clone: Clone) -> None:
    clone.edit(
        MODEL, ("learning_rate_init: float = hyper(1e-3", "learning_rate_init: float = hyper(5e-4")
    )


def dataset_gone(clone: Clone) -> None:
    """The bytes that a card asks for exist nowhere."""
    name = "yacht" if clone.suite == "nightly-small" else "concrete"
    file = clone.root / "datasets" / "cards" / f"{name}.toml"
    lines = file.read_text(encoding="utf-8").splitlines()
    lines = [f'{line[: line.index("=")]}= "{"0" * 64}"' if is_sum(line) else line for line in lines]
    lines = [line.replace("https://", "https://nowhere.invalid/") for line in lines]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def is_sum(line: str) -> bool:
    return line.lstrip().startswith("sha256") and "=" in line


def not_deterministic(clone: Clone) -> None:
    clone.edit(MODEL, ("random_state=self.seed", "random_state=None"))


def other_library(clone: Clone) -> None:
    clone.edit("requirements.lock", ("joblib==1.6.0", "joblib==1.5.3"))


# Name -> (the fault, the step that must say so or None, its verdict, what its headline names).
FAULTS: dict[str, tuple[Callable[[Clone], None], str | None, str, str]] = {
    "halved rate": (halved_rate, "ab-test", "regression", "mlp-sklearn"),
    "dataset gone": (dataset_gone, "screen", "no-data", "could not be had"),
    "not deterministic": (not_deterministic, "screen", "regression", "mlp-sklearn"),
    "other library": (other_library, None, "", ""),
}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """A clone with an accepted baseline, and a night behind it."""
    suite = os.environ.get("TABSWEEP_SCRATCH_SUITE")
    clone = cloned(tmp_path_factory.mktemp("scratch"), suite)
    code, found, err = clone.bench("baseline", "accept", "--reason", "before all faults")
    assert code == 0, err
    clone.commit("the baseline")
    yield clone


def night(clone: Clone, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code of a night and its steps by name; prints what each said."""
    code, found, err = clone.bench("nightly", *words)
    assert isinstance(found, dict) and "steps" in found, err
    for step in found["steps"]:
        if step["verdict"] != "not-run":
            print(f"  {step['name']}: {step['verdict']}: {step['headline']} {step['reason']}")
            print(f"    {step['seconds']} s, {step['cpu_s']} CPU s")
    return code, {step["name"]: step for step in found["steps"]}


def test_a_night_on_an_unchanged_tree_is_silent(accepted: Clone) -> None:
    code, steps = night(accepted)
    assert code == 0
    assert steps["screen"]["verdict"] == "ok" and not steps["screen"]["findings"]
    assert steps["ab-test"]["headline"] == "no model changed"


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else_is(accepted: Clone, name: str) -> None:
    plant, where, verdict, names = FAULTS[name]
    good = accepted.git("rev-parse", "HEAD")
    try:
        plant(accepted)
        accepted.commit(name)
        print(f"\n{name}")
        code, steps = night(accepted)
    finally:
        accepted.git("reset", "--quiet", "--hard", good)
    if where is None:
        assert code == 0
        rows = [row for row in steps["ab-test"]["findings"] if row["kind"] == "model"]
        assert rows and {row["verdict"] for row in rows} == {"equal"}
        return
    assert code == 4
    assert steps[where]["verdict"] == verdict and names in steps[where]["headline"]
    others = {name for name, step in steps.items() if step["verdict"] in ("regression", "no-data")}
    assert others <= {where, "ab-test" if name == "not deterministic" else where}


def test_git_bisect_names_the_planted_commit(tmp_path: Path) -> None:
    clone = cloned(tmp_path)
    good = clone.git("rev-parse", "HEAD")
    planted = ""
    for number in range(8):
        if number == 5:
            clone.edit(
                MODEL,
                (
                    "learning_rate_init: float = hyper(1e-3",
                    "learning_rate_init: float = hyper(1e-4",
                ),
            )
            planted = clone.commit("a smaller rate")
        elif number == 2:  # another trial, the same predictions
            clone.edit(MODEL, ("        self.n_iter_ = int(", "        self.n_iter_ = 0 + int("))
            clone.commit("the same, otherwise written")
        else:
            (clone.root / "docs" / f"page-{number}.md").write_text("text\n")
            clone.commit(f"page {number}")
    clone.git("bisect", "start", "HEAD", good)
    words = ("--against", good, "--model", "mlp-sklearn")
    said = clone.git("bisect", "run", *clone.command("nightly", *words))
    assert f"{planted} is the first bad commit" in said
    clone.git("bisect", "reset")
    assert "worktrees" not in clone.git("worktree", "list")
