"""The record of the end of a study: after a kill, an extension or a retry it is there again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_sweeps import suite_of
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running import sweep
from tabsweep.benchmark.running.run_trial import run_trial
from tabsweep.reports.aggregation.cells import studies
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import Result, Trial

pytestmark = pytest.mark.usefixtures("unsynced")

SMALL = suite_of("small", ["wine"], ["knn"], trials=9, sampler="tpe", seeds=2)


def ten_seconds(trial: Trial, data: Any) -> Result:
    """A real trial that says that it took ten seconds."""
    result = run_trial(trial, data)
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
