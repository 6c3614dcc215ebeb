"""`bench submit`: sweeps as jobs of a Ray head, and the doctor on its cluster."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import compose
import pytest
from aiohttp import web
from calls import bench
from chaos import wait_for
from ports import free_ports
from tabsweep.benchmark.commands import running, submit
from tabsweep.benchmark.console import Console
from tabsweep.benchmark.errors import SweepError, check_address_form
from tabsweep.sweeps.store.ledger import Ledger


class Head:
    """The head and what a client has: its environment, and addresses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs"
        names = ("gcs", "dashboard", "agent", "client")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.service = compose.ray_service("ray-head", home=folder, ports=self.ports)
        for name in list(self.service.environment):
            if name.startswith(("TABSWEEP_", "MLFLOW_")):
                del self.service.environment[name]
        self.service.environment["TABSWEEP_RUNS"] = str(self.runs)
        self.url = f"http://127.0.0.1:{self.ports['dashboard']}"
        self.outside = compose.ray_service("job", home=folder, ports=self.ports).environment

    def bench(self, *words: object, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).parent / "bench", *map(str, words)],
            env={**self.outside, **more},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # as from a terminal; whoever runs the tests may have made their children deaf to it
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def jobs(self, path: str = "", method: str = "GET") -> Any:
        """Ray's own interface, without any of our code."""
        request = urllib.request.Request(f"{self.url}/api/jobs/{path}", method=method)
        token = Path(self.outside["RAY_AUTH_TOKEN_PATH"]).read_text(encoding="utf-8").strip()
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


ON_RAY = pytest.mark.xdist_group("ray")
NOBODY = "http://127.0.0.1:1"  # where nobody listens


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(compose.FOREIGN)]:
        if name != "TABSWEEP_CACHE":
            monkeypatch.delenv(name)


@pytest.mark.parametrize("command", ["sweep", "resume", "retry", "doctor"])
def test_rays_client_is_refused_and_submit_is_named(command: str) -> None:
    run = {"sweep": ["--suite", "smoke"], "doctor": []}.get(command, ["runs/none"])
    found = bench(command, *run, "--address", "ray://head:10001")
    assert found.code == 2 and "bench submit --address http://HEAD:8265" in found.err


def test_an_address_is_one_on_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("local", "auto", "head:6379", "10.0.0.1:6379", "[::1]:6379"):
        check_address_form(address)
    for address in ("", "head", "head:", ":1", "head:99999", "http://head:8265"):
        with pytest.raises(SweepError):
            check_address_form(address)
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    check_address_form("local")
    with pytest.raises(SweepError, match="RAY_ADDRESS"):
        check_address_form("auto")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--suit", "smoke"], "No such option '--suit'"),
        (["--suite", "smok"], "unknown suite"),
        (["--suite", "smoke", "--folds", "none"], "--folds"),
        (["--suite", "smoke", "--dataset", "irish"], "irish"),
        (["--suite", "smoke", "--address", "auto"], "--address"),
        (["--suite", "smoke", "--runs", "runs"], "--runs"),
        (["--suite", "smoke", "--tracking-uri", "https://me:pw@host"], "MLFLOW_TRACKING_PASSWORD"),
        ([], "--suite NAME or --csv"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_options_that_cannot_work_end_it_before_the_cluster_is_asked(
    words: list[str], complaint: str
) -> None:
    found = bench("submit", "--address", NOBODY, "--", *words)
    assert found.code == 2 and complaint in found.err, found
    assert "pw@host" not in found.err


def test_the_secrets_of_an_address_are_not_shown() -> None:
    found = bench("submit", "--address", "http://me:hidden@head:8265", "--suite", "smoke")
    assert found.code == 2 and "hidden" not in found.err


def test_files_are_looked_for_in_the_folder_that_is_shipped(tmp_path: Path) -> None:
    call = ("submit", "--address", NOBODY, "--working-dir", tmp_path, "--suite", "mine.toml")
    found = bench(*call)
    assert found.code == 2 and "mine.toml" in found.err
    (tmp_path / "mine.toml").write_text('name = "mine"\nfolds = 3\n')
    assert "BENCH-E001" in bench(*call).err  # it is read, and what is wrong with it is said
    shutil.copy(compose.ROOT / "benchmark" / "suites" / "smoke.toml", tmp_path / "mine.toml")
    assert bench(*call).code == 3


def parsed(*words: str) -> click.Context:
    return running.sweep.make_context("bench sweep", list(words))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--suite", "smoke"], "smoke-quick"),
        (["--suite", "smoke", "--budget", "standard"], "smoke-standard"),
        (["--suite", "smoke", "--name", "mine"], "mine"),
        (["--csv", "My houses.csv", "--target", "price"], "csv-my-houses-quick"),
        (["--csv", "/data/h.csv", "--target", "price"], "csv-h-quick"),
        (["--suite", "/data/on-the-head.toml", "--name", "h"], "h"),
    ],
)
def test_a_submitted_run_has_the_name_that_the_sweep_gives_it(
    words: list[str], name: str, tmp_path: Path
) -> None:
    (tmp_path / "My houses.csv").write_text("a,price\n1,2\n")
    assert submit.check_sweep(parsed(*words), tmp_path) == name


def test_the_job_is_the_sweep_with_its_options_and_runs_that_outlive_it(tmp_path: Path) -> None:
    words = ["--csv", "My $(houses).csv", "--target", "price"]
    line = submit.entrypoint(words, "h", parsed(*words))
    shell = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for more, runs in (({}, f"{tmp_path}/runs"), ({"TABSWEEP_RUNS": "/big disk"}, "/big disk")):
        shown = subprocess.run(
            ["sh", "-c", f"bench() {{ printf '%s\\n' \"$@\"; }}; {line}"],
            env={**shell, **more},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert shown[:3] == ["sweep", "--address", "auto"]
        assert shown[3:] == [*words, "--name", "h", "--runs", runs]
    own = ["--suite", "smoke", "--runs", "/r", "--name", "n"]
    assert submit.entrypoint(own, "n", parsed(*own)).endswith("--suite smoke --runs /r --name n")


class LostHead:
    """A head that takes one job and says its first line. Then it closes the log's stream though the
    job runs ("closed"), cuts the connection ("cut"), or answers nothing any more ("silent"); or the
    stream alone hangs, and the job ends ("hangs")."""

    def __init__(self, how: str) -> None:
        self.how, self.over = how, threading.Event()
        self.up: Future[str] = Future()
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()

    async def serve(self) -> None:
        app = web.Application()
        app.router.add_get("/api/version", self.version)
        app.router.add_get("/api/jobs/", self.jobs)
        app.router.add_post("/api/jobs/", self.take)
        app.router.add_get("/api/jobs/{id}", self.job)
        app.router.add_get("/api/jobs/{id}/logs/tail", self.log)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        self.up.set_result(f"http://{host}:{port}")
        await asyncio.to_thread(self.over.wait)

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "4", "ray_version": version("ray"), "ray_commit": ""})

    async def jobs(self, request: web.Request) -> web.Response:
        return web.json_response([])

    async def take(self, request: web.Request) -> web.Response:
        name = (await request.json())["submission_id"]
        return web.json_response({"job_id": name, "submission_id": name})

    async def job(self, request: web.Request) -> web.Response:
        if self.how == "silent":
            await asyncio.to_thread(self.over.wait)
        status = "SUCCEEDED" if self.how == "hangs" else "RUNNING"
        about = {"type": "SUBMISSION", "status": status, "entrypoint": "bench sweep"}
        return web.json_response({**about, "message": "Job is currently running."})

    async def log(self, request: web.Request) -> web.WebSocketResponse:
        stream = web.WebSocketResponse()
        await stream.prepare(request)
        await stream.send_str("first line\n")
        if self.how in ("silent", "hangs"):
            await asyncio.to_thread(self.over.wait)
        if self.how == "cut" and request.transport is not None:
            request.transport.abort()
        return stream


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("closed", "its log ended, though the job is RUNNING"),
        ("cut", "closed unexpectedly"),
        ("silent", "has not answered for"),
        ("hangs", ""),  # its job has ended well
    ],
)
def test_a_job_that_cannot_be_followed_any_more_may_go_on(
    how: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "ANSWER_S", 2.0)
    head = LostHead(how)
    server = head.up.result(30)
    try:
        found = bench("submit", "--address", server, "--suite", "smoke")
    finally:
        head.over.set()
    assert "first line" in found.out and "the job failed" not in found.err
    if not why:
        assert found.code == 0, found
        return
    assert found.code == 3 and "BENCH-E021" in found.err and why in found.err, found
    follow = f"ray job logs --follow tabsweep-smoke-quick-1 --address {server}"
    assert f"may go on ({follow})" in found.err


@pytest.mark.parametrize(
    ("status", "driver", "code"),
    [
        ("SUCCEEDED", 0, 0),
        ("FAILED", 1, 1),
        ("FAILED", 130, 130),
        ("FAILED", -9, 137),
        ("FAILED", 127, 3),
        ("FAILED", None, 3),
        ("STOPPED", None, 130),
    ],
)
def test_a_job_ends_with_the_exit_code_of_its_sweep(
    status: str, driver: int | None, code: int
) -> None:
    value = SimpleNamespace(value=status)
    info = SimpleNamespace(status=value, driver_exit_code=driver, message="gone")
    assert submit.code_of(Console(quiet=True), info) == code


MODEL = """
import pathlib, time
from tabsweep.models.constant import Constant

HERE = pathlib.Path({folder!r})

class Held(Constant):
    def _fit(self, x, y, val):
        with open(HERE / "log", "a") as log:
            log.write("start\\n")
        while not (HERE / "go").exists():
            time.sleep(0.05)
        super()._fit(x, y, val)

class Broken(Held):
    def _fit(self, x, y, val):
        super()._fit(x, y, val)
        raise RuntimeError("broken on purpose")
"""
SUITE = """
name = "held"
title = "one table"
datasets = ["iris"]
[budgets.quick]
note = "for tests."
models = ["ownmodel:Held", "ownmodel:Broken"]
folds = 3
trials = 1
sampler = "random"
timeout_s = 300
"""


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    folder = Path(tempfile.mkdtemp(prefix="ts-"))  # short: the names of sockets are limited
    found = Head(folder)
    assert not found.service.healthy()
    try:
        with found.service.running(folder / "head.log"):
            yield found
        assert not found.service.healthy()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def shipped(head: Head, name: str) -> tuple[Path, tuple[object, ...]]:
    """A folder for what the models say and wait for, and the command that ships them."""
    folder, own = head.folder / name, head.folder / name / "own"
    own.mkdir(parents=True)
    (own / "ownmodel.py").write_text(MODEL.format(folder=str(folder)))
    (own / "held.toml").write_text(SUITE)
    words = ("submit", "--address", head.url, "--working-dir", own)
    return folder, (*words, "--suite", "held.toml", "--tracking-uri", "none")


@ON_RAY
def test_a_submitted_sweep_runs_what_is_shipped_and_ends_with_its_exit_code(head: Head) -> None:
    folder, words = shipped(head, "short")
    (folder / "go").touch()
    viewer = head.bench(*words, "--folds", 1, "--name", "short", "--json")
    out, err = viewer.communicate(timeout=120)
    said = json.loads(out)
    assert (said["job"], said["status"]) == ("tabsweep-short-1", "FAILED"), err
    assert viewer.returncode == said["exit_code"] == 1  # a trial failed, as it should
    statuses = [record["status"] for record in Ledger(head.runs / "short").records("result")]
    assert sorted(statuses) == ["done", "failed"]
    assert (folder / "log").read_text().split() == ["start"] * 2
    assert (head.runs / "short" / "report" / "scores.md").exists()


@ON_RAY
@pytest.mark.nightly
def test_a_submitted_sweep_survives_its_viewer_stops_softly_and_goes_on_when_submitted_again(
    head: Head,
) -> None:
    folder, words = shipped(head, "long")
    log, go = folder / "log", folder / "go"
    viewer = head.bench(*words)
    wait_for(lambda: log.exists() or viewer.poll() is not None, "the first trial to begin")
    assert viewer.poll() is None, viewer.communicate()
    viewer.send_signal(signal.SIGINT)
    out, err = viewer.communicate(timeout=60)
    assert viewer.returncode == 130, err
    assert "tabsweep-held-quick-1" in out and "ray job stop tabsweep-held-quick-1" in err
    assert head.jobs("tabsweep-held-quick-1")["status"] == "RUNNING"

    # Asked to stop, the sweep waits for the trial that runs. Ray alone would abort it after 3 s.
    assert head.jobs("tabsweep-held-quick-1/stop", "POST")["stopped"] is True
    time.sleep(4)
    assert head.jobs("tabsweep-held-quick-1")["status"] == "RUNNING"
    go.touch()
    wait_for(lambda: head.jobs("tabsweep-held-quick-1")["status"] == "STOPPED", "the job to stop")
    printed = head.jobs("tabsweep-held-quick-1/logs")["logs"]
    assert "bench resume" in printed and "SIGTERM received" not in printed
    before = [record["id"] for record in Ledger(head.runs / "held-quick").records("result")]
    assert 0 < len(before) < 6 and log.read_text().split() == ["start"] * len(before)

    again = head.bench(*words, "--json")
    out, err = again.communicate(timeout=120)
    said = json.loads(out)
    assert (said["job"], said["status"]) == ("tabsweep-held-quick-2", "FAILED"), err
    assert again.returncode == said["exit_code"] == 1  # some trials failed, as they should
    assert f"; {6 - len(before)} new, {len(before)} reused; " in err, err
    after = Counter(record["id"] for record in Ledger(head.runs / "held-quick").records("result"))
    assert len(after) == 6 and set(after.values()) == {1}
    assert log.read_text().split() == ["start"] * 6
    assert (head.runs / "held-quick" / "report" / "scores.md").exists()


@ON_RAY
@pytest.mark.nightly
def test_without_the_token_nothing_can_be_submitted_nor_examined(head: Head) -> None:
    words = ("submit", "--address", head.url, "--suite", "smoke")
    strangers = [head.bench(*words, RAY_AUTH_MODE="disabled", RAY_AUTH_TOKEN="")]
    strangers += [head.bench(*words, RAY_AUTH_TOKEN="another" * 6)]
    for stranger in strangers:
        _, err = stranger.communicate(timeout=60)
        assert stranger.returncode == 3 and "asks for a token" in err and "Traceback" not in err
    doctor = ("doctor", "--address", f"127.0.0.1:{head.ports['gcs']}", "--json")
    patient = head.bench(*doctor, RAY_AUTH_TOKEN="another" * 6)
    checks = {check["name"]: check for check in json.loads(patient.communicate(timeout=120)[0])}
    assert patient.returncode == 3 and checks["cluster"]["state"] == "problem", checks
    assert "same everywhere" not in checks


@ON_RAY
def test_the_doctor_examines_a_cluster(head: Head) -> None:
    address = f"127.0.0.1:{head.ports['gcs']}"
    call = ("doctor", "--address", address, "--runs", head.runs, "--json")
    patient = head.bench(*call)
    out, err = patient.communicate(timeout=120)
    checks = {check["name"]: check for check in json.loads(out)}
    assert patient.returncode == 0, checks
    assert "1 node" in checks["cluster"]["detail"] and "1 CPU" in checks["cluster"]["detail"]
    for name in ("same everywhere", "dashboard", "run lock"):
        assert checks[name]["state"] == "ok", checks[name]
    assert "asks for a token" in checks["dashboard"]["detail"]
