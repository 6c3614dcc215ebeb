"""A bag whose worker or driver is killed in its fourth member of five."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from bag_cases import fits_in, write_counting
from calls import working_in
from chaos import Sweep, kill_all
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.xdist_group("ray-faults")

OPTIONS = ("--suite", "smoke", "--dataset", "iris", "--model", "counting.py:Counting", "--folds", 1)
OPTIONS += ("--trials", 1, "--bag", 5, "--tracking-uri", "none")


def sweep_of(work: Path, name: str, workers: int, fit_s: float) -> tuple[Sweep, Path]:
    """The sweep, and the log of its fits."""
    fits = work / f"{name}.fits"
    env = {"FITS": str(fits), "FIT_S": str(fit_s)}
    return Sweep(work / name, *OPTIONS, "--workers", workers, env=env), fits


def predictions(run: Path) -> dict[str, dict[str, bytes]]:
    """{id: the bytes of its predictions} of all results."""
    ledger = Ledger(run)
    return {
        record["id"]: {
            part: values.tobytes()
            for part, values in ledger.predictions.get(record["predictions"]).items()
        }
        for record in ledger.records("result")
    }


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """What an undisturbed sweep predicts."""
    with working_in(tmp_path_factory.mktemp("calm")) as folder:
        write_counting(folder)
        sweep, _ = sweep_of(folder, "calm", 0, 0.0)
        sweep.finish()
        return predictions(sweep.run)


@pytest.mark.fault(1, 2)
@pytest.mark.parametrize("killed", ["worker", "driver"])
def test_a_bag_killed_in_its_fourth_member_goes_on_there_and_has_the_same_bytes(killed, work, calm):
    write_counting(work)
    struck, fits = sweep_of(work, "struck", 1, 1.1)  # kept after each fit of more than a second
    driver = struck.start()
    try:
        search = [0]
        in_fourth = [*search, 0, 1, 2, 3]
        struck.wait(lambda: [seed for seed, _ in fits_in(fits)] == in_fourth, "the fourth member")
        if killed == "worker":
            os.kill(fits_in(fits)[-1][1], signal.SIGKILL)
            struck.end()
        else:
            kill_all(driver)
            struck.resume()
    finally:
        struck.off()
    assert [seed for seed, _ in fits_in(fits)] == [*in_fourth, 3, 4]
    assert predictions(struck.run) == calm and len(calm) == 2
    bag = [record for record in struck.results() if record.get("fidelity")]
    assert [record["info"]["resumed_from"] for record in bag] == [3]
    assert not list(struck.run.rglob("*.checkpoint")), "those of ended trials are removed"
    struck.check_nothing_twice()
