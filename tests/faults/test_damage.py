"""Runs with files that a disk or a person damaged: found by `bench verify`, mended by a resume."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from calls import Ran, bench, working_in
from chaos import Sweep
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
    """A working directory with the finished run `runs/whole`, its ledger in several segments."""
    with working_in(tmp_path_factory.mktemp("damage")) as here:
        Path("seeds.toml").write_text(SUITE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "SEAL_AT", 20)
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
    kept = ("scores", "ranks", "tests", "seeds", "coverage")
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
    assert again.code == 0 and "1 finished trial are gone or damaged" in again.err
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
def test_lost_trials_that_the_suite_no_longer_has_are_not_announced_to_run_again(run: Path) -> None:
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


@pytest.mark.fault(6, 40)
def test_a_damaged_segment_is_found_by_verify_and_by_the_report_that_reads_it(run: Path) -> None:
    whole = tables(run)
    segments = sorted(run.glob("ledger/segment-*"))
    assert len(segments) > 1
    segments[0].write_bytes(segments[0].read_bytes()[:-30])  # the plan is in it
    (run / "ledger" / "facts-000001.arrow").unlink()
    found = verified(run, code=3)
    assert "segment-000001" in found["ledger"][0] and found["runs_again"] == 0  # no plan is left
    segments[0].unlink()
    shutil.copy(Path("runs/whole/ledger") / segments[0].name, segments[0])
    assert not verified(run)["ledger"] and verified(run)["notes"]  # the columns alone are gone
    segments[1].write_bytes(segments[1].read_bytes()[:-30])
    columns = run / "ledger" / "facts-000002.arrow"
    columns.write_bytes(columns.read_bytes()[:-8])
    found = verified(run, code=3)
    assert found["missing"] == found["runs_again"] > 0
    reported = bench("report", run)
    assert reported.code == 3 and "segment-000002" in reported.err
    assert resumed(run).code == 0
    assert verified(run)["sound"] and tables(run) == whole


@pytest.mark.fault(39)
@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_run_without_its_manifest_is_a_run_still(how: str, run: Path) -> None:
    whole = tables(run)
    manifest = run / "ledger" / "MANIFEST.json"
    kept = manifest.read_bytes()
    manifest.unlink() if how == "deleted" else manifest.write_bytes(b"")
    assert json.loads(bench("status", run, "--json").out)["left"] == 0
    found = verified(run)
    assert found["sound"] and "made again" in found["notes"][0]
    reported = bench("report", run)
    assert reported.code == 0 and not manifest.exists() or not manifest.read_bytes()
    assert b"made again" in (run / "report" / "coverage.md").read_bytes()
    resume = resumed(run)
    assert resume.code == 0 and "made again" in resume.err
    assert manifest.read_bytes() == kept and tables(run) == whole


def test_a_foreign_file_beside_the_predictions_harms_nothing(run: Path) -> None:
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
def test_predictions_that_are_deleted_under_a_sweep_are_written_again(tmp_path: Path) -> None:
    options = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", 1]
    options += ["--trials", 6, "--workers", 0, "--tracking-uri", "none"]
    sweep = Sweep(tmp_path / "sweep", *options)
    sweep.start(pause_s=0.3)
    try:
        sweep.wait(lambda: 2 <= len(sweep.results()) <= 4, "some results")
        shutil.rmtree(sweep.run / "predictions")
        sweep.end(120)
    finally:
        sweep.off()
    assert len(sweep.results()) > 4
    found = verified(sweep.run)
    assert found["sound"] and found["trials"] == len(sweep.finished())
    assert "was removed or replaced during the sweep" in sweep.output()
