"""The progress of a run, counted from the records of its ledger."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from run_records import NAME, end, lease, make_run, plan, result
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import RunStatus, pace_of, status_of
from tabsweep.benchmark.running import sweep
from tabsweep.sweeps.store import ledger as ledgers


@pytest.fixture
def count_of(tmp_path: Path) -> Callable[..., RunStatus]:
    """The status of a run that holds these records."""
    numbers = count()
    return lambda *records: status_of(make_run(tmp_path / f"run{next(numbers)}", *records))


def test_an_asynchronous_search_has_one_slot_a_configuration_wherever_it_ends(count_of):
    records = [
        plan(rungs=(4, 2, 1), asynchronous="asha"),
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


def test_a_study_that_ended_with_fewer_slots_than_planned_has_none_left(count_of):
    failed = [result(i, cause="error") for i in range(4)]
    found = count_of(plan(seeds=3), *failed)
    assert (found.planned, found.left) == (7, 3), "nobody knows yet that nothing is evaluated"
    found = count_of(plan(seeds=3), *failed, end(4))
    assert (found.planned, found.left, found.finished) == (4, 0, True)
    old = {key: value for key, value in end(4).items() if key != "n_slots"}
    assert count_of(plan(seeds=3), *failed, old).left == 3, "of a version that did not say it"


def test_what_a_study_ended_with_counts_until_it_goes_on(count_of):
    ended = [plan(seeds=3), *(result(i, cause="error") for i in range(4)), end(4)]
    assert count_of(*ended, plan(seeds=3)).left == 0, "the same plan once more"
    assert count_of(*ended, plan(seeds=5)).left == 5, "extended by evaluation seeds"
    assert count_of(*ended, plan(n_trials=6, seeds=3)).left == 5, "extended by trials"
    healed = [*ended, lease(0), result(0)]
    assert count_of(*healed[:-1]).left == 3 and count_of(*healed).left == 3, "a retry"
    seeds = [result(i, stage="eval") for i in range(3)]
    found = count_of(*healed, *seeds, end(7))
    assert (found.planned, found.done, found.left) == (7, 4, 0)


def test_a_search_that_its_seconds_ended_is_counted_up_to_its_end(count_of):
    def costly(index: int, cpu_s: float, **more: Any) -> dict[str, Any]:
        return result(index, costs={"cpu_s": cpu_s}, **more)

    timed = plan(n_trials=9, study_s=25.0)
    ran = [costly(0, 10.0), costly(1, 14.9), costly(2, 0.1, cause="oom"), costly(3, 1.0)]
    found = count_of(timed, *ran, costly(4, 1.0, cause="error"))
    assert (found.done, found.failed, found.left) == (2, {"oom": 1}, 6)
    found = count_of(timed, *ran, costly(4, 1.0, cause="error"), end(3, n_trials=9))
    assert (found.planned, found.done, found.failed, found.left) == (3, 2, {"oom": 1}, 0)
    retried = costly(2, 0.01)  # the search goes on to the next trial
    found = count_of(timed, *ran, costly(4, 1.0, cause="error"), retried)
    assert (found.done, found.failed) == (4, {})


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


# ---------------------------------------------------------------------- real sweeps


def of_suite(folder: Path, trials: int, **budget: Any) -> sweep.Request:
    usual = {"folds": 1, "trials": trials, "sampler": "random"}
    about = {"name": "counted", "title": "one search", "datasets": ["wine"]}
    made = suites.parse({**about, "budgets": {"quick": {**usual, **budget}}}, "a test")
    return sweep.Request(made, Options(trials=trials, runs=folder, name="run", workers=0))


def test_a_run_on_rungs_that_is_extended_counts_at_every_moment_what_its_tables_hold(
    tmp_path: Path,
):
    rungs = {"halving": {"eta": 3, "rungs": 2}, "models": ["xgboost"]}
    size = {"model": {"xgboost": {"fixed": {"n_estimators": 6}}}}
    for trials in (4, 12):
        sweep.run(of_suite(tmp_path, trials, **rungs, **size))
    records = list(ledgers.Ledger(tmp_path / "run").records())
    begin = [record["kind"] for record in records].index("plan", 1)
    seen = set()
    for n in range(begin + 1, len(records) + 1):
        ledger = ledgers.Ledger(tmp_path / str(n), write=True)
        ledger.append(records[:n])
        ledger.close()
        found = status_of(tmp_path / str(n))
        assert found.done == len(load_results(tmp_path / str(n))) == found.planned - found.left
        seen.add(found.left)
    assert (max(seen), min(seen)) == (12, 0), "of 12 and 4 on two rungs four had run"
