"""The search for the first bad commit: among twenty of a scratch clone, and which paths matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from scratch_clone import cloned
from tabsweep.benchmark.nightly.first_bad import Bisection, matters, told


@pytest.mark.nightly
def test_the_planted_commit_is_named_among_twenty(tmp_path: Path) -> None:
    clone = cloned(tmp_path)
    good = clone.git("rev-parse", "HEAD")
    model = "models/mlp_sklearn.py"
    planted = ""
    for number in range(20):
        if number == 13:
            clone.edit(
                model, ("learning_rate_init: float = 1e-3", "learning_rate_init: float = 1e-4")
            )
            planted = clone.commit("a smaller rate")
        elif number == 6:  # another trial, the same predictions
            clone.edit(model, ("        self.n_iter_ = int(", "        self.n_iter_ = 0 + int("))
            clone.commit("the same, otherwise written")
        elif number == 9:  # a comment: not even another trial
            path = clone.root / model
            path.write_text(path.read_text() + "\n# a comment\n")
            clone.commit("a comment")
        elif number % 2:
            (clone.root / "docs" / f"page-{number}.md").write_text("text\n")
            clone.commit(f"page {number}")
        else:
            path = clone.root / "models" / "knn.py"
            path.write_text(path.read_text() + f"\nSPARE_{number} = {number}\n")
            clone.commit(f"another model {number}")
    code, found, err = clone.bench("nightly", "bisect", "mlp-sklearn", "--good", good)
    print(err)
    assert code == 4
    assert found["first"] == planted and found["n_commits"] == 20
    assert len(found["asked"]) == 3 and len(found["candidates"]) == 2
    assert found["judged"][planted]["verdict"] == "worse"
    assert "worktrees" not in clone.git("worktree", "list")


def test_only_files_that_a_trial_depends_on_matter() -> None:
    files = ["models/knn.py", "models/base.py", "benchmark/cell.py"]
    for path in (
        *files,
        "models/spaces/knn.toml",
        "requirements.lock",
        "benchmark/planning/plan.py",
    ):
        assert matters(path, files, "knn")
    for path in ("datasets/protocols.py", "sweeps/trial.py", "benchmark/suites/nightly.toml"):
        assert matters(path, files, "knn")
    for path in (
        "docs/a.md",
        "README.md",
        "models/mlp.py",
        "models/spaces/mlp.toml",
        "reports/x.py",
    ):
        assert not matters(path, files, "knn")
    assert matters("models/mlp.py", [], "knn")  # nothing is known of the version before


def test_the_result_names_the_first_bad_commit_and_what_was_judged() -> None:
    row = {"model": "knn", "verdict": "worse", "change": 0.05}
    found = Bisection("knn", "a" * 40, "d" * 40, 4, ["b", "c"], ["b", "c"], {"c": row}, "c")
    lines = told(found, ["b one", "c two"])
    assert lines[-1] == "first bad commit: c two"
    assert lines[1].endswith("b one: not judged") and "+5.0 %" in lines[2]
    none = Bisection("knn", "a" * 40, "d" * 40, 4, ["b"], ["b"], {}, "")
    assert told(none, ["b one"])[-1].startswith("none of them is worse")
