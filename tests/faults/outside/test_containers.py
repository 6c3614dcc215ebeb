"""The images and docker-compose.yml in real containers: built, brought up, killed, backed up.

Needs root, docker's engine with compose and buildx, and a registry; about 15 GB of disk. Skipped
tests say what lacks. TABSWEEP_BUILD: more options of `docker build`, such as --secret
id=pip,src=pip.conf; "none": the image is there.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import storm
from chaos import TABLES, wait_for
from repo import ROOT
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.store.ledger import Ledger

OURS = "tabsweep:test"


def missing() -> str:
    """Why no engine can be had here; empty where one can."""
    if os.geteuid() != 0:
        return "a test that kills what runs in containers needs root"
    if shutil.which("docker") is None:
        return "docker is not installed"
    for words, lack in (
        ("info", "docker's engine does not run"),
        ("compose version", "no compose"),
    ):
        if subprocess.run(["docker", *words.split()], capture_output=True).returncode:
            return lack
    return ""


class Engine:
    """Commands of docker's."""

    def __init__(self) -> None:
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("COMPOSE_", "RAY_"))}

    def docker(self, *words: object, check: bool = True, **more: Any) -> Any:
        """A command of docker's; returns the process that has ended, with its output as text."""
        run = ["docker", *map(str, words)]
        done = subprocess.run(run, env=self.env, capture_output=True, text=True, **more)
        assert not check or done.returncode == 0, (
            f"{run}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
        return done

    def build(self) -> float:
        """Build the image for CPUs from this checkout; returns its size in bytes."""
        run = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
        commit = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
        words = ("--quiet", "--tag", OURS, "--build-arg", f"COMMIT={commit}")
        self.docker("build", *words, *shlex.split(os.environ.get("TABSWEEP_BUILD", "")), ROOT)
        return float(self.inspect(OURS)["Size"])

    def inspect(self, name: str) -> dict[str, Any]:
        """What docker knows of a container or an image."""
        return json.loads(self.docker("inspect", name).stdout)[0]


pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]

SERVICES = ("postgres", "mlflow", "ray-head", "ray-worker")
SETTINGS = {
    "TABSWEEP_IMAGE": OURS,
    "COMPOSE_PROJECT_NAME": "tabsweep-test",
    "RAY_WORKER_CPUS": "2",
    "RAY_HEAD_CPUS": "0",
    "RAY_WORKER_MEMORY": "4g",
    "RAY_WORKER_SHM_SIZE": "1280m",
    "MLFLOW_PORT": "15999",
    "RAY_DASHBOARD_PORT": "18999",
}
SMOKE = ("--suite", "smoke")
APART = ("--runs", "/runs/apart")  # a run takes finished trials from the others of its folder
STOPPED_PAUSE_S = 2.0  # before every fit: a stopped node of Ray's works on for up to 30 s
MODELS = """
import time
from pathlib import Path
from tabsweep.models.linear import Linear


class Straight(Linear):
    low, high = 1e-2, 1e3

    @classmethod
    def spaces(cls):
        strength = {"kind": "log-uniform", "low": cls.low, "high": cls.high}
        search = {"strategy": "random", "n_configs": 20}
        return {"default": {"search": search, "params": {"C": strength}}}

    def _fit(self, x, y, val):
        time.sleep(float(Path(__file__).with_name("pause").read_text()))
        super()._fit(x, y, val)


class Flat(Straight):
    low, high = 1e-6, 1e-3
"""
WITH_A_FOLDER = """
services:
  job:
    entrypoint:
      [tini, --, bench, submit, "--address=http://ray-head:8265", --working-dir=/work, --]
    volumes: ["./work:/work:ro"]
"""


class Site:
    """The compose file in a folder of its own, with secrets, settings and the built image."""

    def __init__(self, docker: Engine, folder: Path) -> None:
        self.docker, self.folder = docker, folder
        self._runs: Path | None = None
        for name in ("docker-compose.yml", "deploy"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        self.secrets = folder / "secrets"
        subprocess.run([folder / "deploy" / "secrets.sh"], check=True, capture_output=True)
        (folder / ".env").write_text("".join(f"{k}={v}\n" for k, v in SETTINGS.items()))
        (folder / "work").mkdir()
        (folder / "work" / "brief.py").write_text(MODELS)
        (folder / "with-a-folder.yml").write_text(WITH_A_FOLDER)

    def compose(self, *words: object, check: bool = True, **more: Any) -> Any:
        """`docker compose` with these words, to its end."""
        return self.docker.docker("compose", *words, check=check, cwd=self.folder, **more)

    def script(self, *words: object) -> subprocess.CompletedProcess[str]:
        """A script of deploy/."""
        run = [str(self.folder / "deploy" / str(words[0])), *map(str, words[1:])]
        return subprocess.run(run, env=self.docker.env, capture_output=True, text=True)

    def up(self) -> float:
        """`up --wait`; returns the seconds until every service is healthy."""
        began = time.monotonic()
        self.compose("up", "--detach", "--wait", "--no-build", "--quiet-pull")
        return time.monotonic() - began

    def pause(self, seconds: float) -> None:
        """What the models of jobs with a folder, submitted from now on, wait before each fit."""
        (self.folder / "work" / "pause").write_text(str(seconds))

    def job(self, *words: str, folder: bool = False) -> subprocess.Popen[str]:
        """`docker compose run job` with options of `bench sweep`."""
        files = ["-f", "docker-compose.yml", "-f", "with-a-folder.yml"] if folder else []
        run = ["docker", "compose", *files, "run", "--rm", "--no-deps", "-T", "job", *words]
        with open(self.folder / "jobs.log", "a") as log:
            return subprocess.Popen(
                run, cwd=self.folder, env=self.docker.env, stdout=log, stderr=log, text=True
            )

    def finished(self, process: subprocess.Popen[str]) -> None:
        """Wait until a job has ended well."""
        assert process.wait(1800) == 0, (self.folder / "jobs.log").read_text()[-6000:]

    def ids(self, service: str) -> list[str]:
        """The containers of a service."""
        return self.compose("ps", "--all", "--quiet", service).stdout.split()

    def kill(self, service: str) -> None:
        """SIGKILL for process 1 of a service, as the kernel would; docker starts it again."""
        (id,) = self.ids(service)
        before = self.docker.inspect(id)["RestartCount"]
        os.kill(self.docker.inspect(id)["State"]["Pid"], signal.SIGKILL)
        restarted = lambda: self.docker.inspect(id)["RestartCount"] > before  # noqa: E731
        wait_for(restarted, f"docker to start {service} again", timeout_s=60)

    def healthy(self, service: str) -> None:
        """Wait until a service is healthy."""

        def look() -> bool:
            state = self.docker.inspect(self.ids(service)[0])["State"]
            return state["Status"] == "running" and state["Health"]["Status"] == "healthy"

        wait_for(look, f"{service} to be healthy", timeout_s=240)

    def run(self, name: str) -> Path:
        """A copy of the folder of a run, as it is now."""
        (id,) = self.ids("ray-head")
        made = Path(tempfile.mkdtemp(dir=self.folder)) / Path(name).name
        self.docker.docker("cp", f"{id}:/runs/{name}", made)
        return made

    def n_results(self, name: str) -> int:
        """Results of a run so far; 0 where there is none or nobody answers."""
        words = ("exec", "-T", "ray-head", "bench", "status", f"/runs/{name}", "--json")
        done = self.compose(*words, check=False)
        return json.loads(done.stdout)["done"] if done.returncode == 0 else 0

    def records(self, name: str) -> list[dict[str, Any]]:
        """The results of a run so far, read in the volume itself."""
        if self._runs is None:
            volume = f"{SETTINGS['COMPOSE_PROJECT_NAME']}_runs"
            self._runs = Path(self.docker.inspect(volume)["Mountpoint"])
        run = self._runs / name
        there = (run / "ledger" / "log.jsonl").exists()
        return list(Ledger(run).records("result")) if there else []

    def query(self, text: str) -> str:
        """What PostgreSQL answers."""
        words = ("exec", "-T", "postgres", "psql", "-U", "tabsweep", "-d", "mlflow", "-Atc", text)
        return self.compose(*words).stdout.strip()


def tables(run: Path) -> dict[str, bytes]:
    return {name: (run / "report" / name).read_bytes() for name in TABLES}


def check_whole(run: Path) -> int:
    """Nothing failed, nothing lost, nothing twice; returns the number of results."""
    status = status_of(run)
    assert (status.done, status.left) == (status.planned, 0) and status.planned > 0, status
    results = list(Ledger(run).records("result"))
    assert set(Counter(r["id"] for r in results).values()) == {1}
    assert {r["status"] for r in results} == {"done"}
    return len(results)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if missing():
        pytest.skip(missing())
    folder = Path(tempfile.mkdtemp(prefix="containers-", dir="/tmp"))
    docker = Engine()
    made = None
    try:
        if os.environ.get("TABSWEEP_BUILD") != "none":
            size = docker.build()
            print(f"\nimage for CPUs: {size / 1e9:.2f} GB")
        made = Site(docker, folder)
        print(f"\nup --wait: {made.up():.0f} s")
        yield made
    finally:
        if made is not None:
            made.compose("--profile", "*", "down", "--volumes", "--timeout", "20", check=False)
        shutil.rmtree(folder, ignore_errors=True)


def test_containers_are_confined_and_docker_shows_no_secret(site: Site) -> None:
    secrets = [path.read_text() for path in site.secrets.iterdir()]
    for service in SERVICES:
        (id,) = site.ids(service)
        found = site.docker.inspect(id)
        host, config = found["HostConfig"], found["Config"]
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["Privileged"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"] and not host["CapAdd"]
        assert config["User"] in ("tabsweep", "postgres") and 0 < host["PidsLimit"] <= 4096
        assert host["LogConfig"]["Config"]["max-size"] and host["Memory"] > 0
        assert host["RestartPolicy"]["Name"] == "unless-stopped"
        assert not [mount for mount in found["Mounts"] if len(mount.get("Name", "")) == 64]
        if service.startswith("ray"):
            assert host["ShmSize"] >= 0.3 * host["Memory"]
        text = json.dumps(found)
        assert not [secret for secret in secrets if secret in text], service
        inside = site.compose(
            "exec", "-T", service, "sh", "-c", "id -u; touch /x; cat /proc/1/status"
        )
        assert inside.stdout.split()[0] != "0" and "Read-only file system" in inside.stderr
        capabilities = [line for line in inside.stdout.splitlines() if line.startswith("CapEff")]
        assert capabilities[0].split()[1].strip("0") == ""
    networks = site.docker.inspect(site.ids("postgres")[0])["NetworkSettings"]["Networks"]
    assert [*networks] == [f"{SETTINGS['COMPOSE_PROJECT_NAME']}_tracking"]
    program = "import socket; socket.create_connection(('postgres', 5432), timeout=5)"
    done = site.compose("exec", "-T", "ray-worker", "python", "-c", program, check=False)
    assert done.returncode != 0  # PostgreSQL is in another network
    labels = site.docker.inspect(OURS)["Config"]["Labels"]
    assert labels["org.opencontainers.image.revision"]


def test_the_doctor_finds_the_cluster_sound(site: Site) -> None:
    done = site.compose(
        "exec", "-T", "ray-head", "bench", "doctor", "--address", "auto", check=False
    )
    lines = [line for line in done.stdout.splitlines() if "/dev/shm of the nodes" in line]
    assert lines and "/dev/shm, want" not in lines[0], done.stdout
    cpus = min(int(SETTINGS["RAY_WORKER_CPUS"]), os.cpu_count() or 1)
    assert f", {cpus} CPU" in done.stdout, done.stdout  # of the workers, though a fit has 1 thread
    for said in ("refuses requests without credentials", "asks for a token"):
        assert said in done.stdout, done.stdout


@pytest.mark.fault(1, 2, 18)
def test_a_smoke_job_survives_kills_of_worker_mlflow_postgres_and_head(site: Site) -> None:
    site.finished(site.job(*SMOKE, "--name", "quiet"))
    quiet = site.run("quiet")
    n = check_whole(quiet)
    runs = int(site.query("SELECT count(*) FROM runs WHERE lifecycle_stage = 'active'"))
    studies = {record["study"] for record in Ledger(quiet).records("result")}
    assert runs == n + len(studies) + 1  # the sweep, its studies and their trials

    job = site.job(*SMOKE, *APART, "--name", "killed")
    wait_for(lambda: site.n_results("apart/killed") > 2, "the first results", timeout_s=240)
    for service in ("ray-worker", "mlflow", "postgres"):
        site.kill(service)
    site.kill("ray-head")  # and with it the driver
    assert job.wait(600) != 0
    for service in SERVICES:
        site.healthy(service)
    site.finished(site.job(*SMOKE, *APART, "--name", "killed"))
    killed = site.run("apart/killed")
    assert check_whole(killed) == n and tables(killed) == tables(quiet)


def test_a_backup_brings_every_run_into_empty_volumes(site: Site) -> None:
    backup = site.folder / "backup"
    done = site.script("backup.sh", backup)
    assert done.returncode == 0, done.stderr
    assert site.script("backup.sh", backup).returncode == 2  # never over another one
    assert site.script("restore.sh", backup).returncode == 3  # nor into what is there
    count = "SELECT count(*) FROM runs WHERE lifecycle_stage = 'active'"
    metrics = "SELECT count(*), sum(value) FROM metrics WHERE value < 1e9"
    before = site.query(count), site.query(metrics)
    names = site.compose("exec", "-T", "ray-head", "ls", "/runs").stdout.split()
    site.compose("--profile", "*", "down")
    left = site.docker.docker("volume", "ls", "--quiet").stdout.split()
    assert all(name.startswith("tabsweep-test_") for name in left) and len(left) == 4, left
    site.compose("--profile", "*", "down", "--volumes")
    began = time.monotonic()
    done = site.script("restore.sh", backup)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (site.query(count), site.query(metrics)) == before and int(before[0]) > 0
    assert site.compose("exec", "-T", "ray-head", "ls", "/runs").stdout.split() == names
    print(f"\nrestored {before[0]} runs in {time.monotonic() - began:.0f} s")


def test_a_service_that_stays_unhealthy_is_started_again(site: Site) -> None:
    """Ray's raylet in the worker is stopped (SIGSTOP): it answers nobody and does not end."""
    (id,) = site.ids("ray-worker")
    top = site.docker.docker("top", id, "-eo", "pid,comm").stdout.splitlines()
    (pid,) = [int(line.split()[0]) for line in top if line.split()[1] == "raylet"]
    before = site.docker.inspect(id)["RestartCount"]
    os.kill(pid, signal.SIGSTOP)
    wait_for(
        lambda: site.docker.inspect(id)["RestartCount"] > before, "a new worker", timeout_s=600
    )
    site.healthy("ray-worker")


@pytest.mark.fault(30, 36)
def test_docker_stop_at_random_moments_of_600_trials_records_no_failure(site: Site) -> None:
    """Of the head, where the driver runs, and of the worker, in turn."""
    words = ("--suite", "uci-small", "--folds", "5", "--trials", "20", "--tracking-uri", "none")
    words += tuple(w for name in storm.DATASETS for w in ("--dataset", name))
    words += ("--model", "brief.py:Straight", "--model", "brief.py:Flat")
    site.pause(0.0)
    site.finished(site.job(*words, "--name", "calm", folder=True))
    calm = site.run("calm")
    assert check_whole(calm) == storm.N_TRIALS

    site.pause(STOPPED_PAUSE_S)
    chance = random.Random(storm.SEED)
    job = None
    codes = list[int]()
    took, done = [], []
    for number in range(storm.HITS):
        before = len(site.records("apart/stopped"))

        def trial(before: int = before) -> bool:
            nonlocal job
            if job is not None and job.poll() is not None:
                codes.append(job.returncode)
                job = None
            if job is None:
                job = site.job(*words, *APART, "--name", "stopped", folder=True)
            return len(site.records("apart/stopped")) > before

        wait_for(trial, f"a trial before stop {number + 1}", timeout_s=300)
        time.sleep(chance.uniform(0.0, storm.RUN_S))
        done.append(len(site.records("apart/stopped")))
        assert done[-1] < storm.N_TRIALS, f"the sweep had ended before stop {number + 1}"
        (id,) = site.ids(("ray-head", "ray-worker")[number % 2])
        began = time.monotonic()
        site.docker.docker("stop", id)
        took.append(time.monotonic() - began)
        site.docker.docker("start", id)
        site.healthy("ray-head")
    assert job is not None and 0 not in codes, codes
    job.wait(1800)
    site.finished(site.job(*words, *APART, "--name", "stopped", folder=True))
    stopped = site.run("apart/stopped")
    assert check_whole(stopped) == storm.N_TRIALS and tables(stopped) == tables(calm)
    print(
        f"\ndocker stop: {storm.HITS} hits after {done} results, each took {min(took):.0f} to "
        f"{max(took):.0f} s; jobs ended with {codes}; {storm.N_TRIALS} results, 0 failed, the "
        "tables of a calm sweep"
    )
