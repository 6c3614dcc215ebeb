"""The engine: order of results, kills of the driver, and deaths of workers."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine_cases import ScriptedPool, dying, make_study, prefixes, run, studies
from tabsweep.benchmark.results.slots_frame import columns_of, results_frame
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.events import TrialEnded, TrialLost, Warned
from tabsweep.sweeps.scheduling import heartbeat
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Needs, Study
from tabsweep.sweeps.trial import DONE, FAILED, failure
from tabsweep.sweeps.workers.pool import Job, JobOutcome

pytestmark = pytest.mark.usefixtures("unsynced")


# ---------------------------------------------------------------------- order


def test_neither_workers_nor_the_order_of_results_change_a_suggestion_or_a_choice(tmp_path):
    expected = None
    for seed in range(4):
        made = studies()
        pool = ScriptedPool(seed=seed, slots=1 + 2 * seed)
        found = run(tmp_path / str(seed), made, pool)
        best = {study.name: (study.state.best, study.state.best_loss) for study in made}
        assert expected in (None, (found, best))
        expected = (found, best)
        assert len(found) == 12 + 5 + 5 + 5 + 3 + 2 and all(study.finished for study in made)
        assert set(pool.submitted.values()) == {1}


def test_a_sequential_study_waits_and_a_study_without_history_runs_wide_open(tmp_path):
    for sampler, lag, widest in (("tpe", 1, 1), ("tpe", 3, 3), ("random", 1, 5), ("grid", 1, 5)):
        pool = ScriptedPool(slots=9)
        run(tmp_path / f"{sampler}{lag}", [make_study(sampler=sampler, lag=lag)], pool)
        assert pool.most == widest


class RecordingLedger(Ledger):
    def __init__(self, run: Path, log: list[tuple[Any, ...]]) -> None:
        self.log = log
        super().__init__(run, write=True)
        real = self.predictions.sync
        self.predictions.sync = lambda: (real(), log.append(("predictions",)))

    def append(self, records: Any, *, sync: bool = True) -> None:
        records = list(records)
        super().append(records, sync=sync)
        for record in records:
            if record["kind"] == "lease":
                self.log.append(("lease", record["id"]))
            elif record["kind"] == "death":
                self.log.append(("death durable" if sync else "written", record["id"]))
            elif record["kind"] in ("result", "slot"):
                key = (record["study"], record["stage"], record["index"])
                self.log.append(("durable" if sync else "written", *key))


def test_a_lease_comes_before_dispatch_and_a_synced_record_before_any_event(tmp_path):
    pool = ScriptedPool(slots=4)
    log = pool.log
    made = studies()
    for study in made:

        def tell(index: int, *rest: Any, study: Study = study, real: Any = None) -> None:
            log.append(("tell", study.name, index))
            real(index, *rest)

        real = study.sampler.tell
        study.sampler.tell = lambda *given, tell=tell, real=real: tell(*given, real=real)

    def listener(event: Any) -> None:
        if isinstance(event, TrialEnded):
            slot = event.slot
            log.append(("heard", slot.study, slot.stage, slot.index))

    ledger = RecordingLedger(tmp_path, log)
    Engine(made, ledger=ledger, pool=pool, listener=listener).run()
    ledger.close()
    submits = [i for i, event in enumerate(log) if event[0] == "submit"]
    assert len(submits) == 30
    for i in submits:
        assert ("lease", log[i][1]) in log[:i]
    tells = [i for i, event in enumerate(log) if event[0] == "tell"]
    assert len(tells) == 27
    for i in tells:
        assert ("durable", log[i][1], "tune", log[i][2]) in log[:i]
    for i, event in enumerate(log):
        if event[0] == "heard":
            assert ("durable", *event[1:]) in log[:i]
    # Predictions are on disk before the first record that points at them.
    assert log.index(("predictions",)) < min(i for i, e in enumerate(log) if e[0] == "durable")
    assert not any(event[0] == "written" for event in log)


@pytest.mark.fault(2)
def test_a_death_is_durable_before_anybody_hears_of_it(tmp_path):
    pool = ScriptedPool(slots=4, script=dying("killed"))
    log = pool.log

    def listener(event: Any) -> None:
        if isinstance(event, TrialLost):
            log.append(("retry", event.trial.id, event.cause, event.attempt))

    ledger = RecordingLedger(tmp_path, log)
    Engine([make_study(sampler="random")], ledger=ledger, pool=pool, listener=listener).run()
    ledger.close()
    heard = [i for i, event in enumerate(log) if event[0] == "retry"]
    assert len(heard) == 5 and {log[i][2:] for i in heard} == {("killed", 1)}
    for i in heard:
        assert ("death durable", log[i][1]) in log[:i]
        assert ("submit", log[i][1]) in log[i:]  # it runs again only then


def test_equal_cells_of_several_studies_run_once_and_are_linked(tmp_path):
    twins = [make_study(f"twin{i}", sampler="random", data="same") for i in range(3)]
    pool = ScriptedPool(slots=20)
    found = run(tmp_path, twins, pool)
    assert len(found) == 15 and len({id for id, *_ in found.values()}) == 5
    assert set(pool.submitted.values()) == {1} and len(pool.submitted) == 5
    kinds = Counter(record["kind"] for record in Ledger(tmp_path).records())
    assert (kinds["result"], kinds["slot"], kinds["lease"]) == (5, 10, 5)
    assert all(study.finished for study in twins)
    again = ScriptedPool()
    assert run(tmp_path, [make_study("late", sampler="random", data="same")], again).items() >= (
        found.items()
    )
    assert not again.submitted


# ---------------------------------------------------------------------- waiting


class OneKindFirst(ScriptedPool):
    """Has room for trials of the other kind (with a GPU, without) after three of the first."""

    def __init__(self, first: str) -> None:
        super().__init__(script=lambda job, nth: self.ended.append(job.trial.dataset))
        self.first, self.polls = first, 0
        self.ended: list[str] = []
        self.kept: list[int] = []

    def room(self, needs: Needs) -> bool:
        kind = "gpu" if needs.gpu_mb else "cpu"
        return super().room(needs) and (kind == self.first or len(self.ended) >= 3)

    def poll(self, timeout_s: float) -> list[JobOutcome]:
        self.polls += 1
        assert self.polls < 100, "the trials with room wait for those without"
        return super().poll(timeout_s)

    def keep_for_gpus(self, threads: int) -> None:
        self.kept.append(threads)


def test_trials_with_a_gpu_and_trials_without_do_not_wait_for_each_other(tmp_path):
    for first, other in (("cpu", "gpu"), ("gpu", "cpu")):
        with_gpu = make_study("gpu", sampler="random", n_trials=3, needs=Needs(2, gpu_mb=500.0))
        pool = OneKindFirst(first)
        run(tmp_path / first, [make_study("cpu", sampler="random", n_trials=3), with_gpu], pool)
        assert pool.ended == [first] * 3 + [other] * 3
        # CPUs are kept for the trials with a GPU until the last of them has ended.
        assert pool.kept == ([2, 2, 0] if first == "cpu" else [2, 0, 0])


def test_trials_that_no_machine_has_room_for_cause_a_warning_now_and_then(monkeypatch):
    clock, warned = [100], []
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def listener(event: Any) -> None:
        if isinstance(event, Warned):
            warned.append(clock[0])

    beats = heartbeat.Heartbeat(listener)
    for clock[0] in range(100, 800):
        beats.beat(ScriptedPool(), queued=2)
    assert warned == [131, 462, 793]  # after 30 seconds, then about every five minutes
    for clock[0] in range(800, 1600):
        beats.beat(ScriptedPool(), queued=0)
    for clock[0] in range(1600, 2600, 100):  # long trials in the driver's own process
        beats.beat(ScriptedPool(), queued=2, ended=1)
    assert len(warned) == 3


# ---------------------------------------------------------------------- kills


@pytest.mark.fault(1)
def test_a_run_resumed_after_any_of_its_records_ends_as_the_uninterrupted_one(tmp_path):
    whole = run(tmp_path / "whole", studies())
    for n, cut in enumerate(prefixes(tmp_path / "whole", tmp_path / "cut", step=2)):
        known = {record["id"] for record in Ledger(cut).records("result")}
        pool = ScriptedPool(seed=n)
        assert run(cut, studies(), pool) == whole
        assert not known & set(pool.submitted)  # no finished trial runs twice
        assert len(known) + len(pool.submitted) == len({id for id, *_ in whole.values()})
    pool = ScriptedPool()
    assert run(tmp_path / "whole", studies(), pool) == whole and not pool.log


@pytest.mark.fault(6)
def test_a_record_lost_to_damage_runs_again_and_breaks_no_report(tmp_path):
    twins = [make_study(f"twin{i}", sampler="random", data="same", n_trials=2) for i in range(2)]
    whole = run(tmp_path, twins)
    path = tmp_path / "ledger" / "log.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    hit = next(i for i, line in enumerate(lines) if b'"kind":"result"' in line)
    lines[hit] = lines[hit].replace(b'"kind":"result"', b'"kind":"resulT"')
    path.write_bytes(b"".join(lines))
    ledger = Ledger(tmp_path)
    assert ledger.torn_bytes == len(lines[hit])
    assert len(results_frame(columns_of(ledger.columns()))) == 2
    pool = ScriptedPool()
    twins = [make_study(f"twin{i}", sampler="random", data="same", n_trials=2) for i in range(2)]
    assert run(tmp_path, twins, pool) == whole and len(pool.submitted) == 1


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.mark.fault(1, 2)
def test_attempts_are_counted_across_restarts_of_the_driver(tmp_path):
    def die_twice(job: Job, nth: int) -> JobOutcome:
        if nth == 3:
            raise Crash
        return JobOutcome(job, None, death="killed")

    with pytest.raises(Crash):
        run(tmp_path, [make_study(n_trials=1)], ScriptedPool(script=die_twice))
    pool = ScriptedPool(script=lambda job, nth: JobOutcome(job, None, death="killed"))
    ((_, _, status, cause, _),) = run(tmp_path, [make_study(n_trials=1)], pool).values()
    assert (status, cause) == (FAILED, "killed") and pool.submitted.total() == 1


# ---------------------------------------------------------------------- deaths


DEATHS = [
    (["killed"], 2, None),
    (["killed", "killed"], 3, None),
    (["killed"] * 3, 3, "killed"),
    (["killed"] * 9, 3, "killed"),
    (["oom"], 2, None),
    (["oom", "oom"], 2, "oom"),
    (["result:oom"], 2, None),
    (["result:oom"] * 2, 2, "oom"),
    (["oom", "result:oom"], 2, "oom"),
    (["result:gpu_oom"] * 2, 2, "gpu_oom"),
    (["killed", "oom", "killed"], 4, None),  # each kind of death has its own count
    (["killed", "oom", "killed", "killed"], 4, "killed"),
    (["lost"] * 20, 21, None),  # the loss of a node counts as no attempt
    (["lost", "killed", "lost", "killed", "lost", "killed"], 6, "killed"),
    (["result:error"], 1, "error"),
    (["result:timeout"], 1, "timeout"),
    (["result:nonfinite"], 1, "nonfinite"),
    (["result:invalid_config"], 1, "invalid_config"),
]


@pytest.mark.fault(2, 3, 31)
def test_a_death_is_forgiven_as_often_as_its_rule_says(tmp_path):
    for n, (deaths, runs, cause) in enumerate(DEATHS):
        folder = tmp_path / str(n)
        pool = ScriptedPool(script=dying(*deaths))
        ((_, _, status, found, _),) = run(folder, [make_study(n_trials=1)], pool).values()
        assert found == cause and status == (FAILED if cause else DONE)
        assert pool.submitted.total() == runs
        (record,) = Ledger(folder).records("result")
        counted = sum(death != "lost" for death in deaths[:runs])
        assert record["attempt"] == counted + (0 if cause else 1)
        assert record["limits"] == {"timeout_s": 3600.0, "memory_mb": 8192.0}
        assert bool(record["message"]) == bool(cause)


@pytest.mark.fault(31)
@pytest.mark.parametrize(("given", "then"), [(500.0, math.inf), (0.0, 0.0)])
def test_a_trial_that_ran_out_of_a_shared_gpu_gets_one_to_itself(tmp_path, given, then):
    """A trial that was given none asks for none."""
    asked = []

    def once(job: Job, nth: int) -> JobOutcome | None:
        asked.append(job.needs.gpu_mb)
        return JobOutcome(job, failure("gpu_oom", "no memory")) if nth == 1 else None

    study = make_study(n_trials=2, needs=Needs(gpu_mb=given))
    found = run(tmp_path, [study], ScriptedPool(script=once, slots=1))
    assert [status for _, _, status, *_ in found.values()] == [DONE, DONE]
    assert asked == [given, then] * 2  # the next trial shares again


@pytest.mark.fault(31)
def test_a_trial_that_ran_out_of_a_shared_gpu_gets_one_to_itself_after_a_restart_too(tmp_path):
    def out_of_memory(job: Job, nth: int) -> JobOutcome | None:
        return JobOutcome(job, failure("gpu_oom", "no memory")) if nth == 1 else None

    def once() -> list[Study]:
        return [make_study(n_trials=1, needs=Needs(gpu_mb=500.0))]

    run(tmp_path / "whole", once(), ScriptedPool(script=out_of_memory))
    seen = []
    for cut in prefixes(tmp_path / "whole", tmp_path / "cut"):
        asked: list[float] = []

        def note(job: Job, nth: int, asked: list[float] = asked) -> None:
            asked.append(job.needs.gpu_mb)

        died = bool(list(Ledger(cut).records("death")))
        run(cut, once(), ScriptedPool(script=note))
        assert asked in ([], [math.inf if died else 500.0])
        seen += [died] * len(asked)
    assert set(seen) == {False, True}


@pytest.mark.fault(9)
def test_a_failure_stands_in_the_history_as_failed_and_is_never_chosen(tmp_path):
    def script(job: Job, nth: int) -> JobOutcome | None:
        cause = {1: "error", 2: "unsupported"}.get(job.trial.config["k"])
        return JobOutcome(job, failure(cause, "no")) if cause else None

    study = make_study(n_trials=12, seeds=(0, 1))
    told = []
    real = study.sampler.tell
    study.sampler.tell = lambda *row: (told.append(row), real(*row))[1]
    found = run(tmp_path, [study], ScriptedPool(script=script))
    assert [index for index, *_ in told] == list(range(12))
    for index, config, loss in told:
        assert (loss is None) == (config["k"] < 3)
        assert found[f"s#tune#{index}"][1] == config
    best = study.state.best
    assert told[best][2] == min(loss for *_, loss in told if loss is not None)
    assert all(found[f"s#eval#{i}"][1] == told[best][1] for i in range(2))
