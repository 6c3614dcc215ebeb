"""Runs whose code changes and changes back: what is refused, taken over and written."""

from __future__ import annotations

import pytest
from engine_cases import ScriptedPool, make_study, prefixes, run, studies
from tabsweep.sweeps.engine import SourceChanged
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = [pytest.mark.usefixtures("unsynced"), pytest.mark.fault(20)]

ALLOWED = {"allow_code_change": True}


def test_a_return_to_the_first_code_is_not_refused_and_runs_nothing(tmp_path):
    first = run(tmp_path / "run", studies())
    records = len(Ledger(tmp_path / "run"))
    other = run(tmp_path / "run", studies(source="v2"), **ALLOWED)
    assert not {id for id, *_ in first.values()} & {id for id, *_ in other.values()}
    # Wherever the run under the other code was killed.
    for folder in [*prefixes(tmp_path / "run", tmp_path / "cut", at_least=records, step=9)]:
        pool = ScriptedPool()
        assert run(folder, studies(), pool) == first and not pool.log
    pool = ScriptedPool()
    assert run(tmp_path / "run", studies(), pool) == first and not pool.log


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
    run(tmp_path / "run", grown("v2"), **ALLOWED)
    before = len(Ledger(tmp_path / "run"))
    for _ in range(2):  # three trials of s0 and an evaluation of s1 did not run under the first
        pool = ScriptedPool()
        with pytest.raises(SourceChanged) as caught:
            run(tmp_path / "run", grown("v1"), pool)
        assert not pool.log and len(Ledger(tmp_path / "run")) == before
        assert caught.value.count == 4
    direct = run(tmp_path / "direct", grown("v1"))
    pool = ScriptedPool()
    assert run(tmp_path / "run", grown("v1"), pool, **ALLOWED) == direct
    assert pool.submitted.total() == 4
