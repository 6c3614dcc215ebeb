"""An MLflow server on a loopback port, as a process group that ends with its test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from ports import free_ports


class MLflowServer:
    """`mlflow server` on a database that is there already; its schema is made before it starts.

    auth: with MLflow's users; (password of the user `admin`, what others may do by default).
    """

    def __init__(self, store: str, *, auth: tuple[str, str] | None = None) -> None:
        self.store = store
        (self.port,) = free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="tabsweep-mlflow-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ,
            "MLFLOW_BACKEND_STORE_URI": store,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        self._app: tuple[str, ...] = ()
        if auth is not None:
            (self.folder / "auth.ini").write_text(
                f"[mlflow]\ndatabase_uri = sqlite:///{self.folder}/auth.db\n"
                f"default_permission = {auth[1]}\nadmin_username = admin\n"
                f"admin_password = {auth[0]}\nauth_cache_ttl_seconds = 60\n"
            )
            self._environment["MLFLOW_AUTH_CONFIG_PATH"] = str(self.folder / "auth.ini")
            self._environment["MLFLOW_FLASK_SERVER_SECRET_KEY"] = "a secret of this test"
            self._app = ("--app-name", "basic-auth")

    @property
    def uri(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> MLflowServer:
        """Make the schema, start the server and wait until it answers."""
        mlflow = [sys.executable, "-m", "mlflow"]
        upgrade = [*mlflow, "db", "upgrade", self.store]
        subprocess.run(upgrade, env=self._environment, check=True, capture_output=True)
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(*mlflow, "server", *self._app, "--host", "127.0.0.1"),
                    *("--port", str(self.port), "--workers", "1"),
                    *("--allowed-hosts", "127.0.0.1:*"),
                    *("--artifacts-destination", str(self.folder / "artifacts")),
                ],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + 180
        while not self.ready():
            assert self._process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.2)
        return self

    def ready(self) -> bool:
        """Does the server say that it is well?"""
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def log(self) -> str:
        """What the server printed."""
        return (self.folder / "log").read_text(errors="replace")

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End the server with its workers."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            self._process.wait(timeout=60)
            self._process = None

    def __enter__(self) -> MLflowServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
