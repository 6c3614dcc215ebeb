"""The progress of a run, counted from the records of its ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_records import NAME, end, lease, plan, result
from tabsweep.benchmark.planning.plan_record import planned_slots, slots_of
from tabsweep.benchmark.results import run_status
from tabsweep.benchmark.results.run_status import RunCounts, pace_of
from tabsweep.sweeps.store import ledger as ledgers


def count_of(*records: dict[str, Any]) -> run_status.RunStatus:
    found = RunCounts()
    for record in records:
        found.add(ledgers.head_of(record), lambda record=record: record)  # type: ignore[misc]
    return found.status(Path("run"), None)


def test_a_study_on_rungs_stands_for_the_sum_of_its_rungs():
    (study,) = plan(n_trials=9, seeds=3, rungs=[9, 3, 1])["studies"]
    assert planned_slots(study) == 9 + 3 + 1 + 3
    bounds = slots_of({"studies": [study]})
    stages = {"rung0": 9, "rung1": 9, "tune": 9, "eval": 3}
    assert bounds == {(NAME, stage): n for stage, n in stages.items()}
    (study,) = plan(n_trials=9, rungs=[9, 3, 1], reason="too large")["studies"]
    assert planned_slots(study) == 0 and set(slots_of({"studies": [study]}).values()) == {0}


def test_indices_on_higher_rungs_are_those_of_the_search():
    done = [result(i, stage="rung0") for i in range(4)] + [result(3)]
    found = count_of(plan(rungs=[4, 1]), *done)
    assert (found.planned, found.done, found.left) == (5, 5, 0)


def test_an_asynchronous_search_has_one_slot_a_configuration_wherever_it_ends():
    records = [
        plan(rungs=[4, 2, 1], **{"async": "asha"}),
        result(0, stage="rung0"),
        result(1, stage="rung1"),
        result(2),
        result(3, stage="rung0", cause="error"),
    ]
    found = count_of(*records)
    assert (found.planned, found.done, found.failed, found.left) == (4, 3, {"error": 1}, 0)
    again = result(3, id="rung0-3")  # on another rung than before, which its old place points at
    link = {"kind": "slot", "id": "rung0-3", "study": NAME, "stage": "rung0", "index": 3}
    found = count_of(*records, again, link)
    assert (found.planned, found.done, found.failed, found.left) == (4, 4, {}, 0)


def test_a_study_that_ended_with_fewer_slots_than_planned_has_none_left():
    failed = [result(i, cause="error") for i in range(4)]
    found = count_of(plan(seeds=3), *failed)
    assert (found.planned, found.left) == (7, 3), "nobody knows yet that nothing is evaluated"
    found = count_of(plan(seeds=3), *failed, end(4))
    assert (found.planned, found.left, found.finished) == (4, 0, True)
    old = {key: value for key, value in end(4).items() if key != "n_slots"}
    assert count_of(plan(seeds=3), *failed, old).left == 3, "of a version that did not say it"


def test_what_a_study_ended_with_counts_until_it_goes_on():
    ended = [plan(seeds=3), *(result(i, cause="error") for i in range(4)), end(4)]
    assert count_of(*ended, plan(seeds=3)).left == 0, "the same plan once more"
    assert count_of(*ended, plan(seeds=5)).left == 5, "extended by evaluation seeds"
    assert count_of(*ended, plan(n_trials=6, seeds=3)).left == 5, "extended by trials"
    healed = [*ended, lease(0), result(0)]
    assert count_of(*healed[:-1]).left == 3 and count_of(*healed).left == 3, "a retry"
    seeds = [result(i, stage="eval") for i in range(3)]
    found = count_of(*healed, *seeds, end(7))
    assert (found.planned, found.done, found.left) == (7, 4, 0)


def test_records_that_are_counted_twice_change_nothing():
    records = [
        plan(seeds=3),
        lease(0),
        result(0),
        lease(1),
        *(result(i, cause="oom") for i in range(1, 4)),
        *(result(i, stage="eval") for i in range(3)),
        end(7),
        lease(1),
    ]
    for start in range(1, len(records)):
        assert count_of(*records, *records[start:]) == count_of(*records)


@pytest.mark.fault(8)
def test_neither_a_night_s_pause_nor_a_jump_of_the_clock_makes_the_pace():
    steady = [f"2030-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:00Z" for second in
              range(0, 3600, 60)]  # fmt: skip
    assert pace_of(steady) == pytest.approx(1 / 60)
    later = [text.replace("01-01", "01-09") for text in steady]
    earlier = [text.replace("2030-01-01", "2029-12-31") for text in steady]
    assert pace_of(steady + later) == pytest.approx(1 / 60)
    assert pace_of(steady + earlier + later) == pytest.approx(1 / 60)
    assert pace_of(steady[:1]) is None and pace_of([steady[0]] * 20) is None
