"""A Ray cluster on hosts of its own (see hosts.py)."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path

import psutil
from chaos import wait_for
from hosts import Host, Network

# `ray start` with the small agents that a sweep's own Ray has, as deploy/slurm.sh starts it.
START = """
from ray.scripts.scripts import cli
from tabsweep.sweeps.workers.ray_private import fewer_parts
with fewer_parts():
    cli(prog_name="ray")
"""
PORT = 6379
START_S = 180.0

SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    # A host that does not answer is given up after about twenty seconds, which a busy machine can
    # do without; Ray's own settings take half a minute.
    "RAY_health_check_initial_delay_ms": "20000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "6000",
    "RAY_health_check_failure_threshold": "3",
}


class Cluster:
    """A Ray head without CPUs for trials, and worker hosts that join it with one CPU each; `env` is
    what a driver needs. `folder` must have a short path: Ray's sockets are in it."""

    def __init__(self, folder: Path) -> None:
        self.env = {**SETTINGS, "RAY_AUTH_TOKEN": secrets.token_hex(16)}
        self.network = Network()
        self.head = self.network.add("head")
        self.address = f"{self.head.address}:{PORT}"
        self.workers: list[Host] = []
        self._count = 0
        self._folder = folder
        self._ray: dict[str, subprocess.Popen[bytes]] = {}
        self._start(self.head, "--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=0")

    def _start(self, host: Host, *more: str) -> None:
        own = self._folder / host.name
        options = [f"--node-ip-address={host.address}", f"--temp-dir={own}", "--block"]
        options.append("--object-store-memory=200000000")
        self._log(host).unlink(missing_ok=True)
        self._ray[host.name] = host.start(
            *(sys.executable, "-c", START, "start", *options, *more),
            log=self._log(host),
            env={**self.env, "RAY_TMPDIR": str(own)},
        )

    def _log(self, host: Host) -> Path:
        return self._folder / f"{host.name}.log"

    def join(self) -> Host:
        """A worker host more, whose Ray is starting."""
        self._count += 1
        host = self.network.add(f"worker-{self._count}")
        self.workers.append(host)
        self._start(host, f"--address={self.address}", "--num-cpus=1")
        return host

    def part(self, host: Host) -> None:
        """Power off: a worker host goes for good."""
        self.workers.remove(host)
        self.network.remove(host)
        self._end(self._ray.pop(host.name))

    def have(self, n: int) -> list[Host]:
        """So many worker hosts, all of them up."""
        for host in self.workers[n:]:
            self.part(host)
        while len(self.workers) < n:
            self.join()
        self.wait()
        return [*self.workers]

    def wait(self) -> None:
        """Until Ray is up on every host."""
        for host in (self.head, *self.workers):

            def ready(host: Host = host) -> bool:
                log = self._log(host).read_text()
                assert self.up(host), log
                return "Ray runtime started" in log

            try:
                wait_for(ready, f"Ray on {host.name}", timeout_s=START_S)
            except TimeoutError as error:
                raise TimeoutError(f"{error}\n{self._log(host).read_text()}") from None

    def up(self, host: Host) -> bool:
        """Does Ray run there, as far as the host knows?"""
        return self._ray[host.name].poll() is None

    def processes(self, host: Host) -> list[psutil.Process]:
        """Those of Ray on a host, as this machine sees them."""
        return psutil.Process(self._ray[host.name].pid).children(recursive=True)

    def off(self) -> None:
        """End every host and with it Ray."""
        self.network.off()
        for process in self._ray.values():
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()  # nsenter stops itself where somebody stopped what it waits for
        process.wait()
