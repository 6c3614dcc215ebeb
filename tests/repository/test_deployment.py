"""Deployment files: their commands and health checks, run as processes.

No container is started: docker's engine is not there where these tests run. What they cannot show
is listed in docs/cluster.md.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import compose
import postgres
import psutil
import pytest
from calls import bench
from compose import ROOT, SECRETS, env_example
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.xdist_group("ray")

OURS = ("mlflow", "ray-head", "ray-worker", "ray-worker-gpu", "job")
CONTAINER_ONLY = {"replicas", "resources"}  # of a service's `deploy`


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: the names of Ray's sockets are limited to 107 characters."""
    path = Path(tempfile.mkdtemp(prefix="ts-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@cache
def services() -> dict:
    return compose.raw()["services"]


# ---------------------------------------------------------------------- the compose file


def test_every_service_is_confined_and_has_limits() -> None:
    assert set(services()) == {"postgres", *OURS}
    for name, service in services().items():
        assert "memory" in service["deploy"]["resources"]["limits"], name
        assert set(service["deploy"]) <= CONTAINER_ONLY, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["cap_drop"] == ["ALL"] and service["read_only"] is True, name
        assert "/tmp" in [*service.get("tmpfs", []), *service.get("volumes", [])], name
        assert not service.get("privileged") and service.get("network_mode") is None, name
        assert not service.get("cap_add") and service.get("user", "") != "root", name


def test_ports_are_published_on_the_loopback_interface_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports and all(str(port).startswith("127.0.0.1:") for port in ports)
    assert "ports" not in services()["postgres"]
    assert services()["postgres"]["networks"] == ["tracking"]
    assert [name for name, s in services().items() if "tracking" in s["networks"]] == [
        "postgres",
        "mlflow",
    ]
    assert compose.raw()["networks"]["tracking"]["internal"] is True


def test_every_lasting_service_says_whether_it_is_healthy_and_is_waited_for() -> None:
    for name in set(services()) - {"job"}:
        assert services()[name]["healthcheck"]["test"][0] == "CMD", name
    for service in services().values():
        for name, wait in service.get("depends_on", {}).items():
            assert wait == {"condition": "service_healthy"} and "healthcheck" in services()[name]


def test_no_password_has_a_default_and_none_stands_in_an_address_or_command() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    values = {**env_example(), **dict.fromkeys(SECRETS, "x")}
    compose.filled(compose.raw(), values)
    for name in SECRETS:
        assert env_example()[name] == ""
        with pytest.raises(compose.MissingVariable, match=f"{name}: set {name} in .env"):
            compose.filled(compose.raw(), {**values, name: ""})
        for service in services().values():
            for part in ("command", "entrypoint", "healthcheck", "labels"):
                assert name not in str(service.get(part)), (name, part)
    assert not re.search(r"://[^/\s\"']+:[^/\s\"']+@", text)
    secret = re.compile(r"(?i)(password|secret|token)\w*=\S")
    assert not [n for n, v in env_example().items() if secret.match(f"{n}={v}") and v]


def test_every_variable_is_in_the_example_with_the_same_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert not re.findall(r"(?<!\$)\$(?![{$])\w+|\$\{\w+\}", text)  # one that may be unset
    found = dict(re.findall(r"\$\{(\w+):-([^${}]*)\}", text))
    nested = set(re.findall(r"\$\{(\w+):-\$\{", text))
    required = set(re.findall(r"\$\{(\w+):\?", text))
    example = env_example()
    assert {*found, *nested, *required} == set(example)
    assert required == set(SECRETS)
    assert {name: example[name] for name in found} == found
    assert all(example[name] == "" for name in nested)


def test_the_workers_with_gpus_start_only_when_asked_and_differ_in_nothing_else() -> None:
    cpu, gpu = services()["ray-worker"], services()["ray-worker-gpu"]
    assert gpu["profiles"] == ["gpu"] and gpu["build"]["args"]["DEVICE"] == "cuda"
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert device["driver"] == "nvidia" and device["capabilities"] == ["gpu"]
    assert f"--num-gpus={device['count']}" in gpu["command"]
    own = {"profiles", "image", "build", "command", "deploy"}
    assert {k: v for k, v in gpu.items() if k not in own} == {
        k: v for k, v in cpu.items() if k not in own
    }


def test_the_image_runs_as_a_user_and_carries_no_secret() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (\w+)", text, flags=re.MULTILINE) == ["tabsweep"]
    assert not re.search(r"(?i)^\s*(ARG|ENV)\b.*(password|token|secret)", text, flags=re.MULTILINE)
    assert "--requirement requirements.lock" in text and "HEALTHCHECK" in text
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8").count("\n.*\n") == 1
    targets = re.findall(r"^FROM \S+ AS (\w+)", text, flags=re.MULTILINE)
    assert {s["build"]["args"]["DEVICE"] for s in services().values() if "build" in s} <= {*targets}


def test_docker_accepts_the_file_and_reads_in_it_what_we_read(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    version = [docker or "docker", "compose", "version"]
    if docker is None or subprocess.run(version, capture_output=True).returncode:
        pytest.skip("needs docker with its compose plugin")
    values = {**env_example(), **{name: f"${name}" for name in SECRETS}}
    variables = tmp_path / "env"
    lines = (f"{k}='{v}'" if k in SECRETS else f"{k}={v}" for k, v in values.items())
    variables.write_text("\n".join(lines))
    run = [docker, "compose", "--env-file", str(variables), "--profile", "*", "config"]
    clean = {k: v for k, v in os.environ.items() if k not in values}
    done = subprocess.run(
        [*run, "--format", "json"], cwd=ROOT, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    theirs = json.loads(done.stdout)["services"]
    ours = compose.filled(services(), values)
    assert set(theirs) == set(ours)
    for name, service in ours.items():
        for part in ("command", "entrypoint"):
            mine = [word.replace("$", "$$") for word in service.get(part, [])]
            assert (theirs[name].get(part) or []) == mine, (name, part)
        found = {k: v.replace("$$", "$") for k, v in theirs[name]["environment"].items()}
        assert found == service["environment"], name
    variables.write_text("\n".join(f"{k}={v}" for k, v in env_example().items()))
    done = subprocess.run([*run, "--quiet"], cwd=ROOT, env=clean, capture_output=True, text=True)
    assert done.returncode != 0 and "in .env (see .env.example)" in done.stderr


def test_the_job_submits_a_sweep_whose_options_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    job = services()["job"]
    words = [*job["entrypoint"], *job["command"]]
    assert words[:3] == ["tini", "--", "bench"]
    monkeypatch.delenv("TABSWEEP_TRACKING_URI", raising=False)
    port = postgres.free_port()  # where nobody listens
    words = [word.replace("ray-head:8265", f"127.0.0.1:{port}") for word in words[3:]]
    found = bench(*words)
    assert found.code == 3 and f"127.0.0.1:{port}" in found.err, found


# ---------------------------------------------------------------------- services, as processes


@pytest.fixture
def database() -> Iterator[postgres.Postgres]:
    if reason := postgres.missing():
        pytest.skip(reason)
    with postgres.Postgres() as server:
        yield server


def test_the_health_check_of_postgres_knows_up_from_down(
    database: postgres.Postgres, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{database.bin}:{os.environ['PATH']}")
    found = compose.service("postgres", home=folder, environment=database.environment())
    assert found.healthy()
    database.stop()
    assert not found.healthy()


def ask(url: str, who: str | None = None) -> int:
    """The status of a request, by somebody without a name or by `name:password`."""
    request = urllib.request.Request(url)
    if who is not None:
        request.add_header("Authorization", f"Basic {base64.b64encode(who.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def mlflow_service(
    database: postgres.Postgres, folder: Path, port: int, **variables: str
) -> compose.Service:
    (folder / "artifacts").mkdir(exist_ok=True)
    swaps = {
        "0.0.0.0": "127.0.0.1",
        "5000": str(port),
        "/artifacts": str(folder / "artifacts"),
    }
    variables = {"POSTGRES_PASSWORD": database.password, **variables}
    at = {"PGHOST": database.host, "PGPORT": str(database.port)}
    return compose.service("mlflow", home=folder, variables=variables, swap=swaps, environment=at)


def ray_ports() -> dict[str, int]:
    """Free ports outside the range that Ray's workers take (10002 to 19999)."""
    return {name: postgres.free_port() for name in ("gcs", "dashboard", "agent", "client")}


@pytest.mark.nightly
def test_mlflow_rejects_requests_without_a_password(
    database: postgres.Postgres, folder: Path
) -> None:
    port = postgres.free_port()
    found = mlflow_service(database, folder, port, MLFLOW_AUTH_ADMIN_PASSWORD="a quoted ' \" $x")
    me = "admin:a quoted ' \" $x"
    url = f"http://127.0.0.1:{port}"
    assert not found.healthy()
    with found.start(folder / "mlflow.log") as running:
        running.wait_until_healthy()
        for path in (
            "/",
            "/api/2.0/mlflow/experiments/search?max_results=1",
            "/api/2.0/mlflow-artifacts/artifacts?path=",
            "/signup",
            "/version",
        ):
            assert ask(url + path) == 401, path
            assert ask(url + path, "admin:password1234") == 401, path
            assert ask(url + path, me) == 200, path
        assert ask(f"{url}/health") == 200  # the health check has no password
        program = (
            "import mlflow, sys\n"
            "with mlflow.start_run() as run: mlflow.log_metric('m', 0.5)\n"
            "mlflow.MlflowClient().log_text(run.info.run_id, 'text', 'a.txt')\n"
        )
        client = {**found.environment, "MLFLOW_TRACKING_URI": url, "GIT_PYTHON_REFRESH": "quiet"}
        for name, code in (("wrong password", 1), (me.partition(":")[2], 0)):
            who = {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": name}
            done = subprocess.run([sys.executable, "-c", program], env={**client, **who})
            assert done.returncode == code
        (text,) = (folder / "artifacts").rglob("a.txt")
        assert text.read_text() == "text"
        assert database.query("SELECT count(*) FROM metrics WHERE value = 0.5") == "1"
        # The configuration is private, and holds no secret; nor does the command line.
        config = folder / "auth.ini"
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        log = (folder / "mlflow.log").read_text()
        for secret in (database.password, "a quoted"):
            assert secret not in config.read_text() and secret not in log
        # What the doctor says of it, with and without the password.
        for name, state in ((me.partition(":")[2], "ok"), ("wrong", "problem")):
            who = {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": name}
            checked = doctor_on_mlflow({**client, **who, "TABSWEEP_TRACKING_URI": url})
            assert checked.split()[0] == state, checked
    assert not found.healthy()
    without = mlflow_service(database, folder, port)
    without.environment.pop("MLFLOW_FLASK_SERVER_SECRET_KEY")
    done = without.run(timeout_s=120)
    assert done.returncode != 0 and "secret key" in done.stderr


def doctor_on_mlflow(environment: dict[str, str]) -> str:
    program = "from tabsweep.benchmark.commands.doctor import _mlflow; print(*_mlflow())"
    run = [sys.executable, "-c", program]
    return subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.nightly
def test_all_services_together_run_the_job_and_keep_strangers_out(
    database: postgres.Postgres, folder: Path
) -> None:
    """PostgreSQL, MLflow, Ray's head, a worker, one with another token, and the job's command; as
    confined as in their containers, where we may do that."""
    confined = compose.confinement(folder)
    if confined:
        touch = [*confined, "touch", str(ROOT / "README.md"), str(folder / "touched")]
        done = subprocess.run(touch, capture_output=True, text=True)
        assert "Read-only file system" in done.stderr and (folder / "touched").exists()
    port, ports = postgres.free_port(), ray_ports()
    mlflow = mlflow_service(database, folder, port)
    head = compose.ray_service("ray-head", home=folder, ports=ports)
    head.environment.update(
        TABSWEEP_TRACKING_URI=f"http://127.0.0.1:{port}",
        TABSWEEP_RUNS=str(folder / "runs"),
        TABSWEEP_CACHE=str(folder / "cache"),
    )
    more = ray_ports()
    at = {"gcs": ports["gcs"], "dashboard": ports["dashboard"], "client": ports["client"]}
    worker = compose.ray_service("ray-worker", home=folder, ports={**at, "agent": more["agent"]})
    stranger = compose.ray_service(
        "ray-worker", home=folder, ports={**at, "agent": more["gcs"]}, token="another" * 6
    )
    job = compose.ray_service("job", home=folder, ports=ports)
    assert not head.healthy() and not worker.healthy()
    with ExitStack() as stack:
        running = [
            stack.enter_context(service.within(confined).start(folder / f"{service.name}.log"))
            for service in (mlflow, head)
        ]
        for one in running:
            one.wait_until_healthy()
        assert not worker.healthy()
        started = worker.within(confined).start(folder / "worker.log")
        stack.enter_context(started).wait_until_healthy()
        refused = stranger.run(timeout_s=120)
        assert refused.returncode != 0 and "InvalidAuthToken" in refused.stderr
        anonymous = dict(job.environment)
        anonymous.pop("RAY_AUTH_TOKEN")
        done = subprocess.run(job.command, env=anonymous, capture_output=True, text=True)
        assert done.returncode == 3 and "asks for a token" in done.stderr

        words = ["--suite", "smoke", "--dataset", "iris", "--model", "constant", "--model", "knn"]
        done = job.within(confined).run(*words, timeout_s=300)
        assert done.returncode == 0, done.stdout + done.stderr
        # 1 trial of constant and 3 of knn, on 2 folds
        assert "8 of 8 trials done, 0 failed; 8 new, 0 reused" in done.stdout
        results = list(Ledger(folder / "runs" / "smoke-quick").records("result"))
        assert set(Counter(r["id"] for r in results).values()) == {1} and len(results) == 8
        assert database.query("SELECT count(*) FROM runs WHERE lifecycle_stage = 'active'") != "0"
        again = job.run(*words, timeout_s=300)
        assert again.returncode == 0 and "; 0 new, " in again.stdout
    assert not head.healthy() and not worker.healthy()


# ---------------------------------------------------------------------- SLURM

SLURM = ROOT / "deploy" / "slurm.sh"
SRUN = """#!/bin/bash
# Stands for SLURM's srun: the "node" is this machine.
echo "$*" | head -n 1 >> "$STUBS/srun.log"
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
SCONTROL = """#!/bin/bash
echo "$*" >> "$STUBS/scontrol.log"
if [[ $1 == show ]]; then tr ',' '\\n' <<< "$3"; fi
"""
HELD = """
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
"""
SUITE = """
name = "held"
title = "one table"
datasets = ["iris"]
[budgets.quick]
note = "for tests."
models = ["constant", "heldmodel:Held"]
folds = 4
trials = 1
sampler = "random"
timeout_s = 300
"""


@pytest.fixture
def slurm(folder: Path) -> dict[str, str]:
    """The environment of a job on two nodes, with a user's environment activated."""
    stubs = folder / "stubs"
    stubs.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (stubs / name).write_text(text)
        (stubs / name).chmod(0o755)
    base = {k: v for k, v in os.environ.items() if not k.startswith(compose.FOREIGN)}
    return {
        **base,
        "PATH": f"{stubs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "STUBS": str(stubs),
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "node1,node2",
        "SLURM_CPUS_ON_NODE": "1",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_MEM_PER_NODE": "3000",
        "TABSWEEP_GRACE_S": "4",
    }


@pytest.mark.parametrize(
    ("change", "words", "complaint"),
    [
        ({"SLURM_JOB_ID": ""}, [], "run it with sbatch"),
        ({"PATH": "/usr/bin:/bin"}, [], "no bench on the PATH"),
        ({}, ["--address", "auto"], "--address"),
        ({"RAY_AUTH_TOKEN_PATH": "{token}"}, [], "others may read"),
    ],
    ids=["outside SLURM", "no environment", "another address", "a token for all to read"],
)
def test_the_slurm_script_refuses_what_cannot_work(
    slurm: dict[str, str], folder: Path, change: dict[str, str], words: list[str], complaint: str
) -> None:
    token = folder / "token"
    token.write_text("0123456789abcdef" * 2)
    token.chmod(0o644)
    values = {k: v.format(token=token) for k, v in change.items()}
    done = subprocess.run(
        [SLURM, *words], env={**slurm, **values}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and complaint in done.stderr
    assert not list(Path("/tmp").glob(f"ray-{os.getpid()}-*"))


@pytest.mark.nightly
def test_a_slurm_job_out_of_time_stops_gracefully_requeues_itself_and_resumes(
    slurm: dict[str, str], folder: Path
) -> None:
    (folder / "heldmodel.py").write_text(HELD.format(folder=str(folder)))
    (folder / "held.toml").write_text(SUITE)
    words = ["--suite", "held.toml", "--runs", folder / "runs", "--tracking-uri", "none"]
    run = [str(SLURM), *map(str, words)]
    with open(folder / "out", "w") as out:
        process = subprocess.Popen(run, cwd=folder, env=slurm, stdout=out, stderr=out)
    try:
        until = time.monotonic() + 180
        # two nodes, so two trials hang, and nothing else is left but what waits behind them
        while (folder / "log").exists() is False or len((folder / "log").read_text().split()) < 2:
            assert process.poll() is None and time.monotonic() < until, (folder / "out").read_text()
            time.sleep(0.2)
        commands = [child.cmdline() for child in psutil.Process(process.pid).children(True)]
        nodes = [words for words in commands if "start" in words and "--block" in words]
        assert len(nodes) == 2, commands
        for words in nodes:
            assert {"--num-cpus=1", "--num-gpus=2", f"--memory={2250 * 2**20}"} <= {*words}
        assert not [words for words in commands if "token" in " ".join(words).lower()]
        process.send_signal(signal.SIGUSR1)  # SLURM: two minutes left
        time.sleep(1.0)
        assert process.poll() is None  # it waits for the trials, for as long as it may
        assert process.wait(timeout=120) == 130, (folder / "out").read_text()
    finally:
        process.kill()
        process.wait()
    text = (folder / "out").read_text()
    # Ray would have aborted it after 3 s, had it kept the signal to itself.
    assert "bench resume" in text and "Aborted" not in text and "SIGTERM received" not in text
    stubs = Path(slurm["STUBS"])
    assert "--nodelist=node2" in (stubs / "srun.log").read_text()
    assert (stubs / "scontrol.log").read_text().splitlines()[-1] == f"requeue {os.getpid()}"
    assert not list(Path("/tmp").glob(f"ray-{os.getpid()}-*"))
    before = [r["id"] for r in Ledger(folder / "runs" / "held-quick").records("result")]
    assert 0 < len(before) < 8

    (folder / "go").touch()
    done = subprocess.run(
        run,
        cwd=folder,
        env={**slurm, "SLURM_RESTART_COUNT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"8 of 8 trials done, 0 failed; {8 - len(before)} new, " in done.stdout
    after = Counter(r["id"] for r in Ledger(folder / "runs" / "held-quick").records("result"))
    assert len(after) == 8 and set(after.values()) == {1}
    assert not list(Path("/tmp").glob(f"ray-{os.getpid()}-*"))
    with socket.socket() as probe:  # and nobody listens on its port any more
        port = int(re.findall(r"head node1 \([\d.]+:(\d+)\)", text)[0])
        assert probe.connect_ex(("127.0.0.1", port)) != 0
