"""A fit that works in processes of its own: their CPU seconds are its cost, and end it in time."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
from calls import bench, working_in
from tabsweep.benchmark.results.evidence_builder import load_results

BURN = "import time\nwhile time.process_time() < {}: pass\nprint(flush=True)\ntime.sleep({})"
MODEL = f"""
import subprocess, sys
import numpy as np
from pathlib import Path

class Leaves:
    '''Its first fit leaves a process that used a second and goes on later, as loky's do.'''

    def fit(self, X, y):
        if not Path("left").exists():
            left = subprocess.Popen([sys.executable, "-c", {BURN!r}.format(1.0, 600)], stdout=-1)
            left.stdout.readline()
            Path("left").write_text(str(left.pid))
        self.classes_ = np.unique(y)
    def predict(self, X): return np.zeros(len(X), int)
    def predict_proba(self, X): return np.full((len(X), len(self.classes_)), 1 / 3)
"""
PROGRAM = f"""
import os, subprocess, sys, time
from tabsweep.sweeps.trial import Limits, Trial
from tabsweep.sweeps.workers.ray_calls import RayLink
from tabsweep.sweeps.workers.trial_actor import TrialWorker

def waits(trial, data):
    for _ in range(2):
        one = subprocess.Popen([sys.executable, "-c", {BURN!r}.format(300, 0)])
        print(one.pid, file=told, flush=True)
    time.sleep(300)

told = os.fdopen(os.dup(1), "w")
worker = TrialWorker(RayLink(), waits, "w", [], None, {{}}, 0.0)
worker.run(Trial("d", 0, "m", {{}}, 0, {{}}), "", [], Limits(timeout_s=2.0, memory_mb=900.0), None)
"""


def test_cpu_seconds_of_processes_that_outlive_a_fit_are_those_of_that_trial(tmp_path) -> None:
    (tmp_path / "leaving.py").write_text(MODEL)
    call = ("--model", "leaving.py:Leaves", "--folds", 2, "--workers", 0, "--name", "run")
    call += ("--tracking-uri", "none")
    try:
        with working_in(tmp_path):
            found = bench("sweep", "--suite", "smoke", "--dataset", "iris", *call)
        assert found.code == 0, found.err
        first, second = load_results(tmp_path / "runs" / "run").sort_values("fold")["cpu_s"]
        assert 0.9 <= first < 2.0 and second < 0.5
    finally:
        psutil.Process(int((tmp_path / "left").read_text())).kill()


def test_the_time_limit_counts_processes_that_a_fit_started_and_ends_them_with_it(tmp_path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 137, done.stderr
    assert time.monotonic() - began < 60
    ids = [int(line) for line in done.stdout.split()]
    assert len(ids) == 2
    end = time.monotonic() + 10
    while any(map(psutil.pid_exists, ids)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(psutil.pid_exists, ids))
