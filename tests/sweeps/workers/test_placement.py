"""Which worker and which node a trial gets, on a simulated cluster."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine_cases import make_study, run_trial
from simulated_ray import GPU_MB, SimulatedRay, homogeneous, mixed, node_of
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.events import TrialEnded, Warned
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Needs, Study
from tabsweep.sweeps.trial import DONE, Limits, Result, Trial
from tabsweep.sweeps.workers import actors, supervisor
from tabsweep.sweeps.workers.actor_pool import ActorPool
from tabsweep.sweeps.workers.placement import Placement, Shape
from tabsweep.sweeps.workers.pool import Job
from tabsweep.sweeps.workers.ray_calls import RayLink
from tabsweep.sweeps.workers.ray_cluster import Node
from tabsweep.sweeps.workers.trial_actor import TrialWorker


@dataclass(eq=False)
class Worker:
    """What the placement needs to know of an actor."""

    shape: Shape
    node: Node


def test_a_shape_follows_the_nodes_that_there_are_now():
    placement = Placement({"a": Node("a", "a", 8, 0, 8192.0)})
    needs = Needs(threads=16, memory_mb=9000.0)
    assert placement.shape(needs) == Shape(8, 0.0, 8192.0)
    placement.nodes = {**placement.nodes, "b": Node("b", "b", 32, 1, 65_536.0)}
    assert placement.shape(needs) == Shape(16, 0.0, 16_384.0)
    for size in (1000.0, 9000.0):  # nothing is known of the GPU yet
        assert placement.shape(Needs(gpu_mb=size)) == Shape(1, 1.0, 1024.0)
    assert placement.shape(Needs(memory_mb=1e9)) == Shape(1, 0.0, 65_536.0)
    for left_mb, context_mb in ((4000.0, 300.0), (2700.0, 600.0)):  # the second beside the first
        placement.know_gpu("b", left_mb, context_mb)
    assert placement.shape(Needs(gpu_mb=1000.0)) == Shape(1, 1 / 3, 1024.0)
    placement.know_gpu("b", 80_000.0)
    for size, share in ((9000.0, 1 / 8), (30_000.0, 1 / 2), (float("inf"), 1.0)):
        assert placement.shape(Needs(gpu_mb=size)) == Shape(1, share, 1024.0)
    placement.refused.add("b")
    assert placement.shape(Needs(gpu_mb=1000.0)) is None


def test_a_worker_is_placed_where_room_is_left_and_within_the_limit():
    small, large = Node("a", "a", 2, 0, 4096.0), Node("b", "b", 4, 1, 8192.0)
    placement = Placement({"a": small, "b": large}, limit=4)
    one = Shape(1, 0.0, 1024.0)
    assert placement.place(one) == small  # first where no GPU is
    placement.add(Worker(Shape(2, 0.0, 1024.0), small))
    assert placement.place(one) == large
    assert placement.place(Shape(3, 0.0, 1024.0)) is None  # 2 + 3 CPUs exceed the limit
    assert placement.place(Shape(3, 0.0, 1024.0), ending_idle=True) == large
    placement.refused.add("a")
    assert placement.place(Shape(1, 0.0, 9000.0)) is None
    assert placement.place(one) == large


def test_jobs_of_all_shapes_end_and_no_node_holds_more_than_it_has():
    """The pool on a simulated cluster: shapes take turns, so that idle workers make way."""
    nodes = mixed(12)
    calls = SimulatedRay(nodes, lambda trial, data: Result(status=DONE), trial_s=0.01)
    pool = ActorPool(lambda trial: None, lambda key: None, calls=calls)
    kinds = (Needs(), Needs(4, 9000.0), Needs(1, 0.0, 9000.0), Needs(2, 3000.0), Needs(16))
    left = [
        Job(Trial("d", 0, "m", {"i": i}, 0, {}), "", Limits(), kinds[i // 40]) for i in range(200)
    ]
    ended: Counter[str] = Counter()
    while left or pool.running():
        while left and pool.room(left[-1].needs):
            pool.submit(left.pop())
        for id in nodes:
            held = [actor.shape for actor in pool._group.on(id)]
            assert sum(shape.threads for shape in held) <= nodes[id].cpus
            assert sum(shape.gpus for shape in held) <= nodes[id].gpus + 1e-9
            assert sum(shape.memory_mb for shape in held) <= nodes[id].memory_mb
        for outcome in pool.poll(1.0):
            assert outcome.result is not None and outcome.death is None
            ended[outcome.job.trial.id] += 1
    assert len(ended) == 200 and set(ended.values()) == {1}
    assert {worker["trial"] for worker in pool.workers()} == {None}
    pool.close()
    assert pool.running() == 0 and pool.workers() == []


def busy_for(nodes: dict[str, Node], needs: list[Needs], slots: int) -> float:
    """Simulated seconds until trials of 10 s with these needs have ended, in their order."""
    calls = SimulatedRay(nodes, lambda trial, data: Result(status=DONE), trial_s=10.0)
    pool = ActorPool(lambda trial: None, lambda key: None, slots=slots, calls=calls)
    left = [
        Job(Trial("d", 0, "m", {"i": i}, 0, {}), "", Limits(), one) for i, one in enumerate(needs)
    ]
    left.reverse()
    begun = calls.clock()
    while left or pool.running():
        while left and pool.room(left[-1].needs):
            pool.submit(left.pop())
        pool.poll(1.0)
    return calls.clock() - begun


def test_all_idle_workers_make_way_for_trials_of_another_shape_not_one_of_them():
    plain, larger, half = Needs(), Needs(memory_mb=1500.0), Needs(gpu_mb=40_000.0)
    nodes = homogeneous(16)
    assert busy_for(nodes, [plain] * 32 + [larger] * 64, 16) < 1.5 * 60
    node = node_of(0, 32, 8)
    assert busy_for({node.id: node}, [half] * 160, 32) < 1.5 * 100


def test_the_cpus_beside_gpus_are_kept_within_a_limit_below_the_clusters():
    node = node_of(0, 16, 2)
    placement = Placement({node.id: node}, limit=8)
    placement.reserve = 1
    held = 0
    while (found := placement.place(Shape(1, 0.0, 1024.0))) is not None:
        placement.add(Worker(Shape(1, 0.0, 1024.0), found))
        held += 1
    assert held == 6 and placement.place(Shape(1, 1.0, 1024.0)) is not None
    placement.reserve = 0
    assert placement.place(Shape(1, 0.0, 1024.0)) is not None


def ends_of(folder: Path, studies: list[Study], slots: int, gpus: int) -> dict[str, list[float]]:
    """{study: simulated seconds at which its trials of 5 to 15 s ended} on a node of 4 CPUs."""
    node = node_of(0, 4, gpus)
    calls = SimulatedRay({node.id: node}, run_trial, trial_s=10.0)
    began, ended = calls.clock(), defaultdict[str, list[float]](list)

    def listen(event: Any) -> None:
        if isinstance(event, TrialEnded) and not event.reused:
            ended[event.study.name].append(calls.clock() - began)

    ledger = Ledger(folder, write=True)
    pool = ActorPool(lambda trial: None, lambda key: None, slots=slots, calls=calls)
    Engine(studies, ledger=ledger, pool=lambda: pool, listener=listen).run()
    ledger.close()
    return ended


@pytest.mark.parametrize("slots", [4, 2])
def test_trials_that_need_no_gpu_take_no_cpu_from_those_that_do(tmp_path: Path, slots: int) -> None:
    """Studies of both kinds, one trial after the other in each: no GPU is idle before the last
    trial that needs one, also where fewer CPUs may be used than there are."""
    studies = [make_study(f"cpu {i}", n_trials=10) for i in range(8)]
    studies.append(make_study("gpu", n_trials=6, needs=Needs(gpu_mb=40_000.0)))
    ended = ends_of(tmp_path, studies, slots, gpus=1)
    assert sum(map(len, ended.values())) == 86 and len(ended["gpu"]) == 6
    assert ended["gpu"][-1] < 6 * 15.0 + 5.0


def test_a_second_gpu_is_there_when_trials_for_both_come(tmp_path: Path) -> None:
    """A search has one trial at a time, its evaluation 20 at once: the second GPU's CPU is still
    free then, though trials without a GPU have waited all the time."""
    studies = [make_study(f"cpu {i}", n_trials=60) for i in range(8)]
    needs = Needs(gpu_mb=70_000.0)
    studies.append(make_study("gpu", n_trials=2, needs=needs, seeds=list(range(100, 120))))
    ended = ends_of(tmp_path, studies, slots=4, gpus=2)
    assert sum(map(len, ended.values())) == 502 and len(ended["gpu"]) == 22
    assert ended["gpu"][-1] - ended["gpu"][1] < 20 / 2 * 12.0 + 15.0


def test_a_whole_gpu_is_not_put_together_from_parts_of_two():
    node = Node("n", "n", 8, 2, 65_536.0)
    placement = Placement({"n": node})
    halves = [Worker(Shape(1, 0.5, 1024.0), node) for _ in range(4)]
    for worker in halves:
        placement.add(worker)
    for worker in halves[::2]:  # one on each GPU
        placement.mark(worker, idle=False)
    whole = Shape(1, 1.0, 1024.0)
    assert placement.place(whole, ending_idle=True) is None
    placement.mark(halves[0], idle=True)
    assert placement.place(whole, ending_idle=True) == node
    for worker in halves[:2]:
        placement.remove(worker)
    assert placement.place(whole) == node and placement.place(Shape(1, 0.5, 1024.0)) == node


@pytest.mark.parametrize(
    ("share", "free", "most", "context"),
    [(0.25, 7600, 0.2, 400), (1.0, 7600, None, 400), (0.25, 2600, 0.175, 600)],
)
def test_torch_takes_no_more_of_a_shared_gpu_than_the_share_less_the_context(
    monkeypatch: pytest.MonkeyPatch, share: float, free: int, most: float | None, context: int
) -> None:
    told: list[float] = []
    cuda = SimpleNamespace(
        mem_get_info=lambda: (free * 2**20, 8000 * 2**20),
        set_per_process_memory_fraction=told.append,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setenv("TABSWEEP_GPU_SHARE", "")
    ready = TrialWorker(RayLink(), lambda trial, data: None, "w", [], None, {}, share).ready()
    assert (ready["gpu_mb"], ready["context_mb"]) == (free + context, context)
    assert told == ([] if most is None else [pytest.approx(most)])


class OtherGpus(SimulatedRay):
    """Ray that put two small workers on two GPUs, which the placement thinks on one: a worker with
    a whole GPU does not come up before both have gone."""

    def __init__(self, node: Node) -> None:
        super().__init__({node.id: node}, lambda trial, data: Result(status=DONE), trial_s=20.0)
        self.gone, self.waiting = [], []

    def start(self, body, *args, **options):
        actor = super().start(body, *args, **options)
        if options["num_gpus"] == 1.0 and len(self.gone) < 2:
            self.waiting.append(actor)
        return actor

    def call(self, actor, method, *args):
        return -1 if actor in self.waiting else super().call(actor, method, *args)

    def kill(self, actor):
        if actor not in self.waiting:
            self.gone.append(actor)


def test_a_worker_that_waits_for_its_gpu_is_no_fault_of_its_node(monkeypatch):
    node = node_of(0, 8, 2)
    calls = OtherGpus(node)
    for module in (actors, supervisor):
        monkeypatch.setattr(module, "awake_s", calls.clock)
    pool = ActorPool(lambda trial: None, lambda key: None, slots=8, calls=calls)
    pool._placement.know_gpu(node.id, GPU_MB)
    sizes = [20_000.0, 20_000.0, 60_000.0]
    left = [
        Job(Trial("d", 0, "m", {"i": i}, 0, {}), "", Limits(), Needs(gpu_mb=size))
        for i, size in enumerate(reversed(sizes))
    ]
    ended, given_up = set(), 0
    while left or pool.running():
        while left and pool.room(left[-1].needs):
            pool.submit(left.pop())
        for outcome in pool.poll(1.0):
            if outcome.result is None:
                given_up += 1
                left.append(outcome.job)
            else:
                ended.add(outcome.job.trial.id)
        assert calls.clock() < 50_000
    assert (len(ended), len(calls.waiting), given_up) == (3, 1, 1)
    assert not [news for news in pool.news() if isinstance(news, Warned)]
