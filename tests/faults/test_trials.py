"""Trials that misbehave on real workers: memory, time, forks, death of the process, errors.

One sweep runs every kind of bad trial at once, beside good ones. The trials write an execution log,
from which each test first shows that its fault did happen.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chaos import alive, wait_for
from engine_cases import study_of
from tabsweep.benchmark.running.run_trial import run_trial
from tabsweep.common import fit_progress
from tabsweep.datasets.catalog import load_dataset
from tabsweep.datasets.protocols import make_folds
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Needs, Study
from tabsweep.sweeps.trial import DONE, FAILED, Limits, Result, Trial
from tabsweep.sweeps.workers.actor_pool import ActorPool
from tabsweep.sweeps.workers.process_calls import ProcessCalls
from tabsweep.sweeps.workers.ray_cluster import death_of, start_ray, stop_ray

pytestmark = pytest.mark.xdist_group("ray-faults")

LIMIT_MB = 200.0
TIMEOUT_S = 0.8
HANGING = ("deadlock", "forked lock")
NAN_MODEL = """
import numpy as np

class NaN:
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)
"""


class Large:
    """Data that takes more memory than a trial may have, though its pickle is small."""

    def __reduce__(self) -> Any:
        return bytes, (int(4 * LIMIT_MB) * 2**20,)


def bad_trial(trial: Trial, data: Any) -> Result:
    """A trial that does what its identity says, between two lines of the log."""
    log = trial.identity["log"]

    def write(*words: Any) -> None:
        line = " ".join(map(str, (trial.dataset, os.getpid(), *words)))
        with open(log, "a") as file:
            file.write(f"{line}\n")

    def children() -> None:
        """A child, and a grandchild whose parent is gone."""
        child = subprocess.Popen(["sleep", "1000"])
        shell = ["bash", "-c", "sleep 1000 >/dev/null & echo $!"]
        orphan = subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=True)
        write("child", child.pid)
        write("child", orphan.stdout.strip())

    def forks(*, hang: bool) -> None:
        """A child by fork, though other threads run here; with `hang` one of them holds a lock,
        which in the child nobody will ever open."""
        lock, held = threading.Lock(), threading.Event()

        def hold() -> None:
            with lock:
                held.set()
                time.sleep(1000 if hang else 0.5)

        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        write("threads", threading.active_count())
        pid = os.fork()
        if not pid:
            if hang:
                lock.acquire()
            os._exit(int(np.ones((50, 50)).dot(np.ones(50)).sum() != 2500))
        write("child", pid)
        assert os.waitpid(pid, 0)[1] == 0

    def hog(allocate: Any) -> None:
        kept = []
        for mb in range(20, 10_000, 20):
            kept.append(allocate(20 * 2**20))
            write("allocated", mb)
            time.sleep(0.05)

    def shared(size: int) -> Any:
        block = mmap.mmap(-1, size)  # no limit of the kernel's counts shared pages
        block.write(b"x" * size)
        return block

    class AcceleratorError(RuntimeError):
        """torch's, since 2.8; some builds of torch do not fit into the trial's memory limit."""

    def cuda_error() -> None:
        """What torch raises in every call to a GPU whose context is unusable."""
        words = "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegal"
        raise AcceleratorError(words)

    write("start")
    if os.environ.get("SPOILT") == str(os.getpid()):
        cuda_error()
    match trial.dataset:
        case "cuda error":
            os.environ["SPOILT"] = str(os.getpid())
            cuda_error()
        case "spinner":
            fit_progress.reached(3, 9, "epoch")
            while True:
                pass
        case "bytes hog":
            hog(lambda size: b"x" * size)
        case "shared hog":
            hog(shared)
        case "deadlock":
            children()
            ctypes.PyDLL(None).sleep(1000)  # in C, with the interpreter's lock held
        case "forks":
            forks(hang=False)
        case "forked lock":
            forks(hang=True)
        case "suicide":
            children()
            os.kill(os.getpid(), signal.SIGKILL)
        case "no message":
            raise ZeroDivisionError
        case "exit":
            sys.exit(3)
        case "nan prediction" | "bad config":
            result = run_trial(trial, data)
            write("finish")
            return result
        case _:
            time.sleep(0.2)
    write("finish")
    return Result(status=DONE, val={"loss": 1.0})


@dataclass
class Sweep:
    """What the sweep left: records by dataset, and the log."""

    records: dict[str, list[dict[str, Any]]]
    deaths: Counter[tuple[str, str]]
    log: list[list[str]]
    tally: Any
    workers_left: int

    def one(self, name: str) -> dict[str, Any]:
        (record,) = self.records[name]
        return record

    def words(self, name: str, word: str) -> list[list[str]]:
        return [line[1:] for line in self.log if line[0] == name and line[2] == word]

    def runs(self, name: str) -> int:
        return len(self.words(name, "start"))


def one_trial(
    name: str, log: Path, *, target: str = "", timeout_s: float = 60.0, **more: Any
) -> Study:
    identity = {"log": str(log), "threads": 1, "target": target, "name": name}
    trial = Trial(name, 0, "bad", more.pop("config", {}), 0, identity)
    return study_of(trial, Limits(timeout_s=timeout_s, memory_mb=LIMIT_MB), **more)


@pytest.fixture(scope="module", params=["ray", "none"])
def outcome(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """On Ray, and in processes without it."""
    folder = tmp_path_factory.mktemp("faults")
    log = folder / "execution log"
    log.touch()
    (folder / "nan_model.py").write_text(NAN_MODEL)
    table = load_dataset("wine")
    fold = make_folds(table, "kfold", seed=0)[0]
    names = ["bytes hog", "shared hog", "suicide", "no message", "exit", "forks"]
    names += ["cuda error"]
    studies = [
        *(one_trial(name, log) for name in names),
        *(one_trial(name, log, timeout_s=TIMEOUT_S) for name in HANGING),
        one_trial("spinner", log, timeout_s=TIMEOUT_S),
        *(one_trial(f"good {i}", log) for i in range(12)),
        one_trial("wide", log, needs=Needs(threads=64)),
        one_trial("large data", log, data_key="large"),
        one_trial("nan prediction", log, data_key="wine", target="nan_model:NaN"),
        one_trial(
            "bad config",
            log,
            data_key="wine",
            target="tabsweep.models.knn:KNN",
            config={"n_neighbors": -1},
        ),
    ]
    import cloudpickle
    import ray

    with_ray = request.param == "ray"
    start_ray(slots=2) if with_ray else None
    for pickler in (ray.cloudpickle, cloudpickle):
        pickler.register_pickle_by_value(sys.modules[__name__])
    ledger = Ledger(folder / "run", write=True)
    pools = []

    def pool() -> ActorPool:
        pools.append(
            ActorPool(
                bad_trial,
                lambda key: Large() if key == "large" else (table, {0: fold}),
                slots=2,
                grace_s=0.5,
                paths=[str(folder)],
                calls=None if with_ray else ProcessCalls(2),
            )
        )
        return pools[0]

    try:
        tally = Engine(studies, ledger=ledger, pool=pool).run()
        records: dict[str, list[dict[str, Any]]] = {}
        for record in ledger.records("result"):
            records.setdefault(record["dataset"], []).append(record)
        names_of = {record["id"]: record["dataset"] for record in ledger.records("result")}
        deaths = Counter(
            (names_of[record["id"]], record["cause"]) for record in ledger.records("death")
        )
        parsed = []
        for line in log.read_text().splitlines():
            name = next(study.name for study in studies if line.startswith(f"{study.name} "))
            parsed.append([name, *line[len(name) + 1 :].split()])
        yield Sweep(records, deaths, parsed, tally, pools[0].running())
    finally:
        ledger.close()
        for pickler in (ray.cloudpickle, cloudpickle):
            pickler.unregister_pickle_by_value(sys.modules[__name__])
        stop_ray() if with_ray else None


# ---------------------------------------------------------------------- memory


@pytest.mark.fault(3)
@pytest.mark.parametrize("name", ["bytes hog", "shared hog"])
def test_a_trial_that_takes_memory_without_bound_ends_as_oom_after_one_retry(outcome, name):
    reached: dict[str, int] = {}
    for pid, _, mb in outcome.words(name, "allocated"):
        reached[pid] = max(reached.get(pid, 0), int(mb))
    assert outcome.runs(name) == 2 and not outcome.words(name, "finish")
    assert len(reached) == 2  # the second time in a fresh process
    assert all(LIMIT_MB / 2 < mb < 2 * LIMIT_MB for mb in reached.values()), reached
    record = outcome.one(name)
    assert (record["status"], record["cause"], record["attempt"]) == (FAILED, "oom", 2)
    assert record["limits"]["memory_mb"] == LIMIT_MB
    assert outcome.deaths[name, "oom"] in (1, 2)


@pytest.mark.fault(3)
def test_data_that_does_not_fit_into_the_limit_of_its_trial_is_oom_after_one_retry(outcome):
    assert outcome.runs("large data") == 0  # the trial itself never began
    record = outcome.one("large data")
    assert (record["status"], record["cause"], record["attempt"]) == (FAILED, "oom", 2)
    assert f"the trial's limit of {LIMIT_MB:g} MB" in record["message"]
    assert outcome.deaths["large data", "oom"] == 1


# ---------------------------------------------------------------------- time


@pytest.mark.fault(4)
@pytest.mark.parametrize("name", HANGING)
def test_a_trial_that_never_ends_is_killed_at_its_time_out_and_not_tried_again(outcome, name):
    assert outcome.runs(name) == 1 and not outcome.words(name, "finish")
    record = outcome.one(name)
    assert (record["status"], record["cause"], record["attempt"]) == (FAILED, "timeout", 1)
    assert f"{TIMEOUT_S:g} s" in record["message"]
    assert 0 <= record["costs"]["cpu_s"] < TIMEOUT_S / 2  # its own, not the clock's: it waits
    ((pid, _),) = outcome.words(name, "start")
    wait_for(lambda: not alive(int(pid)), "its end", timeout_s=20)
    assert outcome.deaths[name, "killed"] == 0


@pytest.mark.fault(4)
def test_a_busy_trial_ends_at_its_cpu_seconds_and_its_record_has_what_it_used(outcome):
    record = outcome.one("spinner")
    assert (record["status"], record["cause"], record["attempt"]) == (FAILED, "timeout", 1)
    assert TIMEOUT_S <= record["costs"]["cpu_s"] < 5 * TIMEOUT_S
    assert record["costs"]["peak_ram_mb"] > 50
    assert "at epoch 3 of 9" in record["message"]


@pytest.mark.fault(2, 4)
@pytest.mark.parametrize("name", ["deadlock", "suicide"])
def test_the_processes_that_a_killed_trial_started_end_with_it(outcome, name):
    pids = [int(pid) for _, _, pid in outcome.words(name, "child")]
    assert len(pids) == 2 * outcome.runs(name)
    wait_for(lambda: not any(map(alive, pids)), "their end", timeout_s=20)


# ---------------------------------------------------------------------- forks


@pytest.mark.fault(32)
def test_a_trial_that_forks_beside_running_threads_ends_well_or_by_its_time_out(outcome):
    for name in ("forks", "forked lock"):
        ((_, _, threads),) = outcome.words(name, "threads")
        assert int(threads) >= 3  # its own, and the one that watches its memory
        ((_, _, child),) = outcome.words(name, "child")
        wait_for(lambda child=child: not alive(int(child)), "the end of its child", timeout_s=20)
    assert (outcome.one("forks")["status"], outcome.runs("forks")) == (DONE, 1)
    assert outcome.one("forked lock")["cause"] == "timeout"


# ---------------------------------------------------------------------- death


@pytest.mark.fault(2)
def test_a_trial_that_kills_its_worker_ends_as_killed_after_three_attempts(outcome):
    name = "suicide"
    starts = outcome.words(name, "start")
    assert len({pid for pid, *_ in starts}) == len(starts) == 3
    assert not outcome.words(name, "finish")
    record = outcome.one(name)
    assert (record["status"], record["cause"], record["attempt"]) == (FAILED, "killed", 3)
    assert outcome.deaths[name, "killed"] == 3 and "3 times" in record["message"]


@pytest.mark.fault(31)
def test_a_gpu_that_a_trial_spoils_ends_its_worker_and_no_other_trial(outcome):
    """The good trials run in the same processes, where each would fail after it."""
    starts = outcome.words("cuda error", "start")
    assert len({pid for pid, *_ in starts}) == len(starts) == 2
    record = outcome.one("cuda error")
    assert (record["status"], record["cause"], record["attempt"]) == (FAILED, "gpu_error", 2)
    assert outcome.deaths["cuda error", "gpu_error"] == 1
    assert "illegal memory access" in record["message"]


# ---------------------------------------------------------------------- errors


@pytest.mark.fault(9, 27)
@pytest.mark.parametrize(
    ("name", "cause", "message"),
    [
        ("no message", "error", "ZeroDivisionError: (no message)"),
        ("exit", "error", "SystemExit: 3"),
        ("nan prediction", "nonfinite", "predictions on val are NaN or infinite"),
        ("bad config", "invalid_config", "n_neighbors"),
    ],
)
def test_a_trial_that_fails_by_itself_runs_once_and_says_why(outcome, name, cause, message):
    assert outcome.runs(name) == 1
    record = outcome.one(name)
    assert (record["status"], record["cause"], record["attempt"]) == (FAILED, cause, 1)
    assert message in record["message"] and "\n" not in record["message"]
    assert not record["val"] and not record["test"] and not record["predictions"]


# ---------------------------------------------------------------------- the others


@pytest.mark.fault(2, 3, 4)
def test_good_trials_beside_the_bad_ones_finish_once_each(outcome):
    for i in range(12):
        record = outcome.one(f"good {i}")
        assert (record["status"], record["val"], record["attempt"]) == (DONE, {"loss": 1.0}, 1)
        assert len(outcome.words(f"good {i}", "finish")) == 1
    assert not any(name.startswith("good") for name, _ in outcome.deaths)


def test_a_trial_that_wants_more_threads_than_there_are_runs_all_the_same(outcome):
    assert outcome.one("wide")["status"] == DONE and outcome.runs("wide") == 1


def test_every_trial_has_one_terminal_state_and_no_worker_is_left_busy(outcome):
    assert {name: len(records) for name, records in outcome.records.items()} == dict.fromkeys(
        outcome.records, 1
    )
    assert len(outcome.records) == 26 and not outcome.tally.interrupted
    assert (outcome.tally.done, outcome.tally.failed) == (14, 12)
    assert outcome.workers_left == 0


# ---------------------------------------------------------------------- Ray's words


def test_only_the_loss_of_a_node_or_the_network_is_no_attempt():
    from ray.exceptions import ActorUnavailableError, OutOfMemoryError, RayActorError

    own_death = (
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
        "Worker exit detail: (1) the process was killed by the OOM killer due to high memory "
        "usage, (2) ray stop --force was called. If it was killed by the kernel OOM killer "
        "(verifiable by checking dmesg of the OOMing node), consider enabling resource isolation "
        "to prevent node deaths by resource contention."
    )
    assert death_of(RayActorError(error_msg=own_death)) == "killed"
    node = "The actor died because its node has died. Node Id: 0123"
    assert death_of(RayActorError(error_msg=node)) == "lost"
    assert death_of(RayActorError(error_msg="gone", preempted=True)) == "lost"
    assert death_of(ActorUnavailableError("the network is down", None)) == "lost"
    low = "Task was killed due to the node running low on memory."
    assert death_of(OutOfMemoryError(low)) == death_of(RayActorError(error_msg=low)) == "oom"
