"""`bench doctor`: checks of this machine or its cluster, one line each, with advice."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlparse

import click

from ...common.network import anonymous_status, is_loopback
from ..arguments import options_of
from ..console import ENVIRONMENT, OK, OKAY, PROBLEM, WARNING, Console, common
from ..errors import NO_RAY, check_address_form
from ..planning.options import Options
from ..tracking.store import check

Step = Callable[[], tuple[str, str]]  # -> state, detail


@click.command()
@options_of(Options, "address", "runs", runs="Folder of runs.")
@click.option("--gpu", is_flag=True, help="Check what models and trials do on the GPU; 2 minutes.")
@common
def doctor(console: Console, runs: Path, address: str | None, gpu: bool) -> int:
    """Check this machine: libraries, Ray, disk, limits, MLflow. Datasets: bench data verify.

    With --address also the cluster: versions, clock and disk of every node, and who may use it.
    """
    check_address_form(address)
    checks = []
    for name, step in steps_of(runs, address, gpu):
        try:
            state, detail = step()
        except Exception as error:
            state, detail = PROBLEM, f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        checks.append({"name": name, "state": state, "detail": detail})
        console.say(f"{state:8}{name}: {detail}")
    console.data(checks)
    return ENVIRONMENT if any(check["state"] == PROBLEM for check in checks) else OK


def steps_of(runs: Path, address: str | None, gpu: bool) -> Iterator[tuple[str, Step]]:
    """(name, check) of every check, in the order in which they run; of a GPU those alone. The
    address of a cluster: it is checked instead of a Ray of our own."""
    if gpu:
        from ..gpu_check import checks

        yield from checks()
        return
    yield from [
        ("libraries", _libraries),
        ("lock file", _lock),
        ("cpu and memory", _machine),
        ("runs folder", lambda: _store(runs)),
        ("run lock", lambda: _run_lock(runs)),
        ("disk", lambda: _disk(runs)),
        ("open files", _files),
        ("shared memory", _shm),
        ("torch", _torch),
    ]
    if address in (None, NO_RAY, "local"):
        yield "ray", _ray
    else:
        from ..running.cluster_checks import cluster_steps

        yield from cluster_steps(address)
    yield "mlflow", _mlflow


def _libraries() -> tuple[str, str]:
    from ..planning.environment import LIBRARIES, version

    absent = [name for name in LIBRARIES if version(name) == "absent"]
    if absent:
        return PROBLEM, f"not installed: {', '.join(absent)}; run `make sweep` or install them"
    return OKAY, ", ".join(f"{name} {version(name)}" for name in LIBRARIES)


def _lock() -> tuple[str, str]:
    from ..nightly.libraries import differing, installed, pins
    from ..nightly.sides import lock_of
    from ..planning.environment import ROOT

    lock, here = lock_of(ROOT), installed()
    if not lock:
        return WARNING, "no requirements.lock beside the package: versions are not pinned"
    wanted = differing(lock, here, lock)
    if wrong := [f"{name} {here[name]} instead of {pins(lock)[name][0]}" for name in wanted]:
        return WARNING, f"{len(wrong)} differ from requirements.lock: {'; '.join(wrong[:5])}"
    return OKAY, "every installed version is the one in requirements.lock"


def _machine() -> tuple[str, str]:
    from ...sweeps.machine.cgroups import available_cpus, free_memory_mb
    from ..planning.environment import cpu_model, memory_mb

    cores = available_cpus()
    free = free_memory_mb()
    total, left = memory_mb() / 1024, free / 1024
    text = f"{cores} CPUs ({cpu_model()}), {total:.1f} GB of memory, {left:.1f} of it free here"
    if free > 3000:
        return OKAY, text
    return WARNING, f"{text}; with less than 3 GB free run one trial at a time: --workers 1"


def _nearest(folder: Path) -> Path:
    """The folder itself, or the one above it that exists and will hold it."""
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())


def _store(runs: Path) -> tuple[str, str]:
    folder = _nearest(runs)
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as scratch:
        probe = Path(scratch, "probe")
        start = time.perf_counter()
        with open(probe, "wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        os.replace(probe, probe.with_suffix(".moved"))
        took = (time.perf_counter() - start) * 1000
    return OKAY, f"{folder}: write, fsync and rename take {took:.1f} ms"


def _run_lock(runs: Path) -> tuple[str, str]:
    """Two drivers on one run would write over each other: the second must find it taken."""
    from ...sweeps.store.run_lock import RunLock, RunLocked

    folder = _nearest(runs)
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as run, RunLock(Path(run)):
        try:
            RunLock(Path(run)).acquire().release()
        except RunLocked:
            return OKAY, "a run in use is refused to other processes"
    return PROBLEM, f"two processes can take the same run in {folder}: use another disk"


def _disk(runs: Path) -> tuple[str, str]:
    folder = _nearest(runs)
    free = shutil.disk_usage(folder).free / 2**30
    text = f"{free:.1f} GB free in {folder}"
    if free > 2:
        return OKAY, text
    clean = f"bench clean {shlex.quote(str(runs))}/*/"
    return PROBLEM, f"{text}; a sweep needs 2: {clean}, or --runs on another disk"


def _files() -> tuple[str, str]:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= 1024:
        return OKAY, f"{soft} at once"
    return WARNING, f"{soft} at once; Ray needs 1024 or more: ulimit -n 4096"


def _shm() -> tuple[str, str]:
    path = Path("/dev/shm")
    way = "docker run --shm-size=2g, or mount a tmpfs of that size there"
    if not path.exists():
        return WARNING, f"/dev/shm is missing, without which Ray's object store is slow: {way}"
    free = shutil.disk_usage(path).free / 2**20
    text = f"{free:.0f} MB free in /dev/shm"
    return (OKAY, text) if free > 512 else (WARNING, f"{text}; Ray needs 512: {way}")


def _torch() -> tuple[str, str]:
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return OKAY, f"{torch.__version__}, {gpus} GPUs"


def _ray() -> tuple[str, str]:
    from ...sweeps.workers.ray_cluster import start_ray, stop_ray
    from ...sweeps.workers.ray_start import ray_folder

    start = time.perf_counter()
    start_ray(slots=1)
    import ray

    try:
        took = time.perf_counter() - start
        return OKAY, f"{ray.__version__} starts in {took:.1f} s, with its files in {ray_folder()}"
    finally:
        stop_ray()


def _mlflow() -> tuple[str, str]:
    uri = os.environ.get("TABSWEEP_TRACKING_URI", "")
    if not uri:
        return OKAY, "SQLite in each run's folder (set TABSWEEP_TRACKING_URI for a server)"
    if uri == "none":
        return OKAY, "off (TABSWEEP_TRACKING_URI is none)"
    parsed = urlparse(check(uri))
    if parsed.scheme not in ("http", "https"):
        return OKAY, f"{parsed.scheme} store"
    port = f":{parsed.port}" if parsed.port else ""
    where = f"{parsed.scheme}://{parsed.hostname}{port}{parsed.path.rstrip('/')}"
    status = anonymous_status(f"{where}/api/2.0/mlflow/experiments/search?max_results=1")
    if status in (401, 403):
        return OKAY, f"{where} refuses requests without credentials"
    if status != 200:
        return PROBLEM, f"{where} answers {status}"
    if not is_loopback(parsed.hostname or ""):
        return (
            PROBLEM,
            f"{where} accepts requests without credentials: start it with --app-name basic-auth",
        )
    return OKAY, f"{where} answers; it needs no credentials and is open to this machine alone"
