"""A sweep's own Ray as others on the network and on the machine see it."""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psutil
import pytest
from chaos import Sweep

pytestmark = pytest.mark.xdist_group("ray-faults")

OPTIONS = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", 1, "--trials", 2]
OPTIONS += ["--workers", 1, "--tracking-uri", "none"]
JOIN = """
import sys
from ray._raylet import Config, GcsClient
Config.initialize("")
try:
    print("joined", len(GcsClient(address=sys.argv[1]).get_all_node_info(timeout=20)))
except Exception as error:
    print("refused", type(error).__name__, error)
"""
REACH = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), timeout=5).close()
        print(port, "reached")
    except OSError as error:
        print(port, error)
"""


class Listener(NamedTuple):
    """A socket that waits for connections or datagrams."""

    process: str
    address: str
    port: int

    @property
    def confined(self) -> bool:
        """Whether no other machine can reach it."""
        ip = ipaddress.ip_address(self.address)
        return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def listeners(processes: list[psutil.Process]) -> list[Listener]:
    """All TCP sockets of these processes that listen, and all UDP sockets."""
    found = []
    for process in processes:
        for one in process.net_connections(kind="inet"):
            if one.status == psutil.CONN_LISTEN or one.type == socket.SOCK_DGRAM:
                found.append(Listener(process.name(), one.laddr.ip, one.laddr.port))
    return found


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """A sweep whose first trial runs all the while."""
    running = Sweep(tmp_path_factory.mktemp("network") / "sweep", *OPTIONS)
    running.start(pause_s=300)
    try:
        running.wait(running.running, "a running trial")
        yield running
    finally:
        running.off()


def family(sweep: Sweep) -> list[psutil.Process]:
    assert sweep.driver is not None
    driver = psutil.Process(sweep.driver.pid)
    return [driver, *driver.children(recursive=True)]


@pytest.mark.fault(38)
def test_every_socket_of_a_sweep_listens_on_the_loopback_address(sweep: Sweep) -> None:
    with socket.create_server(("0.0.0.0", 0)):  # what is looked for would be found
        (open_,) = [one for one in listeners([psutil.Process()]) if one.address == "0.0.0.0"]
        assert not open_.confined
    found = listeners(family(sweep))
    names = {one.process for one in found}
    assert {"gcs_server", "raylet"} <= names and len(found) >= 5, found
    assert [one for one in found if not one.confined] == []


def test_a_sweep_starts_no_process_of_ray_that_nobody_asks_anything(sweep: Sweep) -> None:
    words = [word for process in family(sweep) for word in process.cmdline()]
    names = {process.name() for process in family(sweep)}
    assert {"gcs_server", "raylet"} <= names  # what is looked for would be found
    scripts = {word.rpartition("/ray/")[2] for word in words if word.endswith(".py")}
    unused = {"dashboard/dashboard.py", "_private/log_monitor.py", "autoscaler/_private/monitor.py"}
    assert not scripts & unused, scripts


@pytest.mark.fault(38)
def test_somebody_on_this_machine_needs_the_token_that_this_sweep_alone_has(sweep: Sweep) -> None:
    (gcs,) = [one for one in listeners(family(sweep)) if one.process == "gcs_server"]
    tokens = {
        process.environ().get("RAY_AUTH_TOKEN", "")
        for process in family(sweep)
        if process.name() in ("gcs_server", "raylet")
    }
    (token,) = tokens
    assert len(token) == 64

    def join(token: str, mode: str = "token") -> str:
        env = {**os.environ, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": token}
        command = [sys.executable, "-c", JOIN, f"127.0.0.1:{gcs.port}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        return done.stdout

    assert join(token).startswith("joined 1")  # the door is this one
    assert join(secrets.token_hex(32)).startswith("refused")
    assert join("", mode="disabled").startswith("refused")
    assert not any(token in path.read_text(errors="replace") for path in sweep.run.rglob("*.json*"))


@contextmanager
def other_machine() -> Iterator[tuple[list[str], str]]:
    """A network namespace beside this one: (words before a command there, our address from there).
    Skips where this user may not make one."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and the command ip, to make a network namespace")
    name = f"ts{os.getpid() % 100_000}"
    net = f"198.18.{os.getpid() % 250}"
    outside = ["ip", "netns", "exec", name]
    try:
        for words in (
            f"ip netns add {name}",
            f"ip link add {name}a type veth peer name {name}b",
            f"ip link set {name}b netns {name}",
            f"ip addr add {net}.1/24 dev {name}a",
            f"ip link set {name}a up",
            f"ip netns exec {name} ip addr add {net}.2/24 dev {name}b",
            f"ip netns exec {name} ip link set {name}b up",
        ):
            done = subprocess.run(words.split(), capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"no network namespace here: {words}: {done.stderr.strip()}")
        yield outside, f"{net}.1"
    finally:
        subprocess.run(["ip", "link", "del", f"{name}a"], capture_output=True)
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.fault(38)
def test_another_machine_reaches_no_port_of_a_sweep(sweep: Sweep) -> None:
    ports = sorted({str(one.port) for one in listeners(family(sweep))})
    assert len(ports) >= 5
    with other_machine() as (outside, address), socket.create_server(("0.0.0.0", 0)) as server:
        open_ = str(server.getsockname()[1])
        command = [*outside, sys.executable, "-c", REACH, address, open_, *ports]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        answers = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        if answers.get(open_) != "reached":
            pytest.skip(f"this machine's network lets nobody in: {done.stdout}{done.stderr}")
        assert set(answers) == {open_, *ports}
        assert [port for port in ports if answers[port] == "reached"] == []


@pytest.mark.nightly
def test_two_rays_of_one_process_have_two_tokens_and_leave_the_environment_as_it_was() -> None:
    code = """
import os, psutil
os.environ["RAY_AUTH_TOKEN"] = "mine"
os.environ["RAY_AUTH_TOKEN_PATH"] = "/absent"
import ray
from tabsweep.sweeps.workers.ray_cluster import start_ray
before, tokens = dict(os.environ), set()
for _ in range(2):
    start_ray(slots=1)
    assert ray.get(ray.remote(lambda: 3).remote()) == 3
    children = psutil.Process().children(recursive=True)
    (raylet,) = [process for process in children if process.name() == "raylet"]
    tokens.add(raylet.environ()["RAY_AUTH_TOKEN"])
    ray.shutdown()
names = [name for name in os.environ if "AUTH" in name or "OSX" in name or "metrics" in name]
print(len(tokens), "mine" in tokens, {name: os.environ[name] for name in sorted(names)})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    expected = "2 False {'RAY_AUTH_TOKEN': 'mine', 'RAY_AUTH_TOKEN_PATH': '/absent'}"
    assert done.stdout.strip() == expected, done.stderr


AFTER = """
import ray
from ray.cluster_utils import Cluster
from tabsweep.sweeps.workers.ray_cluster import start_ray, stop_ray
from tabsweep.sweeps.workers.ray_private import fewer_parts

start_ray(slots=1)
stop_ray()
with fewer_parts():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    ray.init(address=cluster.address, log_to_driver=False, logging_level=40)

@ray.remote(num_cpus=1)
class Actor:
    def ready(self):
        return "up"

actor = Actor.remote()
print(ray.get(actor.ready.remote(), timeout=120))
ray.shutdown()
cluster.shutdown()
"""


def test_a_process_can_join_another_ray_after_a_confined_one_has_ended():
    """With the first one's token, the other's head took each actor for one without a reference."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and done.stdout.split() == ["up"], done.stderr[-2000:]
