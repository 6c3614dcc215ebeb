"""What the driver keeps of workers and nodes answers as a plain look at all of them would."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from tabsweep.benchmark.perf.simulated_ray import GPU_MB, SimulatedRay, homogeneous, mixed, node_of
from tabsweep.sweeps.study import Needs
from tabsweep.sweeps.trial import DONE, Limits, Result, Trial
from tabsweep.sweeps.workers import ray_actors, supervisor
from tabsweep.sweeps.workers.free_actors import Deadlines, FreeActors
from tabsweep.sweeps.workers.free_nodes import LeastFirst
from tabsweep.sweeps.workers.placement import Placement, Shape
from tabsweep.sweeps.workers.pool import Job
from tabsweep.sweeps.workers.ray_cluster import Node
from tabsweep.sweeps.workers.ray_pool import RayWorkerPool

SHARES = (0.0, 0.0, 1 / 8, 1 / 3, 0.5, 1.0)
MEMORIES = (1024.0, 2048.0, 3000.0, 4096.0)
SHAPES = st.builds(Shape, st.integers(1, 4), st.sampled_from(SHARES), st.sampled_from(MEMORIES))


@dataclass(eq=False)
class Worker:
    """What the plain scans need of an actor."""

    number: int
    shape: Shape
    node: Node = field(default_factory=lambda: Node("n", "n", 1, 0, 1.0))
    gpu: int = -1
    jobs: int = 0
    starting: bool = False
    worn: bool = False


def runs(worker: Shape, job: Shape) -> bool:
    """Whether a worker of one shape can run the jobs of another."""
    alike = (worker.threads, worker.gpus) == (job.threads, job.gpus)
    return alike and worker.memory_mb >= job.memory_mb


def rests_of(node: Node, workers: list[Worker]) -> list[float]:
    """What the workers leave of each GPU of a node."""
    shares = [
        [w.shape.gpus for w in workers if w.node.id == node.id and w.gpu == gpu]
        for gpu in range(node.gpus)
    ]
    return [round(1.0 - sum(of_one), 6) for of_one in shares]


def tightest(rests: list[float], share: float) -> int:
    """The GPU with the least room of those with room for a share, -1 for none."""
    fits = [(rest, gpu) for gpu, rest in enumerate(rests) if rest >= share - 1e-5]
    return min(fits)[1] if share and fits else -1


def plain_place(
    nodes: list[Node],
    limit: int | None,
    reserve: int,
    workers: list[Worker],
    shape: Shape,
    *,
    ending_idle: bool,
) -> str | None:
    """The rules of `Placement.place`, read off all nodes and workers."""
    gone = [worker for worker in workers if not worker.jobs] if ending_idle else []
    used = sum(w.shape.threads for w in workers) - sum(w.shape.threads for w in gone)
    if limit is not None and limit - used < shape.threads:
        return None
    found, stay = [], [worker for worker in workers if worker not in gone]
    idle_gpus = sum(math.ceil(round(sum(rests_of(node, stay)), 5)) for node in nodes)
    if limit is not None and not shape.gpus:
        if limit - used - min(reserve * idle_gpus, limit // 2) < shape.threads:
            return None
    for node in nodes:
        there, rests = [w for w in stay if w.node.id == node.id], rests_of(node, stay)
        threads = node.cpus - sum(worker.shape.threads for worker in there)
        memory = round(node.memory_mb - sum(worker.shape.memory_mb for worker in there), 6)
        left = threads if shape.gpus else threads - math.ceil(round(sum(rests), 5)) * reserve
        fits = not shape.gpus or tightest(rests, shape.gpus) >= 0
        if left >= shape.threads and memory >= shape.memory_mb and fits:
            found.append((node.gpus > 0 and not shape.gpus, -left, node.id))
    return min(found)[2] if found else None


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_worker_gets_the_node_that_a_look_at_all_nodes_would_choose(data):
    sizes = st.tuples(st.integers(1, 6), st.sampled_from((0, 0, 1, 2)), st.integers(2, 12))
    nodes = {
        f"n{i}": Node(f"n{i}", f"h{i}", cpus, gpus, 1024.0 * memory)
        for i, (cpus, gpus, memory) in enumerate(data.draw(st.lists(sizes, min_size=1, max_size=9)))
    }
    limit = data.draw(st.none() | st.integers(1, 20))
    placement, workers, refused, reserve = Placement(nodes, limit), [], set(), 0
    there = dict(nodes)
    for number in range(data.draw(st.integers(1, 40))):
        act = data.draw(st.sampled_from(("start",) * 6 + ("end", "job", "job", "nodes", "rule")))
        if act == "start":
            shape = data.draw(SHAPES)
            found = placement.place(shape)
            if found is not None:
                gpu = tightest(rests_of(found, workers), shape.gpus)
                workers.append(Worker(number, shape, found, gpu))
                placement.add(workers[-1])
        elif act == "end" and workers:
            placement.remove(workers.pop(data.draw(st.integers(0, len(workers) - 1))))
        elif act == "job" and workers:
            worker = workers[data.draw(st.integers(0, len(workers) - 1))]
            worker.jobs = 1 - worker.jobs
            placement.mark(worker, idle=not worker.jobs)
        elif act == "nodes":
            there = {id: nodes[id] for id in nodes if data.draw(st.booleans())}
            placement.nodes = there
        elif act == "rule" and data.draw(st.booleans()):
            reserve = data.draw(st.integers(0, 2))
            placement.reserve = reserve
        elif act == "rule":
            refused.add(data.draw(st.sampled_from(sorted(nodes))))
            for id in refused:
                placement.refuse(id, "other libraries")
        usable = [node for id, node in there.items() if id not in refused]
        shape = data.draw(SHAPES)
        for ending_idle in (False, True):
            found = placement.place(shape, ending_idle=ending_idle)
            want = plain_place(usable, limit, reserve, workers, shape, ending_idle=ending_idle)
            assert (found and found.id) == want


def test_a_shape_follows_the_nodes_that_there_are_now():
    """Answers are remembered, but not beyond a change."""
    placement = Placement({"a": Node("a", "a", 8, 0, 8192.0)})
    needs = Needs(threads=16, memory_mb=9000.0)
    assert placement.shape(needs) == Shape(8, 0.0, 8192.0)
    placement.nodes = {**placement.nodes, "b": Node("b", "b", 32, 1, 65_536.0)}
    assert placement.shape(needs) == Shape(16, 0.0, 16_384.0)
    assert placement.shape(Needs(gpu_mb=1000.0)) == Shape(1, 1.0, 1024.0)
    placement.know_gpu("b", 4000.0)
    assert placement.shape(Needs(gpu_mb=1000.0)) == Shape(1, 0.25, 1024.0)
    placement.refuse("b", "other libraries")
    assert placement.shape(Needs(gpu_mb=1000.0)) is None


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 3))
def test_a_job_goes_to_the_actor_that_a_look_at_all_actors_would_choose(data, depth):
    free, actors = FreeActors(depth), {}
    for number in range(data.draw(st.integers(1, 40))):
        if not actors or data.draw(st.integers(0, 2)) == 0:
            actors[number] = Worker(number, data.draw(SHAPES), starting=True)
        actor = actors[data.draw(st.sampled_from(sorted(actors)))]
        if data.draw(st.integers(0, 9)) == 0 and len(actors) > 1:
            if data.draw(st.booleans()):  # one that was never put is never dropped
                free.put(
                    actor.number, actor.shape, actor.jobs, starting=actor.starting, worn=actor.worn
                )
                free.drop(actor.number)
                del actors[actor.number]
                continue
        actor.jobs = data.draw(st.integers(0, depth))
        actor.starting = actor.starting and data.draw(st.booleans())
        actor.worn = actor.worn or data.draw(st.integers(0, 9)) == 0
        for one in actors.values():
            free.put(one.number, one.shape, one.jobs, starting=one.starting, worn=one.worn)
        shape = data.draw(SHAPES)
        serve = [actor for actor in actors.values() if runs(actor.shape, shape)]
        able = [actor for actor in serve if actor.jobs < depth and not actor.worn]
        want = min(able, key=lambda a: (a.jobs, a.starting), default=None)
        assert free.best(shape) == (want and want.number)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 30)), max_size=80))
def test_an_actor_is_overdue_when_a_look_at_all_deadlines_says_so(moves):
    deadlines, true = Deadlines(), {}
    for now, (number, after) in enumerate(moves):
        if after == 0:
            true.pop(number, None)
            deadlines.drop(number)
        else:  # a new head of its queue: earlier or later than the one before
            true[number] = float(now + after)
            deadlines.note(number, true[number])
        found = deadlines.passed(now, lambda n: true.get(n, math.inf))
        assert found == sorted(n for n, at in true.items() if at < now)
        for number in found:  # they are ended
            del true[number]
            deadlines.drop(number)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=300))
def test_the_least_of_a_changing_set_is_always_known(moves):
    kept, true = LeastFirst(), set()
    for adds, key in moves:
        (kept.add if adds else kept.discard)(key)
        (true.add if adds else true.discard)(key)
        assert kept.first() == min(true, default=None) and len(kept) == len(true)
    assert list(kept.in_order()) == sorted(true)


def test_what_was_deleted_does_not_pile_up():
    kept: LeastFirst[int] = LeastFirst()
    kept.add(-1)
    for key in range(10_000):
        kept.add(key)
        kept.discard(key)
    assert len(kept._heap) < 1000 and len(kept._in_heap) < 1000


def test_jobs_of_all_shapes_end_and_no_node_holds_more_than_it_has():
    """The pool on a simulated cluster: shapes take turns, so that idle workers make way."""
    nodes = mixed(12)
    calls = SimulatedRay(nodes, lambda trial, data: Result(status=DONE), trial_s=0.01)
    pool = RayWorkerPool(lambda trial: None, lambda key: None, calls=calls)
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


def busy_for(nodes: dict[str, Node], needs: list[Needs], slots: int, warmed: int = 0) -> float:
    """Simulated seconds until trials of 10 s with these needs have ended, in their order."""
    calls = SimulatedRay(nodes, lambda trial, data: Result(status=DONE), trial_s=10.0)
    pool = RayWorkerPool(lambda trial: None, lambda key: None, slots=slots, calls=calls)
    pool.warm(warmed)
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
    assert busy_for(nodes, [plain] * 32 + [larger] * 64, 16, warmed=16) < 1.5 * 60
    node = node_of(0, 32, 8)
    assert busy_for({node.id: node}, [half] * 160, 32) < 1.5 * 100


def test_the_cpus_beside_gpus_are_kept_within_a_limit_below_the_clusters():
    node = node_of(0, 16, 2)
    placement = Placement({node.id: node}, limit=8)
    placement.reserve = 1
    held = 0
    while (found := placement.place(Shape(1, 0.0, 1024.0))) is not None:
        placement.add(Worker(held, Shape(1, 0.0, 1024.0), found, jobs=1))
        held += 1
    assert held == 6 and placement.place(Shape(1, 1.0, 1024.0)) is not None
    placement.reserve = 0
    assert placement.place(Shape(1, 0.0, 1024.0)) is not None


def test_a_whole_gpu_is_not_put_together_from_parts_of_two():
    node = Node("n", "n", 8, 2, 65_536.0)
    placement = Placement({"n": node})
    halves = [Worker(number, Shape(1, 0.5, 1024.0), node) for number in range(4)]
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


class OtherGpus(SimulatedRay):
    """Ray with another choice of GPUs than the placement thinks: the one with most room. A worker
    for whose share no GPU has room waits."""

    def __init__(self, node: Node) -> None:
        super().__init__({node.id: node}, lambda trial, data: Result(status=DONE), trial_s=20.0)
        self.rests, self.held = [1.0] * node.gpus, {}
        self.waiting, self.n_waited = [], 0

    def start(self, body, *args, **options):
        actor = super().start(body, *args, **options)
        self.waiting.append((actor, options["num_gpus"], []))
        self.assign()
        self.n_waited += any(actor is one for one, _, _ in self.waiting)
        return actor

    def call(self, actor, method, *args):
        number = super().call(actor, method, *args)
        for one, _, calls in self.waiting:
            if one is actor:  # nothing of it is answered before it is up
                calls += [call for call in self._pending if call[1] == number]
                self._pending = [call for call in self._pending if call[1] != number]
                heapq.heapify(self._pending)
        return number

    def kill(self, actor):
        self.waiting = [one for one in self.waiting if one[0] is not actor]
        if actor in self.held:
            gpu, share = self.held.pop(actor)
            self.rests[gpu] += share
        self.assign()

    def assign(self):
        for one in list(self.waiting):
            actor, share, calls = one
            gpu = max(range(len(self.rests)), key=self.rests.__getitem__)
            if self.rests[gpu] >= share - 1e-9:
                self.rests[gpu] -= share
                self.held[actor] = gpu, share
                self.waiting.remove(one)
                for call in calls:
                    heapq.heappush(self._pending, call)


def test_a_worker_that_waits_for_its_gpu_is_no_fault_of_its_node(monkeypatch):
    node = node_of(0, 8, 2)
    calls = OtherGpus(node)
    for module in (ray_actors, supervisor):
        monkeypatch.setattr(module, "awake_s", calls.clock)
    monkeypatch.setattr(ray_actors, "crash_cause", lambda name: None)
    monkeypatch.setattr(OtherGpus, "leaving", lambda self, node: False, raising=False)
    pool = RayWorkerPool(lambda trial: None, lambda key: None, slots=8, calls=calls)
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
    assert (len(ended), calls.n_waited, given_up) == (3, 1, 1)
    assert not [text for kind, text in pool.news() if kind == "warning"]
