"""MLflow stores: first use by several processes, allowed addresses, secrets, silent servers."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chaos import wait_for
from tabsweep.benchmark.tracking import store as tracking_store
from tabsweep.benchmark.tracking.follower import Syncer
from tabsweep.benchmark.tracking.store import TrackingError, Unreachable
from tabsweep.benchmark.tracking.sync import sync
from tracking_records import SECRET, make_run, records

pytestmark = pytest.mark.xdist_group("mlflow")  # one store is made for all


def test_four_first_users_of_a_fresh_store_all_succeed_and_leave_it_whole(
    raced: SimpleNamespace,
) -> None:
    assert raced.said == [(False, 3)] * 4  # nobody found a store there, everybody made three runs
    with sqlite3.connect(raced.database) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        keys = database.execute("select value from tags where key = 'tabsweep.key'").fetchall()
        names = database.execute("select name from experiments").fetchall()
    assert len(keys) == len(set(keys)) == 12
    assert names.count(("tiny-quick",)) == 1
    left = [path.name for path in raced.folder.iterdir() if ".fresh" in path.name]
    assert left == []


@pytest.fixture
def silent() -> Any:
    """A port where everybody is let in and nobody is answered; `heard` is what they said."""
    heard: list[bytes] = []
    held: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen(link: socket.socket) -> None:
        with suppress(OSError):
            heard.append(link.recv(1000))

    def let_in() -> None:
        with suppress(OSError):
            while True:
                link, _ = listener.accept()
                held.append(link)
                threading.Thread(target=listen, args=(link,), daemon=True).start()

    threading.Thread(target=let_in, daemon=True).start()
    yield SimpleNamespace(uri=f"127.0.0.1:{listener.getsockname()[1]}", heard=heard)
    listener.close()
    for link in held:
        link.close()


@pytest.mark.fault(18)
def test_a_silent_server_is_given_up_and_never_holds_the_end_of_a_sweep_beyond_the_time_given(
    tmp_path: Path, silent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "a", records())
    with monkeypatch.context() as patch:
        patch.setitem(tracking_store.VARIABLES, "MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        with pytest.raises(Unreachable, match="timed out") as caught:
            sync(run, uri=f"http://me:{SECRET}@{silent.uri}/path")
    assert len(silent.heard) == 1 and silent.heard[0], "the server was never spoken to"
    assert SECRET not in str(caught.value) and SECRET.encode() not in silent.heard[0]
    syncer = Syncer(run, uri=f"http://me:{SECRET}@{silent.uri}")
    command = Path(f"/proc/{syncer.process.pid}/cmdline").read_text()
    wait_for(lambda: len(silent.heard) == 2, "the follower to speak to the server")
    started = time.monotonic()
    warning = syncer.stop(timeout=1.0)
    assert time.monotonic() - started < 1.0 + 10.0  # a kill on a busy machine
    assert warning is not None and "took longer than 1 s" in warning and "\n" not in warning
    assert f"bench track sync {run} --tracking-uri 'http://***@{silent.uri}'" in warning
    assert SECRET not in command + warning + (run / "tracking" / "log.txt").read_text()


REFUSED = """http://mlflow.example.org:5000 http://10.0.0.7:5000 http://localhost.example.org
    file:///tmp/mlruns /tmp/mlruns mlruns databricks sqlite:// sqlite:///:memory: ftp://host/x
    postgresql://u:p@db/mlflow https://""".split()
TAKEN = """http://127.0.0.1:5000 http://localhost:5000 http://[::1]:5000 https://mlflow.example.org
    sqlite:////tmp/mlflow.db""".split()


def test_addresses_that_are_unsafe_or_unsupported_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for uri in REFUSED:
        with pytest.raises(TrackingError):
            tracking_store.check(uri)
    for uri in TAKEN:
        assert tracking_store.check(uri) == uri
    monkeypatch.setenv(tracking_store.INSECURE, "1")  # plain http, where the user says so
    assert tracking_store.check("http://mlflow:5000")


@pytest.mark.parametrize(
    "uri",
    [
        f"https://me:{SECRET}@host:5000/x",
        f"https://me:{SECRET.replace('-', '%2D')}@host",
        f"https://me@host/db?password={SECRET}",
    ],
)
def test_nothing_secret_survives_redaction(uri: str) -> None:
    message = f"request to {uri}/api failed: {SECRET} refused, see {uri}"
    for text in (tracking_store.redact(uri), tracking_store.scrub(message, uri)):
        assert SECRET not in text and SECRET.replace("-", "%2D") not in text
        assert "host" in text
