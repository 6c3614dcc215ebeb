"""What a worker process does around a trial: cached data, memory limits, captured output.

`TrialWorker` is the body of an actor of Ray, or of a plain process.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from ...common import fit_progress
from ..machine.awake_clock import awake_s
from ..machine.cgroups import free_memory_mb
from ..machine.output_capture import captured, remove_abandoned
from ..machine.process_tree import kill_started, tree_cpu_s
from ..store.checkpoints import Checkpoints
from ..trial import FAILED, Limits, Result, Trial, failure
from .interruption import Interrupted, SignalWatch
from .pool import RunTrial, guarded
from .ray_start import own_folder

# What a library that reserves GPU memory at once may go by: the worker's share of its GPU.
GPU_SHARE = "TABSWEEP_GPU_SHARE"
CONTEXT_MB = 600.0  # of GPU memory: a CUDA context takes no more, but for debuggers
MAX_CACHED = 64  # datasets in a worker's memory at once
TREE_S = 1.0  # between two looks at the processes that a fit started
FREE = 0.9  # of the memory that is free on the machine, as the most that a trial may take
CROWDED = (
    0.25  # of a trial's memory limit: earlier trials may have left so much before it is looked at
)

# What every node must have in common with the driver: {"numpy": "2.4.6", ...}.
Common = Callable[[], Mapping[str, str]]


def output_file(worker: str) -> Path:
    """The file in which a worker's trial writes what it prints, on the worker's own machine."""
    return output_folder() / f"{worker}.out"


def output_folder() -> Path:
    """The folder of such files, which only this user may read. Raises PermissionError."""
    return own_folder(tempfile.gettempdir())


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> str:
    """ "numpy 2.4.5 instead of 2.4.6; ..." or "" where nothing differs.

    Releases are compared: the builds of one release, such as torch's for CPUs and for CUDA, may
    differ, as where only some machines have a GPU.

    >>> differences({"torch": "2.13.0+cpu", "ray": "2.60.0"}, {"torch": "2.13.0", "ray": "2.59.0"})
    'ray 2.59.0 instead of 2.60.0'
    """
    wrong = [
        f"{name} {found.get(name, 'absent')} instead of {value}"
        for name, value in sorted(wanted.items())
        if found.get(name, "absent").partition("+")[0] != value.partition("+")[0]
    ]
    more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return "; ".join(wrong[:5]) + more


class WorkerLink(Protocol):
    """Ray, or a plain process of the driver's machine, as a `TrialWorker` sees it.

    pages: a part of the names of the files whose mapped pages workers share.
    """

    pages: str

    def get(self, ref: Any) -> Any:
        """The value of a reference. Raises MemoryError where it does not fit."""

    def report(self, worker: str, cause: str, **facts: Any) -> None:
        """Tell the driver why this process is about to end itself."""

    def checkpoints(self, keeper: Any) -> Checkpoints:
        """The checkpoints behind what the driver sent for them."""


class IncompatibleWorker(Exception):
    """This worker's machine has other code or libraries than the driver's."""


class GpuSpoilt(Exception):
    """An earlier trial has made this process's GPU unusable: the trial has not begun here."""


class TrialWorker:
    """Runs one trial at a time, with its data cached between calls.

    `gpus` is the share of a GPU that it holds, 0.0 for none.
    `expected` is what `common()` returns on the driver's node; a worker on whose node it returns
    something else runs nothing.
    """

    def __init__(
        self,
        link: WorkerLink,
        run_trial: RunTrial,
        name: str,
        paths: list[str],
        common: Common | None,
        expected: Mapping[str, str],
        gpus: float,
    ) -> None:
        if not gpus:  # Ray leaves the variable alone for an actor without a GPU
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ[GPU_SHARE] = str(min(float(gpus), 1.0) or 1.0)
        for path in reversed(paths):
            if path not in sys.path:
                sys.path.insert(0, path)
        remove_abandoned(output_folder())
        self._link = link
        self._run_trial = run_trial
        self._name = name
        self._wrong = differences(expected, common()) if common else ""
        self._gpu = gpus > 0
        self._data: dict[str, Any] = {}
        self._limit_mb = 0.0
        self._free_mb = self._full_mb = math.inf  # that are free for a trial; resident then
        self._base_mb = 0.0  # resident before the first trial
        self._store_mb = 0.0  # of earlier trials' data, in pages that all workers here share
        self._watching = False
        self._spoilt = False
        self._begun: tuple[float, float, float, Limits] | None = None  # of a trial that runs
        self._signals = SignalWatch()

    def ready(self) -> dict[str, Any]:
        """pid, wrong ("" or what differs from the driver's node), and gpu_mb and context_mb of
        `hold_to_share`, 0.0 without a GPU."""
        share = float(os.environ[GPU_SHARE])
        gpu_mb, context_mb = hold_to_share(share) if self._gpu else (0.0, 0.0)
        told = {"gpu_mb": gpu_mb, "context_mb": context_mb}
        return {"pid": os.getpid(), "wrong": self._wrong, **told}

    def run(
        self, trial: Trial, data_key: str, data_ref: list[Any], limits: Limits, keeper: Any
    ) -> Result:
        """Run a trial; its failures are results. Raises IncompatibleWorker, GpuSpoilt,
        TrialRefused, and TrialInterrupted where a signal reached this process before the end of the
        trial.

        data_ref: [a reference of the data], fetched once for each data_key; [] without data.
        keeper: what keeps checkpoints, or None.
        """
        if self._wrong:
            raise IncompatibleWorker(self._wrong)
        if self._spoilt:
            raise GpuSpoilt("an earlier trial has made the GPU of this process unusable")
        self._signals.check()
        self._guard_memory(limits.memory_mb)
        self._make_room()
        try:
            self._fetch(data_key, data_ref)
        except MemoryError:
            message = f"the data does not fit into the trial's limit of {limits.memory_mb:g} MB"
            return failure("oom", message)
        kept = self._link.checkpoints(keeper) if keeper is not None else None
        fit_progress.forget()
        with captured(path=output_file(self._name)) as output:
            self._begun = time.process_time(), tree_cpu_s(), awake_s(), limits
            try:
                result = self._guarded(trial, self._data[data_key], kept)
            finally:
                self._begun = None
        self._signals.check(failed=result.status == FAILED)
        self._spoilt = result.cause == "gpu_error"
        return replace(result, output=output.text())

    def _fetch(self, data_key: str, data_ref: list[Any]) -> None:
        """Bring data into this process, once. Raises MemoryError where it does not fit."""
        if data_key in self._data:
            return
        if len(self._data) >= MAX_CACHED:
            self._data.pop(next(iter(self._data)))
        self._data[data_key] = self._link.get(data_ref[0]) if data_ref else None

    def _guarded(self, trial: Trial, data: Any, checkpoints: Any) -> Result:
        """The trial's result. Every exception of its own code is a failure, except one that a
        signal caused: `check` tells them apart."""
        try:
            with self._signals.trial():
                return guarded(self._run_trial, trial, data, checkpoints, passed=())
        except Interrupted as interruption:
            return failure("killed", f"{interruption}")  # never seen: `check` raises

    def _guard_memory(self, limit_mb: float) -> None:
        """Enforce a memory limit twice: the kernel refuses data beyond it, and a thread ends the
        process if its resident memory exceeds it, since some libraries map memory otherwise.

        A limit above what is free now is lowered to that: the kernel would kill a process, this one
        or another, and nobody would know why.
        """
        self._free_mb = FREE * free_memory_mb()
        self._full_mb = _own_mb(RESIDENT) + self._free_mb
        limit_mb = min(limit_mb, self._free_mb)
        if limit_mb == self._limit_mb:
            return
        self._limit_mb = limit_mb
        try:
            limit = int((_own_mb(DATA) + limit_mb) * 2**20)
            # CUDA maps far more memory than it uses: beside a GPU the thread alone enforces it.
            if not self._gpu:
                resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
        except (ValueError, OSError):
            pass  # not every system has this limit; then the thread alone enforces it
        if not self._watching:
            self._watching = True
            self._base_mb = _own_mb(RESIDENT)
            threading.Thread(target=self._watch, daemon=True).start()

    def _make_room(self) -> None:
        """Before a trial: the cached data of earlier ones must not count as its memory. What it
        needs of them is fetched again; pages of Ray's object store stay where they are."""
        if _own_mb(RESIDENT) > self._base_mb + self._store_mb + CROWDED * self._limit_mb:
            self._data.clear()
            self._store_mb = _mapped_mb(self._link.pages)

    def _watch(self) -> None:
        looked, begun_tree, tree_s = 0.0, -1.0, 0.0
        while True:
            time.sleep(0.1)
            try:
                now_mb = _own_mb(RESIDENT)
            except (OSError, MemoryError):  # no descriptor or no byte is left at this moment
                continue
            if now_mb > self._base_mb + self._store_mb + 1.25 * self._limit_mb:
                self._end("oom")
            if now_mb > self._full_mb:
                self._end("oom", reason=f"only {self._free_mb:.0f} MB of memory were free for it")
            begun = self._begun
            if begun is None:
                continue
            own, tree, since, limits = begun
            if tree != begun_tree or time.monotonic() - looked > TREE_S:
                looked, begun_tree, tree_s = time.monotonic(), tree, tree_cpu_s() - tree
            cpu_s = max(time.process_time() - own, tree_s)
            if cpu_s > limits.timeout_s:
                self._end("timeout", cpu_s, f"more than {limits.timeout_s:g} s")
            elif awake_s() - since > limits.wall_s:
                late = f"in {limits.wall_s:g} s on the clock, ten times its limit"
                self._end("timeout", cpu_s, f"{late} of {limits.timeout_s:g} s")

    def _end(self, cause: str, cpu_s: float = 0.0, why: str = "", *, reason: str = "") -> None:
        """End this process. The record of a trial that a limit of time ends has what it used.
        reason: why its memory ended before the trial's own limit."""
        reached = ", ".join(filter(None, [why, fit_progress.in_words()]))
        costs = {
            "cpu_s": cpu_s,
            "peak_ram_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        message = f"used {cpu_s:.1f} s of CPU time, {reached}"
        try:
            self._link.report(self._name, cause, message=message, costs=costs, reason=reason)
        finally:  # also where the driver cannot be told: memory must not grow on
            try:
                kill_started()
            finally:
                os._exit(137)


def hold_to_share(share: float) -> tuple[float, float]:
    """(memory, context) in MB, zeros without a GPU: the GPU memory that was free when this process
    came up, and how much of it the process's CUDA context takes, at most CONTEXT_MB. On a shared
    GPU torch gets no more than the share, less the context."""
    try:
        import torch

        free, total = torch.cuda.mem_get_info()  # makes the context
        taken = total - free  # by this context, and by the processes that came before
        context = min(taken, CONTEXT_MB * 2**20)
        if share < 1.0:
            torch.cuda.set_per_process_memory_fraction(max(0.0, share - context / total))
    except (ImportError, RuntimeError, AssertionError):
        return 0.0, 0.0
    return (free + context) / 2**20, context / 2**20


RESIDENT, DATA = 1, 5  # fields of statm


def _own_mb(field: int) -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[field]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _mapped_mb(pages: str) -> float:
    """Resident pages of files whose names hold `pages`, of which data without a copy is made."""
    import psutil

    return sum(m.rss for m in psutil.Process().memory_maps() if pages in m.path) / 2**20
