"""What counts in a study: a state made of records is that of the engine, in whichever order, where
a search ends by its CPU seconds, and the record of its end."""

from __future__ import annotations

import math
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_cases import ScriptedPool, make_study, prefixes, run, run_trial
from hypothesis import given, settings
from hypothesis import strategies as st
from small_sweeps import suite_of
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running import sweep
from tabsweep.benchmark.running.run_trial import run_trial as real_trial
from tabsweep.reports.aggregation.cells import studies
from tabsweep.sweeps.engine import Stop
from tabsweep.sweeps.events import TrialEnded
from tabsweep.sweeps.search.halving import Halving
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import slot_places
from tabsweep.sweeps.study import Study
from tabsweep.sweeps.study_state import EVAL, TUNE, History, Shape, StudyState
from tabsweep.sweeps.trial import FAILED, Result, Trial, failure
from tabsweep.sweeps.workers.pool import Job, JobOutcome

pytestmark = pytest.mark.usefixtures("unsynced")

Rows = dict[tuple[str, int], tuple[float | None, float]]  # (stage, index) -> (loss, CPU seconds)

SHAPES = st.one_of(
    st.builds(Shape, st.integers(1, 9), st.sampled_from([0, 2])),
    st.builds(Shape, st.integers(1, 9), st.just(2), study_s=st.sampled_from([0.5, 6.0, 15.0])),
    st.builds(
        lambda n, rungs: Shape(n, 2, tuple(Halving(3, rungs).sizes(n))),
        st.integers(1, 9),
        st.integers(2, 3),
    ),
)


def state_of(shape: Shape, rows: Rows, order: random.Random) -> StudyState:
    state = StudyState(shape)
    places = list(rows)
    order.shuffle(places)
    for stage, index in places:
        state.add(stage, index, *rows[stage, index])
    return state


def said(state: StudyState) -> tuple[Any, ...]:
    evaluated = state.best is not None  # old evaluations may be there where nothing is chosen now
    slots = {slot for slot in state.slots() if slot[0] != EVAL or evaluated}
    return state.tuned, state.finished, state.best, state.best_loss, state.n_slots, slots


# ---------------------------------------------------------------------- the rules, slowly


def by_the_rules(shape: Shape, rows: Rows) -> tuple[set[tuple[str, int]], int | None, bool]:
    """(slots of the search that count, the choice, whether the search has ended)."""
    members, spent = list(range(shape.n_trials)), 0.0
    for index in members if shape.study_s is not None else ():
        spent += rows.get((TUNE, index), (None, 0.0))[1]
        if shape.study_s is not None and round(spent, 6) >= shape.study_s:
            members = members[: index + 1]
            break
    counted: set[tuple[str, int]] = set()
    for stage, size in zip(shape.stages, [*shape.sizes[1:], 0], strict=True):
        there = [index for index in members if (stage, index) in rows]
        counted |= {(stage, index) for index in there}
        loss = {index: rows[stage, index][0] for index in there}
        ranked = sorted((x, index) for index, x in loss.items() if x is not None)
        if stage == TUNE:
            return counted, ranked[0][1] if ranked else None, len(there) == len(members)
        if len(there) < len(members):
            break
        members = sorted(index for _, index in ranked[:size])
    return counted, None, False


@given(SHAPES, st.data(), st.randoms(use_true_random=False))
def test_the_order_of_results_decides_nothing_and_the_rules_hold(shape, data, order):
    slots = [(stage, i) for stage in (*shape.stages, EVAL) for i in range(shape.n_trials + 1)]
    losses = st.sampled_from([0.1, 0.2, 0.3, None, math.nan])
    result = st.tuples(losses, st.sampled_from([0.0, 1.0, 2.5]))
    drawn = data.draw(st.dictionaries(st.sampled_from(slots), result))
    state = state_of(shape, drawn, order)
    rows = {at: (None if x is None or math.isnan(x) else x, s) for at, (x, s) in drawn.items()}
    counted, best, tuned = by_the_rules(shape, rows)
    assert {slot for slot in state.slots() if slot[0] != EVAL} == counted
    assert (state.best, state.tuned) == (best, tuned)
    assert state.n_done == len(list(state.slots()))
    for slot in slots:
        assert state.has(*slot) == (slot in set(state.slots()))
    evaluated = {i for stage, i in rows if stage == EVAL and i < shape.n_seeds}
    assert state.finished == (tuned and (best is None or len(evaluated) == shape.n_seeds))


# ---------------------------------------------------------------------- the engine


def with_trials(shape: Shape, n_trials: int) -> Shape:
    rungs = Halving(3, len(shape.rungs)).sizes(n_trials) if shape.rungs else ()
    return replace(shape, n_trials=n_trials, rungs=tuple(rungs))


def study_of(shape: Shape, sampler: str) -> Study:
    more: dict[str, Any] = {"seeds": tuple(range(shape.n_seeds)), "study_s": shape.study_s}
    if shape.rungs:
        more |= {"halving": Halving(3, len(shape.rungs)), "length_of": lambda config: 90}
    return make_study(sampler=sampler, n_trials=shape.n_trials, **more)


def rows_in(folder: Path) -> Rows:
    ledger = Ledger(folder)
    results = {record["id"]: record for record in ledger.records("result")}
    found: Rows = {}
    for slot, (id, _) in slot_places(ledger).items():
        if id in results:
            record = results[id]
            seconds = record["costs"].get("cpu_s", 0.0)
            found[slot.stage, slot.index] = record["val"].get("loss"), seconds
    return found


def some_fail(one_of: int, salt: int) -> Any:
    def script(job: Job, nth: int) -> JobOutcome:
        seconds = {"cpu_s": 1.0 + int(job.trial.id[:2], 16) / 64}
        if one_of and (int(job.trial.id[4:8], 16) + salt) % one_of == 0:
            return JobOutcome(job, failure("error", "no", costs=seconds))
        return JobOutcome(job, replace(run_trial(job.trial, None), costs=seconds))

    return script


def copied(records: list[dict[str, Any]], into: Path) -> Path:
    ledger = Ledger(into, write=True)
    ledger.append(records)
    ledger.close()
    return into


STEPS = st.one_of(
    st.tuples(st.just("extend"), st.integers(1, 5)),
    st.tuples(st.just("retry"), st.just(0)),
    st.tuples(st.just("stop"), st.integers(1, 6)),
    st.tuples(st.just("lose a row"), st.integers(0, 50)),
    st.tuples(st.just("lose predictions"), st.integers(0, 50)),
    st.tuples(st.just("unite with a half"), st.integers(1, 6)),
)


@settings(max_examples=40, deadline=None)
@given(
    SHAPES,
    st.sampled_from(["random", "tpe"]),
    st.integers(0, 3),
    st.lists(STEPS, min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_state_that_the_records_give_is_that_of_the_engine(
    shape, sampler, one_of, steps, order
):
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where) / "0"
        for number, (step, n) in enumerate([("start", 0), *steps]):
            more: dict[str, Any] = {}
            script = some_fail(one_of, number if step == "retry" else 0)
            records = list(Ledger(folder).records()) if step != "start" else []
            results = [at for at, record in enumerate(records) if record["kind"] == "result"]
            if step == "extend":
                shape = with_trials(shape, shape.n_trials + n)
            elif step == "retry":
                more["retry"] = lambda record: record["status"] == FAILED
            elif step == "stop":
                stop = Stop()
                heard: list[type] = []

                def listener(event, stop=stop, heard=heard, n=n):
                    heard.append(type(event))
                    stop.soon = heard.count(TrialEnded) >= n

                shape = with_trials(shape, shape.n_trials + 2)
                more |= {"stop": stop, "listener": listener}
            elif step == "lose a row" and results:
                del records[results[n % len(results)]]
                folder = copied(records, Path(where) / str(number))
            elif step == "lose predictions" and results:
                more["lost"] = {records[results[n % len(results)]]["id"]}
            elif step == "unite with a half" and sampler == "random":
                half = Path(where) / f"half-{number}"
                run(half, [study_of(with_trials(shape, n), sampler)], ScriptedPool())
                folder = copied([*Ledger(half).records(), *records], Path(where) / str(number))
            study = study_of(shape, sampler)
            pool = ScriptedPool(seed=number, script=script)
            run(folder, [study], pool, **more)
            rows = rows_in(folder)
            counted, best, _ = by_the_rules(shape, rows)
            state = state_of(study.state.shape, rows, order)
            assert {slot for slot in state.slots() if slot[0] != EVAL} == counted
            assert state.best == best
            if study.finished:
                assert said(state) == said(study.state)
            else:
                assert step == "stop"


# ---------------------------------------------------------------------- one rule alone


def test_an_asynchronous_search_counts_each_configuration_where_it_ended_last():
    state = StudyState(Shape(3, 2, (3, 1), asynchronous=True))
    state.add_all("rung0", [0, 1], [None, 0.5])
    state.add("rung0", 2, 0.4)
    assert state.tuned and state.best is None and state.finished
    state.add(TUNE, 0, 0.3)  # run again, it got further
    assert sorted(state.slots()) == [("rung0", 1), ("rung0", 2), (TUNE, 0)]
    assert (state.best, state.n_slots, state.finished) == (0, 5, False)


def test_a_suggestion_is_outdated_once_a_result_that_it_used_was_recorded_anew():
    history = History(lag=2)
    for position in (0, 9, 2):
        history.add(position)
    assert [history.led_to(index, 3) for index in range(4)] == [True, True, True, False]
    history = History(lag=1)
    history.add(0)
    history.add(1, counts=False)
    assert history.led_to(1, 5) and not history.led_to(2, 5)


# ---------------------------------------------------------------------- an end by CPU seconds


def cpu_s(trial):
    return 1.0 + int(trial.id[:2], 16) / 64  # 1 to 5 seconds


def costly(job, nth):
    result = run_trial(job.trial, None)
    return JobOutcome(job, replace(result, costs={"cpu_s": cpu_s(job.trial)}))


def ended_after(trial, seconds):
    return replace(run_trial(trial, None), costs={"cpu_s": seconds})


def recorded(folder, study="s"):
    """[CPU seconds] of the recorded tuning trials of a study, by index."""
    found = {
        r["index"]: r["costs"].get("cpu_s", 0.0)
        for r in Ledger(folder).records("result")
        if r["study"] == study and r["stage"] == "tune"
    }
    assert sorted(found) == list(range(len(found)))
    return [found[i] for i in range(len(found))]


def first_to_reach(seconds, limit):
    """How many trials a search has, by the rule, slowly."""
    return next((n for n in range(1, len(seconds) + 1) if sum(seconds[:n]) >= limit), len(seconds))


@pytest.mark.parametrize(("sampler", "lag"), [("tpe", 1), ("tpe", 3), ("random", 1)])
def test_a_search_ends_with_the_trial_that_reaches_the_seconds(tmp_path, sampler, lag):
    choices = set()
    for seed, slots in enumerate((1, 2, 5, 9)):
        made = make_study(sampler=sampler, lag=lag, n_trials=200, study_s=40.0, seeds=(0, 1))
        folder = tmp_path / str(seed)
        run(folder, [made], ScriptedPool(seed=seed, slots=slots, script=costly))
        seconds = recorded(folder)
        n = first_to_reach(seconds, 40.0)
        assert sum(seconds[:n]) >= 40.0 > sum(seconds[: n - 1])
        assert made.finished and made.state.best < n and made.state.n_slots == n + 2
        assert len(seconds) <= n + slots  # what ran beside the last trials
        if slots == 1:
            assert len(seconds) == n
        (end,) = Ledger(folder).records("study")
        assert end["n_slots"] == n + 2 and end["best"] == made.state.best
        choices.add((n, made.state.best, made.state.best_loss))
    assert len(choices) == 1  # neither workers nor the order in which trials end change the search


def test_a_sampler_learns_of_no_trial_beyond_the_end_of_its_search():
    made = make_study(sampler="random", n_trials=9, study_s=20.0)
    told, real = [], made.sampler.tell
    made.sampler.tell = lambda *row: (told.append(row[0]), real(*row))[1]
    opened = []
    for _ in range(2):
        slot = made.next_slot()
        opened.append((slot, made.open(slot)))
        if len(opened) == 1:  # the first runs alone
            made.close(slot, ended_after(opened[0][1], 1.0))
    while (slot := made.next_slot()) is not None:
        opened.append((slot, made.open(slot)))
    assert len(opened) == 9  # by the mean of the first all of them fit
    for slot, trial in reversed(opened[1:]):
        made.close(slot, ended_after(trial, 19.5))
    assert told == [0, 1] and made.tuned and made.state.n_slots == 2


def test_a_run_that_was_killed_anywhere_ends_its_search_at_the_same_trial(tmp_path):
    def study():
        return make_study(sampler="tpe", n_trials=100, study_s=20.0, seeds=(0, 1))

    whole = study()
    expected = run(tmp_path / "whole", [whole], ScriptedPool(slots=1, script=costly))
    for folder in prefixes(tmp_path / "whole", tmp_path / "cut", at_least=1, step=3):
        made = study()
        pool = ScriptedPool(slots=1, script=costly)
        assert run(folder, [made], pool) == expected
        assert (made.state.best, made.state.n_slots) == (whole.state.best, whole.state.n_slots)
    done = ScriptedPool(script=costly)
    assert run(tmp_path / "whole", [study()], done) == expected and not done.submitted


# ---------------------------------------------------------------------- the record of a study's end


SMALL = suite_of("small", ["wine"], ["knn"], trials=9, sampler="tpe", seeds=2)


def ten_seconds(trial: Trial, data: Any) -> Result:
    """A real trial that says that it took ten seconds."""
    result = real_trial(trial, data)
    return replace(result, costs={**result.costs, "cpu_s": 10.0})


def sweep_in(folder: Path, **more: Any) -> sweep.SweepOutcome:
    """A sweep whose search has used up its seconds after three of its trials."""
    options = Options(budget="quick", study_s=25.0, runs=folder, name="run", workers=0, **more)
    request = sweep.Request(suites.parse(SMALL, "a test"), options, run_trial=ten_seconds)
    return sweep.run(request)


def table_of(run: Path) -> dict[str, Any]:
    """What the tables say of the only study."""
    (row,) = studies(evidence_of([run])).to_dict("records")
    return {name: value for name, value in row.items() if name != "n_trials"}


@pytest.mark.fault(1)
def test_a_driver_killed_before_the_record_of_a_studys_end_loses_no_score(tmp_path: Path) -> None:
    sweep_in(tmp_path)
    run = tmp_path / "run"
    whole = table_of(run)
    assert whole["state"] == "complete" and status_of(run).left == 0
    log = run / "ledger" / "log.jsonl"
    *others, end = log.read_bytes().splitlines(keepends=True)
    assert b'"kind":"study"' in end
    log.write_bytes(b"".join(others))
    assert table_of(run)["state"] == "open" and status_of(run).left > 0
    assert sweep_in(tmp_path).tally.ran == 0
    assert table_of(run) == whole and status_of(run).left == 0
    n_records = len(Ledger(run))
    sweep_in(tmp_path)
    assert len(Ledger(run)) == n_records  # an end that is there is not written again


def test_a_search_that_its_seconds_had_ended_has_its_score_in_a_plan_with_more_trials(
    tmp_path: Path,
) -> None:
    sweep_in(tmp_path)
    run = tmp_path / "run"
    whole = table_of(run)
    assert sweep_in(tmp_path, trials=30).tally.ran == 0
    assert table_of(run) == whole and status_of(run).left == 0


def test_a_lease_of_a_retry_that_was_killed_leaves_no_trial_to_come(tmp_path: Path) -> None:
    sweep_in(tmp_path)
    run = tmp_path / "run"
    ledger = Ledger(run, write=True)
    first = next(ledger.records("lease"))
    ledger.append([first])
    ledger.close()
    assert status_of(run).left > 0
    sweep_in(tmp_path)
    assert status_of(run).left == 0
