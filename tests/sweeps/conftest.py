"""Fixtures of tests of the engine and the ledger."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def unsynced(monkeypatch):
    """No flush to disk: syncing is tested with the ledger."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
