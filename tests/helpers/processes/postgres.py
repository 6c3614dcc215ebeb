"""A PostgreSQL server for one test, as processes of an unprivileged account."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

USER = "tabsweep"


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, of the newest version where there are several."""
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    found = sorted(installed, key=lambda path: int(path.parts[-3].partition(".")[0]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("postgres")
    return Path(elsewhere).resolve().parent if elsewhere else None


def missing() -> str | None:
    """Why no server can be started here (for `pytest.skip`), None where one can."""
    return None if programs() else "needs PostgreSQL's programs (postgres, initdb)"


class Postgres:
    """A fresh cluster with the superuser `tabsweep`, reachable by password only.

    >>> with Postgres() as server:  # doctest: +SKIP
    ...     create_engine(server.uri("mlflow"))

    `prefix` is a command that runs another one elsewhere, such as `ip netns exec NAME`, and `host`
    the address to listen on there. PostgreSQL refuses to run as root, so root gives way to the
    account `postgres` or `nobody`.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        prefix: tuple[str, ...] = (),
        database: str = "mlflow",
    ) -> None:
        bin = programs()
        assert bin is not None, missing()
        self.bin = bin
        self.host, self.port, self.database = host, port or free_port(), database
        self.password = secrets.token_hex(16)
        self.folder = Path(tempfile.mkdtemp(prefix="tabsweep-postgres-"))  # reachable for all
        self._prefix = [*prefix]
        self._process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:
            names = [entry.pw_name for entry in pwd.getpwall()]
            account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._prefix += ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"]
            self._prefix += ["--clear-groups", "--"]
        self._init()

    @property
    def data(self) -> Path:
        """The data directory of the server."""
        return self.folder / "data"

    def uri(self, database: str | None = None, *, password: bool = True) -> str:
        """For SQLAlchemy; without the password where `environment` is given too."""
        secret = f":{self.password}" if password else ""
        where = f"{self.host}:{self.port}/{database or self.database}"
        return f"postgresql+psycopg2://{USER}{secret}@{where}"

    def environment(self) -> dict[str, str]:
        """What libpq reads."""
        where = {"PGHOST": self.host, "PGPORT": str(self.port)}
        return {**where, "PGUSER": USER, "PGPASSWORD": self.password}

    def _run(self, *command: str | Path, **more: object) -> subprocess.CompletedProcess[bytes]:
        words = [*self._prefix, *map(str, command)]
        environment = {**os.environ, **self.environment()}
        return subprocess.run(words, env=environment, cwd="/", capture_output=True, **more)

    def _init(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)  # removed again below, and of use for this cluster alone
        done = self._run(
            *(self.bin / "initdb", "--pgdata", self.data, "--username", USER, "--no-sync"),
            *("--auth=scram-sha-256", "--pwfile", secret, "--encoding=UTF8", "--locale=C"),
        )
        secret.unlink()
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> Postgres:
        """Start the server, wait until it answers, and make the database if it is missing."""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._prefix,
                    *(str(self.bin / "postgres"), "-D", str(self.data), "-p", str(self.port)),
                    *("-c", f"listen_addresses={self.host}", "-k", str(self.folder)),
                ],
                stdout=log,
                stderr=log,
                cwd="/",
            )
        until = time.monotonic() + 60
        while not self.ready():
            assert self._process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.1)
        known = self.query("SELECT datname FROM pg_database", "postgres").split()
        if self.database not in known:
            self.query(f'CREATE DATABASE "{self.database}"', "postgres")
        return self

    def ready(self) -> bool:
        """Does the server accept connections?"""
        return self._run(self.bin / "pg_isready", "--quiet").returncode == 0

    def query(self, sql: str, database: str | None = None) -> str:
        """What psql prints for a statement: one row a line, columns parted by '|'."""
        name = database or self.database
        done = self._run(self.bin / "psql", "-XAtq", "-d", name, "-c", sql)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def log(self) -> str:
        """What the server printed."""
        return (self.folder / "log").read_text(errors="replace")

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: connections are cut and the server ends in order. SIGQUIT: as after a crash."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            self._process.wait(timeout=60)
            self._process = None

    def remove(self) -> None:
        """Kill the server and delete its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Postgres:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()
