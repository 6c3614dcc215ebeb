"""`bench ui` as a process: whoever ends it ends its MLflow server with all its processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from chaos import wait_for
from tracking_records import records

pytestmark = pytest.mark.xdist_group("mlflow")


def answers(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


def is_server(process: psutil.Process) -> bool:
    try:
        return "--backend-store-uri" in process.cmdline()
    except psutil.Error:  # it has ended
        return False


@pytest.mark.parametrize(
    ("number", "serving"),
    [
        (signal.SIGTERM, False),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.nightly),
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, True, marks=pytest.mark.nightly),
    ],
)
def test_bench_ui_names_its_address_when_it_answers_and_leaves_no_process_behind(
    number: int, serving: bool, fresh: Any, closed_port: int, tmp_path: Path
) -> None:
    run = fresh("a", records()[:3])
    words = [sys.executable, "-m", "tabsweep.benchmark.cli", "ui", str(run)]
    with open(tmp_path / "log", "wb") as log:
        bench = subprocess.Popen(
            [*words, "--port", str(closed_port)], stdout=log, stderr=log, start_new_session=True
        )
    seen: list[psutil.Process] = []
    try:
        here = psutil.Process(bench.pid)
        # Before it starts the server, libraries that it imports may start processes of their own.
        wait_for(
            lambda: any(map(is_server, here.children())) or bench.poll() is not None, "the server"
        )
        if serving:
            said = lambda: "MLflow UI: http://127.0.0.1" in (tmp_path / "log").read_text()  # noqa: E731
            wait_for(lambda: said() or bench.poll() is not None, "the address")
            assert answers(closed_port)
        seen = here.children(recursive=True)
        assert len(seen) >= 1 + serving, (tmp_path / "log").read_text()
        os.kill(bench.pid, number)
        assert bench.wait(60) == 0, (tmp_path / "log").read_text()
        assert psutil.wait_procs(seen, timeout=10)[1] == []
        assert not answers(closed_port)
    finally:
        for process in (*seen, bench):
            if process.pid and psutil.pid_exists(process.pid):
                process.kill()
