"""What do the tests share? The dataset mirror, the parity files, and quiet surroundings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Tests must not depend on who else computes on this machine.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
for name in ("TABSWEEP_TRACKING_URI", "MLFLOW_TRACKING_URI"):
    os.environ.pop(name, None)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """What looks different in every process names no test: an archive holds its time of day, a set
    has no order, and two test processes must agree on the names."""
    return argname if isinstance(val, bytes | set | frozenset) else None


@pytest.fixture(scope="session")
def mirror() -> str:
    """The folder that holds the datasets' files, or a skip that says so."""
    folder = os.environ.get("TABSWEEP_MIRROR", "")
    if not folder or not (Path(folder) / "MANIFEST.csv").exists():
        pytest.skip("needs the dataset mirror: set TABSWEEP_MIRROR")
    return str(Path(folder).resolve())


@pytest.fixture(scope="session")
def parity() -> Path:
    """The folder of reference weights and outputs, or a skip that says so."""
    folder = os.environ.get("TABSWEEP_PARITY", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the parity files: set TABSWEEP_PARITY")
    return Path(folder).resolve()


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Downloads and copies of datasets go to a folder of this test session."""
    os.environ["TABSWEEP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
