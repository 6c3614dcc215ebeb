"""A fixture that seeds torch before each test, so that none depends on the tests before it."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def torch_is_seeded():
    """torch's own generator from a fixed seed, where torch is imported."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
