"""The Ray pool on several nodes of one machine with GPUs in name only."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from engine_cases import study_of
from ray.cluster_utils import Cluster
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.events import (
    Beat,
    NodeJoined,
    NodeLost,
    TrialEnded,
    TrialLost,
    Warned,
    WorkerLost,
)
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Needs, Study
from tabsweep.sweeps.trial import DONE, Limits, Result, Trial
from tabsweep.sweeps.workers import crash_report, ray_calls
from tabsweep.sweeps.workers.actor_pool import ActorPool
from tabsweep.sweeps.workers.actors import TrialActor
from tabsweep.sweeps.workers.placement import Placement, Shape
from tabsweep.sweeps.workers.pool import ClusterLost, Job
from tabsweep.sweeps.workers.ray_cluster import nodes, on_node, start_ray
from tabsweep.sweeps.workers.ray_private import fewer_parts
from tabsweep.sweeps.workers.ray_start import daemons_below
from tabsweep.sweeps.workers.ray_thread import RAY
from tabsweep.sweeps.workers.trial_actor import GPU_SHARE

pytestmark = pytest.mark.xdist_group("ray")

NODE = "TABSWEEP_TEST_NODE"


def where(trial: Trial, data: Any) -> Result:
    """Says where it ran, and with which GPUs."""
    with open(trial.config["log"], "a") as log:
        log.write(f"start {trial.model} {trial.fold} {os.environ.get(NODE)} {time.monotonic()}\n")
    time.sleep(trial.config["seconds"])
    while trial.config["until"] and not Path(trial.config["until"]).exists():
        time.sleep(0.05)
    info = {"node": os.environ.get(NODE), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}
    info |= {"share": os.environ.get(GPU_SHARE)}
    return Result(status=DONE, val={"loss": 0.0}, info={**info, "data": data})


def prints_and_dies(trial: Trial, data: Any) -> Result:
    print(f"the last words on {os.environ.get(NODE)}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("dead")


def node_name() -> dict[str, str]:
    return {"libraries": "old" if os.environ.get(NODE) == "different" else "new"}


def study(
    name: str,
    log: Path,
    *,
    seconds: float = 0.05,
    until: Path | str = "",
    needs: Needs | None = None,
) -> Study:
    """One trial of `seconds`, and then until the file `until` is there."""
    model, _, fold = name.partition(" ")
    config = {"log": str(log), "seconds": seconds, "until": str(until)}

    trial = Trial("d", int(fold), model, config, 0, {"name": name})
    limits = Limits(timeout_s=60.0, memory_mb=500.0)
    return study_of(trial, limits, needs=needs or Needs(), data_key="d")


class Machines:
    """A Ray cluster whose nodes are processes here; the head has no CPU for trials."""

    def __init__(self) -> None:
        os.environ[NODE] = "driver"
        os.environ["RAY_worker_niceness"] = "0"
        with fewer_parts():
            self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
            start_ray(slots=None, address=self.cluster.address)
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    def add(self, name: str, env: Mapping[str, str] = MappingProxyType({}), **more: Any) -> Any:
        with fewer_parts():
            made = self.cluster.add_node(
                num_cpus=2, env_vars={NODE: name, **env}, object_store_memory=80 * 2**20, **more
            )
        self.cluster.wait_for_nodes()
        return made

    def close(self) -> None:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        ray.shutdown()
        self.cluster.shutdown()
        del os.environ[NODE]


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    made = Machines()
    try:
        yield made
    finally:
        made.close()


class Run:
    """One engine on one pool, with what it wrote."""

    def __init__(
        self,
        folder: Path,
        studies: list[Study],
        during: Any = None,
        run_trial: Any = where,
        **more: Any,
    ) -> None:
        self.events: list[Any] = []
        ledger = Ledger(folder, write=True)
        self.pools: list[ActorPool] = []

        def pool() -> ActorPool:
            self.pools.append(ActorPool(run_trial, lambda key: f"data {key}", **more))
            return self.pools[0]

        def listener(event: Any) -> None:
            self.events.append(event)
            if during is not None:
                during(event)

        try:
            self.tally = Engine(studies, ledger=ledger, pool=pool, listener=listener).run()
            self.records = list(ledger.records("result"))
            self.deaths = list(ledger.records("death"))
        finally:
            ledger.close()

    def info(self, model: str, key: str) -> list[Any]:
        return [r["info"][key] for r in self.records if r["model"] == model]


class Where:
    """An actor that knows its GPUs."""

    def gpus(self) -> list[int]:
        return [int(gpu) for gpu in ray.get_gpu_ids()]


def test_ray_puts_shares_on_the_gpus_that_the_placement_thinks(machines):
    made = machines.add("shares", num_gpus=3)
    node = nodes()[made.node_id]
    placement, live = Placement({node.id: node}), []
    try:
        for share in (0.5, 1.0, 1 / 3, 0.5, -2, 0.25, 0.5, -1, -1, 1.0, 1 / 3):
            if share < 0:  # the oldest workers end
                for _ in range(-int(share)):
                    actor, worker = live.pop(0)
                    ray.kill(actor)
                    placement.remove(worker)
                time.sleep(1.0)  # until Ray has taken note
                continue
            worker = TrialActor("w", len(live), None, Shape(0, share, 0.0), node)
            assert placement.place(worker.shape) == node
            placement.add(worker)
            how = ray.remote(num_cpus=0, num_gpus=share, scheduling_strategy=on_node(node.id))
            actor = how(Where).remote()
            live.append((actor, worker))
            assert ray.get(actor.gpus.remote(), timeout=60) == [placement.gpu_of(worker)]
    finally:
        for actor, _ in live:
            ray.kill(actor)
        machines.cluster.remove_node(made)


def test_nodes_with_gpus_and_nodes_with_other_libraries(machines, tmp_path):
    """Trials with a GPU run beside the others; a node that differs is left out with a warning, and
    where no other is left the run ends."""
    plain, gpu = machines.add("plain"), machines.add("gpu", num_gpus=1)
    different = machines.add("different")
    log = tmp_path / "log"
    try:
        studies = [study(f"cpu {i}", log) for i in range(10)]
        studies += [study(f"gpu {i}", log, needs=Needs(gpu_mb=1000.0)) for i in range(4)]
        run = Run(tmp_path / "run", studies, common=node_name)
        assert run.tally.done == 14 and not run.tally.failed and not run.deaths
        assert set(run.info("gpu", "node")) == {"gpu"} and set(run.info("gpu", "gpus")) == {"0"}
        assert set(run.info("gpu", "share")) == {"1.0"}  # nobody knows the memory of this GPU
        assert set(run.info("cpu", "gpus")) == {""} and "plain" in run.info("cpu", "node")
        assert "different" not in run.info("cpu", "node")
        assert set(run.info("cpu", "data")) == {"data d"}
        words = [line.split() for line in log.read_text().splitlines()]
        begun = {kind: min(float(w[-1]) for w in words if w[1] == kind) for kind in ("cpu", "gpu")}
        last = max(float(w[-1]) for w in words)
        assert begun["gpu"] < last - 0.1  # beside the others, not after them
        who = next(e.workers for e in run.events if isinstance(e, Beat) and e.workers)
        assert {"name", "host", "threads", "gpus", "trial", "since_s", "waiting"} <= set(who[0])
        (warning,) = [e.message for e in run.events if isinstance(e, Warned)]
        assert "libraries old instead of new" in warning
        for node in (plain, gpu):
            machines.cluster.remove_node(node, allow_graceful=False)
        plain = gpu = None
        end = time.monotonic() + 60
        while len([node for node in nodes().values() if node.cpus]) > 1:
            assert time.monotonic() < end, nodes()
            time.sleep(0.2)
        with pytest.raises(ClusterLost, match="libraries old instead of new"):
            Run(tmp_path / "other", [study("cpu 9", log)], common=node_name)
    finally:
        for node in filter(None, (plain, gpu, different)):
            machines.cluster.remove_node(node)


def test_what_ran_on_a_lost_node_runs_again_elsewhere_and_that_is_no_attempt(machines, tmp_path):
    there = {"first": machines.add("first")}
    log = tmp_path / "log"
    studies = [study(f"cpu {i}", log, seconds=0.6) for i in range(13)]
    # Ray may need longer to say that a node is gone than the trials need.
    told = tmp_path / "told"
    studies.append(study("cpu 13", log, until=told))
    lost: list[str] = []

    def during(event: Any) -> None:
        if isinstance(event, NodeLost):
            told.touch()
        running = log.read_text().count("start") if log.exists() else 0
        if isinstance(event, Beat) and running and "second" not in there:
            there["second"] = machines.add("second")  # while trials go on on the first
            machines.cluster.remove_node(there["first"], allow_graceful=False)
            lost.extend(line.split()[2] for line in log.read_text().splitlines())

    try:
        run = Run(tmp_path / "run", studies, during)
    finally:
        machines.cluster.remove_node(there.get("second", there["first"]))
    assert lost and "second" in there  # a trial had begun on the node that went
    assert run.tally.done == 14 and not run.deaths
    assert {r["attempt"] for r in run.records} == {1}
    assert set(run.info("cpu", "node")) <= {"first", "second"}
    assert "second" in run.info("cpu", "node")
    assert Counter(r["id"] for r in run.records).most_common(1)[0][1] == 1
    assert {NodeJoined, NodeLost} <= {*map(type, run.events)}


def test_the_output_of_a_worker_that_dies_elsewhere_is_read_there_and_removed(
    machines, tmp_path, monkeypatch
):
    """The folder for temporary files is another one there than the driver's."""
    for name in ("WAIT_S", "MOST_S"):  # on a busy machine the answer takes long
        monkeypatch.setattr(crash_report, name, 120.0)
    monkeypatch.setattr(RAY, "answer_s", 130.0)
    far = tmp_path / "far"
    far.mkdir()
    node = machines.add("far", {"TMPDIR": str(far)})
    try:
        run = Run(tmp_path / "run", [study("cpu 0", tmp_path / "log")], run_trial=prints_and_dies)
    finally:
        machines.cluster.remove_node(node)
    said = [event.output for event in run.events if isinstance(event, TrialLost)]
    assert len(said) == 2 and run.records[0]["cause"] == "killed"
    assert {text.splitlines()[0] for text in said} == {"the last words on far"}
    dead = [event.worker for event in run.events if isinstance(event, WorkerLost)]
    (folder,) = far.glob(
        "tabsweep-*"
    )  # a worker that was up for the next trial may have left its own
    assert len(dead) == 3 and not [name for name in dead if (folder / f"{name}.out").exists()]


def large_then_death(trial: Trial, data: Any) -> Result:
    """The first trial of a worker ends with a large result, the next one stops the cluster's state
    server and kills its worker."""
    if trial.model == "dies":
        os.kill(trial.config["server"], signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGKILL)
    return Result(status=DONE, predictions={"val": np.zeros(3_000_000)})


def wake(process: psutil.Process) -> None:
    """Let a process go on, three seconds after it was stopped: later than Ray waits for it."""
    while process.status() != psutil.STATUS_STOPPED:
        time.sleep(0.05)
    time.sleep(3.0)
    process.resume()


def test_a_death_is_not_blamed_on_the_trial_before_whose_large_result_is_on_its_way(
    machines, monkeypatch
):
    """Even where Ray hears of the death late, as on a busy machine."""
    monkeypatch.setattr(ray_calls, "FETCH_S", 60.0)  # on a busy machine it takes long
    node = machines.add("far")
    pool = ActorPool(large_then_death, lambda key: None, slots=1)
    (server,) = daemons_below(("gcs_server",))
    threading.Thread(target=wake, args=[psutil.Process(server)], daemon=True).start()
    try:
        for model in ("large", "dies"):  # the second waits behind the first
            trial = Trial("d", 0, model, {"server": server}, 0, {})
            pool.submit(Job(trial, "", Limits(timeout_s=60.0, memory_mb=500.0)))
        found = []
        end = time.monotonic() + 120
        while pool.running():
            assert time.monotonic() < end
            found += pool.poll(1.0)
    finally:
        pool.close()
        machines.cluster.remove_node(node)
    ended = {outcome.job.trial.model: outcome for outcome in found}
    assert len(found) == 2 and ended["dies"].death == "killed"
    large = ended["large"].result
    assert large is not None and len(large.predictions["val"]) == 3_000_000


def touches(trial: Trial, data: Any) -> Result:
    """Reads all of its data, of which a worker has a copy (bytes) or none (an array)."""
    return Result(status=DONE, val={"loss": float(np.frombuffer(data, np.uint8).sum())})


def test_data_of_earlier_trials_is_no_memory_of_a_later_one(machines):
    """Twenty datasets of 9 MB in one worker, for trials that may use 100 MB."""
    size = 9 * 2**20
    makers = {"copied": bytes, "shared": lambda n: np.zeros(n, dtype=np.uint8)}
    keys = [f"shared {i}" for i in range(8)] + [f"copied {i}" for i in range(12)]
    node = machines.add("near")
    pool = ActorPool(touches, lambda key: makers[key.split()[0]](size), slots=1)
    found = []
    end = time.monotonic() + 240
    try:
        for key in keys:
            limits = Limits(timeout_s=60.0, memory_mb=100.0)
            pool.submit(Job(Trial(key, 0, "m", {}, 0, {}), key, limits))
            while pool.running():
                assert time.monotonic() < end
                found += pool.poll(1.0)
            pool.forget(key)
    finally:
        pool.close()
        machines.cluster.remove_node(node)
    assert [(one.death, one.result and one.result.status) for one in found] == 20 * [(None, DONE)]


def drain(machines: Machines, node: Any) -> None:
    """Tell a node to leave, within a minute."""
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION
    client = ray._raylet.GcsClient(address=machines.cluster.address)
    deadline = int(time.time() * 1000) + 60_000
    accepted, _ = client.drain_node(node.node_id, reason, "", deadline)
    assert accepted


@pytest.mark.fault(2)
def test_workers_on_a_node_that_leaves_get_no_further_trial(machines, tmp_path):
    """What they were sent may end there; no start of a worker has to fail first."""
    there = {"first": machines.add("first")}
    log = tmp_path / "log"
    studies = [study(f"cpu {i}", log, seconds=0.4) for i in range(24)]
    began: list[int] = []
    said: list[str] = []

    def on_first() -> int:
        return sum(line.split()[3] == "first" for line in log.read_text().splitlines())

    def during(event: Any) -> None:
        if isinstance(event, TrialEnded) and not began:
            drain(machines, there["first"])
            began.append(0)
        if isinstance(event, Warned):
            said.append(event.message)
            if "leaves the cluster" in said[-1]:
                began.append(on_first())
                there["second"] = machines.add("second")

    try:
        run = Run(tmp_path / "run", studies, during)
    finally:
        for node in there.values():
            machines.cluster.remove_node(node)
    assert run.tally.done == 24 and not run.deaths
    assert sum("leaves the cluster" in text for text in said) == 1
    # each of its two workers had been sent two trials at most
    assert on_first() <= began[1] + 2 * 2
    assert set(run.info("cpu", "node")) == {"first", "second"}
