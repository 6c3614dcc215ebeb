"""Sweeps that a fault strikes end with one line and an exit code; their runs go on later.

Everything goes through the command line, in this process; a model writes each of its fits into a
log, which shows what ran when, and how often.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from calls import Ran, bench
from ledger_cases import log_of
from small_sweeps import write_own_models
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.store import log
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.usefixtures("work")

NUMBERS = '''
import numpy as np


class Numbers:
    """The worst that a model may answer: constant, NaN or infinite, as its configuration says."""

    name = "numbers"
    tasks = ("regression",)

    def __init__(self, answer="constant"):
        self.answer = answer

    @staticmethod
    def spaces():
        answers = ["constant", "nan", "inf", "-inf"]
        return {"default": {"params": {"answer": {"kind": "choice", "values": answers}}}}

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_ if self.answer == "constant" else float(self.answer))
'''
FAST = ("--workers", 0, "--tracking-uri", "none")


@pytest.fixture
def own(work: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with models, in the working directory."""
    monkeypatch.syspath_prepend(str(work))
    return write_own_models(work)


def fits() -> list[str]:
    path = Path("fits.log")
    return path.read_text().splitlines() if path.exists() else []


def sweep(own: str, name: str, *more: object, runs: object = "runs", trials: int = 3) -> Ran:
    picks = ("--suite", "smoke", "--dataset", "iris", "--model", f"{own}:Logged", "--folds", 1)
    return bench("sweep", *picks, "--trials", trials, "--runs", runs, "--name", name, *FAST, *more)


def resume(run: object, *more: object) -> Ran:
    return bench("resume", run, *FAST, *more)


def the_error(found: Ran, id: str, code: int) -> str:
    """The one line of an error, after its id."""
    assert found.code == code, found
    lines = [line for line in found.err.splitlines() if line.startswith("error ")]
    assert len(lines) == 1 and "Traceback" not in found.err, found.err
    assert lines[0].startswith(f"error BENCH-{id}: "), lines
    return lines[0].removeprefix(f"error BENCH-{id}: ")


# ---------------------------------------------------------------------- a full disk


class Meter:
    """A file on a disk that has room for `room` more bytes."""

    def __init__(self, file: Any, disk: InjectedDisk) -> None:
        self.file, self.disk = file, disk

    def write(self, data: bytes) -> int:
        if len(data) > self.disk.room:
            self.file.write(data[: self.disk.room])
            self.file.flush()
            self.disk.room = 0
            self.disk.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.disk.room -= len(data)
        return self.file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class InjectedDisk:
    """Files of one kind meet a full disk: those whose names begin with `prefix`."""

    def __init__(self, folder: Path, prefix: str, room: int, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.room, self.refused = folder, room, 0
        real = log.open_to_append

        def opened(path: Path) -> Any:
            file = real(path)
            return Meter(file, self) if path.name.startswith(prefix) else file

        patch.setattr(log, "open_to_append", opened)

    def is_full(self) -> bool:
        return self.refused > 0

    def make_room(self) -> None:
        self.room = 10**9


class RealDisk:
    """A small file system of its own, nearly filled by a file that can be removed."""

    def __init__(self, folder: Path, room: int) -> None:
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("needs the right to mount a file system; the injected faults stand in")
        self.folder = folder
        (folder / "ballast").write_bytes(bytes(2**20 - room))

    def is_full(self) -> bool:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_bsize < 16 * 1024

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()


@pytest.fixture
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealDisk | InjectedDisk]:
    folder = tmp_path / "disk"
    if request.param != "real":
        prefix, room = {"records": ("log.", 15_000), "predictions": ("00", 5_000)}[request.param]
        yield InjectedDisk(folder, prefix, room, monkeypatch)
        return
    made = RealDisk(folder, room=128 * 1024)
    yield made
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.fault(5)
@pytest.mark.parametrize("disk", ["real"], indirect=True)
def test_a_full_folder_of_temporary_files_is_named(disk: RealDisk, work: Path) -> None:
    draw = np.random.default_rng(0).random((4_000, 11))
    pd.DataFrame(draw, columns=[*"abcdefghij", "y"]).to_csv("t.csv", index=False)
    command = [sys.executable, "-m", "tabsweep.benchmark.cli", "sweep", "--csv", "t.csv"]
    command += ["--target", "y", "--model", "linear", "--trials", "1", "--name", "full"]
    room = os.environ | {"TMPDIR": str(disk.folder)}
    ran = subprocess.run(
        [*command, "--tracking-uri", "none"], env=room, capture_output=True, text=True
    )
    assert ran.returncode == 3, ran.stderr
    line = ran.stderr.splitlines()[-1]
    assert f"No space left on device; make room in TMPDIR={disk.folder}; " in line
    assert line.endswith("resume with: bench resume runs/full")
    again = bench("resume", "runs/full")
    assert again.code == 0 and "2 of 2 trials done" in again.out


@pytest.mark.fault(5)
@pytest.mark.parametrize("disk", ["real", "records", "predictions"], indirect=True)
def test_on_a_full_disk_a_sweep_stops_at_once_and_goes_on_when_there_is_room(disk, own):
    n = 60 if isinstance(disk, RealDisk) else 12
    run = disk.folder / "full"
    line = the_error(sweep(own, "full", runs=disk.folder, trials=n), "E016", 3)
    assert disk.is_full(), "the disk was never full: the test tests nothing"
    assert os.strerror(errno.ENOSPC) in line and f"bench resume {run}" in line
    before = fits()
    kept = status_of(run)
    assert 0 < kept.done < n and not kept.failed
    assert len(before) in (kept.done, kept.done + 1), "it went on without a place for results"
    # Still full: refused again, and nothing that was kept is lost.
    assert resume(run).code == 3 and status_of(run).done == kept.done
    assert len(fits()) <= len(before) + 1
    disk.make_room()
    found = resume(run)
    assert found.code == 0 and "quarantine" not in found.err, found
    assert status_of(run).done == n
    assert Counter(fits()).most_common(1)[0][1] <= 3, "only what had no place runs again"
    assert sum(n > 1 for n in Counter(fits()).values()) <= 1
    ids = [record["id"] for record in Ledger(run).records("result")]
    assert len(set(ids)) == len(ids) == n
    assert sweep(own, "whole", trials=n).code == 0
    tables = [folder / "report" / "scores.csv" for folder in (run, Path("runs/whole"))]
    assert tables[0].read_bytes() == tables[1].read_bytes()


# ---------------------------------------------------------------------- damaged files


@pytest.mark.fault(6)
def test_a_result_torn_by_a_crash_runs_again_and_its_bytes_are_kept_apart(own, unreported):
    assert sweep(own, "torn").code == 0
    run = Path("runs/torn")
    log = log_of(run)
    lines = log.read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if b'"kind":"result"' in line)
    torn = lines[last][: len(lines[last]) // 2]
    log.write_bytes(b"".join(lines[:last]) + torn)
    assert status_of(run).done == 2, "the fault did not reach the ledger"
    found = resume(run)
    assert found.code == 0 and status_of(run).done == 3
    assert f"warning: {len(torn)} bytes of {log}" in found.err
    assert [path.read_bytes() for path in (run / "quarantine").iterdir()] == [torn]
    assert sorted(Counter(fits()).values()) == [1, 1, 2]


@pytest.mark.fault(6)
def test_a_ledger_without_a_byte_is_begun_anew_by_the_same_call(own, unreported):
    assert sweep(own, "empty").code == 0
    log_of(Path("runs/empty")).write_bytes(b"")
    the_error(resume("runs/empty"), "E011", 3)  # there is no plan to go on with
    assert sweep(own, "empty").code == 0
    assert status_of(Path("runs/empty")).done == 3 and set(Counter(fits()).values()) == {2}


# ---------------------------------------------------------------------- senseless numbers


@pytest.mark.fault(9)
def test_neither_nan_nor_infinity_is_a_score_however_good_it_would_look(own):
    Path(f"{own}_numbers.py").write_text(NUMBERS)
    rows = "".join(f"{i * 7 % 11}.5,{i * 5 % 13}.25\n" for i in range(60))
    Path("t.csv").write_text(f"size,price\n{rows}")
    call = (
        "--csv",
        "t.csv",
        "--target",
        "price",
        "--model",
        f"{own}_numbers:Numbers",
        "--folds",
        2,
    )
    found = bench(
        "sweep", *call, "--trials", 4, "--bag", 0, "--sampler", "grid", "--runs", "runs", *FAST
    )
    assert found.code == 1
    results = load_results("runs/csv-t-quick")
    wrong = results[~results["config"].str.contains("constant")]
    assert len(wrong) == 6 and set(wrong["cause"]) == {"nonfinite"}
    assert not wrong.filter(regex="^(val|test)_").notna().any(axis=None)
    assert not wrong["selected"].any()
    right = results[results["config"].str.contains("constant")]
    assert right["selected"].all() and right["test_rmse"].notna().all()
    assert right["test_r2"].le(0).all(), "a constant explains nothing"
    kinds = (".md", ".tex", ".csv")
    files = sorted(Path("runs/csv-t-quick/report").iterdir())
    report = "".join(path.read_text() for path in files if path.suffix in kinds)
    assert not re.search(r"(?<![a-z])(nan|inf)(?![a-z])", report.replace("nonfinite", ""))


@pytest.mark.fault(9)
def test_a_metric_without_meaning_has_no_value_and_the_tables_say_why():
    rows = "".join(f"{i * 7 % 11}.5,{'rare' if i == 5 else 'usual'}\n" for i in range(60))
    Path("t.csv").write_text(f"size,kind\n{rows}")
    call = ("--csv", "t.csv", "--target", "kind", "--model", "constant", "--model", "knn")
    found = bench("sweep", *call, "--folds", 3, "--trials", 1, "--runs", "runs", *FAST)
    assert found.code == 0, found
    results = load_results("runs/csv-t-quick")
    one_class = {"val": results["val_roc_auc"].isna(), "test": results["test_roc_auc"].isna()}
    assert all(undefined.any() for undefined in one_class.values()), "every fold had both classes"
    assert set(results["status"]) == {"done"} and results["test_accuracy"].notna().all()
    assert not results["selected"][one_class["val"]].any(), "chosen without a score"
    report = Path("runs/csv-t-quick/report")
    assert "Folds on which the metric is undefined" in (report / "scores.md").read_text()
    said = (report / "coverage.md").read_text()
    n = int(one_class["val"].sum())
    assert f"Without a score though no trial failed: {n} studies of t. The metric has no" in said


# ---------------------------------------------------------------------- something else at resume


@pytest.mark.fault(20)
def test_another_kind_of_device_is_refused_by_name(own):
    assert sweep(own, "r").code == 0
    line = the_error(sweep(own, "r", "--device", "cuda"), "E005", 2)
    assert all(words in line for words in ("device", "'cpu'", "'cuda'"))
    assert len(fits()) == 3


@pytest.mark.fault(20)
def test_what_touches_no_id_lets_a_run_go_on(own, unreported):
    assert sweep(own, "r", trials=2).code == 0
    module = Path(f"{own}.py")
    module.write_text(module.read_text().replace("import os\n", "import os  # a comment\n", 1))
    Path("runs").rename("moved")
    found = sweep(own, "r", "--timeout", 999, "--memory-mb", 999, runs="moved", trials=4)
    assert found.code == 0, found
    assert status_of(Path("moved/r")).done == 4 and set(Counter(fits()).values()) == {1}
