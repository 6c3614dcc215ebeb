"""Which code of the user a resume runs: named, compared with the first, refused before its import.

Each command is a process of its own, as a module is imported once.
"""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest
from tabsweep.benchmark.planning import code_identity
from tabsweep.benchmark.planning.code_identity import own_code

pytestmark = pytest.mark.usefixtures("work")

FAST = ("--workers", "0", "--tracking-uri", "none")
MINE = """
from pathlib import Path
from tabsweep.models.knn import KNN

Path("imported.log").touch()

class Mine(KNN):
    name = "mine"
"""
SUITE = """
name = "rows"
title = "A row with a class of the user behind it"
datasets = ["iris"]

[budgets.quick]
models = ["row"]
folds = 1
trials = 1
timeout_s = 60

[budgets.quick.model.row]
of = "code_behind_a_row:Mine"
"""


def program(
    *words: object, folder: str = ".", installed: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own. installed: a folder of installed packages besides."""
    # -P: as the installed `bench`, without the working directory among Python's folders
    command = [sys.executable, "-P", "-m", "tabsweep.benchmark.cli", *map(str, words)]
    env = {**os.environ, **({"PYTHONPATH": str(installed)} if installed else {})}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def refusal(*more: str, folder: str = "elsewhere") -> str:
    """What a resume in another folder is refused with, in one line, before any import."""
    found = program("resume", "../runs/r", *FAST, *more, folder=folder)
    assert found.returncode == 2, found
    assert not Path(folder, "imported.log").exists() and "Traceback" not in found.stderr
    return found.stderr


def test_code_behind_a_row_of_the_suite_is_named_and_compared_with_the_first() -> None:
    file = Path("code_behind_a_row.py")
    file.write_text(MINE)
    Path("rows.toml").write_text(SUITE)
    begun = program("sweep", "--suite", "rows.toml", "--runs", "runs", "--name", "r", *FAST)
    assert begun.returncode == 0, begun.stderr
    Path("elsewhere").mkdir()
    other = Path("elsewhere", file)
    other.write_text(MINE + "\nprint('other')\n")
    assert "None of it was run" in refusal()
    other.write_text("class Mine(:\n")
    said = refusal()
    assert f"{other.resolve()} (code_behind_a_row:Mine) is no valid Python" in said
    assert "line 1" in said
    other.write_text(MINE)
    py_compile.compile(str(other), cfile=str(other.with_suffix(".pyc")))
    other.unlink()
    assert "without source" in refusal()
    file.write_text(MINE + "\nOTHER = 1\n")
    again = ("resume", "runs/r", *FAST, "--allow-code-change")
    for _ in range(2):  # the second time, too: the run began with the first source
        changed = program(*again)
        assert changed.returncode == 0, changed.stderr
        assert f"runs the code of {file.resolve()} (code_behind_a_row:Mine): another" in (
            changed.stderr
        )
    file.write_text(MINE)
    back = program(*again)
    assert "the source that the run began with" in back.stderr and back.returncode == 0


def test_an_upgrade_of_tabsweep_does_not_change_the_users_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("mine_of_knn.py").write_text(MINE)
    monkeypatch.syspath_prepend(".")
    before = own_code("mine_of_knn:Mine")
    real, asked = code_identity.source_of, []
    monkeypatch.setattr(
        code_identity, "source_of", lambda name, path: asked.append(name) or real(name, path)
    )
    assert own_code("mine_of_knn:Mine") == before and asked == ["mine_of_knn"]


def package(folder: str, module: str, code: str) -> Path:
    """A folder with an installed package whose class `Mine` is the model "installed"."""
    path = Path(folder).resolve()
    facts = path / "of_strangers-1.0.dist-info"
    facts.mkdir(parents=True)
    (path / f"{module}.py").write_text(code)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: of-strangers\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[tabsweep.models]\ninstalled = {module}:Mine\n")
    return path


def test_the_code_of_an_installed_model_is_named_and_compared_as_that_of_a_file() -> None:
    first = package("first", "of_strangers", MINE)
    one = ("--suite", "smoke", "--dataset", "iris", "--folds", 1, "--trials", 1)
    named = ("--model", "installed", "--model", "knn", "--runs", "runs", "--name", "r")
    begun = program("sweep", *one, *named, *FAST, installed=first)
    assert begun.returncode == 0, begun.stderr
    again = ("resume", "runs/r", *FAST)
    same = program(*again, installed=first)
    (said,) = [line for line in same.stderr.splitlines() if line.startswith("runs the code")]
    place = first / "of_strangers.py"
    assert said == (
        f"runs the code of {place} (of_strangers:Mine): the source that the run began with"
    )
    other = package("other", "of_strangers", MINE + "\nOTHER = 1\n")
    elsewhere = package("elsewhere", "of_others", MINE)
    Path("imported.log").unlink()
    for folder in (other, elsewhere):
        refused = program(*again, installed=folder)
        assert refused.returncode == 2 and "None of it was run" in refused.stderr
        assert str(folder) in refused.stderr and str(place) in refused.stderr
        assert not Path("imported.log").exists() and "Traceback" not in refused.stderr
    allowed = program(*again, "--allow-code-change", installed=other)
    assert allowed.returncode == 0 and "another source than at the start" in allowed.stderr
