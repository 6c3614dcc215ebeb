"""Fixtures and options of all tests: the dataset mirror, the parity files, quiet surroundings."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["parity_reading"]

# Tests must not depend on who else computes on this machine.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.pop("MLFLOW_TRACKING_URI", None)
# The follower of a sweep imports MLflow and makes a store, which takes longer than most sweeps of
# tests. Those of tracking ask for it by the fixture `tracked`.
os.environ["TABSWEEP_TRACKING_URI"] = "none"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--random-order-seed",
        type=int,
        metavar="N",
        help="run the files in a random order, and the tests of a file too; N seeds it",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("random_order_seed")
    return None if seed is None else f"random order: --random-order-seed {seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle files and, within a file, tests, where that is asked for. A file stays in one piece,
    so that what its tests share is made once."""
    seed = config.getoption("random_order_seed")
    if seed is None:
        items[:] = spread(items)
        return
    chance = random.Random(seed)
    files = sorted({item.path for item in items})
    chance.shuffle(files)
    place = {path: i for i, path in enumerate(files)}
    chance.shuffle(items)
    items.sort(key=lambda item: place[item.path])


def spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests, file by file, those that start Ray or a server among the first half of the others.

    They mostly wait, and some take a minute: begun last, they would leave processes of pytest-xdist
    without work at the end of a run (which keeps this order with --no-loadscope-reorder).
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    slow = {item.path for item in items if item.get_closest_marker("xdist_group")}
    waiting = [tests for path, tests in files.items() if path in slow]
    distance = max(1, (len(files) - len(waiting)) // (2 * len(waiting) + 1))
    found: list[pytest.Item] = []
    for number, tests in enumerate(tests for path, tests in files.items() if path not in slow):
        if waiting and number % distance == 0:
            found += waiting.pop(0)
        found += tests
    return [*found, *(item for tests in waiting for item in tests)]


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Names of cases that are the same in every process: bytes may hold a time of day, and a set
    has no order, so neither is part of a name."""
    return argname if isinstance(val, bytes | set | frozenset) else None


@pytest.fixture(scope="session")
def mirror() -> str:
    """The folder that holds the datasets' files; skips the test where there is none."""
    folder = os.environ.get("TABSWEEP_MIRROR", "")
    if not folder or not (Path(folder) / "MANIFEST.csv").exists():
        pytest.skip("needs the dataset mirror: set TABSWEEP_MIRROR")
    return str(Path(folder).resolve())


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Downloads, copies and added datasets go to folders of this test session."""
    os.environ["TABSWEEP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["TABSWEEP_DATA"] = str(tmp_path_factory.mktemp("added"))


@pytest.fixture(autouse=True)
def _torch_is_seeded() -> None:
    """Torch's own generator begins each test from a fixed seed, where torch is imported."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """An empty working directory without a mirror."""
    from calls import working_in

    folder = tmp_path / "work"
    folder.mkdir()
    with working_in(folder):
        yield folder


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets that this test adds are in no other test."""
    monkeypatch.setenv("TABSWEEP_DATA", str(tmp_path / "store"))


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No flush to disk: syncing is tested with the ledger."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def unreported() -> Iterator[None]:
    """For tests of sweeps that look at no report."""
    from calls import without_reports

    with without_reports():
        yield


@pytest.fixture(scope="module")
def tracked() -> Iterator[None]:
    """Sweeps are tracked as by default: in a SQLite file in the folder of each run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TABSWEEP_TRACKING_URI")
        yield
