"""The engine: order of results, kills, deaths, retries, stops, and reuse of other runs.

The pool here is scripted: it ends trials in random order, lets workers die, and keeps a log.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.results.evidence_builder import load_results, rows_of
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running import sweep
from tabsweep.sweeps.engine import Engine, Reused, SourceChanged, Stop
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import slot_places
from tabsweep.sweeps.study import Needs, Study
from tabsweep.sweeps.trial import DONE, FAILED, Result, Trial, failure
from tabsweep.sweeps.workers.pool import InProcessPool, Job, JobOutcome, News

SPACE = Space.parse(
    {
        "params": {
            "x": {"kind": "uniform", "low": -1.0, "high": 1.0},
            "k": {"kind": "int", "low": 1, "high": 4},
        }
    }
)
SMALL = Space.parse({"params": {"k": {"kind": "int", "low": 1, "high": 6}}})


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    """Syncing is tested with the ledger."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def score(trial: Trial) -> float:
    """A loss that depends on everything that a trial is made of."""
    bump = int(trial.id[:4], 16) / 16**4 / 10
    return (trial.config.get("x", 0.3) - 0.4) ** 2 + 0.01 * trial.config["k"] + bump


def run_trial(trial: Trial, data: Any) -> Result:
    predictions = {"val": np.full(2, score(trial))}
    return Result(status=DONE, val={"loss": score(trial)}, predictions=predictions)


Script = Callable[[Job, int], JobOutcome | None]


class ScriptedPool:
    """Ends waiting jobs in random order. `script(job, nth submission)` may say how, or None."""

    def __init__(self, *, seed: int = 0, slots: int = 3, script: Script | None = None) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.submitted: Counter[str] = Counter()
        self.most = 0
        self._chance = random.Random(seed)
        self._slots = slots
        self._script = script or (lambda job, nth: None)
        self._jobs: list[Job] = []

    def __call__(self) -> ScriptedPool:
        return self

    def room(self, needs: Needs) -> bool:
        return len(self._jobs) < self._slots

    def submit(self, job: Job) -> None:
        assert self.room(job.needs)
        assert all(job.trial.id != other.trial.id for other in self._jobs), "one trial in twice"
        self.submitted[job.trial.id] += 1
        self.log.append(("submit", job.trial.id))
        self._jobs.append(job)
        self.most = max(self.most, len(self._jobs))

    def poll(self, timeout_s: float) -> list[JobOutcome]:
        if not self._jobs:
            return []
        self._chance.shuffle(self._jobs)
        n = self._chance.randint(1, len(self._jobs))
        ended, self._jobs = self._jobs[:n], self._jobs[n:]
        return [
            self._script(job, self.submitted[job.trial.id])
            or JobOutcome(job, run_trial(job.trial, None))
            for job in ended
        ]

    def running(self) -> int:
        return len(self._jobs)

    def workers(self) -> list[dict[str, Any]]:
        return []

    def news(self) -> list[News]:
        return []

    def forget(self, data_key: str) -> None:
        self.log.append(("forget", data_key))

    def keep_for_gpus(self, threads: int) -> None:
        pass

    def close(self) -> None:
        self.log.append(("close",))


def make_study(
    name: str = "s",
    *,
    sampler: str = "tpe",
    n_trials: int = 5,
    source: str = "v1",
    data: str | None = None,
    lag: int = 1,
    seed: int = 7,
    **more: Any,
) -> Study:
    def make_trial(config: dict[str, Any], trial_seed: int) -> Trial:
        return Trial(name, 0, "m", config, trial_seed, {"source": source, "data": data or name})

    space = SMALL if sampler == "grid" else SPACE
    made = make_sampler(sampler, space, seed=seed, n_trials=n_trials, lag=lag)
    loss_of: Callable[[Result], float | None] = lambda result: result.val["loss"]  # noqa: E731
    return Study(name, made, n_trials, make_trial, loss_of, lag=lag, **more)


def studies(**change: Any) -> list[Study]:
    """One study a sampler, one of them evaluated on three seeds, one with a lag."""
    kinds: list[dict[str, Any]] = [
        {"name": "tpe", "seeds": (0, 1, 2), "n_trials": 12},
        {"name": "hyperopt", "sampler": "hyperopt", "lag": 3},
        {"name": "random", "sampler": "random", "seeds": (0, 1)},
        {"name": "grid", "sampler": "grid"},
    ]
    return [make_study(**{**kind, **change}) for kind in kinds]


def run(folder: Path, made: list[Study], pool: ScriptedPool | None = None, **more: Any) -> Any:
    """Run studies on the ledger in a folder; returns what `ended` says."""
    ledger = Ledger(folder, write=True)
    engine = Engine(made, ledger=ledger, pool=pool or ScriptedPool(), **more)
    try:
        engine.run()
    finally:
        ledger.close()
    return ended(folder)


def ended(folder: Path) -> dict[str, tuple[Any, ...]]:
    """{slot: (trial id, configuration, status, cause, loss)} as the ledger has it."""
    ledger = Ledger(folder)
    results = {record["id"]: record for record in ledger.records("result")}
    return {
        key: (id, results[id]["config"], results[id]["status"], results[id]["cause"])
        + (results[id]["val"].get("loss"),)
        for key, (id, _) in sorted(slot_places(ledger).items())
    }


def prefixes(folder: Path, into: Path, *, at_least: int = 0, step: int = 1) -> list[Path]:
    """Copies of a run as kills would have left it: after each of its records."""
    manifest = (folder / "ledger" / "MANIFEST.json").read_bytes()
    lines = (folder / "ledger" / "tail-000001.jsonl").read_bytes().splitlines(keepends=True)
    found = []
    for n in range(at_least, len(lines), step):
        cut = into / str(n)
        (cut / "ledger").mkdir(parents=True)
        (cut / "ledger" / "MANIFEST.json").write_bytes(manifest)
        (cut / "ledger" / "tail-000001.jsonl").write_bytes(b"".join(lines[:n]))
        found.append(cut)
    return found


# ---------------------------------------------------------------------- order


def test_neither_workers_nor_the_order_of_results_change_a_suggestion_or_a_choice(tmp_path):
    expected = None
    for seed in range(4):
        made = studies()
        pool = ScriptedPool(seed=seed, slots=1 + 2 * seed)
        found = run(tmp_path / str(seed), made, pool)
        best = {study.name: (study.best(), study.best_loss()) for study in made}
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

    def append(self, records: Any, *, sync: bool = True) -> None:
        records = list(records)
        super().append(records, sync=sync)
        for record in records:
            if record["kind"] == "lease":
                self.log.append(("lease", record["id"]))
            elif record["kind"] in ("result", "slot"):
                key = (record["study"], record["stage"], record["index"])
                self.log.append(("durable" if sync else "written", *key))

    def sync_predictions(self) -> None:
        super().sync_predictions()
        self.log.append(("predictions",))


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

    def listener(event: str, details: Any) -> None:
        if event in ("result", "reused"):
            slot = details["slot"]
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
    path = tmp_path / "ledger" / "tail-000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    hit = next(i for i, line in enumerate(lines) if b'"kind":"result"' in line)
    lines[hit] = lines[hit].replace(b'"kind":"result"', b'"kind":"resulT"')
    path.write_bytes(b"".join(lines))
    ledger = Ledger(tmp_path)
    assert ledger.torn_bytes == len(lines[hit])
    assert {row["study"] for row in rows_of(ledger)} and len(rows_of(ledger)) == 2
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


def dying(*deaths: str) -> Script:
    """The first submissions of a trial end in these deaths, later ones well."""

    def script(job: Job, nth: int) -> JobOutcome | None:
        if nth > len(deaths):
            return None
        death = deaths[nth - 1]
        if death.startswith("result:"):  # the worker lived to tell
            return JobOutcome(job, failure(death.removeprefix("result:"), "no memory"))
        return JobOutcome(job, None, death=death)

    return script


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
def test_a_trial_that_ran_out_of_a_shared_gpu_gets_one_to_itself(tmp_path):
    asked = []

    def once(job: Job, nth: int) -> JobOutcome | None:
        asked.append(job.needs.gpu_mb)
        return JobOutcome(job, failure("gpu_oom", "no memory")) if nth == 1 else None

    study = make_study(n_trials=2, needs=Needs(gpu_mb=500.0))
    found = run(tmp_path, [study], ScriptedPool(script=once, slots=1))
    assert [status for _, _, status, *_ in found.values()] == [DONE, DONE]
    assert asked == [500.0, math.inf] * 2  # the next trial shares again


@pytest.mark.fault(2)
def test_a_neighbour_is_not_hurt_by_a_trial_that_keeps_dying(tmp_path):
    def script(job: Job, nth: int) -> JobOutcome | None:
        return JobOutcome(job, None, death="killed") if job.trial.dataset == "bad" else None

    found = run(tmp_path, [make_study("bad"), make_study("good")], ScriptedPool(script=script))
    causes = {(key[:3], cause) for key, (_, _, _, cause, _) in found.items()}
    assert causes == {("bad", "killed"), ("goo", None)} and len(found) == 10


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
    best = study.best()
    assert told[best][2] == min(loss for *_, loss in told if loss is not None)
    assert all(found[f"s#eval#{i}"][1] == told[best][1] for i in range(2))


def test_a_study_in_which_everything_fails_ends_without_an_evaluation(tmp_path):
    study = make_study(seeds=(0, 1))
    pool = ScriptedPool(script=lambda job, nth: JobOutcome(job, failure("error", "no")))
    found = run(tmp_path, [study], pool)
    assert study.finished and study.best() is None and len(found) == 5


def test_equal_losses_choose_the_lower_index(tmp_path):
    study = make_study(sampler="grid", n_trials=6)
    same = Result(status=DONE, val={"loss": 0.5})
    run(tmp_path, [study], ScriptedPool(slots=6, script=lambda job, nth: JobOutcome(job, same)))
    assert study.best() == 0


# ---------------------------------------------------------------------- seeds, extension, retry


def test_the_chosen_configuration_runs_once_on_each_further_seed(tmp_path):
    study = make_study(seeds=(0, 1, 2))
    pool = ScriptedPool()
    found = run(tmp_path, [study], pool)
    chosen = found[f"s#tune#{study.best()}"]
    evaluations = [found[f"s#eval#{i}"] for i in range(3)]
    assert all(config == chosen[1] for _, config, *_ in evaluations)
    assert evaluations[0][0] == chosen[0]  # the tuning seed's cell has run already
    assert len({id for id, *_ in evaluations}) == 3 and pool.submitted.total() == 7
    seeds = {record["id"]: record["seed"] for record in Ledger(tmp_path).records("result")}
    assert [seeds[id] for id, *_ in evaluations] == [0, 1, 2]


def test_an_extended_study_runs_what_is_new_and_ends_as_if_begun_so(tmp_path):
    direct = run(tmp_path / "direct", [make_study(n_trials=9, seeds=(0, 1))])
    run(tmp_path / "grown", [make_study(n_trials=2, seeds=(0, 1))])
    records = len(Ledger(tmp_path / "grown"))
    known = {record["id"] for record in Ledger(tmp_path / "grown").records("result")}
    pool = ScriptedPool()
    assert run(tmp_path / "grown", [make_study(n_trials=9, seeds=(0, 1))], pool) == direct
    assert not known & set(pool.submitted)
    # Killed anywhere on the way, though the chosen configuration is another one by now.
    assert direct["s#eval#0"][1] not in [direct[f"s#tune#{i}"][1] for i in range(2)]
    for cut in prefixes(tmp_path / "grown", tmp_path / "cut", at_least=records):
        assert run(cut, [make_study(n_trials=9, seeds=(0, 1))]) == direct


@pytest.mark.fault(20)
def test_other_code_is_refused_with_a_count_and_changes_nothing(tmp_path):
    run(tmp_path, studies())
    finished = len(ended(tmp_path))
    before = len(Ledger(tmp_path))
    pool = ScriptedPool()
    with pytest.raises(SourceChanged) as caught:
        run(tmp_path, studies(source="v2"), pool)
    tuned = 12 + 5 + 5 + 5
    assert caught.value.count in range(tuned, finished + 1)
    assert str(caught.value.count) in str(caught.value)
    assert "--allow-code-change" in str(caught.value)
    assert not pool.log and len(Ledger(tmp_path)) == before
    run(tmp_path, studies())  # the old code still finds everything as it was


@pytest.mark.fault(20)
def test_allowed_other_code_ends_as_a_fresh_run_would_wherever_it_is_killed(tmp_path):
    fresh = run(tmp_path / "fresh", studies(source="v2"))
    old = run(tmp_path / "old", studies())
    assert not {id for id, *_ in fresh.values()} & {id for id, *_ in old.values()}
    records = len(Ledger(tmp_path / "old"))
    allowed = {"allow_code_change": True}
    assert run(tmp_path / "old", studies(source="v2"), **allowed) == fresh
    for cut in prefixes(tmp_path / "old", tmp_path / "cut", at_least=records, step=7):
        assert run(cut, studies(source="v2"), **allowed) == fresh
    pool = ScriptedPool()
    assert run(tmp_path / "old", studies(source="v2"), pool) == fresh and not pool.log


def test_a_retry_runs_what_failed_and_ends_as_if_it_had_not_wherever_it_is_killed(tmp_path):
    def fails(job: Job, nth: int) -> JobOutcome | None:
        return JobOutcome(job, failure("error", "broken")) if job.trial.config["k"] == 2 else None

    well = run(tmp_path / "well", studies())
    failed = run(tmp_path / "failed", studies(), ScriptedPool(script=fails))
    ids = {id for id, _, status, *_ in failed.values() if status == FAILED}
    assert 0 < len(ids) < len(failed)
    pool = ScriptedPool(script=fails)
    assert (
        run(tmp_path / "failed", studies(), pool) == failed and not pool.log
    )  # no retry was asked for
    records = len(Ledger(tmp_path / "failed"))
    pool = ScriptedPool()
    retry = {"retry": lambda record: record["status"] == FAILED}
    assert run(tmp_path / "failed", studies(), pool, **retry) == well
    fine = {id for id, _, status, *_ in failed.values() if status == DONE}
    assert ids & set(pool.submitted) and not fine & set(pool.submitted)
    for cut in prefixes(tmp_path / "failed", tmp_path / "cut", at_least=records, step=3):
        found = run(cut, studies(), **retry)
        assert found == well
        assert run(cut, studies()) == well


def test_a_retry_looks_at_records_and_has_attempts_of_its_own(tmp_path):
    always = ScriptedPool(script=dying(*["killed"] * 9))
    run(tmp_path, [make_study(n_trials=1)], always)
    asked = []

    def retry(record: dict[str, Any]) -> bool:
        asked.append(record["cause"])
        return record["cause"] == "killed"

    pool = ScriptedPool(script=dying("killed", "killed"))
    ((_, _, status, *_),) = run(tmp_path, [make_study(n_trials=1)], pool, retry=retry).values()
    assert status == DONE and asked == ["killed"] and pool.submitted.total() == 3


# ---------------------------------------------------------------------- stopping


def stop_after(n: int, stop: Stop, word: str) -> Callable[[str, Any], None]:
    heard = []

    def listener(event: str, details: Any) -> None:
        heard.append(event)
        if len(heard) == n:
            setattr(stop, word, True)

    return listener


@pytest.mark.parametrize("word", ["soon", "now"])
def test_a_stop_is_obeyed_and_a_resume_ends_as_the_uninterrupted_run(tmp_path, word):
    whole = run(tmp_path / "whole", studies())
    stop = Stop()
    pool = ScriptedPool(slots=4)
    ledger = Ledger(tmp_path / "run", write=True)
    listener = stop_after(6, stop, word)
    engine = Engine(studies(), ledger=ledger, pool=pool, stop=stop, listener=listener)
    tally = engine.run()
    ledger.close()
    assert tally.interrupted and 6 <= tally.ran < 32
    assert pool.log[-1] == ("close",)
    if word == "soon":  # what ran was waited for
        assert pool.running() == 0 and pool.submitted.total() == tally.ran
    assert len(ended(tmp_path / "run")) == tally.ran
    assert run(tmp_path / "run", studies()) == whole


@pytest.mark.fault(30)
def test_a_stop_does_not_wait_beyond_its_grace_for_what_never_ends(tmp_path):
    stop = Stop(soon=False)

    class Hanging(ScriptedPool):
        def poll(self, timeout_s: float) -> list[JobOutcome]:
            stop.soon = True
            return []

    pool = Hanging()
    ledger = Ledger(tmp_path, write=True)
    tally = Engine(studies(), ledger=ledger, pool=pool, stop=stop, grace_s=0.05).run()
    ledger.close()
    assert tally.interrupted and tally.ran == 0 and pool.log[-1] == ("close",)


def test_a_finished_run_is_not_interrupted_and_its_tally_adds_up(tmp_path):
    stop = Stop()
    ledger = Ledger(tmp_path, write=True)
    tally = Engine(studies(), ledger=ledger, pool=ScriptedPool(), stop=stop).run()
    ledger.close()
    assert not tally.interrupted
    assert (tally.ran + tally.reused, tally.done, tally.failed) == (32, 32, 0)


# ---------------------------------------------------------------------- in this process


def outcome_of(fn: Callable[[Trial, Any], Any]) -> Result:
    pool = InProcessPool(fn, lambda key: f"data of {key}")
    trial = Trial("d", 0, "m", {}, 0, {})
    pool.submit(Job(trial, "d", make_study().limits))
    assert not pool.room(Needs()) and pool.running() == 1
    (outcome,) = pool.poll(0.0)
    assert outcome.result is not None and pool.running() == 0
    return outcome.result


def raising(error: BaseException) -> Callable[[Trial, Any], Any]:
    def fn(trial: Trial, data: Any) -> Any:
        raise error

    return fn


class OutOfMemoryError(RuntimeError):
    """Named as torch names it."""


RAISED = [
    (ValueError(), "error", "ValueError: (no message)"),
    (ValueError("one\ntwo"), "error", "ValueError: one"),
    (SystemExit(3), "error", "SystemExit: 3"),
    (MemoryError(), "oom", "MemoryError"),
    (RuntimeError("std::bad_alloc"), "oom", "RuntimeError: std::bad_alloc"),
    (OSError(12, "Cannot allocate memory"), "oom", None),
    (OutOfMemoryError("CUDA out of memory"), "gpu_oom", None),
    (RuntimeError("std::bad_alloc: cudaErrorMemoryAllocation: out of memory"), "gpu_oom", None),
    (RuntimeError("CUDA error: out of memory"), "gpu_oom", None),
    (RuntimeError("x" * 10**6), "error", None),
]


@pytest.mark.fault(27, 31)
def test_whatever_a_trial_raises_becomes_a_failure_with_a_cause():
    for error, cause, message in RAISED:
        result = outcome_of(raising(error))
        assert (result.status, result.cause) == (FAILED, cause)
        assert message in (None, result.message) and 0 < len(result.message) < 600
        if cause == "error":
            assert "Traceback" in result.log or len(result.log) == 4000


RESULTS = [
    (Result(DONE, val={"loss": math.nan}), "nonfinite"),
    (Result(DONE, test={"loss": math.inf}), "nonfinite"),
    (Result(DONE, costs={"fit_s": math.nan}), "error"),
    (Result(DONE, info={"array": np.zeros(2)}), "error"),
    (Result(DONE, predictions={"val": np.array([object()])}), "error"),
    (None, "error"),
    ({"status": "done"}, "error"),
    (Result(DONE, val={"loss": None}), None),
]


@pytest.mark.fault(9)
def test_a_result_that_the_ledger_cannot_hold_is_a_failure_not_the_sweeps_end():
    for result, cause in RESULTS:
        assert outcome_of(lambda trial, data, result=result: result).cause == cause


# ---------------------------------------------------------------------- other runs


def test_a_trial_that_another_run_vouches_for_is_copied_with_its_origin(tmp_path):
    asked = []

    def reuse(trial: Trial) -> Reused | None:
        asked.append(trial.id)
        return Reused("other", run_trial(trial, None), {"time": "then"})

    pool = ScriptedPool()
    made = [make_study(seeds=(0, 1))]
    found = run(tmp_path / "run", made, pool, reuse=reuse)
    assert not pool.submitted and len(asked) == 6
    assert found == run(tmp_path / "own", [make_study(seeds=(0, 1))])
    ledger = Ledger(tmp_path / "run")
    for record in ledger.records("result"):
        assert (record["origin"], record["time"], record["study"]) == ("other", "then", "s")
        assert ledger.get_predictions(record["predictions"])["val"][0] == record["val"]["loss"]


SUITE = suites.parse(
    {
        "name": "small",
        "title": "one study on data that is always there",
        "datasets": ["wine"],
        "budgets": {
            "quick": {"models": ["knn"], "folds": 1, "trials": 3, "sampler": "tpe", "seeds": 2}
        },
    },
    "a test",
)


def real_sweep(runs: Path, name: str, **more: Any) -> sweep.SweepOutcome:
    options = Options(budget="quick", **more)
    return sweep.run(sweep.Request(SUITE, options, runs, name, workers=0))


def rewrite(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Somebody else's ledger: records changed, checksums right."""
    ledger = Ledger(run)
    records = list(ledger.records())
    for record in records:
        if record["kind"] == "result":
            change(record)
    (run / "ledger" / "tail-000001.jsonl").write_bytes(b"")
    ledger = Ledger(run, write=True)
    ledger.append(records)
    ledger.close()


def test_a_sibling_run_is_reused_only_as_far_as_its_predictions_bear_it_out(tmp_path):
    first = real_sweep(tmp_path, "first")
    assert (first.tally.ran, first.tally.reused) == (4, 1)  # of two seeds one is the tuning seed
    original = load_results(tmp_path / "first")

    def same(name: str) -> bool:
        columns = ["study", "stage", "index", "id", "config", "status", "val_accuracy"]
        found = load_results(tmp_path / name)
        return found[columns].equals(original[columns])

    second = real_sweep(tmp_path, "second")
    assert (second.tally.ran, second.tally.reused) == (0, 5) and same("second")
    assert set(load_results(tmp_path / "second")["origin"]) == {"first"}
    real_sweep(tmp_path, "third")
    assert set(load_results(tmp_path / "third")["origin"]) == {"first"}
    for name in ("second", "third"):
        (tmp_path / name / "ledger" / "MANIFEST.json").unlink()  # no caches any more

    def forge(record: dict[str, Any]) -> None:
        record["val"] = record["test"] = {"accuracy": 1.0, "log_loss": 0.0}

    rewrite(tmp_path / "first", forge)
    forged = real_sweep(tmp_path, "forged")
    assert (forged.tally.ran, forged.tally.reused) == (0, 5) and same("forged")
    (tmp_path / "forged" / "ledger" / "MANIFEST.json").unlink()

    shapes: list[Callable[[dict[str, Any]], None]] = [
        lambda record: record["predictions"].pop("val"),
        lambda record: record["predictions"].update(val=record["predictions"]["test"]),
        lambda record: record["predictions"]["val"].update(file="../../x"),
        lambda record: record["predictions"]["val"].update(sha256="0" * 64),
        lambda record: record.update(predictions={}),
        lambda record: record.update(costs=None),
    ]
    backup = (tmp_path / "first" / "ledger" / "tail-000001.jsonl").read_bytes()
    for i, change in enumerate(shapes):
        rewrite(tmp_path / "first", change)
        refused = real_sweep(tmp_path, f"refused-{i}")
        assert (refused.tally.ran, refused.tally.reused) == (4, 1) and same(f"refused-{i}")
        (tmp_path / f"refused-{i}" / "ledger" / "MANIFEST.json").unlink()
        (tmp_path / "first" / "ledger" / "tail-000001.jsonl").write_bytes(backup)


def test_status_and_results_follow_the_plan_in_force_when_a_run_is_extended(tmp_path):
    real_sweep(tmp_path, "run")
    before = status_of(tmp_path / "run")
    assert (before.planned, before.done, before.left, before.running) == (5, 5, 0, 0)
    real_sweep(tmp_path, "run", trials=6)
    after = status_of(tmp_path / "run")
    assert (after.planned, after.done, after.left) == (8, 8, 0)
    rows = load_results(tmp_path / "run")
    (chosen,) = rows[rows["selected"]]["config"]
    assert list(rows[rows["stage"] == "eval"]["config"]) == [chosen, chosen]
    # Killed with the chosen configuration not evaluated yet: the old one's scores are not its own.
    ledger = Ledger(tmp_path / "run")
    records = [record for record in ledger.records() if record.get("stage") != "eval"]
    result = next(record for record in records if record["kind"] == "result")
    stale = {**result, "stage": "eval", "index": 0, "config": {"p": 1}, "id": "stale"}
    (tmp_path / "run" / "ledger" / "tail-000001.jsonl").write_bytes(b"")
    ledger = Ledger(tmp_path / "run", write=True)
    ledger.append([*records, stale])
    ledger.close()
    assert not (load_results(tmp_path / "run")["stage"] == "eval").any()
