"""Storms: `scancel` and preemption by a real SLURM, SIGTERM and SIGKILL to every process.

600 trials each, ten hits at random moments (TABSWEEP_STORM_HITS, TABSWEEP_STORM_SEED). What is
needed: slurmctld, slurmd and SLURM's commands, and root; without them those tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import storm
from chaos import Sweep, kill_all, wait_for
from ports import free_ports
from repo import ROOT

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue")
NODES = ("n1", "n2")
# Kills of jobs are not delayed for longer than a test waits, and a job may start again at once.
CONFIGURATION = """
ClusterName=tabsweep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmctldParameters=enable_configless
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait={kill_wait}
MinJobAge=3600
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,sched_min_interval=0,bf_interval=3,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace}
PartitionName=high Nodes=ALL PriorityTier=9 PreemptMode=OFF
"""


def missing() -> str:
    """Why there can be no SLURM here; empty where there can."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    return "" if os.geteuid() == 0 else "slurmd needs root"


class Slurm:
    """The controller and the nodes, from the construction to `off`.

    kill_wait: seconds from SIGTERM to SIGKILL of a cancelled job. grace: seconds that a preempted
    job has before it is ended.
    """

    def __init__(self, folder: Path, *, kill_wait: int = 30, grace: int = 40) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "state").mkdir()
        ports = free_ports(1 + len(NODES))
        host = socket.gethostname()
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"
            for name, port in zip(NODES, ports[1:], strict=True)
        )
        text = CONFIGURATION.format(
            host=host, ports=ports, folder=folder, nodes=nodes, kill_wait=kill_wait, grace=grace
        )
        (folder / "slurm.conf").write_text(text)
        base = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        self.env = {**base, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons = [self._start("slurmctld", "-D")]
        try:
            for name in NODES:
                self._daemons.append(self._start("slurmd", "-D", "-N", name))
            wait_for(self._idle, "SLURM's nodes", timeout_s=60)
        except BaseException:
            self.off()
            raise

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{words[0]}.out", "ab") as out:
            return subprocess.Popen(
                words, env=self.env, stdout=out, stderr=out, start_new_session=True
            )

    def _idle(self) -> bool:
        assert all(daemon.poll() is None for daemon in self._daemons), self.folder
        states = self.call("sinfo", "--noheader", "--Node", "--format=%t", check=False).split()
        return bool(states) and {*states} == {"idle"}

    def call(self, *words: str | Path, check: bool = True, **more: str) -> str:
        """A command of SLURM; returns what it prints. `more`: environment."""
        done = subprocess.run(
            [*map(str, words)], env={**self.env, **more}, capture_output=True, text=True
        )
        assert not check or done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout

    def submit(self, *words: str | Path, **environment: str) -> str:
        """`sbatch` with these words; returns the job's number."""
        return self.call("sbatch", "--parsable", *words, **environment).strip()

    def state(self, job: str) -> str:
        """Of a job, such as RUNNING, PENDING, COMPLETED."""
        return self.field(job, "JobState")

    def field(self, job: str, name: str) -> str:
        """One of what `scontrol show job` prints of a job."""
        shown = self.call("scontrol", "show", "job", job).split()
        return next(word.partition("=")[2] for word in shown if word.startswith(f"{name}="))

    def wait(self, job: str, *states: str, timeout_s: float = 180) -> str:
        """Wait until a job is in one of these states."""
        look = lambda: (found := self.state(job)) in states and found  # noqa: E731
        return wait_for(look, f"job {job} to be {' or '.join(states)}", timeout_s=timeout_s)

    def off(self) -> None:
        """End every job, then the daemons."""
        self.call("scancel", "--full", "--signal=KILL", "--user=root", check=False)
        self.call("scancel", "--user=root", check=False)
        until = time.monotonic() + 20
        while self.call("squeue", "--noheader", check=False).strip() and time.monotonic() < until:
            time.sleep(0.5)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


SCRIPT = ROOT / "deploy" / "slurm.sh"
GRACE_S = 60

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.xdist_group("ray-faults"),
    pytest.mark.timeout(900 + 180 * storm.HITS),
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="storm-", dir="/tmp"))  # short, for Ray's sockets
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def quiet(folder: Path) -> Sweep:
    """The sweep that nobody interrupts."""
    sweep = Sweep(folder / "quiet", *storm.OPTIONS, "--workers", 2)
    sweep.start()
    sweep.end(timeout_s=900)
    sweep.check_nothing_lost(storm.N_TRIALS)
    sweep.check_ran_once()
    return sweep


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Slurm]:
    if missing():
        pytest.skip(missing())
    made = Slurm(folder / "slurm", grace=GRACE_S)
    yield made
    made.off()


class Jobs:
    """Jobs of deploy/slurm.sh for one run, one after the other."""

    def __init__(self, cluster: Slurm, sweep: Sweep, folder: Path, pause_s: float) -> None:
        self.cluster, self.sweep = cluster, sweep
        bench = storm.logging_bench(folder, sweep.run.parents[1] / "execution.log", pause_s)
        path = f"{bench}:{Path(sys.executable).parent}:{cluster.env['PATH']}"
        self._environment = {"PATH": path}
        self.out = folder / "slurm.out"
        self.job = ""

    def submit(self, *options: str) -> str:
        """The next job; returns its number."""
        words = ["--nodes=2", f"--output={self.out}", "--chdir=/tmp", *options, SCRIPT]
        run = ["--runs", self.sweep.run.parent, "--name", self.sweep.run.name]
        more = [str(word) for word in [*run, *storm.OPTIONS]]
        self.job = self.cluster.submit(*map(str, words), *more, **self._environment)
        return self.job

    def running(self, restarts: int = 0) -> None:
        """Wait until the job runs, for the so many-th time more."""

        def look() -> bool:
            state = self.cluster.state(self.job)
            assert state in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED"), self.text()
            return state == "RUNNING" and int(self.cluster.field(self.job, "Restarts")) >= restarts

        wait_for(look, f"job {self.job} to run", timeout_s=240)

    def alive(self) -> None:
        """Raise AssertionError where the job has ended."""
        assert self.cluster.state(self.job) == "RUNNING", self.text()

    def finish(self) -> None:
        """Wait until the job has ended well."""
        self.cluster.wait(self.job, "COMPLETED", "FAILED", "TIMEOUT", timeout_s=900)
        assert self.cluster.state(self.job) == "COMPLETED", self.text()

    def text(self) -> str:
        """The end of what the jobs printed."""
        return self.out.read_text(errors="replace")[-6000:] if self.out.exists() else "no output"

    def nothing_left(self) -> None:
        """No process and no folder of Ray is left of this job."""
        mark = f"/tmp/ray-{self.job}-"

        def left() -> list[str]:
            found = []
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    found += [text for text in [" ".join(process.cmdline())] if mark in text]
            return found

        wait_for(lambda: not left(), f"the end of {left()[:3]}", timeout_s=60)
        assert not list(Path("/tmp").glob(f"ray-{self.job}-*"))


def jobs(cluster: Slurm, folder: Path, name: str, pause_s: float = storm.PAUSE_S) -> Jobs:
    """A run of its own for jobs."""
    return Jobs(cluster, Sweep(folder / name, *storm.OPTIONS), folder / name, pause_s)


@pytest.mark.fault(30, 36)
def test_a_sweep_whose_jobs_are_cancelled_ends_with_the_tables_of_a_quiet_one(
    cluster: Slurm, folder: Path, quiet: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = jobs(cluster, folder, "scancel")
    hits = storm.Storm(ours.sweep, "scancel", starting=0.0)  # a cancelled start has no run yet

    def cancel() -> None:
        cluster.call("scancel", ours.job)
        cluster.wait(ours.job, "CANCELLED", timeout_s=90)
        ours.nothing_left()

    for _ in range(storm.HITS):
        ours.submit()
        ours.running()
        hits.moment(ours.alive)
        hits.hit(cancel)
    assert len(ours.sweep.finished()) < storm.N_TRIALS, "the sweep had ended before the hits had"
    ours.submit()
    ours.finish()
    with capsys.disabled():
        print(f"\n{hits.check(quiet)}")


@pytest.mark.fault(30, 36)
def test_a_preempted_job_saves_requeues_itself_and_ends_with_the_tables_of_a_quiet_one(
    cluster: Slurm, folder: Path, quiet: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another job, of a better partition, takes both nodes; the grace time is long enough."""
    ours = jobs(cluster, folder, "preempt")
    hits = storm.Storm(ours.sweep, "preemption")
    ours.submit()

    def preempt() -> None:
        other = cluster.submit(
            "--partition=high", "--nodes=2", "--output=/dev/null", "--wrap", "true"
        )
        cluster.wait(other, "COMPLETED", timeout_s=GRACE_S + 60)

    for n in range(storm.HITS):
        ours.running(restarts=n)
        hits.moment(ours.alive)
        hits.hit(preempt)
    assert len(ours.sweep.finished()) < storm.N_TRIALS, "the sweep had ended before the hits had"
    ours.running(restarts=storm.HITS)
    ours.finish()
    ours.nothing_left()
    requeued = ours.out.read_text(errors="replace").count("preempted; into the queue again")
    with capsys.disabled():
        print(f"\n{hits.check(quiet)}; {requeued} requeued themselves within the grace time")
    assert requeued == storm.HITS


@pytest.mark.fault(30)
def test_a_job_out_of_time_requeues_itself_and_goes_on(cluster: Slurm, folder: Path) -> None:
    ours = jobs(cluster, folder, "limit", 1.0)
    ours.submit("--time=4", "--signal=B:USR1@120")  # minutes; SLURM may be a minute early
    ours.running(restarts=1)
    done = len(ours.sweep.finished())
    assert 0 < done < storm.N_TRIALS, ours.text()
    assert "out of time; into the queue again" in ours.text()
    wait_for(lambda: len(ours.sweep.finished()) > done, "a trial of the second start")
    cluster.call("scancel", ours.job)
    cluster.wait(ours.job, "CANCELLED", timeout_s=90)
    ours.nothing_left()
    ours.sweep.check_nothing_twice()
    assert [r for r in ours.sweep.results() if r["status"] != "done"] == []


@pytest.mark.fault(1, 2, 30, 36)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_signal_to_every_process_of_a_sweep_records_no_failure(
    number: signal.Signals, folder: Path, quiet: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep(folder / number.name, *storm.OPTIONS, "--workers", 2)
    hits = storm.Storm(sweep, f"{number.name} to all")
    codes = []
    for _ in range(storm.HITS):
        driver = sweep.start(pause_s=storm.PAUSE_S)
        hits.moment()
        hits.hit(lambda: kill_all(driver, number))  # noqa: B023
        codes.append(driver.returncode)
    assert len(sweep.finished()) < storm.N_TRIALS, "the sweep had ended before the hits had"
    sweep.start()
    sweep.end(timeout_s=900)
    with capsys.disabled():
        print(f"\n{hits.check(quiet)}; exit codes {codes}")
