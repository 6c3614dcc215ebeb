"""Services of docker-compose.yml, their commands and health checks, as plain processes.

Without docker: the file is read, its variables are filled in as docker does it (a test compares the
two where docker is there), and what belongs to a container (hosts, ports, folders) is replaced.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from repo import ROOT

IMAGE = ROOT / "deploy" / "image"
START_S = 120.0
# Nobody else's identity or server may get into a service that is tested.
FOREIGN = ("MLFLOW_", "TABSWEEP_", "RAY_", "PG", "SLURM_")


def env_example() -> dict[str, str]:
    """The variables of .env.example with their defaults."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """
    >>> interpolate("${A:-${B:-c}} $$HOME ${D:-}", {"B": "x"})
    'x $HOME '
    """
    out, at = "", 0
    while (found := text.find("$", at)) >= 0:
        out += text[at:found]
        if text[found : found + 2] == "$$":
            out, at = out + "$", found + 2
            continue
        start = re.compile(r"\$\{(\w+)(:-)?").match(text, found)
        assert start is not None, text[found : found + 40]
        depth, end = 1, start.end()
        while depth:
            depth += {"}": -1, "{": 1}.get(text[end], 0)
            end += 1
        name, rest = start[1], text[start.end() : end - 1]
        out += variables.get(name, "") or interpolate(rest, variables)
        at = end
    return out + text[at:]


def filled(node: Any, variables: Mapping[str, str]) -> Any:
    """A part of the compose file with its variables filled in."""
    if isinstance(node, str):
        return interpolate(node, variables)
    if isinstance(node, dict):
        return {key: filled(value, variables) for key, value in node.items()}
    return [filled(item, variables) for item in node] if isinstance(node, list) else node


def raw() -> dict[str, Any]:
    """The compose file as it is written."""
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Service:
    """A service as it runs outside a container."""

    name: str
    command: list[str]
    health: list[str]
    environment: dict[str, str]

    def healthy(self) -> bool:
        """What docker asks every few seconds."""
        assert self.health[0] == "CMD", self.health
        done = subprocess.run(self.health[1:], env=self.environment, capture_output=True)
        return done.returncode == 0

    def run(self, *more: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run the command, with more arguments, to its end."""
        return subprocess.run(
            [*self.command, *more],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def start(self, log: Path, *more: str) -> Running:
        """Start the command, with more arguments, and write its output to `log`."""
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [*self.command, *more],
                env=self.environment,
                stdout=file,
                stderr=file,
                cwd=log.parent,
                start_new_session=True,
            )
        return Running(self, process, log)


@dataclass
class Running:
    """A process and all that it started, ended with the block that it is used in."""

    service: Service
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until_healthy(self) -> Running:
        """Wait for the health check. Raises AssertionError where it does not come."""
        until = time.monotonic() + START_S
        while not self.service.healthy():
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < until, self.log.read_text(errors="replace")[-4000:]
            time.sleep(0.5)
        return self

    def end(self) -> int:
        """As docker does: SIGTERM, and SIGKILL after a minute."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return code

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def service(
    name: str,
    *,
    home: Path,
    variables: Mapping[str, str] | None = None,
    swap: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Service:
    """A service with its variables and the texts of its secrets, every key of `swap` replaced by
    its value, and its container's home, temporary folder and secrets in `home`."""
    found = filled(raw()["services"][name], {**env_example(), **(variables or {})})
    kept = home / f"secrets-{name}-{len(list(home.glob('secrets-*')))}"
    kept.mkdir()
    for one in found.get("secrets", []):
        text = (secrets or {}).get(one, f"secret of {one} 0123456789")
        (kept / one).write_text(text, encoding="utf-8")
        (kept / one).chmod(0o400)
    swaps = {
        "/tmp/auth.ini": str(home / "auth.ini"),
        "/run/secrets": str(kept),
        "start-ray": str(IMAGE / "start-ray.sh"),
        "healthy": str(IMAGE / "healthy.py"),
        **(swap or {}),
    }
    pattern = re.compile("|".join(map(re.escape, sorted(swaps, key=len, reverse=True))))

    def swapped(text: str) -> str:
        return pattern.sub(lambda match: swaps[match[0]], text)

    command = [*found.get("entrypoint", []), *found.get("command", [])]
    if command[:2] == ["tini", "--"] and shutil.which("tini") is None:
        command = command[2:]  # it passes signals on, which needs no help outside a container
    own = {key: swapped(str(value)) for key, value in found.get("environment", {}).items()}
    base = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return Service(
        name,
        list(map(swapped, command)),
        list(map(swapped, found.get("healthcheck", {}).get("test", []))),
        {
            **base,
            **own,
            "PATH": path,
            "HOME": str(home),
            "TMPDIR": str(home),
            **(environment or {}),
        },
    )


def ray_service(
    name: str, *, home: Path, ports: Mapping[str, int], token: str = "0123456789abcdef" * 2
) -> Service:
    """A Ray node beside others on this machine: what is fixed in a container of its own is free
    here. `ports`: gcs, dashboard, agent, client."""
    swaps = {
        "ray-head:6379": f"127.0.0.1:{ports['gcs']}",
        "--port=6379": f"--port={ports['gcs']}",
        "8265": str(ports["dashboard"]),
        "52365": str(ports["agent"]),
        "ray-head": "127.0.0.1",
        "0.0.0.0": "127.0.0.1",
    }
    found = service(
        name,
        home=home,
        variables={"RAY_WORKER_CPUS": "1"},
        swap=swaps,
        secrets={"ray_auth_token": token},
        environment={"RAY_TMPDIR": str(home), "RAY_USAGE_STATS_ENABLED": "0"},
    )
    if not found.command[0].endswith("start-ray.sh"):
        return found
    more = [f"--dashboard-agent-listen-port={ports['agent']}"]
    more += [f"--ray-client-server-port={ports['client']}"] if "--head" in found.command else []
    return replace(found, command=[*found.command, *more])
