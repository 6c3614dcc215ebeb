"""Trials copied from another run: many at a time, and not longer than somebody wants to wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_cases import ScriptedPool, ended, make_study, run, run_trial
from tabsweep.sweeps.engine import Engine, Reused, Stop
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import Trial

pytestmark = pytest.mark.usefixtures("unsynced")


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
