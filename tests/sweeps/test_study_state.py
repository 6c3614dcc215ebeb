"""What counts in a study: a state made of records is that of the engine, in whichever order."""

from __future__ import annotations

import math
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_cases import ScriptedPool, make_study, run, run_trial
from hypothesis import given, settings
from hypothesis import strategies as st
from tabsweep.sweeps.engine import Stop
from tabsweep.sweeps.search.halving import Halving
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import slot_places
from tabsweep.sweeps.study import Slot, Study
from tabsweep.sweeps.study_state import EVAL, TUNE, History, Shape, StudyState
from tabsweep.sweeps.trial import FAILED, failure
from tabsweep.sweeps.workers.pool import Job, JobOutcome

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
    for key, (id, _) in slot_places(ledger).items():
        _, stage, index = Slot.parse(key)
        if id in results:
            record = results[id]
            found[stage, index] = record["val"].get("loss"), record["costs"].get("cpu_s", 0.0)
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


@pytest.mark.usefixtures("unsynced")
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
                heard: list[str] = []

                def listener(event, details, stop=stop, heard=heard, n=n):
                    heard.append(event)
                    stop.soon = heard.count("result") >= n

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
