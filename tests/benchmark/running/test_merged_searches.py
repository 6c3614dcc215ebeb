"""Merged runs of searches that learn: the trials that count are those of one undisturbed search."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calls import bench
from small_sweeps import AGAIN
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.running import sweep
from tabsweep.benchmark.running.run_trial import run_trial
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import slot_places
from tabsweep.sweeps.trial import Result, Trial, failure

pytestmark = pytest.mark.usefixtures("unsynced", "unreported")

# (number of the trial in this call, trial, data and checkpoints) -> result
Answer = Callable[..., Result]


def suite(**more: Any) -> suites.Suite:
    usual = {"models": ["linear"], "folds": 1, "trials": 4, "sampler": "tpe", "seeds": 2}
    about = {"name": "searched", "title": "one search that learns", "datasets": ["wine"]}
    metric = {"binary": "log_loss", "multiclass": "log_loss"}
    return suites.parse(
        {**about, "metric": metric, "budgets": {"quick": {**usual, **more}}}, "a test"
    )


def run(folder: Path, trials: int, answer: Answer | None = None, **more: Any) -> Path:
    """A sweep in this process; returns its folder. stop_after: results after which it ends."""
    numbers = iter(range(10**6))
    stop_after = more.pop("stop_after", 10**6)
    stop = sweep.Stop()

    def compute(trial: Trial, data: Any, *rest: Any) -> Result:
        number = next(numbers)
        stop.soon = number + 1 >= stop_after
        return answer(number, trial, data, *rest) if answer else run_trial(trial, data, *rest)

    kept = {name: more.pop(name) for name in ("retry",) if name in more}
    request = sweep.Request(
        suite(**more),
        Options(trials=trials, runs=folder, name="run", workers=0),
        run_trial=compute,
        **kept,
    )
    sweep.run(request, stop=stop)
    return request.folder


def fails(at: int) -> Answer:
    """As a machine on which one trial takes too long."""
    return lambda number, *given: (
        failure("timeout", "too slow") if number == at else run_trial(*given)
    )


def elsewhere(number: int, trial: Trial, data: Any) -> Result:
    """As a machine that computes something else: the same trials have other losses there."""
    return run_trial(replace(trial, config={"C": 1 / trial.config["C"]}), data)


def merged(out: Path, *words: object, code: int = 0) -> dict[str, Any]:
    found = bench("merge", *words, "--out", out, "--json")
    assert found.code == code, found
    return json.loads(found.out)


def resumed(out: Path) -> int:
    """Run what a merge left; returns the number of slots, some filled by a trial of another one."""
    found = bench("resume", out, *AGAIN, "--json")
    assert found.code == 0, found
    told = json.loads(found.out)
    return told["ran"] + told["reused"]


def slots(run: Path) -> dict[str, str]:
    return {str(slot): id for slot, (id, _) in slot_places(Ledger(run)).items()}


def searched(run: Path) -> list[int]:
    keys = (key.split("#") for key in slots(run))
    return sorted(int(index) for _, stage, index in keys if stage == "tune")


def table(run: Path) -> list[tuple[Any, ...]]:
    names = ["study", "stage", "index", "id", "status", "selected", "test_log_loss"]
    rows = load_results(run).sort_values(names[:3])[names]
    return list(rows.itertuples(index=False, name=None))


RUNGS = {
    **{"models": ["xgboost"], "halving": {"eta": 3, "rungs": 2}, "seeds": 1},
    "model": {"xgboost": {"fixed": {"n_estimators": 6}}},
}


@pytest.mark.fault(42)
@pytest.mark.parametrize(
    ("how", "at", "n", "kept"),
    [
        pytest.param({}, 5, 15, [*range(10)], id="what was suggested after a failure"),
        pytest.param({"lag": 3}, 9, 15, [*range(12), 14], id="what waited for others alone stays"),
        pytest.param({}, 1, 8, [*range(8)], id="what would be suggested again stays"),
        pytest.param(RUNGS, 5, 14, None, id="rungs hold the configurations that count"),
    ],
)
def test_a_trial_that_failed_in_one_run_alone_takes_along_what_was_suggested_after_it(
    how: dict[str, Any], at: int, n: int, kept: list[int] | None, tmp_path: Path
) -> None:
    whole = run(tmp_path / "whole", n, **how)
    failed = run(tmp_path / "a", n, fails(at), **how)
    cut = run(tmp_path / "b", n, **how, stop_after=at + 1)
    if kept is not None:
        assert len(searched(failed)) == n and searched(cut) == list(range(at + 1))
    for runs in ((failed, cut), (cut, failed)):
        out = tmp_path / f"c-{runs[0].parent.name}" / "ours"
        found = merged(out, *runs)
        assert (searched(out) == kept or kept is None) and not found["failed"]
        ours, theirs = slots(out), slots(whole)
        assert all(theirs[key] == id for key, id in ours.items() if "#tune#" in key)
        assert found["left"] == resumed(out)
        assert table(out) == table(whole)


def test_a_retry_that_was_cut_short_is_no_history_of_what_came_before_it(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 15)
    mended = run(tmp_path / "a", 15, fails(5))
    run(tmp_path / "a", 15, stop_after=1, retry=lambda record: record["status"] == "failed")
    assert load_results(mended)["status"].eq("done").all() and searched(mended)[-1] == 14
    other = run(tmp_path / "b", 15, stop_after=2)
    found = merged(out := tmp_path / "c" / "ours", mended, other)
    assert searched(out) == list(range(10))
    assert found["left"] == resumed(out)
    assert table(out) == table(whole)


def test_the_first_run_is_not_continued_by_the_search_of_another_that_contradicts_it(
    tmp_path: Path,
) -> None:
    whole = run(tmp_path / "whole", 15)
    first = run(tmp_path / "a", 15, stop_after=13)
    other = run(tmp_path / "b", 15, elsewhere)
    found = merged(out := tmp_path / "c" / "ours", first, other, code=3)
    assert found["conflicts"] and found["taken"] == {str(first): 13}
    assert searched(out) == list(range(13))
    assert found["left"] == resumed(out)
    assert table(out) == table(whole)


def test_runs_of_suites_of_which_the_first_asks_for_less_are_not_merged(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / name, 1, lambda *given: failure("error", ""), models=models)
        for name, models in (("a", ["linear"]), ("b", ["linear", "knn"]))
    ]
    found = bench("merge", *runs, "--out", tmp_path / "c" / "ours")
    assert found.code == 2 and "trials of wine/0/knn" in found.err


def test_a_trial_that_one_run_has_lost_is_filled_by_another_run(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 13)
    lossy = Path(shutil.copytree(whole, tmp_path / "a" / "run"))
    log = lossy / "ledger" / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lost = [b'"kind":"result"' in line and b'"index":5,' in line for line in lines]
    log.write_bytes(b"".join(line for line, gone in zip(lines, lost, strict=True) if not gone))
    assert sum(lost) == 1 and 5 not in searched(lossy)
    other = run(tmp_path / "b", 13, stop_after=6)
    found = merged(out := tmp_path / "c" / "ours", lossy, other)
    assert found["left"] == 0 and table(out) == table(whole)


def test_evaluated_is_the_choice_of_all_trials_together(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 8, sampler="random")
    (at,) = (index for _, stage, index, *_, best, _ in table(whole) if best)
    failed = run(tmp_path / "a", 8, fails(at), sampler="random")
    cut = run(tmp_path / "b", 8, sampler="random", stop_after=at + 1)
    found = merged(out := tmp_path / "c" / "ours", failed, cut)
    assert searched(out) == list(range(8)), "it learns nothing: no trial follows from another"
    assert found["left"] == resumed(out) > 0
    assert table(out) == table(whole)
