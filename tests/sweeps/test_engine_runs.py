"""The engine over several starts: seeds, extension, retry, stops, and reuse of other runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_cases import ScriptedPool, dying, ended, make_study, prefixes, run, run_trial, studies
from small_sweeps import suite_of
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.running import sweep
from tabsweep.sweeps.engine import Engine, Reused, SourceChanged, Stop, Tally
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import DONE, FAILED, Trial, failure
from tabsweep.sweeps.workers.pool import Job, JobOutcome

pytestmark = pytest.mark.usefixtures("unsynced")


# ---------------------------------------------------------------------- seeds, extension, retry


def test_the_chosen_configuration_runs_once_on_each_further_seed(tmp_path):
    study = make_study(seeds=(0, 1, 2))
    pool = ScriptedPool()
    found = run(tmp_path, [study], pool)
    chosen = found[f"s#tune#{study.state.best}"]
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
def test_allowed_other_code_ends_as_a_fresh_run_would_wherever_it_is_killed(tmp_path):
    """And a return to the first code is not refused and runs nothing."""
    fresh = run(tmp_path / "fresh", studies(source="v2"))
    old = run(tmp_path / "old", studies())
    assert not {id for id, *_ in fresh.values()} & {id for id, *_ in old.values()}
    records = len(Ledger(tmp_path / "old"))
    assert run(tmp_path / "old", studies(source="v2"), allow_code_change=True) == fresh
    for cut in prefixes(tmp_path / "old", tmp_path / "cut", at_least=records, step=7):
        pool = ScriptedPool()
        assert run(cut, studies(), pool) == old and not pool.log
        assert run(cut, studies(source="v2"), allow_code_change=True) == fresh
    for source, ends in (("v2", fresh), ("v1", old)):
        pool = ScriptedPool()
        assert run(tmp_path / "old", studies(source=source), pool) == ends and not pool.log


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


@pytest.mark.fault(20)
@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_refused_resume_writes_nothing_and_is_refused_the_next_time_too(tmp_path, sampler):
    def grown(source: str) -> list:
        kinds = ({"n_trials": 6}, {"n_trials": 3, "seeds": (0, 1)})
        return [
            make_study(f"s{i}", sampler=sampler, source=source, **kind)
            for i, kind in enumerate(kinds)
        ]

    begun = [make_study(f"s{i}", sampler=sampler, n_trials=3) for i in range(2)]
    run(tmp_path / "run", begun)
    run(tmp_path / "run", grown("v2"), allow_code_change=True)
    before = len(Ledger(tmp_path / "run"))
    for _ in range(2):  # three trials of s0 and an evaluation of s1 did not run under the first
        pool = ScriptedPool()
        with pytest.raises(SourceChanged) as caught:
            run(tmp_path / "run", grown("v1"), pool)
        assert not pool.log and len(Ledger(tmp_path / "run")) == before
        assert caught.value.count == 4
    direct = run(tmp_path / "direct", grown("v1"))
    pool = ScriptedPool()
    assert run(tmp_path / "run", grown("v1"), pool, allow_code_change=True) == direct
    assert pool.submitted.total() == 4


@pytest.mark.fault(20)
def test_other_code_is_counted_over_all_studies_whose_search_ended_elsewhere(tmp_path):
    def evaluate(source: str) -> Tally:
        made = [make_study(f"s{i}", n_trials=1, seeds=(0, 1), source=source) for i in range(3)]
        for study in made:
            study.settle({0: ("tune", {"x": 0.5, "k": 2}, 0.1)})
        ledger = Ledger(tmp_path, write=True)
        engine = Engine([], ledger=ledger, pool=ScriptedPool())
        try:
            engine.admit(made)
            return engine.run()
        finally:
            ledger.close()

    assert evaluate("v1").ran == 6 and evaluate("v1").ran == 0
    with pytest.raises(SourceChanged) as caught:
        evaluate("v2")
    assert caught.value.count == 6


# ---------------------------------------------------------------------- stopping


def stop_after(n: int, stop: Stop, word: str) -> Callable[[Any], None]:
    heard = []

    def listener(event: Any) -> None:
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
        assert ledger.predictions.get(record["predictions"])["val"][0] == record["val"]["loss"]


SMALL = suite_of("small", ["wine"], ["knn"], trials=3, sampler="tpe", seeds=2)


def real_sweep(runs: Path, name: str, **more: Any) -> sweep.SweepOutcome:
    options = Options(budget="quick", runs=runs, name=name, workers=0, **more)
    return sweep.run(sweep.Request(suites.parse(SMALL, "a test"), options))


def rewrite(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Somebody else's ledger: records changed, checksums right."""
    ledger = Ledger(run)
    records = list(ledger.records())
    for record in records:
        if record["kind"] == "result":
            change(record)
    (run / "ledger" / "log.jsonl").write_bytes(b"")
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
        (tmp_path / name / "ledger" / "log.jsonl").unlink()  # no caches any more

    def forge(record: dict[str, Any]) -> None:
        record["val"] = record["test"] = {"accuracy": 1.0, "log_loss": 0.0}

    shapes: list[Callable[[dict[str, Any]], None]] = [
        forge,
        lambda record: record["predictions"].pop("val"),
        lambda record: record["predictions"].update(val=record["predictions"]["test"]),
        lambda record: record["predictions"]["val"].update(file="../../x"),
        lambda record: record["predictions"]["val"].update(sha256="0" * 64),
        lambda record: record.update(predictions={}),
        lambda record: record.update(costs=None),
    ]
    backup = (tmp_path / "first" / "ledger" / "log.jsonl").read_bytes()
    for i, change in enumerate(shapes):
        rewrite(tmp_path / "first", change)
        refused = real_sweep(tmp_path, f"refused-{i}")
        assert (refused.tally.ran, refused.tally.reused) == (4, 1) and same(f"refused-{i}")
        (tmp_path / f"refused-{i}" / "ledger" / "log.jsonl").unlink()
        (tmp_path / "first" / "ledger" / "log.jsonl").write_bytes(backup)


# ---------------------------------------------------------------------- copies


def copied(trial: Trial) -> Reused:
    return Reused("other", run_trial(trial, None))


class CountedLedger(Ledger):
    """Knows how many results each synced append made durable."""

    def __init__(self, run: Path) -> None:
        self.groups: list[int] = []
        super().__init__(run, write=True)

    def append(self, records: Any, *, sync: bool = True) -> None:
        records = list(records)
        super().append(records, sync=sync)
        results = sum(record["kind"] == "result" for record in records)
        if results:
            assert sync
            self.groups.append(results)


def test_copies_of_a_round_share_a_sync_and_are_those_of_a_run_of_its_own(tmp_path):
    ledger = CountedLedger(tmp_path / "copied")
    studies = [make_study(f"s{i}", sampler="random", n_trials=100, data="same") for i in range(2)]
    studies.append(make_study("tpe", n_trials=5, seeds=(0, 1)))
    tally = Engine(studies, ledger=ledger, pool=ScriptedPool(), reuse=copied).run()
    ledger.close()
    assert (tally.ran, tally.reused) == (0, 207)
    assert sum(ledger.groups) == 106  # twins, and the evaluation on the tuning seed, are links
    assert max(ledger.groups) > 1 and len(ledger.groups) < 106
    own = [make_study(f"s{i}", sampler="random", n_trials=100, data="same") for i in range(2)]
    own.append(make_study("tpe", n_trials=5, seeds=(0, 1)))
    assert ended(tmp_path / "copied") == run(tmp_path / "own", own)


@pytest.mark.parametrize("word", ["soon", "now"])
def test_a_stop_is_obeyed_between_two_copies_and_those_that_were_made_are_kept(tmp_path, word):
    stop = Stop()
    asked = []

    def reuse(trial: Trial) -> Reused:
        asked.append(trial.id)
        if len(asked) == 20:
            setattr(stop, word, True)
        return copied(trial)

    ledger = Ledger(tmp_path, write=True)
    study = make_study(sampler="random", n_trials=300)
    tally = Engine([study], ledger=ledger, pool=ScriptedPool(), reuse=reuse, stop=stop).run()
    ledger.close()
    assert tally.interrupted and tally.reused == len(asked) == 20
    assert {id for id, *_ in ended(tmp_path).values()} == set(asked)


def test_another_owner_of_the_folder_ends_a_sweep_that_only_copies(tmp_path):
    class Taken(Exception):
        pass

    looks = []

    def still_owner() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise Taken

    ledger = Ledger(tmp_path, write=True)
    study = make_study(n_trials=50)  # one after the other
    engine = Engine(
        [study], ledger=ledger, pool=ScriptedPool(), reuse=copied, still_owner=still_owner
    )
    with pytest.raises(Taken):
        engine.run()
    ledger.close()
    assert len(ended(tmp_path)) == 2
