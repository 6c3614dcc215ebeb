"""Runs with files that a disk or a person damaged: found by `bench verify`, mended by a resume."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from calls import Ran, bench, working_in
from chaos import Sweep
from ledger_cases import log_of
from small_sweeps import AGAIN, FAST, executions
from tabsweep.sweeps.store import ledger as store
from tabsweep.sweeps.store.ledger import Ledger

SUITE = """
name = "seeds"
title = "Five evaluation seeds"
datasets = ["iris", "wine"]
default_budget = "quick"

[budgets.quick]
trials = 3
folds = 1
seeds = 5
models = ["knn", "linear"]
sampler = "random"
"""
N = 2 * 2 * (3 + 5 - 1)  # the first evaluation seed is that of the search


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory with the finished run `runs/whole`, most of its records in columns."""
    with working_in(tmp_path_factory.mktemp("damage")) as here:
        Path("seeds.toml").write_text(SUITE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "COLUMNS_AT", 20)
            words = ["--suite", "seeds.toml", "--name", "whole"]
            assert bench("sweep", *words, *FAST).code == 0
        assert verified("runs/whole")["sound"]
        yield here


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    """A copy of it, alone in its folder, so that no other run answers for it."""
    return Path(shutil.copytree(folder / "runs" / "whole", tmp_path / "runs" / "whole"))


def verified(run: str | Path, code: int = 0) -> dict:
    found = bench("verify", run, "--json")
    assert found.code == code, found
    return json.loads(found.out)


def resumed(run: Path, *words: object) -> Ran:
    return bench("resume", run, *AGAIN, *words)


def tables(run: Path) -> dict[str, bytes]:
    kept = ("scores", "leaderboard", "tests", "seeds", "coverage")
    found = {p.name: p.read_bytes() for p in (run / "report").iterdir() if p.stem in kept}
    assert len(found) > 10
    return found


def places(run: Path) -> dict[str, dict]:
    return {r["id"]: r["predictions"]["test"] for r in Ledger(run).records("result")}


@pytest.mark.fault(40)
def test_a_sound_run_verifies_and_nothing_of_it_changes(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    found = verified(run)
    assert found["sound"] and found["trials"] == len(places(run)) == N
    assert not found["runs_again"] and not found["ledger"] and not found["notes"]
    assert found["prediction_bytes"] == sum(p.stat().st_size for p in run.glob("predictions/*"))
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.fault(40)
def test_a_flipped_bit_in_predictions_names_its_trial_which_alone_runs_again(run: Path) -> None:
    id, place = sorted(places(run).items(), key=lambda item: item[1]["offset"])[5]
    file = run / "predictions" / place["file"]
    data = bytearray(file.read_bytes())
    data[place["offset"] + 3] ^= 0x10
    file.write_bytes(data)
    whole, before = tables(run), executions(str(run))
    found = verified(run, code=3)
    assert [trial["id"] for trial in found["damaged"]] == [id] and found["runs_again"] == 1
    assert not found["sound"] and "checksum" in found["damaged"][0]["reason"]
    printed = bench("verify", run)
    assert printed.code == 3 and id in printed.err and f"bench resume {run} --verify" in printed.out
    assert resumed(run).code == 0  # it reads no predictions
    assert executions(str(run)) == before and verified(run, code=3)["runs_again"] == 1
    again = resumed(run, "--verify")
    assert again.code == 0 and "1 finished trial are gone, damaged" in again.err
    assert executions(str(run)) - before == {id: 1}
    assert verified(run)["sound"] and tables(run) == whole


@pytest.mark.fault(40)
@pytest.mark.parametrize("how", ["folder", "file", "cut"])
def test_deleted_predictions_run_again_with_a_plain_resume(how: str, run: Path) -> None:
    file = run / "predictions" / "000000.bin"
    if how == "folder":
        shutil.rmtree(file.parent)
    elif how == "file":
        file.unlink()
    else:
        file.write_bytes(b"")
    whole, before = tables(run), executions(str(run))
    found = verified(run, code=3)
    assert found["runs_again"] == len(found["damaged"]) == N
    assert resumed(run).code == 0
    assert executions(str(run)) - before == dict.fromkeys(before, 1)
    assert verified(run)["sound"] and tables(run) == whole


@pytest.mark.fault(40)
def test_lost_trials_that_the_suite_no_longer_has_are_not_announced_to_run_again(
    run: Path, unreported: None
) -> None:
    suite = run.parent.parent / "seeds.toml"
    suite.write_text(SUITE.replace('"knn", "linear"', '"knn"'))
    before = executions(str(run))
    (run / "predictions" / "000000.bin").unlink()
    words = ["--suite", suite, "--name", run.name, "--runs", run.parent]
    found = bench("sweep", *words, *AGAIN)
    assert found.code == 0, found
    assert f"the predictions of {N // 2} finished trials are gone" in found.err
    more = executions(str(run)) - before
    assert set(more.values()) == {1} and len(more) == N // 2
    found = resumed(run, "--verify")  # what is still gone belongs to no trial of the plan
    assert found.code == 0 and "run again" not in found.err, found
    assert executions(str(run)) - before == more


@pytest.mark.fault(40)
def test_a_report_of_damaged_predictions_is_written_and_ends_with_3(run: Path) -> None:
    assert bench("report", run).code == 0
    assert b"linear" in (run / "report" / "seeds.csv").read_bytes()
    (run / "predictions" / "000000.bin").unlink()
    found = bench("report", run, "--json")
    assert found.code == 3 and f"bench verify {run}" in found.err
    said = json.loads(found.out)
    assert all("000000.bin" in text for text in said["damage"])
    assert [text.partition(":")[0] for text in said["damage"]] == ["iris", "wine"]  # once each
    assert all(Path(path).exists() for path in said["files"])


@pytest.mark.fault(40)
@pytest.mark.parametrize("stage", ["tune", "eval"])
def test_an_edited_score_is_found_by_verify_and_stands_in_no_table(stage: str, run: Path) -> None:
    """With the checksums of its line right, as an editor of numbers would leave it."""
    whole, before, log = tables(run), executions(str(run)), log_of(run)
    records = [store.decode(line) for line in log.read_bytes().splitlines(keepends=True)]
    results = [r for r in records if r and r["kind"] == "result" and r["stage"] == stage]
    best = max(results, key=lambda r: (r["dataset"] == "wine", r["val"]["accuracy"]))
    best["test"]["accuracy"] = 0.123
    log.write_bytes(b"".join(store.encode(record) for record in records))
    (run / "ledger" / "columns.bin").unlink()
    found = verified(run, code=3)
    assert [trial["id"] for trial in found["damaged"]] == [best["id"]] and not found["ledger"]
    assert "accuracy on test is 0.123" in found["damaged"][0]["reason"]
    reported = bench("report", run)
    if stage == "eval":
        assert reported.code == 3 and best["id"] in reported.err and tables(run) == whole
    assert resumed(run, "--verify").code == 0
    assert executions(str(run)) - before == {best["id"]: 1}
    assert verified(run)["sound"] and bench("report", run).code == 0 and tables(run) == whole


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.fault(6, 40)
@pytest.mark.parametrize("columns", ["right", "gone"])
def test_a_damaged_record_is_found_by_verify_and_its_trial_runs_again(
    columns: str, run: Path
) -> None:
    whole, before = tables(run), executions(str(run))
    lines = log_of(run).read_bytes().splitlines(keepends=True)
    hit = next(n for n, line in enumerate(lines) if n > 5 and b'"kind":"result"' in line)
    flip(log_of(run), len(b"".join(lines[:hit])) + 60)
    if columns == "gone":
        (run / "ledger" / "columns.bin").unlink()
    found = verified(run, code=3)
    assert "log.jsonl" in found["ledger"][0] and found["missing"] == found["runs_again"] > 0
    reported = bench("report", run)
    assert reported.code == 3 and "log.jsonl" in reported.err
    resume = resumed(run)
    assert resume.code == 0 and "fail their checksum" in resume.err
    assert executions(str(run)) == before  # the damaged one counts no more
    assert verified(run)["sound"] and not verified(run)["notes"] and tables(run) == whole


@pytest.mark.fault(6, 39)
@pytest.mark.parametrize("mended", [False, True])
def test_of_a_damaged_plan_the_results_are_kept_and_named(mended: bool, run: Path) -> None:
    """By a resume, which has no plan to go on with, and by the sweep that writes it again."""
    whole, before = tables(run), executions(str(run))
    flip(log_of(run), 100)
    found = verified(run, code=3)
    assert "at byte 0" in found["ledger"][0] and f"{N} results are whole" in found["ledger"][1]
    if mended:  # the damaged bytes are in quarantine, and no record is damaged any more
        Ledger(run, write=True).close()
    for command in ("resume", "status", "report", "retry"):
        refused = bench(command, run, *(AGAIN if command in ("resume", "retry") else ()))
        assert refused.code == 3 and f"{N} results are whole" in refused.err, refused
        assert "nothing was started" not in refused.err and f"--name {run.name}" in refused.err
    words = ["--suite", "seeds.toml", "--name", run.name, "--runs", run.parent]
    assert bench("sweep", *words, *AGAIN).code == 0
    assert executions(str(run)) == before
    assert verified(run)["sound"] and tables(run) == whole


@pytest.mark.nightly
@pytest.mark.fault(6, 39, 40)
@pytest.mark.parametrize("place", range(50))
def test_a_flipped_bit_at_any_place_is_named_and_mended(place: int, run: Path) -> None:
    files = [log_of(run), run / "predictions" / "000000.bin", run / "ledger" / "columns.bin"]
    file, whole, before = files[place % 3], tables(run), executions(str(run))
    flip(file, random.Random(place).randrange(file.stat().st_size))
    if file.name != "columns.bin":  # which is made anew from the log
        found = verified(run, code=3)
        assert file.name in str([found["ledger"], found["damaged"]])
    words = ["--suite", "seeds.toml", "--name", run.name, "--runs", run.parent]
    assert bench("sweep", *words, *AGAIN).code == 0  # a resume would need the plan's record
    assert resumed(run, "--verify").code == 0
    assert len(executions(str(run)) - before) <= 1
    assert verified(run)["sound"] and tables(run) == whole


@pytest.mark.fault(39)
@pytest.mark.parametrize("name", ["log.jsonm", "mog.jsonl", "log"])
def test_a_log_with_another_name_is_named_everywhere_and_nothing_begins_anew(
    name: str, run: Path
) -> None:
    """A flipped bit in a folder of the disk, or a person: no command takes it for an empty run."""
    whole, log = tables(run), log_of(run)
    log.rename(log.with_name(name))
    words = ["--suite", "seeds.toml", "--runs", run.parent]
    runs = json.loads(bench("runs", "--runs", run.parent, "--json").out)
    assert [row["state"] for row in runs] == ["unreadable"] and name in runs[0]["next"]
    for call in (
        ["status", run], ["verify", run], ["report", run], ["resume", run, *AGAIN],
        ["sweep", *words, "--name", run.name, *AGAIN],
    ):  # fmt: skip
        refused = bench(*call)
        assert refused.code == 3 and name in refused.err and "no log.jsonl" in refused.err, refused
    other = bench("sweep", *words, "--name", "other", *AGAIN)
    assert other.code == 0 and f"{run} is not used as a cache" in other.err and name in other.err
    log.with_name(name).rename(log)
    assert verified(run)["sound"] and tables(run) == whole


@pytest.mark.fault(39)
def test_a_run_is_one_for_every_command_and_for_the_next_sweep(run: Path) -> None:
    (run / "ledger" / "columns.bin").unlink()
    assert json.loads(bench("status", run, "--json").out)["left"] == 0
    (row,) = json.loads(bench("runs", "--runs", run.parent, "--json").out)
    assert row["state"] == "finished" and row["run"] == str(run)
    before = executions(str(run))
    words = ["--suite", "seeds.toml", "--runs", run.parent, "--name", "next"]
    assert bench("sweep", *words, *AGAIN).code == 0  # all from the cache
    assert executions(str(run)) == before
    assert {r["origin"] for r in Ledger(run.with_name("next")).records("result")} == {run.name}


@pytest.mark.fault(39)
def test_a_file_that_is_no_part_of_a_ledger_is_named(run: Path) -> None:
    (run / "ledger" / "log (1).jsonl").write_bytes(b"")
    found = verified(run)
    assert found["sound"] and "log (1).jsonl" in found["notes"][0]
    resume = resumed(run)
    assert resume.code == 0 and "log (1).jsonl" in resume.err


def lock_is_a_folder(run: Path) -> None:
    (run / "owner.lock").unlink(missing_ok=True)
    (run / "owner.lock").mkdir()


def ledger_is_a_file(run: Path) -> None:
    shutil.rmtree(run / "ledger")
    (run / "ledger").write_text("")


@pytest.mark.fault(39)
@pytest.mark.parametrize(
    ("spoil", "command", "id", "code", "way_out"),
    [
        (lock_is_a_folder, "sweep", "E010", 3, "remove it"),
        (lock_is_a_folder, "resume", "E010", 3, "remove it"),
        (ledger_is_a_file, "sweep", "E005", 2, "choose another --name"),
        (ledger_is_a_file, "resume", "E020", 2, "give the one that a sweep named"),
    ],
)
def test_a_folder_and_a_file_in_place_of_each_other_end_in_one_line(
    spoil: Callable[[Path], None], command: str, id: str, code: int, way_out: str, run: Path
) -> None:
    spoil(run)
    sweep = ["sweep", "--suite", "seeds.toml", "--runs", run.parent, "--name", run.name]
    refused = bench(*(sweep if command == "sweep" else ["resume", run]), *AGAIN)
    assert refused.code == code, refused
    (line,) = refused.err.splitlines()
    assert line.startswith(f"error BENCH-{id}: ") and way_out in line and str(run) in line


def test_a_foreign_file_beside_the_predictions_harms_nothing(run: Path, unreported: None) -> None:
    for name in ("000000 (1).bin", "00.bin", "0000000.bin", "000001.bin.bak", "000009.binary"):
        shutil.copyfile(run / "predictions" / "000000.bin", run / "predictions" / name)
    assert verified(run)["sound"]
    found = resumed(run)
    assert found.code == 0 and "run again" not in found.err, found
    assert set(executions(str(run)).values()) == {1}
    more = bench("sweep", "--suite", "seeds.toml", "--name", run.name, "--trials", 4,
                 "--workers", 0, "--tracking-uri", "none", "--runs", run.parent)  # fmt: skip
    assert more.code == 0, more  # new predictions go to the run's own file
    assert verified(run)["sound"] and not (run / "predictions" / "000001.bin").exists()


@pytest.mark.fault(41)
@pytest.mark.parametrize("what", ["predictions", "."])
def test_what_is_deleted_under_a_sweep_is_written_again_or_named(what: str, tmp_path: Path) -> None:
    options = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", 1]
    options += ["--trials", 6, "--workers", 0, "--tracking-uri", "none"]
    sweep = Sweep(tmp_path / "sweep", *options)
    driver = sweep.start(pause_s=0.3)
    try:
        sweep.wait(lambda: 2 <= len(sweep.results()) <= 4, "some results")
        shutil.rmtree(sweep.run.parent if what == "." else sweep.run / what)
        code = driver.wait(120)
    finally:
        sweep.off()
    if what == ".":
        last = sweep.output().strip().splitlines()[-1]
        assert code == 3 and last.startswith(f"error BENCH-E010: {sweep.run} "), sweep.output()
        assert "the same command begins it again" in last and "Traceback" not in sweep.output()
        return
    assert code == 0 and len(sweep.results()) > 4, sweep.output()
    found = verified(sweep.run)
    assert found["sound"] and found["trials"] == len(sweep.finished())
    assert "was removed or replaced during the sweep" in sweep.output()
