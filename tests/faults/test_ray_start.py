"""A Ray that does not come up: the driver says what it waits for, tries again, and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from chaos import Sweep, alive, kill_all, wait_for
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.workers.ray_start import below, is_rays, own_folder

pytestmark = pytest.mark.xdist_group("ray-faults")

OPTIONS = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", 1, "--trials", 2]
OPTIONS += ["--workers", 2, "--tracking-uri", "none"]
Act = Callable[[psutil.Process], None]


def kind_of(process: psutil.Process) -> str:
    """gcs_server, raylet, agent, worker, other (also of Ray), or "" """
    try:
        name, words = process.name(), process.cmdline()
    except psutil.Error:
        return ""
    if name in ("gcs_server", "raylet"):
        return name
    if any(word.endswith("/agent.py") or "runtime_env/agent" in word for word in words):
        return "agent"
    if any(word.startswith("ray::IDLE") or "default_worker" in word for word in words):
        return "worker"
    return "other" if any(is_rays(word) for word in words) else ""


class Hits:
    """Does something to each process of a kind that appears below a driver, as soon as it does."""

    def __init__(self, driver: subprocess.Popen[bytes], kind: str, act: Act, most: int) -> None:
        self.seen: set[int] = set()  # ids of all processes of Ray that there were
        self.hit: set[int] = set()
        self._over = threading.Event()
        self._given = driver, kind, act, most
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        driver, kind, act, most = self._given
        while not self._over.wait(0.1):
            try:
                family = psutil.Process(driver.pid).children(recursive=True)
            except psutil.Error:
                return
            for process in family:
                found = kind_of(process)
                if found:
                    self.seen.add(process.pid)
                try:  # a process that is to become another one has the name of its parent at first
                    known = {process.pid, process.ppid()} & self.hit
                    if found == kind and not known and len(self.hit) < most:
                        self.hit.add(process.pid)
                        act(process)
                except psutil.Error:
                    continue

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def kill(process: psutil.Process) -> None:
    process.kill()


def stop(process: psutil.Process) -> None:
    process.send_signal(signal.SIGSTOP)


def hold_up(process: psutil.Process) -> None:
    """As on a busy machine, where an agent takes longer than Ray waits for it."""
    stop(process)
    threading.Timer(20.0, process.resume).start()


def swept(
    folder: Path, kind: str, act: Act, most: int, patience_s: float, host: Any = None
) -> tuple[Sweep, Hits]:
    """A driver that has ended, after this was done to processes of its Ray."""
    sweep = Sweep(folder, *OPTIONS, host=host, env={"TABSWEEP_RAY_START_S": str(patience_s)})
    hits = Hits(sweep.start(), kind, act, most)
    assert sweep.driver is not None
    try:
        sweep.driver.wait(600)
    finally:
        if sweep.driver.poll() is None:
            kill_all(sweep.driver)
        hits.end()
    assert hits.seen and (hits.hit or not most), "nothing was hit"
    gone = lambda: [pid for pid in hits.seen if alive(pid)] == []  # noqa: E731
    wait_for(gone, "the end of all that Ray had started", timeout_s=20)
    return sweep, hits


@pytest.mark.fault(37)
def test_a_raylet_that_hangs_in_each_start_ends_the_driver_with_the_way_out(tmp_path: Path) -> None:
    sweep, hits = swept(tmp_path / "sweep", "raylet", stop, most=9, patience_s=20)
    assert sweep.driver is not None and sweep.driver.returncode == 3, sweep.output()
    assert len(hits.hit) == 2  # two sessions, of which each began once
    printed = sweep.output()
    assert re.search(r"waiting for (the connection to )?Ray's process raylet", printed), printed
    assert printed.count("starting once more") == 1
    assert "error BENCH-E021: " in printed and "session_latest/logs" in printed
    assert "bench doctor" in printed and f"bench resume {sweep.run} --address none" in printed
    assert "Traceback" not in printed and not list(sweep.run.glob("**/*.lock.d"))
    sweep.finish("--address", "none")
    sweep.check_nothing_lost(2)


def later(delay_s: float) -> Act:
    """Stops a raylet so long after it appeared, unless a trial's worker is there by then."""

    def act(process: psutil.Process) -> None:
        time.sleep(delay_s)
        if not any("TrialWorker" in name_of(p) for p in process.children()):
            stop(process)

    return act


@pytest.mark.nightly
@pytest.mark.fault(37)
@pytest.mark.parametrize(
    ("kind", "act", "most", "codes"),
    [
        *((kind, kill, 1, {0}) for kind in ("raylet", "gcs_server", "worker")),
        *((kind, kill, 99, {3}) for kind in ("raylet", "gcs_server", "worker")),
        ("gcs_server", stop, 9, {3}),
        ("agent", hold_up, 99, {0}),
        *(("raylet", later(s), 9, {0, 3}) for s in (0.5, 1.0, 2.0, 4.0, 8.0)),
    ],
)
def test_whatever_happens_to_ray_in_its_start_the_driver_ends_well_or_with_the_way_out(
    kind: str, act: Act, most: int, codes: set[int], tmp_path: Path
) -> None:
    """Killed once or each time, or stopped, also while Ray's library connects, which freezes the
    whole process of the driver."""
    sweep, _ = swept(tmp_path / "sweep", kind, act, most, patience_s=60 if most == 1 else 25)
    assert sweep.driver is not None and sweep.driver.returncode in codes, sweep.output()
    assert "Traceback" not in sweep.whole_output()
    if sweep.driver.returncode == 3:
        assert "--address none" in sweep.output()
    else:
        sweep.check_nothing_lost(2)
        assert [record["attempt"] for record in sweep.results()] == [1, 1]


AGAIN = """
import sys, time
from tabsweep.benchmark.running.ray_session import RayNotUp, RayStart
from tabsweep.sweeps.scheduling.interface import Stop

def attempt():
    start = RayStart(1, "local")
    try:
        start.wait(Stop())
        import ray
        print("up", int(ray.cluster_resources()["CPU"]), flush=True)
    except RayNotUp as error:
        print("not up:", error, flush=True)
    finally:
        start.end()

attempt()
print("attached:", sys.modules["ray"].is_initialized(), flush=True)
sys.stdin.readline()
time.sleep(6)  # a Ray that this process is still attached to would end it meanwhile
attempt()
"""


@pytest.mark.nightly
@pytest.mark.fault(37)
def test_a_process_whose_ray_came_up_without_workers_can_start_another(tmp_path: Path) -> None:
    """As a notebook does, in which the first sweep ended with BENCH-E021."""
    with subprocess.Popen(
        [sys.executable, "-c", AGAIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        hits = Hits(process, "worker", kill, most=99)
        try:
            said = [process.stdout.readline() for _ in range(2)]
        finally:
            hits.end()
        assert hits.hit and said[0].startswith("not up:"), said
        assert said[1] == "attached: False\n"
        out, _ = process.communicate("on\n", timeout=300)
    assert (process.returncode, out) == (0, "up 1\n")


class Inside:
    """Commands in namespaces of their own, after words of a shell: a host for `Sweep`."""

    def __init__(self, flags: str, words: str) -> None:
        self._flags, self._words = flags, words

    def command(self, *words: object) -> list[str]:
        script = f'{self._words} && exec "$@"'
        return ["unshare", *self._flags.split(), "sh", "-c", script, "sh", *map(str, words)]


FULL_SHM = "mount -t tmpfs -o size=1m tmpfs /dev/shm && (head -c 2m /dev/zero > /dev/shm/full || :)"
NO_PORT = "ip link set lo up && echo 50000 50001 > /proc/sys/net/ipv4/ip_local_port_range"


@pytest.mark.nightly
@pytest.mark.fault(37)
@pytest.mark.parametrize(("flags", "words"), [("--mount", FULL_SHM), ("--net", NO_PORT)])
def test_without_room_or_ports_the_driver_ends_well_or_with_the_way_out(
    flags: str, words: str, tmp_path: Path
) -> None:
    host = Inside(flags, words)
    probe = subprocess.run(host.command("true"), capture_output=True, text=True)
    if os.getuid() != 0 or probe.returncode != 0:
        pytest.skip(f"needs root and namespaces: {probe.stderr.strip()}")
    sweep, _ = swept(tmp_path / "sweep", "", stop, most=0, patience_s=30, host=host)
    assert sweep.driver is not None and sweep.driver.returncode in (0, 3), sweep.output()
    assert sweep.driver.returncode == 3 or flags == "--mount"
    if sweep.driver.returncode == 3:
        assert f"bench resume {sweep.run} --address none" in sweep.output()
        assert "Traceback" not in sweep.whole_output()
    else:
        sweep.check_nothing_lost(2)


def name_of(process: psutil.Process) -> str:
    """The first word of its command line, which for a worker is its title."""
    try:
        return " ".join(process.cmdline()[:1])
    except psutil.Error:
        return ""


NODE = """
eval "$(sed -n '/^node() {/,/^}/p' "$1")"
node --head "$2" --node-ip-address=127.0.0.1 --include-dashboard=false &
sleep 2
kill -USR1 $!
wait $! || wait $!
"""


@pytest.mark.fault(37)
def test_a_job_that_is_cancelled_while_ray_starts_on_a_node_prints_no_traceback() -> None:
    """A node of `deploy/slurm.sh`, told to end before its Ray has come up."""
    script = Path(__file__).parents[2] / "deploy" / "slurm.sh"
    with tempfile.TemporaryDirectory(prefix="ts-") as short:  # names of sockets are limited
        folder = Path(short) / "ray"
        command = ["bash", "-c", NODE, "bash", str(script), str(folder)]
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ab" * 32}  # as the script has them
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # that of an activated shell
        env = {**os.environ, **token, "PATH": path}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
        assert (done.returncode, done.stderr) == (130, "")
        assert not folder.exists()


SLOW_END = """
import os, signal, time

class Slow:
    def __del__(self):  # at the end of Python, when it has given up its handlers
        time.sleep(2)

kept = Slow()
os.kill(os.getppid(), signal.SIGUSR1)  # the node is told to end

def cli(prog_name):
    time.sleep(60)
"""


@pytest.mark.fault(37)
def test_a_cancelled_node_ends_with_130_however_long_the_end_of_python_takes(tmp_path) -> None:
    """In place of a busy machine: a stub of Ray that delays the end by more than the second after
    which the signal is given again."""
    script = Path(__file__).parents[2] / "deploy" / "slurm.sh"
    scripts = tmp_path / "ray" / "scripts"
    scripts.mkdir(parents=True)
    for package in (scripts.parent, scripts):
        (package / "__init__.py").touch()
    (scripts / "scripts.py").write_text(SLOW_END)
    node = f"source <(sed -n '/^node() {{/,/^}}/p' {script}); node --head {tmp_path}/made"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", node], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_a_patience_that_is_no_number_is_refused(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep", *OPTIONS, env={"TABSWEEP_RAY_START_S": "soon"})
    assert sweep.start().wait(120) == 2
    assert re.search("error BENCH-E017: TABSWEEP_RAY_START_S='soon'", sweep.output())


def test_a_temporary_folder_with_a_long_or_a_relative_name_holds_no_sockets(tmp_path: Path) -> None:
    """As a job's of SLURM or of CI; 107 bytes are all that the name of a socket may have."""
    folder = tmp_path / "a-job's-own-folder-for-temporary-files" / "1234567"
    folder.mkdir(parents=True)
    for name, temporary in (("long", str(folder)), ("relative", os.path.relpath(tmp_path))):
        sweep = Sweep(tmp_path / name, *OPTIONS, env={"TMPDIR": temporary})
        sweep.finish()
        assert status_of(sweep.run).done == 2
        assert not Path(temporary, "ray").exists()


def test_a_folder_of_our_name_that_another_user_made_is_not_written_to(tmp_path: Path) -> None:
    theirs = tmp_path / f"tabsweep-{os.getuid()}"
    theirs.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="TMPDIR"):
        own_folder(str(tmp_path))
    theirs.unlink()
    theirs.mkdir(mode=0o777)
    assert own_folder(str(tmp_path)) == theirs
    assert theirs.stat().st_mode & 0o777 == 0o700


def test_processes_of_ray_are_told_from_others() -> None:
    paths = ["ray::IDLE", "/lib/python3/site-packages/ray/core/src/ray/raylet/raylet"]
    assert all(is_rays(word) for word in [*paths, "--log=/tmp/ray/session_2026/logs"])
    assert not any(is_rays(word) for word in ["python", "/opt/ray/bench", "raymond", "-m"])
    child = subprocess.Popen(["sleep", "5"])
    try:
        assert child.pid not in {process.pid for process in below()}
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
