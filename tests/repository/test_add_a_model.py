"""A model is added by exactly three files: its module, its registry entry, its search spaces.

The three edits are made in a copy of the repository, where the tests of every model then run. They
repeat a registered model under the name `newcomer`: its module, with the class renamed; its space
file; its entry.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from class_types import ACCEPT

ROOT = Path(__file__).resolve().parents[2]
NEW = "newcomer"
SKIPPED = shutil.ignore_patterns(
    *(".venv", ".git", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "runs"),
    *("*.egg-info", "mlruns", "mlflow.db", "catboost_info"),
)


def run_in(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """This interpreter in the copy: what stands on PYTHONPATH comes before what is installed."""
    own = {"PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
    )


ENTRY = re.compile(
    r'^ {8}_own\(\s*"([a-z0-9-]+)",(?:.*\),|.*\n(?: {12}.*\n)* {8}\),)\n', re.MULTILINE
)  # on one line or on several


def add_to_registry(copy: Path, name: str, target: str) -> Path:
    """Give `newcomer` the entry of a registered model, before the first name that is greater; the
    path of the edited file."""
    path = copy / "models" / "registry_entries.py"
    source = path.read_text(encoding="utf-8")
    entries = {entry[1]: entry for entry in ENTRY.finditer(source)}
    own = entries[name][0].replace(f'"{name}"', f'"{NEW}"', 1)
    own = own.replace(f'"{target}"', f'"{NEW}:Newcomer"')
    place = next(entry.start() for other, entry in entries.items() if other > NEW)
    path.write_text(source[:place] + own + source[place:], encoding="utf-8")
    return path


def add_model(copy: Path, name: str, target: str) -> list[Path]:
    """Make the three edits; the files that they touch."""
    module, kind = target.split(":")
    own = copy / "models" / f"{NEW}.py"
    spaces = copy / "models" / "spaces" / f"{NEW}.toml"
    source = (copy / "models" / f"{module}.py").read_text(encoding="utf-8")
    own.write_text(re.sub(rf"\b{kind}\b", "Newcomer", source), encoding="utf-8")
    shutil.copy(spaces.with_name(f"{name}.toml"), spaces)
    return [own, add_to_registry(copy, name, target), spaces]


def with_model(scratch: Path, name: str, target: str) -> Path:
    """A copy of the repository with the three edits; its folder bears the package's name, so that
    it can be imported from `scratch`."""
    copy = scratch / "tabsweep"
    shutil.copytree(ROOT, copy, ignore=SKIPPED)
    assert len(add_model(copy, name, target)) == 3
    program = "import tabsweep; print(tabsweep.__file__)"
    assert run_in(copy, "-c", program).stdout.strip() == str(copy / "__init__.py")
    return copy


def test_three_files_add_a_model_that_keeps_the_laws_and_is_swept(tmp_path: Path) -> None:
    copy = with_model(tmp_path, "lightgbm", "lightgbm:LightGBM")
    sweep = ("--suite", "smoke", "--model", NEW, "--model", "constant", "--workers", "0")
    for words in (("models", "check", NEW), ("sweep", *sweep, "--runs", str(tmp_path))):
        done = run_in(copy, "-m", "tabsweep.benchmark.cli", *words)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    scores = list(tmp_path.glob("*/report/scores.csv"))
    assert len(scores) == 1 and NEW in scores[0].read_text()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "target"), [("knn", "knn:KNN"), ("lightgbm", "lightgbm:LightGBM"), ("snn", "snn:SNN")]
)
def test_three_files_pass_all_tests_of_models_and_of_the_repository(
    name: str, target: str, tmp_path: Path
) -> None:
    """A model with a single piece, one whose fits can be resumed, and a network."""
    copy = with_model(tmp_path, name, target)
    run_in(copy, *ACCEPT.split()[1:])  # as `make lint` does
    for check in (["format", "--check"], ["check"]):
        done = run_in(copy, "-m", "ruff", *check, "--no-cache", "models")
        assert done.returncode == 0, done.stdout + done.stderr
    rooms = ("tests/models", "tests/repository", "tests/benchmark/planning")
    others = [f"--ignore=tests/repository/test_{one}.py" for one in ("add_a_model", "deployment")]
    done = run_in(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *rooms, *others)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
