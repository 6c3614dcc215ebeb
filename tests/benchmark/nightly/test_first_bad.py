"""The search for the first bad commit: among twenty of a scratch clone, and which paths matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from scratch_clone import cloned
from tabsweep.benchmark.nightly.first_bad import (
    Bisection,
    failed,
    judgeable,
    matters,
    told,
    without_cells,
)
from tabsweep.benchmark.nightly.sides import Side, SideError, last_line


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


def test_only_what_fails_at_the_commit_itself_makes_it_bad() -> None:
    assert failed("knn", SideError("head abc: no module", "head"))["verdict"] == "fails"
    for side in ("base", ""):
        with pytest.raises(SideError, match="no module"):
            failed("knn", SideError("no module", side))


def test_a_commit_without_data_is_neither_good_nor_bad() -> None:
    lost = {"kind": "lost", "model": "knn", "verdict": "regression", "note": "not planned"}
    missing = {"kind": "dataset", "dataset": "iris", "verdict": "no-data", "note": "no network"}
    assert without_cells("knn", "c" * 40, [missing], shared=True)["verdict"] == "equal"
    assert without_cells("knn", "c" * 40, [lost], shared=False)["verdict"] == "fails"
    for beside, said in (([missing], "no network"), ([], "plans no cell")):
        with pytest.raises(ValueError, match=said):
            without_cells("knn", "c" * 40, beside, shared=False)
    with pytest.raises(ValueError, match="the error is inf"):
        judgeable("c" * 40, {"verdict": "no-data", "note": "the error is inf"})
    assert judgeable("c" * 40, {"verdict": "worse"}) == {"verdict": "worse"}


def test_a_version_that_says_nothing_is_an_error_of_its_side() -> None:
    side = Side("head", "c" * 40, Path("."), Path("python"), {})
    assert last_line(side, "a warning\n[1]\n") == "[1]"
    with pytest.raises(SideError, match="head cccccccccc: .*said nothing") as raised:
        last_line(side, "")
    assert raised.value.side == "head"


def test_the_result_names_the_first_bad_commit_and_what_was_judged() -> None:
    row = {"model": "knn", "verdict": "worse", "change": 0.05}
    found = Bisection("knn", "a" * 40, "d" * 40, 4, ["b", "c"], ["b", "c"], {"c": row}, "c")
    lines = told(found, ["b one", "c two"])
    assert lines[-1] == "first bad commit: c two"
    assert lines[1].endswith("b one: not judged") and "+5.0 %" in lines[2]
    none = Bisection("knn", "a" * 40, "d" * 40, 4, ["b"], ["b"], {}, "")
    assert told(none, ["b one"])[-1].startswith("none of them is worse")
