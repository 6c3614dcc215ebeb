"""Services of docker-compose.yml, their commands and health checks, as plain processes.

Without docker: the file is read, its variables are filled in as docker does it, and
what belongs to a container (hosts, ports, folders) is replaced.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from repo import ROOT

IMAGE = ROOT / "deploy" / "image"
START_S = 120.0
TOKEN = "0123456789abcdef" * 2
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
    """A Ray node as it runs outside a container."""

    command: list[str]
    health: list[str]
    environment: dict[str, str]

    def healthy(self) -> bool:
        """What docker asks every few seconds."""
        assert self.health[0] == "CMD", self.health
        done = subprocess.run(self.health[1:], env=self.environment, capture_output=True)
        return done.returncode == 0

    @contextmanager
    def running(self, log: Path) -> Iterator[None]:
        """The service, healthy, with its output in `log`; ended as docker ends it."""
        with open(log, "ab") as file:
            process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdout=file,
                stderr=file,
                cwd=log.parent,
                start_new_session=True,
            )
        try:
            until = time.monotonic() + START_S
            while not self.healthy():
                assert process.poll() is None, log.read_text(errors="replace")[-4000:]
                assert time.monotonic() < until, log.read_text(errors="replace")[-4000:]
                time.sleep(0.5)
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ray_service(name: str, *, home: Path, ports: Mapping[str, int]) -> Service:
    """A Ray node beside others on this machine, its home, temporary folder and secrets in `home`:
    what is fixed in a container of its own is free here. `ports`: gcs, dashboard, agent, client."""
    found = filled(raw()["services"][name], {**env_example(), "RAY_WORKER_CPUS": "1"})
    kept = home / f"secrets-{name}"
    kept.mkdir()
    for one in found.get("secrets", []):
        text = TOKEN if one == "ray_auth_token" else f"secret of {one} 0123456789"
        (kept / one).write_text(text, encoding="utf-8")
        (kept / one).chmod(0o400)
    swaps = {
        "/run/secrets": str(kept),
        "start-ray": str(IMAGE / "start-ray.sh"),
        "healthy": str(IMAGE / "healthy.py"),
        "ray-head:6379": f"127.0.0.1:{ports['gcs']}",
        "--port=6379": f"--port={ports['gcs']}",
        "8265": str(ports["dashboard"]),
        "52365": str(ports["agent"]),
        "ray-head": "127.0.0.1",
        "0.0.0.0": "127.0.0.1",
    }
    pattern = re.compile("|".join(map(re.escape, sorted(swaps, key=len, reverse=True))))

    def swapped(text: object) -> str:
        return pattern.sub(lambda match: swaps[match[0]], str(text))

    command = [*found.get("entrypoint", []), *found.get("command", [])]
    if command[:2] == ["tini", "--"] and shutil.which("tini") is None:
        command = command[2:]  # it passes signals on, which needs no help outside a container
    command = list(map(swapped, command))
    if command[0].endswith("start-ray.sh"):
        command += [f"--dashboard-agent-listen-port={ports['agent']}"]
        command += [f"--ray-client-server-port={ports['client']}"] if "--head" in command else []
    return Service(
        command,
        list(map(swapped, found.get("healthcheck", {}).get("test", []))),
        {
            **{k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)},
            **{key: swapped(value) for key, value in found.get("environment", {}).items()},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "TMPDIR": str(home),
            "RAY_TMPDIR": str(home),
            "RAY_USAGE_STATS_ENABLED": "0",
        },
    )
