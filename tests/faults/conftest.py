"""Fixtures of tests of faults and bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from tabsweep.datasets import download, source


@pytest.fixture
def isolated(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no network."""
    monkeypatch.setenv("TABSWEEP_CACHE", str(tmp_path / "cache"))
    net = download.NetworkAccess()
    monkeypatch.setattr(source, "shared_network", lambda: net)
    really = download.connects

    def connects(host: str, port: int, timeout_s: float) -> str:
        if host == "127.0.0.1":
            return really(host, port, timeout_s)
        return f"{host} cannot be reached (there is no network in this test)"

    monkeypatch.setattr(download, "connects", connects)
    return work
