"""`bench sweep --portable`: pinned libraries in the driver and the trials, ids of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from calls import bench, working_in
from tabsweep.common import portable
from tabsweep.common.portable import PINS, NotPortable
from tabsweep.sweeps.store.ledger import Ledger

BENCH = Path(sys.executable).with_name("bench")
SMALL = "sweep --suite smoke --dataset iris --folds 1 --trials 1 --model knn --tracking-uri none"


@pytest.fixture(autouse=True)
def _possible() -> None:
    try:
        portable.check_processor()
    except NotPortable as error:
        pytest.skip(str(error))


def call(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if name not in PINS}
    return subprocess.run(
        [str(BENCH), *words],
        cwd=folder,
        env=plain | more,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_portable_run_says_so_has_ids_of_its_own_and_is_resumed_as_it_was(tmp_path: Path) -> None:
    words = (*SMALL.split(), "--workers", "0")
    done = call(tmp_path, *words, "--portable", "--name", "pinned")
    assert done.returncode == 0, done.stderr
    plan = next(Ledger(tmp_path / "runs/pinned").records("plan"))
    assert plan["environment"]["instructions"] == f"pinned to {portable.LEVEL}"
    (trial,) = Ledger(tmp_path / "runs/pinned").records("result")
    assert trial["status"] == "done"
    with working_in(tmp_path):
        assert bench(*words, "--name", "plain").code == 0
    (other,) = Ledger(tmp_path / "runs/plain").records("result")
    assert trial["id"] != other["id"]
    # resume begins with libraries loaded, so the process is started anew, pinned
    more = call(tmp_path, "resume", "runs/pinned", "--workers", "0", "--tracking-uri", "none")
    assert more.returncode in (0, 5), more.stderr
    with working_in(tmp_path):  # without the option it is another run
        refused = bench(*words, "--name", "pinned", "--json")
    assert refused.code == 2
    assert json.loads(refused.out)["error"]["id"] == "BENCH-E005"


def test_a_process_whose_libraries_are_loaded_is_refused_with_the_variables(tmp_path: Path) -> None:
    import numpy  # noqa: F401

    if portable.pinned():
        pytest.skip("this process was started with the variables")
    with working_in(tmp_path):
        found = bench(*SMALL.split(), "--workers", 0, "--portable")
    assert found.code == 2 and "BENCH-E017" in found.err
    assert all(name in found.err for name in PINS)


def test_a_gpu_cannot_be_pinned(tmp_path: Path) -> None:
    with working_in(tmp_path):
        found = bench(*SMALL.split(), "--portable", "--device", "cuda")
    assert found.code == 2 and "--portable" in found.err


def test_variables_that_were_set_too_late_do_not_count() -> None:
    late = "import numpy, os, sys; from tabsweep.common import portable\n" + (
        "os.environ.update(portable.PINS); sys.exit(portable.pinned())"
    )
    plain = {name: value for name, value in os.environ.items() if name not in PINS}
    run = [sys.executable, "-c", late]
    assert subprocess.run(run, env=plain, timeout=300).returncode == 0
    assert subprocess.run(run, env=plain | PINS, timeout=300).returncode == 1
