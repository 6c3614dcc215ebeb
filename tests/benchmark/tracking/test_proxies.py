"""A proxy of the network: it is never given what belongs to a server of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from calls import bench, working_in
from tabsweep.benchmark.tracking.store import INSECURE, TrackingError, check

NAMES = [one for name in ("http_proxy", "no_proxy", "all_proxy") for one in (name, name.upper())]
TOKEN = "0123456789012345678901234567890123456789"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


class Noting(BaseHTTPRequestHandler):
    """Refuses every request, and notes who asked for what."""

    def answer(self) -> None:
        self.server.seen.append((self.requestline, self.headers.get("Authorization")))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_CONNECT = do_HEAD = answer

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def servers() -> Iterator[list[ThreadingHTTPServer]]:
    """A proxy and a server, both on this machine."""
    made = [ThreadingHTTPServer(("127.0.0.1", 0), Noting) for _ in range(2)]
    for server in made:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    for server in made:
        server.shutdown()
        server.server_close()


def test_credentials_for_a_server_of_this_machine_reach_it_and_no_proxy(
    tmp_path: Path, servers: list[ThreadingHTTPServer]
) -> None:
    proxy, server = servers
    with working_in(tmp_path):
        run = ("--suite", "smoke", "--dataset", "iris", "--model", "constant", "--folds", 1)
        made = bench("sweep", *run, "--workers", 0, "--tracking-uri", "none", "--name", "run")
    assert made.code == 0
    there = f"http://127.0.0.1:{server.server_port}"
    env = {
        **os.environ,
        "http_proxy": f"http://127.0.0.1:{proxy.server_port}",
        "NO_PROXY": "intranet.example",
        "MLFLOW_TRACKING_USERNAME": "me",
        "MLFLOW_TRACKING_PASSWORD": "secret",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
    }
    main = "from tabsweep.benchmark.cli import main; main()"
    for words in (
        ["track", "sync", "runs/run", "--tracking-uri", there],
        ["submit", "--address", there, "--", "--suite", "smoke"],
    ):
        server.seen.clear()
        done = subprocess.run(
            [sys.executable, "-c", main, *words],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode != 0 and "proxy" not in done.stderr
        assert any(secret for _, secret in server.seen), done.stderr
    assert proxy.seen == []


def test_a_proxy_counts_where_an_address_without_tls_is_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(INSECURE, "1")
    there = "http://10.0.0.7:5000"
    assert check(there) == there
    monkeypatch.setenv("http_proxy", "http://me:word@proxy.example:3128")
    with pytest.raises(
        TrackingError, match="clear through the proxy .*proxy.example.*NO_PROXY"
    ) as e:
        check(there)
    assert "word" not in str(e.value)
    assert check("https://tracking.example") and check("http://127.0.0.1:5000")
    for named in ("x.example, 10.0.0.7", "x.example, 10.0.0.0/8", "*"):
        monkeypatch.setenv("no_proxy", named)
        assert check(there) == there
