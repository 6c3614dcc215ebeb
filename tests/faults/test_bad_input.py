"""Bad input is refused in one line, with its id and exit code, before anything is written."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from pathlib import Path

import pytest
from calls import bench
from refusals import FAST, SMALL, refused
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running import ray_session
from tabsweep.datasets import catalog
from tabsweep.sweeps.store.run_lock import RunLock

pytestmark = pytest.mark.usefixtures("isolated", "unreported")


# ---------------------------------------------------------------------- names and options

BOOSTING = ("--suite", "smoke", "--model", "lightgbm", "--dataset", "iris")


@pytest.mark.fault(13, 15, 21)
@pytest.mark.parametrize(
    ("id", "args", "says"),
    [
        ("E001", ("--suite", "uci-smal"), "'uci-small'"),
        ("E001", ("--suite", "no/such.toml"), "no/such.toml"),
        ("E001", ("--suite", "../../x"), "'../../x'"),
        ("E001", ("--suite", "../../etc\0/x.toml"), ""),
        ("E001", ("--suite", "smoke", "--budget", "quik"), "'quick'"),
        ("E002", ("--suite", "smoke", "--space", "dfault"), "'default'"),
        ("E002", ("--suite", "smoke", "--sampler", "grid"), "grid"),
        ("E003", ("--suite", "smoke", "--dataset", "irs"), "'iris'"),
        ("E003", ("--suite", "smoke", "--dataset", "../../x"), ""),
        ("E003", ("--suite", "smoke", "--dataset", "a\0b"), ""),
        ("E004", ("--suite", "smoke", "--model", "lightgmb"), "'lightgbm'"),
        ("E004", ("--suite", "smoke", "--model", "../../x:Y"), ""),
        ("E004", ("--suite", "smoke", "--model", "..:Y"), ""),
        ("E004", ("--suite", "smoke", "--model", "a\0b:Y"), ""),
        ("E004", ("--suite", "smoke", "--model", "no.such:Model"), "'no.such'"),
        ("E004", ("--suite", "smoke", "--model", "json:Model"), "'Model'"),
        ("E004", ("--suite", "smoke", "--model", "json:JSONDecoder"), "method fit"),
        ("E005", (), "--csv"),
        ("E005", ("--suite", "smoke", "--csv", "x.csv", "--target", "y"), "--csv"),
        ("E005", ("--suite", "smoke", "--target", "y"), "--target"),
        ("E005", ("--suite", "smoke", "--task", "binary"), "--task"),
        ("E005", ("--csv", "x.csv"), "--target"),
        ("E005", ("--csv", "x.csv", "--target", "y", "--dataset", "iris"), "--dataset"),
        ("E005", ("--suite", "smoke", "--workers", 100_000), "--workers 100000"),
        ("E005", ("--suite", "smoke", "--predict-missing"), "--csv"),
        ("E005", (*BOOSTING, "--async", "asha", "--workers", 0, "--quiet"), "--async"),
        ("E005", ("--suite", "smoke", "--name", "../../x"), "'../../x'"),
        ("E005", ("--suite", "smoke", "--name", "/tmp/x"), "'/tmp/x'"),
        ("E005", ("--suite", "smoke", "--name", ".hidden"), "'.hidden'"),
        ("E005", ("--suite", "smoke", "--name", "a\nb"), "'a\\nb'"),
        ("E005", ("--suite", "smoke", "--name", "a\0b"), ""),
        ("E005", ("--suite", "smoke", "--name", "x" * 300), "1 to 100"),
        ("E007", ("--csv", "none.csv", "--target", "y"), "none.csv"),
        ("E007", ("--suite", "smoke", "--dry-run", "--beside", "rtld"), "rtdl"),
        ("E015", ("--suite", "smoke", "--tracking-uri", "localhost:5000"), "localhost:5000"),
        ("E020", ("--suite", "smoke", "--reuse", "nowhere"), "nowhere"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused_with_the_way_out(id, args, says, monkeypatch):
    fast = ("--tracking-uri", "none", "--runs", "runs")
    started = []
    monkeypatch.setattr(ray_session, "start_ray", lambda **options: started.append(options))
    code = 3 if id == "E015" else 2
    assert says in refused(f"BENCH-{id}", "sweep", *fast, *args, code=code)
    assert not started, "Ray was started for a call that cannot run"


@pytest.mark.fault(15)
def test_numbers_out_of_range_are_usage_errors():
    wrong = {"--folds": 0, "--trials": -1, "--workers": -1, "--seed": "x", "--timeout": 0}
    for option, value in wrong.items():
        found = bench("sweep", "--suite", "smoke", option, value)
        assert found.code == 2 and option in found.err, found


def test_a_folder_that_is_no_run_is_refused_and_runs_near_it_are_named():
    verbs = [
        ("status",),
        ("resume",),
        ("retry",),
        ("report",),
        ("fit",),
        ("track", "sync"),
        ("ui",),
    ]
    for verb in verbs:
        assert "runs/" in refused("BENCH-E020", *verb, "x")
    assert bench("sweep", *SMALL, "--trials", 1, "--name", "real").code == 0
    for verb in verbs:
        assert "runs/real" in refused("BENCH-E020", *verb, "runs")
        assert "runs/real" in refused("BENCH-E020", *verb, "runs/reel")


def test_a_cluster_that_is_not_there_is_reported_at_once():
    call = ("sweep", "--suite", "smoke", "--dataset", "iris", "--model", "knn", "--runs", "runs")
    found = bench(*call, "--tracking-uri", "none", "--address", "127.0.0.1:1")
    assert found.code == 3
    assert "error BENCH-E016: " in found.err and "127.0.0.1:1" in found.err
    assert status_of(Path("runs/smoke-quick")).done == 0


# ---------------------------------------------------------------------- files of datasets


def broken_mirror(data: bytes) -> Path:
    """A mirror that promises the files of `yacht` and holds `data` instead."""
    (file,) = catalog.card("yacht").files
    folder = Path("mirror")
    folder.mkdir()
    (folder / "y.data").write_bytes(data)
    manifest = f"file,sha256,bytes\ny.data,{file.sha256},{file.bytes}\n"
    (folder / "MANIFEST.csv").write_text(manifest)
    return folder


YACHT = ("--suite", "npt-small", "--dataset", "yacht", "--model", "knn", "--folds", 1, *FAST)


@pytest.mark.fault(10)
def test_a_file_with_a_wrong_checksum_starts_no_sweep_and_both_hashes_are_named():
    mirror = broken_mirror(b"1 2 3 4 5 6 7\n" * 308)
    (file,) = catalog.card("yacht").files
    line = refused("BENCH-E014", "sweep", *YACHT, "--mirror", mirror, code=3)
    assert file.sha256 in line
    assert len(set(re.findall(r"[0-9a-f]{64}", line))) == 2
    assert not Path("runs").exists()
    for command in ("verify", "fetch"):
        found = bench("data", command, "yacht", "iris", "--mirror", mirror, "--json")
        assert found.code == 3 and "TABSWEEP_MIRROR" not in os.environ, "no longer than the command"
        answers = json.loads(found.out)
        assert answers["yacht"].startswith("WRONG: ") and not answers["iris"].startswith("WRONG")


# ---------------------------------------------------------------------- runs in use or in ruins


@pytest.mark.fault(7)
def test_a_second_driver_is_refused_and_told_who_the_first_is():
    assert bench("sweep", *SMALL, "--trials", 1, "--name", "shared").code == 0
    with RunLock(Path("runs/shared")):
        for args in (("sweep", *SMALL, "--name", "shared"), ("resume", "runs/shared")):
            found = bench(*args, *(() if args[0] == "sweep" else ("--workers", 0)))
            assert found.code == 3
            assert re.search(r"BENCH-E010: .*process \d+ on .*, started \d+ s ago", found.err)
        assert json.loads(bench("status", "runs/shared", "--json").out)["owner"]["pid"]
    assert bench("resume", "runs/shared", "--workers", 0, "--tracking-uri", "none").code == 0


# ---------------------------------------------------------------------- models of one's own

MODELS = """
import numpy as np
from tabsweep.models.constant import Constant

class Twin(Constant):
    name = "knn"

class One(Constant):
    name = "same"

class Two(Constant):
    name = "same"

class Silhouette:
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))
"""
OWN = ("--suite", "smoke", "--dataset", "iris", "--folds", 1, *FAST)


@pytest.fixture
def own_models(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with models, in the working directory alone."""
    name = f"own_{random.Random(str(isolated)).randrange(10**9)}"
    (isolated / f"{name}.py").write_text(MODELS)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return name


@pytest.mark.fault(23)
def test_a_model_with_the_name_of_another_is_refused(own_models):
    line = refused("BENCH-E004", "sweep", *OWN, "--model", f"{own_models}:Twin")
    assert "'knn'" in line
    pair = ("--model", f"{own_models}:One", "--model", f"{own_models}:Two")
    line = refused("BENCH-E002", "sweep", *OWN, *pair)
    assert f"{own_models}:One" in line and "'same'" in line


def test_a_classifier_without_probabilities_is_refused_and_a_regressor_is_not(own_models):
    silhouette = ("--model", f"{own_models}:Silhouette")
    line = refused("BENCH-E002", "sweep", *OWN, *silhouette)
    assert "predict_proba" in line and "tasks = ('regression',)" in line
    regression = ("--suite", "smoke", "--dataset", "diabetes", "--folds", 1, *FAST)
    assert bench("sweep", *regression, *silhouette, "--dry-run").code == 0
