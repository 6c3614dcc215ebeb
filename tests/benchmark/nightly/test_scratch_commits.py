"""What a night says of planted faults, each in a commit of a scratch clone.

Run with `-s` it prints every verdict. TABSWEEP_SCRATCH_SUITE=nightly judges the whole suite.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scratch_clone import Clone, cloned

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]

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
