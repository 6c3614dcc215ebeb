"""The git checkout that a night judges: its commit, its history, and worktrees of other commits."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.errors import Error

SHORT = 10  # digits of a commit for people
BASELINE = "benchmark/nightly/baseline.json"


class NotACheckout(Error, ValueError):
    """The package that runs is not the top folder of a git checkout."""


class NoCommit(Error, ValueError):
    """A commit that this checkout does not have, with the way to get it."""


def git(root: Path, *words: str) -> str:
    """What a git command prints, without the last newline. Raises ValueError with its message."""
    run = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, encoding="utf-8", errors="replace"
    )
    if run.returncode:
        said = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise ValueError(f"git {words[0]}: {said[-1]}")
    return run.stdout.rstrip("\n")


@dataclass(frozen=True)
class Checkout:
    """A checkout: its folder, its full commit, and a hash of what differs from it ("" if nothing).

    What `bench baseline accept` writes does not count as a difference.
    """

    root: Path
    commit: str
    changed: str = ""

    @property
    def label(self) -> str:
        """The short commit, marked where files differ from it."""
        return self.commit[:SHORT] + (f"-changed-{self.changed[:6]}" if self.changed else "")


def checkout_of(root: Path) -> Checkout:
    """The checkout whose top folder is `root`. Raises NotACheckout."""
    try:
        top = Path(git(root, "rev-parse", "--show-toplevel")).resolve()
        commit = git(root, "rev-parse", "HEAD")
    except (ValueError, OSError) as error:
        raise NotACheckout(_outside(root, str(error))) from None
    if top != root.resolve():
        raise NotACheckout(_outside(root, f"the checkout around it is {top}"))
    but = ["--", ".", f":!{BASELINE}"]
    text = git(root, "diff", "HEAD", *but)
    for name in git(root, "ls-files", "--others", "--exclude-standard", *but).splitlines():
        path = root / name
        if path.is_file() and path.suffix in (".py", ".toml", ".lock"):
            text += f"\n{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}"
    return Checkout(root, commit, hashlib.sha256(text.encode()).hexdigest() if text else "")


def _outside(root: Path, why: str) -> str:
    return (
        f"bench nightly judges commits, and {root} is not the top folder of a git checkout "
        f"({why}). Clone the repository and install from the clone: pip install --editable ."
    )


def full_commit(root: Path, name: str) -> str:
    """The commit that a name, tag or hash means. Raises NoCommit with the way to get it."""
    try:
        return git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except ValueError:
        pass
    if git(root, "rev-parse", "--is-shallow-repository") == "true":
        way = "this clone is shallow: git fetch --unshallow --tags"
    else:
        way = "git fetch --all --tags may bring it"
    raise NoCommit(f"commit {name} is not in this checkout; {way}")


def worktree(root: Path, commit: str, store: Path) -> Path:
    """A worktree of a commit, made where it is missing: the folder of its package.

    The folder is called as the package is, so that its parent can stand on the import path.
    """
    folder = store / "worktrees" / commit[:SHORT] / "tabsweep"
    git(root, "worktree", "prune")
    if (folder / ".git").exists():
        if git(folder, "rev-parse", "HEAD") != commit or git(folder, "status", "--porcelain"):
            git(folder, "checkout", "--quiet", "--force", "--detach", commit)
            git(folder, "clean", "-fdq")
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    git(root, "worktree", "add", "--quiet", "--force", "--detach", str(folder), commit)
    return folder


def remove_worktrees(root: Path, store: Path, *, but: Sequence[str] = ()) -> None:
    """Remove the worktrees in a store but those of these commits, and git's notes of them."""
    kept = {commit[:SHORT] for commit in but}
    for folder in sorted((store / "worktrees").glob("*/tabsweep")):
        if folder.parent.name not in kept:
            if (folder / ".git").exists():
                git(root, "worktree", "remove", "--force", str(folder))
            shutil.rmtree(folder.parent, ignore_errors=True)
    git(root, "worktree", "prune")
