"""Docker's engine for tests: the one of this machine.

TABSWEEP_BUILD  more options of `docker build`, such as --secret id=pip,src=pip.conf; "none": the
                image is there
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from typing import Any

from repo import ROOT

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
