"""Several hosts on one machine: Linux namespaces joined by veth cables.

A `Host` has its own network, process ids, host name and shared memory; the file system is the
machine's, like a shared home folder on a cluster. Its hosts' cables end in a bridge inside a
namespace of its own, so nothing of this is seen from outside, and no address can clash. The first
process of a host waits for the end of its standard input: when the test process ends, in whatever
way, the kernel ends the host with everything in it, its cable too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

# Adopts what its processes leave behind and waits for the end of its standard input.
INIT = """
hostname "$0" && mount -t tmpfs tmpfs /dev/shm && ip link set lo up && echo up && read -r _
"""
TOOLS = ("bash", "hostname", "ip", "mount", "nsenter", "unshare")
NET = "10.77.0"  # nobody else is on it


def missing() -> str:
    """Why this machine can hold no hosts; empty where it can."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"needs {', '.join(lacking)}"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--uts", "bash", "-ec"]
        + ["ip link add br0 type bridge; ip link add v0 type veth peer name v1"],
        capture_output=True,
        text=True,
    )
    return f"needs root and network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class Host:
    """A machine by the name `name`; `Network.add` gives it a cable and an address."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = ""
        spaces = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
        self._process = subprocess.Popen(
            ["unshare", *spaces, "bash", "-c", INIT, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "up":
            self.off()
            raise OSError(f"the host {name} does not come up")
        children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        self.pid = int(Path(children).read_text().split()[0])

    def command(self, *command: object) -> list[str]:
        """`command` as it is to be written elsewhere to run on this host."""
        enter = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--uts"]
        return [*enter, "--", *map(str, command)]

    def start(self, *command: object, log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """A process on this host whose output goes to `log`."""
        with open(log, "ab") as file:
            return subprocess.Popen(
                self.command(*command),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
            )

    def run(self, *command: object) -> None:
        """Run a command on this host. Raises AssertionError where it fails."""
        done = subprocess.run(
            self.command(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def off(self) -> None:
        """Power off: every process on it is gone when this returns."""
        self._process.kill()  # the kernel kills the host's first process with it, and it the rest
        self._process.communicate()


class Network:
    """A bridge and the hosts on it."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self._count = 0
        self._switch = Host("switch")
        self._ip("link", "add", "bridge", "type", "bridge")
        self._ip("link", "set", "bridge", "up")

    def _ip(self, *words: object) -> None:
        # In the switch's network only: a peer's namespace is named by a process id of the machine.
        enter = ["nsenter", "--target", str(self._switch.pid), "--net", "--"]
        done = subprocess.run([*enter, "ip", *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def add(self, name: str) -> Host:
        """A new host, plugged in."""
        host = Host(name)
        self._count += 1
        host.address = f"{NET}.{self._count}"
        cable = f"to-{name}"
        ends = ("veth", "peer", "name", "eth0", "netns", host.pid)
        self._ip("link", "add", cable, "type", *ends)
        self._ip("link", "set", cable, "master", "bridge", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        self.hosts[name] = host
        return host

    def plug(self, host: Host, into: bool) -> None:
        """Pull a host's cable out of the bridge, or plug it in again."""
        self._ip("link", "set", f"to-{host.name}", "up" if into else "down")

    def remove(self, host: Host) -> None:
        """Power off, for good: its cable goes with it."""
        host.off()
        del self.hosts[host.name]

    def off(self) -> None:
        """Power off every host and the switch."""
        for host in [*self.hosts.values(), self._switch]:
            host.off()
