"""A lab's nights: what changed is on the page and in the exit code; runs that share no table."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repo import ROOT
from sklearn.datasets import load_breast_cancer

MODEL = """
from sklearn.ensemble import RandomForestClassifier

class Forest(RandomForestClassifier):
    numbers_only = True
    def __init__(self, n_estimators=DEFAULT, random_state=0):
        depth = 4 if n_estimators > 1 else 1
        super().__init__(n_estimators, max_depth=depth, random_state=random_state)
"""


def night(date: str, *more: str, trees: int) -> subprocess.CompletedProcess[str]:
    Path("ours.py").write_text(MODEL.replace("DEFAULT", str(trees)))
    write_suite()
    words = ["--suite", "lab.toml", "--folds", "4"]
    words += ["--model", "ours.py:Forest", "--model", "linear", "--trials", "1", "--workers", "0"]
    bench = Path(sys.executable).with_name("bench")
    return subprocess.run(
        [ROOT / "deploy" / "lab-night.sh", *words, "--tracking-uri", "none", *more],
        env=os.environ | {"LAB_NIGHT": date, "BENCH": str(bench)},
        capture_output=True,
        text=True,
        timeout=900,
    )


def write_suite() -> None:
    """A suite with a table in a file, which lies beside the runs then."""
    frame = load_breast_cancer(as_frame=True).frame.head(100)
    frame.iloc[:, -4:].to_csv("own.csv", index=False)
    head = 'name = "lab"\ntitle = "The lab\'s tables"\ndatasets = ["iris", "wine"]\n'
    own = '[file.own]\npath = "own.csv"\ntarget = "target"\ntask = "classification"\n'
    budget = '[budgets.quick]\nmodels = ["linear"]\nfolds = 4\ntrials = 1\n'
    Path("lab.toml").write_text(f"{head}\n{own}\n{budget}")


@pytest.mark.nightly  # four sweeps with their reports
def test_a_planted_regression_is_red_and_on_the_page(work: Path) -> None:
    first = night("2026-01-01", trees=20)
    assert (first.returncode, first.stdout) == (0, ""), first
    assert "What changed" not in Path("lab-nights/site/index.html").read_text()
    red = night("2026-01-02", trees=1)
    assert red.returncode == 4 and "REGRESSION, worse: ours:Forest" in red.stdout, red
    page = Path("lab-nights/site/index.html").read_text()
    assert "What changed: 2026-01-01 against 2026-01-02" in page and "REGRESSION" in page
    shutil.copytree("lab-nights/runs/2026-01-02", cut := "lab-nights/runs/2026-01-02-cut")
    shutil.rmtree(f"{cut}/report")  # a night that a power cut ended is none to compare with
    again = night("2026-01-03", trees=1)
    assert (again.returncode, again.stdout) == (0, ""), again
    other = night("2026-01-04", "--metric", "log_loss", trees=1)
    assert other.returncode == 2, "no night before it has this metric"
    page = Path("lab-nights/site/index.html").read_text()
    assert "Other boards" in page and Path("lab-nights/site/board-2/scores.csv").exists()
