"""`bench retry`: which causes it takes, and its answer where nothing failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from calls import bench
from run_records import make_run, plan, result
from small_sweeps import AGAIN, SMALL
from tabsweep.benchmark.results.run_status import status_of


@pytest.mark.parametrize("cause", ["omm", "oom,omm", "oom,", ""])
def test_retry_of_an_unknown_cause_is_refused_with_a_suggestion(cause, tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"))
    found = bench("retry", run, "--cause", cause)
    assert (
        found.code == 2 and "unknown cause" in found.err and "known: error, gpu_error" in found.err
    )
    assert ("did you mean 'oom'?" in found.err) == ("omm" in cause)


def test_retry_with_nothing_to_do_exits_with_5_and_says_what_failed(tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"), result(1))
    found = bench("retry", run, "--cause", "timeout,killed")
    assert found.code == 5
    assert "1 oom" in found.out
    assert bench("retry", make_run(tmp_path / "fine", plan(), result(0))).code == 5


MODEL = """
import numpy as np

class Fails:
    def __init__(self, c=0.0):
        self.c = c

    @staticmethod
    def spaces():
        return {"default": {"params": {"c": {"kind": "uniform", "low": 0.0, "high": 1.0}}}}

    def fit(self, X, y):
        if self.c > 0.5:
            raise RuntimeError("not yet")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))
"""


def test_a_model_that_was_corrected_is_retried_with_the_option_that_the_refusal_names(work):
    """Each command is a process of its own, as a module is imported once."""

    def command(*words: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "tabsweep.benchmark.cli", *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True)

    file = Path("to_be_corrected.py")
    file.write_text(MODEL)
    size = ("--folds", 1, "--trials", 6, "--name", "r")
    begun = command(*SMALL, "--model", "to_be_corrected:Fails", *size)
    before = status_of(Path("runs/r"))
    assert begun.returncode == 1 and before.done and sum(before.failed.values()), begun.stderr
    file.write_text(MODEL.replace("self.c > 0.5", "self.c > 1.5"))
    refused = command("retry", "runs/r", *AGAIN)
    assert refused.returncode == 2 and "BENCH-E006" in refused.stderr, refused.stderr
    assert "--allow-code-change" in refused.stderr and "--name" not in refused.stderr.replace(
        "bench sweep --name", ""
    )  # an option of another command stands with its command
    again = command("retry", "runs/r", *AGAIN, "--allow-code-change")
    assert again.returncode == 0, again.stderr
    after = status_of(Path("runs/r"))
    assert (after.done, after.left) == (6, 0) and not after.failed
