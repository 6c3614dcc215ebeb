"""A Ray cluster and an MLflow server on PostgreSQL, each on hosts of its own (see hosts.py)."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from chaos import kill_all, wait_for
from hosts import Host, Network
from postgres import Postgres
from tabsweep.benchmark.tracking.mapping import Point

BIN = Path(sys.executable).parent
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
        self._log(host).unlink(missing_ok=True)
        self._ray[host.name] = host.start(
            *(BIN / "ray", "start", *options, "--object-store-memory=200000000", *more),
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
        self.rejoin(host)
        return host

    def rejoin(self, host: Host) -> None:
        """Start Ray on a worker host where it has ended."""
        self._start(host, f"--address={self.address}", "--num-cpus=1")

    def part(self, host: Host) -> None:
        """Power off: a worker host goes for good."""
        self.workers.remove(host)
        self.network.remove(host)
        self._ray.pop(host.name).wait()

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

            wait_for(ready, f"Ray on {host.name}", timeout_s=START_S)

    def up(self, host: Host) -> bool:
        """Does Ray run there, as far as the host knows?"""
        return self._ray[host.name].poll() is None

    def raylet(self, host: Host) -> int:
        """The id, on the host, of the process that is Ray's there."""
        return int(host.run("pgrep", "-x", "raylet"))

    def off(self) -> None:
        """End every host and with it Ray."""
        self.network.off()
        for process in self._ray.values():
            process.wait()


class HostPostgres(Postgres):
    """On a host: for its network, and with process ids of its own."""

    def __init__(self, host: Host) -> None:
        super().__init__(host=host.address, port=5432, prefix=tuple(host.command()))
        with open(self.data / "pg_hba.conf", "a") as rules:
            rules.write("host all all samenet scram-sha-256\n")

    def stop(self, number: int = signal.SIGINT) -> None:
        """Send a signal to the server and wait for its end."""
        if self._process is not None:
            pid = (self.data / "postmaster.pid").read_text().split()[0]
            self._run("kill", f"-{int(number)}", pid)
            self._process.wait(timeout=60)
            self._process = None


class Tracking:
    """PostgreSQL and an MLflow server on it, on a host of their own."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.uri = f"http://{host.address}:5000"
        self.env = {"TABSWEEP_ALLOW_INSECURE_TRACKING": "1"}  # nobody else is on this network
        self.database = HostPostgres(host)
        self._log = folder / "mlflow.log"
        self._env = {
            **self.database.environment(),
            "MLFLOW_BACKEND_STORE_URI": self.database.uri(password=False),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        self._artifacts = folder / "artifacts"
        self._server: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """An empty store, as the documentation has it made before the first client comes."""
        self.database.start()
        self.host.run(
            BIN / "mlflow", "db", "upgrade", self.database.uri(password=False), env=self._env
        )

    def start(self) -> None:
        """Start the MLflow server and wait until it answers."""
        self._server = self.host.start(
            *(BIN / "mlflow", "server", "--host", self.host.address, "--port", 5000),
            *("--workers", 1, "--allowed-hosts", f"{self.host.address}:5000"),
            *("--artifacts-destination", self._artifacts),
            log=self._log,
            env=self._env,
        )
        wait_for(self.answers, "the MLflow server", timeout_s=START_S)

    def stop(self) -> None:
        """Kill the MLflow server."""
        if self._server is not None:
            kill_all(self._server)
            self._server = None

    def answers(self) -> bool:
        """Does the server say that it is well? (Whether its database is, it does not know.)"""
        code = f"import urllib.request as u; u.urlopen('{self.uri}/health', timeout=5)"
        try:
            self.host.run(sys.executable, "-c", code)
        except AssertionError:
            return False
        return True

    def runs(self, run_id: str) -> list[tuple[str, set[Point]]]:
        """(key, points) of every active MLflow run of a run folder."""
        sql = f"""
            SELECT r.run_uuid, t.value, m.key, m.value, m.timestamp, m.step
            FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'tabsweep.key'
            LEFT JOIN metrics m ON m.run_uuid = r.run_uuid
            WHERE r.lifecycle_stage = 'active' AND t.value LIKE '{run_id}:%'
        """
        found: dict[tuple[str, str], set[Point]] = {}
        for row in self.database.query(sql).splitlines():
            id, key, name, value, time_ms, step = row.split("|")
            points = found.setdefault((id, key), set())
            if name:
                points.add(Point(name, float(value), int(time_ms), int(step)))
        return [(key, points) for (_, key), points in found.items()]

    def sync(self, run: Path, *, on: Host) -> dict[str, Any]:
        """What `bench track sync` says that it did."""
        words = ("track", "sync", run, "--tracking-uri", self.uri, "--json")
        output = on.run(BIN / "bench", *words, env=self.env, timeout_s=300)
        return json.loads(output)

    def off(self) -> None:
        """End both servers and remove the database."""
        self.stop()
        self.database.remove()
