"""An MLflow store made once for all tests of tracking, and runs with a copy of it."""

from __future__ import annotations

import multiprocessing
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tabsweep.benchmark.tracking.store import sqlite_path
from tabsweep.benchmark.tracking.sync import sync
from tracking_records import make_run, records


def _first_use(run: Path, uri: str, barrier: Any, answers: Any) -> None:
    try:
        existed = sqlite_path(uri).exists()
        barrier.wait(60)
        answers.put((existed, sync(run, uri=uri).created))
    except BaseException as error:  # it is the answer
        answers.put((None, repr(error)))


@pytest.fixture(scope="module", autouse=True)
def _tracked(tracked: None) -> None:
    """All tests of this folder track as sweeps do by default."""


@pytest.fixture(scope="session")
def raced(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A store whose first use was by four processes at once, and what these processes said."""
    import mlflow.tracking  # noqa: F401  (imported once, before the processes split)

    folder = tmp_path_factory.mktemp("raced")
    uri = f"sqlite:///{folder}/mlflow.db"
    runs = [make_run(folder / f"run{i}", records(2), n_trials=2, nonce=i + 1) for i in range(4)]
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(4), context.SimpleQueue()
    processes = [
        context.Process(target=_first_use, args=(run, uri, barrier, answers)) for run in runs
    ]
    for process in processes:
        process.start()
    said = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return SimpleNamespace(database=folder / "mlflow.db", said=said, folder=folder)


@pytest.fixture
def fresh(tmp_path: Path, raced: SimpleNamespace) -> Any:
    """A maker of run folders whose store is there already (making one takes seconds)."""

    def make(name: str, rows: list[dict[str, Any]], **given: Any) -> Path:
        run = make_run(tmp_path / name, rows, **given)
        shutil.copy(raced.database, run / "mlflow.db")
        return run

    return make


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
