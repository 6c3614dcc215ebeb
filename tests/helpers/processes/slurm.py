"""A SLURM of two nodes on this machine: a controller and two node daemons, all real.

They are processes of their own with their own folder and ports; a SLURM that the machine may have
is not touched. Root only, for slurmd starts jobs of users.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from chaos import wait_for
from ports import free_ports

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
