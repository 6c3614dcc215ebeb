"""Commits, worktrees, lock files: on small git repositories made here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tabsweep.benchmark.nightly.checkout import (
    NoCommit,
    NotACheckout,
    checkout_of,
    full_commit,
    remove_worktrees,
    worktree,
)
from tabsweep.benchmark.nightly.libraries import differing, interpreter, pins


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    run = ["git", "-C", str(root), *who, *words]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Three commits: a.py, then docs, then a.py again."""
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "--quiet")
    for number, name in enumerate(("a.py", "docs/x.md", "a.py")):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", f"commit {number}")
    return root


def test_a_folder_that_is_no_checkout_is_refused_with_the_way_out(
    repo: Path, tmp_path: Path
) -> None:
    with pytest.raises(NotACheckout, match="the checkout around it"):
        checkout_of(repo / "docs")
    with pytest.raises(NotACheckout, match=r"pip install --editable"):
        checkout_of(tmp_path)


def test_a_changed_tree_has_a_label_of_its_own_and_the_baseline_does_not_change_it(
    repo: Path,
) -> None:
    clean = checkout_of(repo)
    assert clean.label == git(repo, "rev-parse", "HEAD")[:10]
    (repo / "benchmark" / "nightly").mkdir(parents=True)
    (repo / "benchmark" / "nightly" / "baseline.json").write_text("{}")
    assert checkout_of(repo).label == clean.label
    (repo / "a.py").write_text("other\n")
    first = checkout_of(repo)
    (repo / "a.py").write_text("another\n")
    labels = {clean.label, first.label, checkout_of(repo).label}
    assert len(labels) == 3 and all(label.startswith(clean.label) for label in labels)


def test_a_shallow_clone_says_how_to_get_the_commit(repo: Path, tmp_path: Path) -> None:
    old = full_commit(repo, "HEAD~2")
    shallow = tmp_path / "shallow"
    words = ["git", "clone", "--quiet", "--depth", "1", f"file://{repo}", str(shallow)]
    subprocess.run(words, check=True, capture_output=True)
    with pytest.raises(NoCommit, match="git fetch --unshallow"):
        full_commit(shallow, old)
    with pytest.raises(NoCommit, match="git fetch --all"):
        full_commit(repo, "0" * 40)


def test_a_worktree_is_made_once_and_leaves_nothing(repo: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first, last = full_commit(repo, "HEAD~2"), full_commit(repo, "HEAD")
    folder = worktree(repo, first, store)
    assert folder.name == "tabsweep" and (folder / "a.py").read_text() == "0\n"
    (folder / "a.py").write_text("somebody's\n")
    assert worktree(repo, first, store) == folder and (folder / "a.py").read_text() == "0\n"
    other = worktree(repo, last, store)
    assert (other / "a.py").read_text() == "2\n"
    remove_worktrees(repo, store, but=[first])
    assert folder.exists() and not other.exists()
    remove_worktrees(repo, store)
    assert git(repo, "worktree", "list").count("\n") == 0


def test_only_libraries_with_another_version_than_the_lock_are_added() -> None:
    lock = "# exact\nNumpy==2.0\ntorch==2.1 ; x\nnccl==3 ; platform_system == 'Linux'\nnew_one==1\n"
    assert pins(lock)["new-one"] == ("1", "new_one==1")
    here = {"numpy": "2.0", "torch": "2.1+cpu"}
    assert differing(lock, here, known="numpy==2.0\ntorch==2.1\nnccl==3\n") == {
        "new-one": "new_one==1"
    }
    assert differing("numpy==1.9\n", here, known=lock) == {"numpy": "numpy==1.9"}


def test_a_lock_that_is_installed_already_needs_no_environment(tmp_path: Path) -> None:
    python, added = interpreter("# nothing\n", "# nothing\n", tmp_path / "store")
    assert python.exists() and added == {} and not (tmp_path / "store").exists()
