"""Bad input is refused in one line, with its id and exit code, before anything is written."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from calls import bench
from refusals import FAST, SMALL, files, refused
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running import ray_session
from tabsweep.datasets import catalog, download
from tabsweep.sweeps.store.run_lock import RunLock

pytestmark = pytest.mark.usefixtures("isolated")


# ---------------------------------------------------------------------- names and options


@pytest.mark.fault(15, 21)
@pytest.mark.parametrize(
    ("id", "args", "says"),
    [
        ("E001", ("--suite", "uci-smal"), "'uci-small'"),
        ("E001", ("--suite", "no/such.toml"), "no/such.toml"),
        ("E001", ("--suite", "smoke", "--budget", "quik"), "'quick'"),
        ("E002", ("--suite", "smoke", "--space", "dfault"), "'default'"),
        ("E002", ("--suite", "smoke", "--sampler", "grid"), "grid"),
        ("E003", ("--suite", "smoke", "--dataset", "irs"), "'iris'"),
        ("E004", ("--suite", "smoke", "--model", "lightgmb"), "'lightgbm'"),
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
        ("E005", ("--suite", "smoke", "--name", "../../x"), "'../../x'"),
        ("E005", ("--suite", "smoke", "--name", "/tmp/x"), "'/tmp/x'"),
        ("E005", ("--suite", "smoke", "--name", ".hidden"), "'.hidden'"),
        ("E005", ("--suite", "smoke", "--name", "a\nb"), "'a\\nb'"),
        ("E005", ("--suite", "smoke", "--name", "x" * 300), "1 to 100"),
        ("E007", ("--csv", "none.csv", "--target", "y"), "none.csv"),
        ("E020", ("--suite", "smoke", "--reuse", "nowhere"), "nowhere"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused_with_the_way_out(id, args, says, monkeypatch):
    fast = ("--tracking-uri", "none", "--runs", "runs")
    started = []
    monkeypatch.setattr(ray_session, "start_ray", lambda **options: started.append(options))
    assert says in refused(f"BENCH-{id}", "sweep", *args, *fast)
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


def test_a_folder_with_other_things_in_it_is_never_made_a_run():
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/thesis.tex").write_text("years of work")
    assert "runs/mine" in refused("BENCH-E005", "sweep", *SMALL, "--name", "mine")


def test_a_cluster_that_is_not_there_is_reported_at_once():
    call = ("sweep", "--suite", "smoke", "--dataset", "iris", "--model", "knn", "--runs", "runs")
    found = bench(*call, "--tracking-uri", "none", "--address", "127.0.0.1:1")
    assert found.code == 3
    assert "error BENCH-E016: " in found.err and "127.0.0.1:1" in found.err
    assert status_of(Path("runs/smoke-quick")).done == 0


def test_an_unknown_cause_is_refused_with_a_suggestion():
    assert bench("sweep", *SMALL, "--trials", 1, "--name", "real").code == 0
    line = refused("BENCH-E005", "retry", "runs/real", "--cause", "omm")
    assert "'oom'" in line


# ---------------------------------------------------------------------- tables


def csv(text: str, name: str = "mine.csv") -> tuple[object, ...]:
    Path(name).write_text(text, encoding="utf-8")
    return ("sweep", "--csv", name, "--target", "price", *FAST)


def rows(n: int = 30, *, target: str = "", twin: str = "") -> str:
    """Rows of the columns size, kind and price; the second may be a twin of the third."""
    lines = []
    for i in range(n):
        price = target or {"class": ("low", "high")[i % 2]}.get(twin, str(i * 5 % 13 + 0.25))
        kind = {"price": price, "class": "xy"[i % 2]}.get(twin, "abc"[i % 3])
        lines.append(f"{i * 7 % 11}.5,{kind},{price}")
    return "".join(f"{line}\n" for line in lines)


HEADER = "size,kind,price\n"


@pytest.mark.fault(14, 22, 26)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("size,kind,prize\n" + rows(), "'prize'"),
        (HEADER + rows(5) + "1,a\n" + rows(5), "line 7"),
        (HEADER + rows(5) + "1,a,2,3\n" + rows(5), "line 7"),
        (HEADER + rows(5) + "1,a,\n" + rows(9), "line 7"),
        (HEADER + rows(5) + "1,a,nan\n" + rows(9), "line 7"),
        (HEADER + rows(5) + "1,a,inf\n" + rows(9), "line 7"),
        (HEADER + rows(5) + "1,a,-Infinity\n" + rows(9), "line 7"),
        ("size,price_eur,price\n" + rows(twin="price"), "'price_eur'"),
        ("size,code,price\n" + rows(twin="class"), "'code'"),
        ("size,,price\n" + rows(), "column 2"),
        ("size,size,price\n" + rows(), "'size'"),
        ("", "empty"),
        (HEADER, "no rows"),
        (HEADER + rows(30, target="1"), "one value"),
        ("price\n" + "1\n2\n" * 20, "target"),
        (HEADER + rows(5), "10 rows"),
        (HEADER + rows(5) + '1,"a,2\n' + rows(5), "line 7"),
    ],
)  # fmt: skip
def test_a_table_with_a_fault_is_refused_with_its_place(text, says):
    assert says in refused("BENCH-E007", *csv(text))


def test_a_classification_that_is_told_to_be_a_regression_is_refused():
    call = csv("size,price\n" + "1,low\n2,high\n" * 20)
    assert "line 2" in refused("BENCH-E007", *call, "--task", "regression")


@pytest.mark.fault(9)
def test_classes_that_are_absent_from_folds_are_handled_and_said():
    """One row of a class cannot be in all parts: the trials run, what is undefined has no value."""
    rare = {7: "rare", 9: "two", 30: "two"}
    lines = [f"{i * 37 % 101},{'xyz'[i % 3]},{rare.get(i, 'uv'[i * 7 % 2])}\n" for i in range(80)]
    found = bench(*csv(HEADER + "".join(lines)), "--trials", 1, "--folds", 1)
    assert found.code == 0, found
    assert "warning: class 'rare'" in found.err
    status = status_of(Path("runs/csv-mine-quick"))
    assert status.done == status.planned and not status.failed
    results = load_results("runs/csv-mine-quick")
    assert results["test_accuracy"].notna().all()
    assert results["test_roc_auc"].isna().any(), "no fold lacked a class: the test tests nothing"


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
        assert found.code == 3
        answers = json.loads(found.out)
        assert answers["yacht"].startswith("WRONG: ") and not answers["iris"].startswith("WRONG")


@pytest.mark.fault(10)
def test_a_cached_file_survives_a_mirror_that_lies(tmp_path):
    mirror = broken_mirror(b"1 2 3 4 5 6 7\n" * 308)
    kept = tmp_path / "cache" / "concrete" / "0000000000000000-other"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"somebody's")
    assert bench("data", "fetch", "yacht", "--mirror", mirror).code == 3
    assert files(tmp_path / "cache") == {"concrete/0000000000000000-other": b"somebody's"}


class Mirror(NamedTuple):
    """A mirror on this machine whose file cannot be had: its address, and who asked for the file
    after which waits."""

    address: str
    asked: list[str]
    waits: list[float]


@pytest.fixture
def bad_mirror(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """It answers as the parameter says: breaks off, an HTTP error, or a web page elsewhere."""
    asked: list[str] = []
    waits: list[float] = []
    clock = SimpleNamespace(monotonic=download.time.monotonic, sleep=waits.append)
    monkeypatch.setattr(download, "time", clock)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (file,) = catalog.card("yacht").files
    manifest = f"file,sha256,bytes\ny.data,{file.sha256},{file.bytes}\n".encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            whole = self.path.endswith("MANIFEST.csv")
            body = manifest if whole else b"1 2 3\n" * 10
            code, length = 200, len(body) if whole else file.bytes
            if not whole:
                asked.append(self.path)
            if not whole and request.param != "breaks off":
                body = b"<html>sign in</html>"
                length = len(body)
                if self.path != "/page":
                    code = int(request.param)
            self.send_response(code)
            if code == 429:
                self.send_header("Retry-After", "2")
            if code == 302:
                self.send_header("Location", "/page")
            if self.path == "/page":
                self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield Mirror(f"http://127.0.0.1:{server.server_port}", asked, waits)
    server.shutdown()
    server.server_close()


@pytest.mark.fault(11)
@pytest.mark.parametrize("bad_mirror", ["breaks off", "500", "429", "302", "404"], indirect=True)
def test_a_download_that_fails_leaves_the_dataset_out_with_the_reason(
    request, bad_mirror, tmp_path
):
    how = request.node.callspec.params["bad_mirror"]
    line = refused("BENCH-E012", "sweep", *YACHT, "--mirror", bad_mirror.address, code=3)
    assert "yacht: " in line and "127.0.0.1" in line
    assert not files(tmp_path / "cache"), "part of a file was kept"
    if how in ("breaks off", "500", "429"):  # may pass: asked again, five times in all at least
        assert len(bad_mirror.asked) >= 5 and len(bad_mirror.waits) >= 4
    if how == "429":
        assert all(wait >= 2 for wait in bad_mirror.waits), "Retry-After was not honoured"
    if how == "302":
        assert "/page" in bad_mirror.asked, "the redirection was not followed: nothing is shown"
    found = bench("data", "fetch", "yacht", "--mirror", bad_mirror.address)
    assert found.code == 3 and "not available" in found.out


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


@pytest.mark.fault(6)
def test_a_ruined_ledger_is_reported_and_not_touched():
    assert bench("sweep", *SMALL, "--trials", 1, "--name", "old").code == 0
    log = Path("ledger/log.jsonl")
    ruins: dict[str, tuple[Callable[[Path], object], str, int]] = {
        "torn": (lambda run: (run / log).write_text("{"), "E011", 3),
        "older": (lambda run: (run / log).rename(run / "ledger/tail-000001.jsonl"), "E011", 3),
        "renamed": (lambda run: (run / log).rename(run / "ledger/log.jsonm"), "E011", 3),
        "empty": (lambda run: (run / log).write_text(""), "E011", 3),
        "none": (lambda run: shutil.rmtree(run / "ledger"), "E020", 2),
    }
    for name, (ruin, id, code) in ruins.items():
        run = Path(shutil.copytree("runs/old", f"runs/{name}"))
        ruin(run)
        for command in ("status", "report"):
            refused(f"BENCH-{id}", command, run, code=code)


# ---------------------------------------------------------------------- models of one's own

MODELS = """
import numpy as np

class Mean:
    def fit(self, X, y):
        self.classes_, n = np.unique(y, return_counts=True)
        self.p_ = n / n.sum()
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[self.p_.argmax()])

    def predict_proba(self, X):
        return np.tile(self.p_, (len(X), 1))

class Twin(Mean):
    name = "knn"

class One(Mean):
    name = "same"

class Two(Mean):
    name = "same"

class Nan(Mean):
    name = "nan"

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)

class Silent(Mean):
    name = "silent"

    def fit(self, X, y):
        raise RuntimeError

class Lines(Mean):
    name = "lines"

    def fit(self, X, y):
        raise ValueError("first\\nsecond | $x_ \\\\input{/etc/passwd} <script>")

class Silhouette:
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))

class Greedy(Mean):
    name = "greedy"

    def fit(self, X, y):
        raise MemoryError

class BadSpace(Mean):
    name = "bad-space"

    @staticmethod
    def spaces():
        return {"default": {"params": {"alpha": {"kind": "unform", "low": 0, "high": 1}}}}
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


def test_a_model_with_a_faulty_space_is_refused(own_models):
    line = refused("BENCH-E002", "sweep", *OWN, "--model", f"{own_models}:BadSpace")
    assert "'alpha'" in line and "'uniform'" in line


def test_a_classifier_without_probabilities_is_refused_and_a_regressor_is_not(own_models):
    silhouette = ("--model", f"{own_models}:Silhouette")
    line = refused("BENCH-E002", "sweep", *OWN, *silhouette)
    assert "predict_proba" in line and "tasks = ('regression',)" in line
    regression = ("--suite", "smoke", "--dataset", "diabetes", "--folds", 1, *FAST)
    assert bench("sweep", *regression, *silhouette, "--dry-run").code == 0


def test_a_file_of_a_model_that_is_no_python_is_refused(own_models):
    Path(f"{own_models}_b.py").write_text("class Model(:\n")
    line = refused("BENCH-E004", "sweep", *OWN, "--model", f"{own_models}_b.py:Model")
    assert "SyntaxError" in line and "line 1" in line


@pytest.mark.fault(3, 9, 27)
def test_models_that_fail_leave_a_report_and_exit_code_1(own_models):
    names = ("Nan", "Silent", "Lines", "Greedy")
    picks = [word for name in names for word in ("--model", f"{own_models}:{name}")]
    found = bench("sweep", *OWN, *picks, "--name", "failures", "--json")
    assert found.code == 1
    causes = {"error": 2, "nonfinite": 1, "oom": 1}
    assert json.loads(found.out)["failed"] == causes
    results = load_results("runs/failures")
    assert not results.filter(like="test_").notna().any(axis=None), "a failure has no score"
    messages = dict(zip(results["model"], results["message"], strict=True))
    assert messages["silent"] == "RuntimeError: (no message)"
    assert messages["lines"].startswith("ValueError: first") and "\n" not in messages["lines"]
    report = Path("runs/failures/report")
    assert all((report / f"{table}.tex").exists() for table in ("scores", "ranks", "tests"))
    assert "<script>" not in (report / "coverage.md").read_text()
    assert "\\input{" not in (report / "coverage.tex").read_text()
    assert np.isnan(results["fit_s"].astype(float)).all()
