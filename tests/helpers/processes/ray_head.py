"""A Ray head as docker-compose.yml starts it, and how a client outside talks to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import compose
from ports import free_ports


class Head:
    """The head and what a client has: its environment, and addresses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs"
        names = ("gcs", "dashboard", "agent", "client")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.service = compose.ray_service("ray-head", home=folder, ports=self.ports)
        for name in list(self.service.environment):
            if name.startswith(("TABSWEEP_", "MLFLOW_")):
                del self.service.environment[name]
        self.service.environment["TABSWEEP_RUNS"] = str(self.runs)
        self.url = f"http://127.0.0.1:{self.ports['dashboard']}"
        self.outside = compose.ray_service("job", home=folder, ports=self.ports).environment

    def bench(self, *words: object, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).parent / "bench", *map(str, words)],
            env={**self.outside, **more},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # as from a terminal; whoever runs the tests may have made their children deaf to it
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def jobs(self, path: str = "", method: str = "GET") -> Any:
        """Ray's own interface, without any of our code."""
        request = urllib.request.Request(f"{self.url}/api/jobs/{path}", method=method)
        token = Path(self.outside["RAY_AUTH_TOKEN_PATH"]).read_text(encoding="utf-8").strip()
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
