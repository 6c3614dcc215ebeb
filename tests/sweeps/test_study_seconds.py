"""A search that ends after so many CPU seconds: where, in which order, and on a resume."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_cases import ScriptedPool, make_study, prefixes, run, run_trial
from tabsweep.sweeps.search.halving import Halving
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.workers.pool import JobOutcome

pytestmark = pytest.mark.usefixtures("unsynced")


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
        assert made.finished and made.best() < n and made.n_slots == n + 2
        assert len(seconds) <= n + slots  # what ran beside the last trials
        if slots == 1:
            assert len(seconds) == n
        (end,) = Ledger(folder).records("study")
        assert end["n_slots"] == n + 2 and end["best"] == made.best()
        choices.add((n, made.best(), made.best_loss()))
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
    assert told == [0, 1] and made.tuned and made.n_slots == 2


def test_a_run_that_was_killed_anywhere_ends_its_search_at_the_same_trial(tmp_path):
    def study():
        return make_study(sampler="tpe", n_trials=100, study_s=20.0, seeds=(0, 1))

    whole = study()
    expected = run(tmp_path / "whole", [whole], ScriptedPool(slots=1, script=costly))
    for folder in prefixes(tmp_path / "whole", tmp_path / "cut", at_least=1, step=3):
        made = study()
        pool = ScriptedPool(slots=1, script=costly)
        assert run(folder, [made], pool) == expected
        assert (made.best(), made.n_slots) == (whole.best(), whole.n_slots)
    done = ScriptedPool(script=costly)
    assert run(tmp_path / "whole", [study()], done) == expected and not done.submitted


def test_seconds_do_not_go_with_halving():
    with pytest.raises(ValueError, match="does not go with halving"):
        make_study(study_s=1.0, halving=Halving())
