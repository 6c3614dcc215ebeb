"""`bench clean`: what it removes, what it never touches, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from calls import answer, bench, contents
from run_records import make_run, plan, result
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.store.run_lock import RunLock


def full_run(folder: Path, n_done: int = 4) -> Path:
    """A run with one of everything."""
    run = make_run(folder, plan(), *(result(index) for index in range(n_done)))
    for name in ("report/scores.md", "mlflow.db", "mlflow.db-wal", "tracking/log.txt",
                 "mlartifacts/a/b", "checkpoints/ab12", "tune/iris/state", "logs/events.jsonl",
                 "quarantine/log.jsonl.1", "live.json", ".live.json.7.tmp",
                 "predictions/000000.bin",
                 "ledger/.log.jsonl.7.tmp", "notes.txt"):  # fmt: skip
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 1000)
    return run


def cleaned(run: Path, *args: object, code: int = 0) -> set[str]:
    """What went."""
    before = contents(run)
    found = bench("clean", run, "--yes", *args)
    assert found.code == code, found
    return before.keys() - contents(run)


@pytest.mark.parametrize(
    ("args", "gone"),
    [
        ([], {"checkpoints/ab12", "tune/iris/state", "live.json"}),
        (["--report"], {"report/scores.md"}),
        (["--tracking"], {"mlflow.db", "mlflow.db-wal", "tracking/log.txt", "mlartifacts/a/b"}),
        (["--checkpoints"], {"checkpoints/ab12", "tune/iris/state"}),
        (["--logs", "--quarantine"], {"logs/events.jsonl", "quarantine/log.jsonl.1"}),
    ],
    ids=["default", "report", "tracking", "checkpoints", "logs"],
)
def test_clean_removes_what_is_named_or_left_over(args, gone, tmp_path):
    run = full_run(tmp_path / "r")
    assert cleaned(run, *args) == gone | {".live.json.7.tmp"}


def test_clean_of_everything_leaves_the_run_itself(tmp_path):
    run = full_run(tmp_path / "r")
    cleaned(run, "--all")
    left = set(contents(run))
    others = {name for name in left if not name.startswith("ledger/")} - {"live.json"}
    assert others == {"predictions/000000.bin", "notes.txt", "owner.lock"}
    assert "ledger/.log.jsonl.7.tmp" in left and status_of(run).done == 4
    assert cleaned(run, "--all", code=5) == set()


def test_an_unfinished_run_keeps_its_checkpoints_unless_they_are_named(tmp_path):
    run = full_run(tmp_path / "r", n_done=3)
    assert cleaned(run) == {".live.json.7.tmp"}
    assert cleaned(run, "--checkpoints") == {"checkpoints/ab12", "tune/iris/state"}


def test_clean_asks_first_and_a_dry_run_removes_nothing(tmp_path):
    run = full_run(tmp_path / "r")
    before = contents(run)
    found = bench("clean", run, "--dry-run", "--all")
    assert found.code == 0 and "1.0 kB" in found.out and "nothing was removed" in found.out
    assert bench("clean", run).code == 2, "nobody is there to be asked"
    assert contents(run) == before
    document = answer("clean", run, "--dry-run")
    assert document["bytes"] == 4000 and not document["removed"]


def test_clean_refuses_a_run_in_use_and_passes_it_over_among_others(tmp_path):
    mine, other = full_run(tmp_path / "mine"), full_run(tmp_path / "other")
    with RunLock(mine):
        before = contents(mine)
        found = bench("clean", mine, "--all", "--yes")
        assert found.code == 3 and f"process {os.getpid()}" in found.err
        found = bench("clean", mine, other, "--report", "--yes")
        assert found.code == 0 and "in use" in found.err
        assert contents(mine) == before
    assert not (other / "report").exists()


def test_clean_refuses_what_is_no_run(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "mine.md").write_text("precious")
    assert bench("clean", tmp_path, "--all", "--yes").code == 2
    assert bench("clean").code == 2
    run = full_run(tmp_path / "r")
    (tmp_path / "link").symlink_to(run)
    found = bench("clean", tmp_path / "link", "--all", "--yes")
    assert found.code == 2 and "is a link" in found.err and (run / "report").exists()
    assert (tmp_path / "report" / "mine.md").exists()


def test_a_run_without_a_plan_is_cleaned_of_leftovers_and_stops_no_other(tmp_path):
    fine, unplanned = full_run(tmp_path / "fine"), make_run(tmp_path / "empty")
    (unplanned / "live.json").write_text("{}")
    (unplanned / ".live.json.9.tmp").write_text("x")
    damaged = full_run(tmp_path / "damaged")
    (damaged / "ledger" / "log.jsonl").rename(damaged / "ledger" / "log")
    found = bench("clean", fine, unplanned, damaged, "--yes")
    assert found.code == 0 and "empty" in found.err and "damaged" in found.err
    assert "live.json" in contents(unplanned) and not list(unplanned.glob(".*.tmp"))
    assert not (fine / "checkpoints").exists() and (damaged / "checkpoints").exists()


def test_clean_goes_through_no_link(tmp_path):
    run, away = full_run(tmp_path / "r"), tmp_path / "away"
    away.mkdir()
    (away / "precious").write_text("x")
    (run / "report" / "scores.md").unlink()
    (run / "report").rmdir()
    (run / "report").symlink_to(away)
    (run / "checkpoints" / "link").symlink_to(away)
    found = bench("clean", run, "--all", "--yes")
    assert found.code == 0 and "report is a link: left alone" in found.err
    assert (away / "precious").exists() and not (run / "checkpoints").exists()
