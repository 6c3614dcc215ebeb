"""Small inputs of sweeps and their surroundings that failed once: the right value of each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import bench, working_in
from case_folders import copy_of
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import status_of

IRIS = ("sweep", "--suite", "smoke", "--dataset", "iris", "--tracking-uri", "none")
MAIN = "from tabsweep.benchmark.cli import main; main()"


def what_goes_through_the_name_less_arguments_is_searched(folder: Path) -> None:
    call = ("--model", "varkw.py:Mine", "--trials", 2, "--folds", 1, "--workers", 0, "--name", "v")
    assert bench(*IRIS, *call).code == 0
    assert [*load_results("runs/v")["config"]][0] == '{"n_estimators":5}'


def every_point_of_a_finite_space_is_tried(folder: Path) -> None:
    for sampler in ("tpe", "random", "hyperopt"):
        call = ("--model", "finite.py:Eight", "--sampler", sampler, "--trials", 30, "--folds", 1)
        found = bench(*IRIS, *call, "--workers", 0, "--name", sampler)
        assert found.code == 0 and "after 8 of 30 trials" in found.out
        assert load_results(f"runs/{sampler}")["config"].nunique() == 8


def a_proxy_sees_nothing_of_a_server_of_this_machine(folder: Path) -> None:
    call = ("--model", "constant", "--folds", 1, "--workers", 0, "--name", "run")
    assert bench(*IRIS, *call).code == 0
    proxy = subprocess.Popen([sys.executable, "proxy.py"])
    secrets = {
        "http_proxy": "http://127.0.0.1:5099",
        "MLFLOW_TRACKING_USERNAME": "me",
        "MLFLOW_TRACKING_PASSWORD": "secret",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0123456789" * 4,
    }
    try:
        away = ["track", "sync", "runs/run", "--tracking-uri", "http://127.0.0.1:5000"]
        for words in (away, ["submit", "--address", "http://127.0.0.1:8265", "--", *IRIS[1:3]]):
            call = [sys.executable, "-c", MAIN, *words]
            subprocess.run(call, env={**os.environ, **secrets}, capture_output=True, timeout=200)
    finally:
        proxy.kill()
        proxy.wait()
    assert not Path("px.log").exists()


def cpu_seconds_of_worker_processes_are_counted(folder: Path) -> None:
    call = ("--model", "lokyheavy.py:Heavy", "--name", "lk", "--workers", 0, "--folds", 3)
    assert bench(*IRIS, *call).code == 0
    assert load_results("runs/lk")["cpu_s"].between(5.5, 9.0).all()
    limited = [*IRIS, *call[:2], "--workers", 1, "--folds", 1, "--timeout", 2]
    words = [*map(str, limited), "--name", "limited", "--runs", "others"]
    subprocess.run([sys.executable, "-c", MAIN, *words], capture_output=True, timeout=300)
    assert status_of(Path("others/limited")).failed == {"timeout": 1}


def a_long_name_of_a_temporary_folder_is_no_hindrance(folder: Path) -> None:
    temporary = folder / "scratch" / "slurm" / "job.1234567" / "user" / "t016"
    temporary.mkdir(parents=True)
    call = ["--model", "knn", "--trials", "2", "--folds", "1", "--workers", "1", "--name", "x"]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *IRIS, *call],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and status_of(Path("runs/x")).done == 2, done.stderr


# {folder of the case: what must hold in a copy of it, which is the working directory}. The quota of
# CPUs (14_cpu_quota) has no file; it is tried by tests/sweeps/machine/test_cgroups.py.
CASES: dict[str, Callable[[Path], None]] = {
    "02_var_keyword": what_goes_through_the_name_less_arguments_is_searched,
    "04_finite_space": every_point_of_a_finite_space_is_tried,
    "07_proxy_loopback": a_proxy_sees_nothing_of_a_server_of_this_machine,
    "08_worker_processes": cpu_seconds_of_worker_processes_are_counted,
    "13_tmpdir_long": a_long_name_of_a_temporary_folder_is_no_hindrance,
}


@pytest.mark.parametrize("case", CASES)
def test_the_value_of_the_case_is_right(case: str, tmp_path: Path, unreported: None) -> None:
    with working_in(copy_of("engine", case, tmp_path)) as folder:
        CASES[case](folder)
