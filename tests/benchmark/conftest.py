"""Models of the user in the working directory, no network, and a finished run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import working_in
from saved_models import outside  # noqa: F401
from small_sweeps import sweeps, write_own_models
from tabsweep.datasets import download, source


@pytest.fixture
def own(work: Path) -> str:
    """The name of a module with models of the user, in the working directory."""
    return write_own_models(work)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No network and an empty cache."""
    monkeypatch.setenv("TABSWEEP_CACHE", str(tmp_path / "cache"))
    net = download.NetworkAccess()
    monkeypatch.setattr(source, "shared_network", lambda: net)
    monkeypatch.setattr(
        download, "connects", lambda host, port, timeout_s: f"{host} cannot be reached (offline)"
    )


@pytest.fixture(scope="session")
def _finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run: knn on two folds of iris, three trials each."""
    with working_in(tmp_path_factory.mktemp("finished")) as folder:
        assert sweeps("--model", "knn", "--name", "knn")["ran"] == 6
        return folder / "runs" / "knn"


@pytest.fixture
def copy_run(work: Path, _finished_run: Path) -> Callable[[str], None]:
    """Copies that run into the folder of runs, under a name."""

    def copy(name: str) -> None:
        shutil.copytree(_finished_run, work / "runs" / name)

    return copy
