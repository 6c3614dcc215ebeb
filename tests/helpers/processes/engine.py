"""Docker's engine for tests: one of their own with its images in a folder, or the machine's.

TABSWEEP_ENGINE=machine  the docker that is there, with images from a registry, as in CI
TABSWEEP_ENGINE_ROOT     keep the own engine's images in this folder, for the next time
TABSWEEP_BUILD           more options of `docker build`, such as --secret id=pip,src=pip.conf

The own engine needs no registry: its bases are made of Debian's packages. It is ended by its
process's number, and the packet filter's rules are put back.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from chaos import wait_for
from repo import ROOT

PYTHON, POSTGRES, OURS = "python:3.11-slim-bookworm", "postgres:17-bookworm", "tabsweep:test"
MACHINE = os.environ.get("TABSWEEP_ENGINE") == "machine"
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")

# What the official image does with its variables, as far as the compose file uses them.
ENTRYPOINT = """#!/bin/sh
set -eu
export PATH=$(echo /usr/lib/postgresql/*/bin):$PATH PGDATA=/var/lib/postgresql/data/db
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \
        --auth-local=trust --auth-host=scram-sha-256 > /dev/null
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    pg_ctl -w -o "-c listen_addresses=''" start > /dev/null
    createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl -w stop > /dev/null
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
"""
POSTGRES_FILE = f"""FROM {PYTHON}
RUN apt-get update && apt-get install --no-install-recommends --yes postgresql \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o postgres -g postgres /var/lib/postgresql/data \
    && install -d -o postgres -g postgres -m 3777 /var/run/postgresql \
    && ln -sf /usr/lib/postgresql/*/bin/pg_* /usr/lib/postgresql/*/bin/psql /usr/local/bin/
COPY --chmod=755 entrypoint /usr/local/bin/entrypoint
ENTRYPOINT ["/usr/local/bin/entrypoint"]
"""
TABLES = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
}
PACKAGES = "python3,python3-venv,ca-certificates"


def missing() -> str:
    """Why no engine can be had here; empty where one can."""
    if os.geteuid() != 0:
        return "a test that kills what runs in containers needs root"
    programs = ["docker"] if MACHINE else ["docker", "dockerd", "debootstrap", "iptables-save"]
    lacking = [name for name in programs if shutil.which(name) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    version = subprocess.run(["docker", "compose", "version"], capture_output=True)
    return "" if version.returncode == 0 else "docker has no compose plugin"


class Engine:
    """The engine, from the construction to `off`."""

    def __init__(self) -> None:
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("COMPOSE_", "RAY_"))}
        self._daemon: subprocess.Popen[bytes] | None = None
        if MACHINE:
            return
        kept = os.environ.get("TABSWEEP_ENGINE_ROOT")
        self._folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        root = Path(kept) if kept else self._folder / "data"
        self._rules = subprocess.run(["iptables-save"], capture_output=True, check=True).stdout
        self._forward = FORWARD.read_text()
        self._had_bridge = Path("/sys/class/net/docker0").exists()
        socket = f"unix://{self._folder}/docker.sock"
        words = ["dockerd", "--data-root", root, "--exec-root", self._folder / "exec"]
        words += ["--pidfile", self._folder / "pid", "--host", socket]
        with open(self._folder / "log", "wb") as log:
            self._daemon = subprocess.Popen(
                [*map(str, words)], stdout=log, stderr=log, start_new_session=True
            )
        self.env["DOCKER_HOST"] = socket
        try:
            wait_for(self._up, "docker's engine", timeout_s=60)
            self._bases()
        except BaseException:
            self.off()
            raise

    def _up(self) -> bool:
        assert self._daemon is not None and self._daemon.poll() is None, self._folder
        return self.docker("info", check=False).returncode == 0

    def _bases(self) -> None:
        if not self._has(PYTHON):
            made = self._folder / "base"
            subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", made],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            with subprocess.Popen(["tar", "-C", made, "-c", "."], stdout=subprocess.PIPE) as tar:
                done = subprocess.run(
                    ["docker", "import", "-", PYTHON], stdin=tar.stdout, env=self.env
                )
            assert done.returncode == 0
            shutil.rmtree(made)
        if not self._has(POSTGRES):
            context = self._folder / "postgres"
            context.mkdir()
            (context / "Dockerfile").write_text(POSTGRES_FILE)
            (context / "entrypoint").write_text(ENTRYPOINT)
            self.docker("build", "--tag", POSTGRES, context)

    def _has(self, image: str) -> bool:
        return self.docker("image", "inspect", image, check=False).returncode == 0

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
        commit = self.docker_commit()
        more = shlex.split(os.environ.get("TABSWEEP_BUILD", ""))
        self.docker(
            "build", "--quiet", "--tag", OURS, "--build-arg", f"COMMIT={commit}", *more, ROOT
        )
        return float(self.inspect(OURS)["Size"])

    def docker_commit(self) -> str:
        """The state of the source as the image's label has it."""
        run = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()

    def inspect(self, name: str) -> dict[str, Any]:
        """What docker knows of a container or an image."""
        return json.loads(self.docker("inspect", name).stdout)[0]

    def off(self) -> None:
        """End the own engine; what it changed in the network is put back."""
        if self._daemon is None:
            return
        self._daemon.terminate()
        try:
            self._daemon.wait(60)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            self._daemon.wait()
        rules = self._rules.decode()
        for table, chains in TABLES.items():  # one that was not there yet is emptied
            if f"*{table}\n" not in rules:
                rules += "".join(
                    [f"*{table}\n", *(f":{one} ACCEPT [0:0]\n" for one in chains), "COMMIT\n"]
                )
        subprocess.run(["iptables-restore"], input=rules.encode(), check=False)
        FORWARD.write_text(self._forward)
        if not self._had_bridge:
            subprocess.run(["ip", "link", "delete", "docker0"], check=False, capture_output=True)
        shutil.rmtree(self._folder, ignore_errors=True)
